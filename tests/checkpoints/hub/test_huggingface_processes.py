"""Downloads in separate processes: two at a time, offline."""

from pathlib import Path

from tests.hub_server import Fault, HubServer, start_client

FILES = {"config.json": b'{"model_type": "bert"}', "model.safetensors": bytes(range(256)) * 1024}
BIG = bytes(range(256)) * 3 * 2**14  # 12 MiB: the library writes chunks of 10 MiB


def client(hub, cache, code="", **environment):
    """Downloads in a process that is configured by its environment."""
    code = f"{code}\nprint(local_directory('hf://owner/model'))"
    environment = {"HF_HOME": str(cache), "HF_ENDPOINT": hub.url} | environment
    return start_client(code, cache, environment)


def finished(process):
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert errors == ""  # no progress bars without a terminal
    return Path(output.splitlines()[-1])


def test_two_processes_at_the_same_time(cache):
    with HubServer() as hub:
        hub.add("owner/model", FILES | {"model.safetensors": BIG})
        hub.faults["model.safetensors"] = Fault(seconds=0.5)
        processes = [client(hub, cache) for _ in range(2)]
        for process in processes:
            assert (finished(process) / "model.safetensors").read_bytes() == BIG
        assert hub.sent["model.safetensors"] == len(BIG)


def test_offline_by_the_environment_and_without_heavy_imports(cache):
    with HubServer() as hub:
        hub.add("owner/model", FILES)
        directory = finished(client(hub, cache))
        hub.requests.clear()
        check = (
            "import atexit, sys\n"
            "heavy = {'tensorflow', 'keras', 'torch', 'numpy'}\n"
            "atexit.register(lambda: print(*(heavy & set(sys.modules)), file=sys.stderr, end=''))"
        )
        assert finished(client(hub, cache, check, HF_HUB_OFFLINE="1")) == directory
        assert hub.requests == []
