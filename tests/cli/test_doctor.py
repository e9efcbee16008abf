"""`keras-bert doctor` in good and in broken installations."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from keras_bert_impl.cli import doctor

ROOT = Path(__file__).resolve().parents[2]


def distribution(folder, name, code, version="1.0"):
    """Installs a distribution with one module of the same name into a folder of `sys.path`."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "top_level.txt").write_text(name)
    (info / "RECORD").write_text("")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A TensorFlow with one device, and packages that can and cannot be imported."""
    device = "type('Device', (), {'name': '/physical_device:CPU:0'})"
    code = f"class config:\n    list_physical_devices = lambda: [{device}]\n"
    distribution(tmp_path, "tensorflow", code, "2.21")
    distribution(tmp_path, "works", "print('no line', end='')")
    distribution(tmp_path, "broken", "import lxml_html_clean_that_is_missing")
    distribution(tmp_path, "crashes", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def check(**extras_of):
    required = {n: (Requirement(n.replace("_", ">=", 1)), e) for n, e in extras_of.items()}
    facts, problems = doctor.check_packages(
        {requirement.name: (requirement, extras) for requirement, extras in required.values()}
    )
    return facts, [(problem.what, problem.do, problem.is_failure) for problem in problems]


def test_every_installed_package_is_imported(installed):
    facts, problems = check(tensorflow=[], works=[], broken=["corpus", "other"])
    assert facts == {"tensorflow": "2.21", "works": "1.0", "broken": "1.0", "devices": ["CPU:0"]}
    ((problem, do, is_failure),) = problems
    assert problem.startswith(
        "broken cannot be imported for the extra corpus or other: ModuleNotFou"
    )
    assert do.startswith("pip install ") and "[corpus]" in do and is_failure


def test_a_crash_names_the_package(installed):
    _, problems = check(works=[], crashes=[])
    assert problems == [
        ("crashes cannot be imported: the process that imported it crashed.",
         "pip install 'crashes'", True),
    ]  # fmt: skip


def test_versions_and_missing_packages(installed):
    facts, problems = check(works_2=[], gone=["litert", "mediapipe"], gone_3=[])
    assert facts["works"] == "1.0"
    assert [problem[:2] for problem in problems] == [
        ("works is 1.0, and must be >=2.", "pip install 'works>=2'"),
        ("gone is not installed.", "pip install 'gone>=3'"),
    ]
    facts, problems = check(gone=["litert", "mediapipe"])
    assert problems == [] and "for the extra litert or mediapipe: pip install" in facts["gone"]
    assert "[litert]" in facts["gone"]


def test_a_dispensable_package_is_a_note(installed, monkeypatch):
    monkeypatch.setattr(doctor, "_find_version", lambda name: None)
    ((problem, _, is_failure),) = doctor.check_packages(
        {"keras-nlp": (Requirement("keras-nlp"), [])}
    )[1]
    assert (
        problem.endswith("without it, models cannot be converted to KerasHub.") and not is_failure
    )


def test_requirements_are_those_of_setup_cfg(monkeypatch):
    lines = [
        "keras<4,>=3.12",
        'keras<1; extra == "beam"',
        'litert>=2; extra == "litert"',
        'litert>=2; extra == "mediapipe"',
        'pytest<1; extra == "test"',
        'other>=1; python_version < "3"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    required = doctor.required_packages()
    assert {name: (str(r.specifier), extras) for name, (r, extras) in required.items()} == {
        "keras": ("<4,>=3.12", []),
        "litert": (">=2", ["litert", "mediapipe"]),
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KERAS_BACKEND", "torch", "KERAS_BACKEND is torch"),
        ("TF_USE_LEGACY_KERAS", "1", "TF_USE_LEGACY_KERAS makes TensorFlow use Keras 2"),
        ("TF_CONFIG", "{x", "the environment variable TF_CONFIG"),
    ],
)
def test_variables_that_break_commands(name, value, message, monkeypatch):
    monkeypatch.setenv(name, value)
    problems = doctor.check_environment(["CPU:0"])
    assert [problem.do for problem in problems if problem.what.startswith(message)] == [
        f"unset {name}"
    ]


def test_a_gpu_that_is_not_found_is_a_note(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    (problem,) = doctor.check_environment(["CPU:0"])
    assert problem.what.startswith("tensorflow does not find the GPU") and not problem.is_failure
    assert doctor.check_environment(["CPU:0", "GPU:0"]) == []


@pytest.mark.slow
def test_the_report_of_this_installation():
    command = [sys.executable, "-m", "keras_bert_impl.cli.main", "doctor", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    report = json.loads(process.stdout)
    assert report["keras"] == metadata.version("keras") and "CPU:0" in report["devices"]
    assert [problem for problem in report["problems"] if problem["is_failure"]] == []
