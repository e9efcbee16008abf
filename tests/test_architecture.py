"""Imports have no cycles and respect the layers; no folder is crowded."""

from pathlib import Path

from tools import architecture

MODULES = architecture.module_imports()
ABOVE_TASKS = ("attribution", "reports", "cli", "quickstart", "public names")
ROOMS = architecture.subpackage_imports(MODULES)


def test_no_modules_import_each_other_in_a_circle():
    assert architecture.circles(MODULES) == []


def test_no_rooms_import_each_other_in_a_circle():
    assert architecture.circles(architecture.without_public_names(ROOMS)) == []


def test_circles_and_imports_inside_functions_are_found(tmp_path):
    package = tmp_path / "keras_bert_impl"
    (package / "tasks" / "runs").mkdir(parents=True)
    (package / "a.py").write_text("def f():\n    from keras_bert_impl.tasks import b\n")
    (package / "tasks" / "b.py").write_text("import keras_bert_impl.tasks.runs.c\n")
    (package / "tasks" / "runs" / "c.py").write_text("from keras_bert_impl.a import f\n")
    (package / "tasks" / "__init__.py").write_text('_HOMES = {"d": "b"}\n')
    found = architecture.module_imports(tmp_path)
    names = [f"keras_bert_impl.{name}" for name in ("a", "tasks.b", "tasks.runs.c")]
    assert architecture.circles(found) == [names]
    assert found["keras_bert_impl.tasks"] == {"keras_bert_impl.tasks.b"}
    assert architecture.circles(architecture.subpackage_imports(found)) == [
        ["a", "tasks.b", "tasks.runs"]
    ]


def test_what_others_build_on_imports_nothing_of_the_tasks():
    for module, others in MODULES.items():
        subpackage = architecture.subpackage_of(module)
        if subpackage.startswith("tasks") or subpackage in ABOVE_TASKS:
            continue
        above = [other for other in others if ".tasks" in other or ".cli" in other]
        assert not above, f"{module} imports {above}"


def test_no_folder_has_more_than_16_modules():
    folders = {}
    for path in (architecture.ROOT / architecture.PACKAGE).rglob("*.py"):
        if path.name != "__init__.py":
            folders.setdefault(path.parent, []).append(path.name)
    crowded = {
        Path(folder).name: len(names) for folder, names in folders.items() if len(names) > 16
    }
    assert crowded == {}
