"""`keras-bert doctor` in good and in broken installations."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import requests

from keras_bert_impl.cli import doctor
from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli.doctor import Problem

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def no_probe(monkeypatch):
    """TensorFlow works, without an import in another process."""
    found = {"errors": {}, "devices": ["/physical_device:CPU:0"]}
    monkeypatch.setattr(doctor, "_probe", lambda: (found, None))
    return found


def problems(sections):
    return [problem.what for section in sections for problem in section.problems]


def distribution(folder, name, version="1.0", entry_points="", modules=""):
    """Writes the metadata of an installed distribution."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info / "top_level.txt").write_text(modules)
    (info / "RECORD").write_text("")


def test_the_report_names_versions_devices_and_caches(no_probe, capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"  tensorflow       {metadata.version('tensorflow')}\n" in out
    assert f"  python           {'.'.join(map(str, sys.version_info[:3]))}\n" in out
    assert "  tensorflow devices  CPU:0\n" in out
    assert f"{len(os.sched_getaffinity(0))} cores" in out
    assert " free\n" in out


def test_json_has_the_same(no_probe, capsys):
    assert cli.main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["packages"]["keras"] == metadata.version("keras")
    assert report["problems"] == [p for p in report["problems"] if not p["is_failure"]]


def test_a_tensorflow_that_fails_to_import_is_reported(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('libcublas.so.12: not found')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "keras_bert_impl.cli.main", "doctor"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "tensorflow cannot be imported: ImportError: libcublas.so.12: not found" in done.stdout
    assert "\n    pip install " in done.stdout and "caches" in done.stdout
    assert done.stderr == ""


def test_a_process_that_crashes_is_reported(tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text(
        "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    section = doctor.check_devices()
    assert problems([section]) == ["the process that imported TensorFlow crashed with SIGILL."]


def test_a_gpu_that_tensorflow_does_not_find_is_a_note(no_probe, monkeypatch):
    monkeypatch.setattr(doctor, "_gpus", lambda: ["NVIDIA H100, 81559 MiB"])
    section = doctor.check_devices()
    assert section.facts["gpus of the driver"] == "NVIDIA H100, 81559 MiB"
    assert [problem.is_failure for problem in section.problems] == [False]
    no_probe["devices"].append("/physical_device:GPU:0")
    assert doctor.check_devices().problems == []


def test_devices_of_jax_are_shown_on_its_backend(no_probe, monkeypatch):
    no_probe["jax devices"] = ["tpu:0 TPU v5 lite", "tpu:1 TPU v5 lite"]
    assert "jax devices" not in doctor.check_devices().facts
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    facts = doctor.check_devices().facts
    assert facts["jax devices"] == "tpu:0 TPU v5 lite, tpu:1 TPU v5 lite"
    monkeypatch.setattr(doctor, "_gpus", lambda: ["NVIDIA H100, 81559 MiB"])
    assert problems([doctor.check_devices()]) == ["JAX does not find this machine's GPU."]
    no_probe["jax devices"] = ["gpu:0 NVIDIA H100"]
    assert problems([doctor.check_devices()]) == []


@pytest.mark.slow
def test_jax_is_asked_for_its_devices(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    assert doctor.check_devices().facts["jax devices"] == "cpu:0 cpu, cpu:1 cpu"


@pytest.mark.parametrize(
    ("package", "version", "companion", "wrong", "right"),
    [
        ("tensorflow", "2.21.0", "tensorflow-text", "2.20.1", "2.21.1"),
        ("tensorflow", "2.22.0rc0", "tensorflow-text", "2.21.1", "2.22.0.dev20260924"),
        ("keras", "3.16.0.dev2026102704", "keras-hub", "0.32.0", "0.33.0.dev202610250352"),
    ],
)
def test_versions_that_do_not_work_together_are_a_failure(
    package, version, companion, wrong, right, monkeypatch
):
    versions = {package: version, companion: wrong}
    monkeypatch.setattr(doctor, "version_of", lambda name: versions.get(name))
    (problem,) = doctor._unfit_companions()
    assert problem.is_failure
    assert problem.what == f"{companion} {wrong} does not work with {package} {version}."
    assert problem.do == f"pip install '{companion}=={'.'.join(right.split('.')[:2])}.*'"
    versions[companion] = right
    assert list(doctor._unfit_companions()) == []
    del versions[companion]
    assert list(doctor._unfit_companions()) == []


def test_versions_out_of_range_and_missing_packages(monkeypatch):
    lines = [
        "keras<4,>=3.12",
        "gone>=1",
        "openvino<3; extra == 'openvino'".replace("'", '"'),
        'keras<1; extra == "beam"',
        'pytest<1; extra == "test"',
        'other>=1; python_version < "3"',
    ]
    versions = {"keras": "2.9", "openvino": "5.0", "pytest": "8"}
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    monkeypatch.setattr(doctor, "version_of", lambda name: versions.get(name))
    required, optional = doctor.check_packages()
    assert [problem.do for problem in required.problems] == [
        "pip install 'keras<4,>=3.12'", "pip install 'gone>=1'",
    ]  # fmt: skip
    (problem,) = optional.problems
    assert not problem.is_failure and "openvino is 5.0, and must be <3" in problem.what
    assert optional.facts == {"openvino": "5.0"}


def test_distributions_that_clash_are_named(tmp_path, monkeypatch):
    point = "[console_scripts]\nkeras-bert = other.cli:main\n"
    distribution(tmp_path, "other-bert", entry_points=point, modules="keras_bert_impl\n")
    distribution(tmp_path, "keras-bert", modules="keras_bert\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    what = [problem.what for problem in doctor._clashes()]
    assert what[0].startswith("other-bert also installs a command keras-bert")
    assert what[1].startswith("other-bert also installs a package keras_bert_impl")
    assert what[2].startswith("keras-bert is installed, a different project")


def test_this_environment_has_no_clash():
    assert list(doctor._clashes()) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KERAS_BACKEND", "torch", "KERAS_BACKEND is torch"),
        ("TF_USE_LEGACY_KERAS", "1", "TF_USE_LEGACY_KERAS makes TensorFlow use Keras 2"),
    ],
)
def test_variables_that_break_commands(name, value, message, monkeypatch):
    monkeypatch.setenv(name, value)
    section = doctor.check_variables()
    assert section.facts[name] == value
    assert [what for what in problems([section]) if what.startswith(message)]


def test_secrets_are_not_shown(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert doctor.check_variables().facts["HF_TOKEN"] == "set"


def test_sizes_of_caches_and_little_space(tmp_path, monkeypatch):
    (tmp_path / "hub" / "models").mkdir(parents=True)
    (tmp_path / "hub" / "models" / "weights").write_bytes(bytes(1 << 20))
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert doctor._size_of(tmp_path / "hub") == 1 << 20
    monkeypatch.setattr(doctor, "_LITTLE", 1 << 60)
    section = doctor.check_caches()
    assert section.facts["Hugging Face"].startswith(f"{tmp_path / 'hub'}, 0.0 GiB, ")
    assert section.problems[0].do.startswith("export HF_HOME=")
    assert not section.problems[0].is_failure


def test_hubs_are_asked_only_online(no_probe, monkeypatch, capsys):
    asked = []

    def head(address, **options):
        asked.append(address)
        raise requests.ConnectTimeout("no answer")

    monkeypatch.setattr(requests, "head", head)
    assert cli.main(["doctor"]) == 0
    assert asked == []
    assert cli.main(["doctor", "--online"]) == 1
    assert asked == ["https://huggingface.co", "https://www.kaggle.com"]
    assert "cannot be reached: ConnectTimeout." in capsys.readouterr().out


def test_a_check_that_fails_does_not_hide_the_others():
    def check_things():
        raise RuntimeError("broken")

    (section,) = doctor._sections_of(check_things)
    assert section.title == "check_things" and section.facts == {}
    assert section.problems == [
        Problem("check_things failed: RuntimeError: broken", "keras-bert doctor --debug")
    ]


def test_a_wrong_cluster_is_a_problem(no_probe, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{x")
    found = problems([doctor.check_variables()])
    assert any("TF_CONFIG" in what for what in found)


def test_variables_are_checked_where_keras_cannot_be_imported():
    code = "from keras_bert_impl.cli.doctor import check_variables as check; "
    code += "import sys; print([one.what for one in check().problems], 'keras' in sys.modules)"
    environment = os.environ | {"KERAS_BACKEND": "foo", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert "KERAS_BACKEND is foo" in done.stdout and done.stdout.endswith("False\n"), done.stderr


def test_what_is_missing_without_tensorflow_text(monkeypatch, no_probe):
    lines = ["tensorflow-text>=2.20", "keras-nlp>=0.25", "numpy>=1"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: lines)
    monkeypatch.setattr(doctor, "version_of", lambda name: None)
    found = {p.what: p.is_failure for p in doctor.check_packages()[0].problems}
    no_probe["errors"] = {"tensorflow_text": "ImportError: no", "keras": "ImportError: no"}
    found |= {p.what: p.is_failure for p in doctor.check_devices().problems}
    assert found["numpy is not installed."]
    assert found["keras cannot be imported: ImportError: no"]
    notes = [what for what, is_failure in found.items() if not is_failure]
    assert len(notes) == 3
    assert (
        "tensorflow_text cannot be imported: ImportError: no; WordPiece tokenizers use" in notes[2]
    )
