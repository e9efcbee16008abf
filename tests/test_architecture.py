"""Imports have no cycles and respect the layers; no folder is crowded."""

import ast
from pathlib import Path

import pytest

from keras_bert_impl.tasks import NextSentencePredictor
from keras_bert_impl.tasks.registry import all_tasks
from tools import architecture

MODULES = architecture.module_imports()
ABOVE_TASKS = ("reports", "runs", "finetuning", "scikit_learn", "cli", "public names")
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
    imports = architecture.module_imports(tmp_path)
    names = [f"keras_bert_impl.{name}" for name in ("a", "tasks.b", "tasks.runs.c")]
    assert architecture.circles(imports) == [names]
    assert imports["keras_bert_impl.tasks"] == {"keras_bert_impl.tasks.b"}
    assert architecture.circles(architecture.subpackage_imports(imports)) == [
        ["a", "tasks.b", "tasks.runs"]
    ]


def test_what_others_build_on_imports_nothing_of_the_tasks():
    for module, imports in MODULES.items():
        subpackage = architecture.subpackage_of(module)
        if subpackage.startswith("tasks") or subpackage in ABOVE_TASKS:
            continue
        above = [name for name in imports if ".tasks" in name or ".cli" in name]
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


def test_nobody_outside_a_task_keeps_a_table_of_tasks_or_asks_for_their_classes():
    class_names = {NextSentencePredictor.__name__}
    for task in all_tasks():
        class_names |= {kind.__name__ for kind in (*task.model_classes, task.example_class) if kind}
    package = architecture.ROOT / architecture.PACKAGE
    places = []
    for path in package.rglob("*.py"):
        place = path.relative_to(package)
        is_folder_of_task = place.parts[0] == "tasks" and (path.parent / "task.py").exists()
        if not is_folder_of_task:
            tree = ast.parse(path.read_text())
            places += [f"{place}:{line}" for line in lines_with_classes(tree, class_names)]
    assert places == []


def lines_with_classes(tree, class_names):
    """Yields the lines that compare an object's class with a task's, or list several of them."""

    def named(*nodes):
        return [
            n for node in nodes for n in ast.walk(node) if getattr(n, "id", None) in class_names
        ]

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            is_table = named(*node.args[1:])
        elif isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Is | ast.IsNot) for op in node.ops
        ):
            is_table = named(*node.comparators)
        elif isinstance(node, ast.Dict):
            is_table = len(named(*filter(None, node.keys), *node.values)) > 1
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            is_table = (
                len(
                    [
                        element
                        for element in node.elts
                        if getattr(element, "id", None) in class_names
                    ]
                )
                > 1
            )
        else:
            continue
        if is_table:
            yield node.lineno


def test_tables_of_tasks_are_found():
    code = (
        "isinstance(a, Bert)\ntype(a) is Bert\n_T = {Bert: 1, Albert: 2}\n(Bert, Albert)\n[Bert]\n"
    )
    assert list(lines_with_classes(ast.parse(code), {"Bert", "Albert"})) == [1, 2, 3, 4]


# Tasks state what is exported in terms of `serving.graphs`; the formats and the server stay out.
SERVING = ("serving.saved_model", "serving.network", "serving.onnx", "serving.server")
# (rooms, rooms that they must not import)
NEVER = [
    (("utils",), ("checkpoints", "tokenizers", "layers")),
    (("layers",), ("tokenizers",)),
    (("data",), ("training", "tasks")),
    (("tokenizers",), ("checkpoints.config",)),
    (("serving",), ("tasks", "data")),
    (("runs",), ("reports",)),
    (("tasks",), SERVING),
]


@pytest.mark.parametrize("rooms, targets", NEVER)
def test_rooms_do_not_import_what_they_must_not(rooms, targets):
    forbidden = {
        (module, imported)
        for module, imports in MODULES.items()
        for imported in imports
        if is_in(module, rooms) and is_in(imported, targets) and not is_in(imported, rooms)
    }
    assert not forbidden, sorted(forbidden)


def is_in(module, rooms):
    name = module.removeprefix(f"{architecture.PACKAGE}.")
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


