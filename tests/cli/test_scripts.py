"""tools/quickstart.sh, test.sh and tomorrow.sh: the Python they choose, and their messages."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTEST = "-m pytest -q -n 2 --dist worksteal"

# Stands in for a Python: reports its version, has `venv` or not, and creates an environment whose
# `python` logs its arguments.
STUB = """#!/usr/bin/env bash
here="$(cd "$(dirname "$0")" && pwd)"
case "$*" in
    *ensurepip*) exit {venv_status} ;;
    *sys.version_info*) echo {version} ;;
    "-m venv "*)
        target="${{@: -1}}"
        mkdir -p "$target/bin"
        cp "$0" "$target/bin/python"
        echo "venv" >>"{log}" ;;
    "- "*) cat >/dev/null; echo "{version} $(cat "$3" "$4" | cksum)" ;;
    *) echo "$*" >>"{log}"; case "$*" in {failing}) exit 1 ;; esac ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the scripts and the files they read."""
    root = tmp_path / "check out"  # a space in the path is usual on a laptop
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("bench"))
    shutil.copytree(ROOT / ".ci", root / ".ci")
    (root / "setup.cfg").write_text("[metadata]\n")
    (root / "pyproject.toml").write_text("")
    stub_disk(root, free_mb=8000)  # whatever the disk of the tests has
    return root


def stub_python(folder, version="3.11", venv_status=0, failing="nothing"):
    path = folder / "bin" / "python3"
    path.parent.mkdir(exist_ok=True)
    log = folder / "log"
    path.write_text(STUB.format(version=version, venv_status=venv_status, log=log, failing=failing))
    path.chmod(0o755)
    return path


def stub_disk(checkout, free_mb):
    """Makes `df` report a file system of one block, and `free_mb` as free."""
    path = checkout.parent / "bin" / "df"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "#!/usr/bin/env bash\necho 'Filesystem 1024-blocks Used Available Capacity Mounted on'\n"
        f"echo '/dev/disk 9000000 1 {free_mb * 1024} 1% /'\n"
    )
    path.chmod(0o755)


def run(checkout, script, *arguments, **environment):
    folder = checkout.parent / "bin"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHON"}
    return subprocess.run(
        ["bash", str(checkout / script), *arguments],
        env={**clean, "PATH": f"{folder}:{clean['PATH']}", **environment},
        capture_output=True,
        text=True,
    )


def log(checkout):
    path = checkout.parent / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


@pytest.mark.parametrize("script", ["tools/quickstart.sh", "tools/test.sh"])
@pytest.mark.parametrize(
    "stub, message",
    [
        ({"version": "3.10"}, "Python 3.11 to 3.14 is needed, but python3 is 3.10"),
        ({"version": "3.15"}, "Python 3.11 to 3.14 is needed, but python3 is 3.15"),
        ({"version": "2.7"}, "Python 3.11 to 3.14 is needed, but python3 is 2.7"),
        ({"version": "3.12", "venv_status": 1}, "apt install python3.12-venv"),
    ],
)
def test_reports_an_unsupported_python_on_one_line(checkout, script, stub, message):
    stub_python(checkout.parent, **stub)
    process = run(checkout, script)
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1 and message in process.stderr
    assert not (checkout / ".venv").exists()


def test_reports_a_missing_python(checkout):
    process = run(checkout, "tools/test.sh", PYTHON="/gone/python3.12")
    assert process.returncode == 1
    assert "there is no /gone/python3.12" in process.stderr and process.stderr.count("\n") == 1


def test_a_full_disk_is_reported_before_an_environment_is_created(checkout):
    stub_python(checkout.parent)
    stub_disk(checkout, free_mb=3999)
    process = run(checkout, "tools/quickstart.sh")
    assert process.returncode == 1 and log(checkout) == []
    assert "has 3999 MB of free space; a new environment needs 4000" in process.stderr
    stub_disk(checkout, free_mb=4000)
    assert run(checkout, "tools/quickstart.sh").returncode == 0


def test_python_is_preferred_to_python3(checkout):
    good = stub_python(checkout.parent, "3.13").rename(checkout.parent / "mine")
    stub_python(checkout.parent, "3.10")
    assert run(checkout, "tools/test.sh", PYTHON=str(good)).returncode == 0


def test_quickstart_sets_up_once_and_passes_its_arguments(checkout):
    stub_python(checkout.parent)
    install = [
        "venv",
        "-m pip install --quiet --upgrade pip",
        f"-m pip install --quiet --editable {checkout}[plots,metrics]",
    ]
    first = run(checkout, "tools/quickstart.sh", "--out", "a folder")
    assert first.returncode == 0, first.stderr
    assert log(checkout) == [*install, "-m examples.quickstart --out a folder"]
    assert "creating" in first.stdout and "installing" in first.stdout

    second = run(checkout, "tools/quickstart.sh")
    assert log(checkout) == ["-m examples.quickstart"]
    assert "up to date" in second.stdout

    # Changed requirements are installed into the same environment.
    (checkout / "setup.cfg").write_text("[metadata]\nname = other\n")
    run(checkout, "tools/quickstart.sh")
    assert log(checkout) == [*install[1:], "-m examples.quickstart"]

    # Another Python gets a new environment.
    stub_python(checkout.parent, "3.12")
    run(checkout, "tools/quickstart.sh")
    assert log(checkout) == [*install, "-m examples.quickstart"]


def test_tests_are_run_with_their_arguments(checkout):
    stub_python(checkout.parent)
    run(checkout, "tools/quickstart.sh")
    log(checkout)
    assert run(checkout, "tools/test.sh", "-m", "slow").returncode == 0
    # The environment is shared; only the test requirements are added.
    assert log(checkout) == [
        "-m pip install --quiet --upgrade pip",
        f"-m pip install --quiet --editable {checkout}[test]",
        f"{PYTEST} -m slow",
    ]
    assert run(checkout, ".ci/run").returncode == 0
    folders = "keras_bert_impl tests tools"
    lint = [f"-m ruff check {folders}", f"-m ruff format --check {folders}"]
    lint += ["tools/check_names.py", "-m mypy"]
    docs = [
        "-m pip install --quiet --upgrade pip",
        f"-m pip install --quiet --editable {checkout}[docs]",
        "-m mkdocs build --strict --clean",
        "tools/docs/check_site.py build/site",
    ]
    assert log(checkout) == [*lint, *docs, PYTEST]


def test_nightlies_take_the_place_of_releases_in_another_environment(checkout):
    stub_python(checkout.parent)
    nightlies = "tensorflow-text-nightly keras-nightly keras-hub-nightly"
    assert run(checkout, "tools/tomorrow.sh", "-k", "fit", TENSORFLOW="tensorflow").returncode == 0
    assert not (checkout / ".venv").exists() and (checkout / "build" / "tomorrow").exists()
    *_, uninstall, install, _, tests = log(checkout)
    assert uninstall.startswith(
        "-m pip uninstall --quiet --yes tensorflow tf-nightly tensorflow-text "
    )
    assert install == f"-m pip install --quiet --pre --no-deps tensorflow {nightlies}"
    assert tests == f"{PYTEST} -k fit"


def test_a_failed_installation_is_tried_again(checkout):
    stub_python(checkout.parent, failing="*editable*")
    failed = run(checkout, "tools/test.sh")
    assert failed.returncode == 1 and "could not be installed" in failed.stderr
    assert PYTEST not in log(checkout)
    stub_python(checkout.parent)
    shutil.copy(checkout.parent / "bin/python3", checkout / ".venv/bin/python")
    assert run(checkout, "tools/test.sh").returncode == 0
    assert PYTEST in log(checkout)


def test_the_status_of_the_tests_is_the_scripts(checkout):
    stub_python(checkout.parent, failing="*pytest*")
    assert run(checkout, ".ci/run").returncode == 1