# Satellite -> names that it imports although no subpackage exports them, by module.
SATELLITES = {
    "reports.plots": {},
    "serving.server": {
        "serving.graphs.formats": {"SAVED_MODEL_ENTRIES"},
        "serving.graph_operations": {"read_graph"},
    },
    "cli.doctor": {"cli.common": {"print_json"}, "cli.parser": {"Command"}},
    "reports": {
        "checkpoints.cards": {"write_card"},
        "layers.losses": {"cross_entropy"},
        "models.encoder": {"encoders_run_by"},
        "models.encoder_layers": {"EncoderLayers", "apply_layers", "with_all_names"},
        "pretraining.examples.records": {"MANIFEST"},
        "data.tables.examples": {"LabeledExamples", "join_names"},
        "data.tables.splits": {"same_text"},
        "tasks.embedding.similarity": {"anchor_ranks"},
        "tasks.base.feature_rows": {"FEATURES"},
        "data.batches.words": {"Words", "find_words"},
        "data.scores.squad": {"scores_of_questions"},
        "tasks.registry": {"all_tasks", "model_class_named", "task_of_examples", "task_of_model"},
        "data.scores.decisions": {"unit_length"},
        "tasks.base.task_model": {"MODEL_CLASS"},
        "data.prediction_files": {"are_for", "read_column", "read_predictions_table"},
        "data.scores.comparison": {"BASELINES", "Outcome"},
        "data.scores.statistics": {
            *(
                "Interval",
                "SAMPLES",
                "bootstrap",
                "by_threshold",
                "calibration",
                "calibration_error",
            ),
            *("class_scores", "confusion", "paired_difference", "ratios", "wilson"),
        },
        "data.tags.examples": {"read_tag_predictions"},
        "data.scores.metrics": {
            "METRICS",
            "MULTI_LABEL_METRICS",
            "OF_CLASS",
            "RANKING",
            "class_metrics",
            "metric_named",
            "ranks",
        },
        "data.tags.spans": {"Span", "read_labels", "spans_of"},
        "training.runs.reports": {"KEY", "read_metrics"},
        "training.runs.run_directory": {"ENVIRONMENT"},
    },
    "pretraining.corpus.beam_preparation": {
        "pretraining.corpus": {"blocks", "cutting", "readers"},
        "pretraining.corpus.blocks": {"NumberedDocument", "WordTokens"},
        "pretraining.examples": {"records"},
    },
    "serving.litert": {
        "serving.graphs.networks": {
            "Network",
            "encoder_of",
            "input_names",
            "network_of",
            "weights_of",
        },
        "serving.network.export": {"Format", "Report", "export_network"},
        "serving.network.proof": {"as_inputs"},
    },
    "serving.mediapipe": {
        "serving.graphs.networks": {"Network", "network_of"},
        "serving.litert": {"convert"},
        "serving.network.export": {"Format", "Report", "export_network"},
        "serving.network.proof": {"answered_by", "as_inputs"},
        "serving.tflite_metadata": {"with_metadata"},
    },
    "serving.openvino": {
        "serving.graphs.networks": {"encoder_of"},
        "serving.network.export": {"Format", "Report", "export_network"},
        "serving.network.proof": {"as_inputs"},
        "serving.onnx": {"save", "write_graph"},
    },
}
GROUND = ("utils",)


@pytest.mark.parametrize("satellite", SATELLITES)
def test_satellites_import_public_names(satellite):
    public = architecture.public_names()
    imports = {}
    for module, name in architecture.imported_names(satellite):
        if not is_in(module, (*GROUND, satellite)) and (module, name) not in public:
            imports.setdefault(module, set()).add(name)
    assert imports == SATELLITES[satellite]


def test_groups_of_the_picture_import_only_from_rows_below():
    graph = architecture.without_public_names(ROOMS)
    assert architecture.wrong_way(graph) == []
    drawn = {name for row in architecture.ROWS for names in row.values() for name in names.split()}
    assert drawn <= graph.keys()
    folders = {
        path.parent.name for path in (architecture.ROOT / "keras_bert_impl").glob("*/__init__.py")
    }
    assert folders - {"tasks"} <= drawn
    assert architecture.wrong_way(graph | {"utils": {"cli"}}) == ["utils imports cli"]


def test_pictures_are_those_that_the_tool_draws():
    for name, svg in architecture.pictures().items():
        path = architecture.ROOT / "docs" / "pictures" / name
        assert path.read_text(encoding="utf-8") == svg, "run `python tools/architecture.py`"
