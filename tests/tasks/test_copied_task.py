"""A task's folder, copied out of the package with a setting and a pooling of its own.

Every room serves it: training, files, runs, commands, pages, cards and exports.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl
from keras_bert_impl.cli import main as cli
from keras_bert_impl.reports import look, write_report
from keras_bert_impl.reports.attribution import attribute
from keras_bert_impl.tasks import evaluate, finetune, load_tuned, registry
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers

FOLDERS = Path(keras_bert_impl.__file__).parent / "tasks"
RUN = {"epochs": 1, "batch_size": 8, "verbose": 0}
EMBEDDING = {
    "TextEmbedder": "OutsideEmbedder",
    'guesses("OutsideEmbedder': 'guesses("TextEmbedder',  # the table of names of other libraries
    "SimilarityExamples": "OutsidePairs",
    "AnchorExamples": "OutsideAnchors",
    'TASK_NAME = "similarity"': 'TASK_NAME = "outside-pairs"',
    'register_keras_serializable("keras_bert_impl")': 'register_keras_serializable("outside")',
    "        margin: NonNegativeFloat = 5.0,\n": "        margin: NonNegativeFloat = 5.0,\n"
    "        threshold: NonNegativeFloat = 0.5,\n",
    "        losses.check_loss(loss)\n        long_texts": "        self.threshold = threshold\n"
    "        losses.check_loss(loss)\n        long_texts",
    '        "long_texts",\n    )\n': '        "long_texts",\n        "threshold",\n    )\n',
    "settings = setting_names(SETTINGS)": 'settings = (*setting_names(SETTINGS), "threshold")',
}
POOLING = """
class FirstHalf(MeanPooling):
    def _compute_weights(self, real):
        places = ops.cumsum(real, axis=1)
        return real * ops.cast(places <= ops.sum(real, axis=1, keepdims=True) / 2 + 0.5, "float32")


def _write(graph, states, mask):
    real = graph.cast(mask, "float32")
    half = graph.add("ReduceSum", real, [1], keepdims=1)
    half = graph.add("Add", graph.add("Mul", half, np.float32(0.5)), np.float32(0.5))
    is_first = graph.add("LessOrEqual", graph.add("CumSum", real, np.int64(1)), half)
    return layers.mean_pooling(graph, states, graph.add("Mul", real, graph.cast(is_first, "float32")))


Pooling("firsthalf", FirstHalf, _write)
"""
TAGGING = {
    "TokenClassifier": "OutsideTagger",
    "FeatureTagger": "OutsideFeatures",
    "TaggedExamples": "OutsideWords",
    'TASK_NAME = "tagging"': 'TASK_NAME = "outside-words"',
    'register_keras_serializable("keras_bert_impl")': 'register_keras_serializable("outside")',
}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Returns a function that copies a folder, registers its tasks and returns its `task` module."""
    monkeypatch.setattr(registry, "_registered", [])
    monkeypatch.syspath_prepend(tmp_path / "outside")

    def copy(folder, name, changes, **additions):
        there = tmp_path / "outside" / name
        shutil.copytree(FOLDERS / folder, there, ignore=shutil.ignore_patterns("__pycache__"))
        unused = dict(changes)
        for path in there.rglob("*.py"):
            text = path.read_text().replace(f"keras_bert_impl.tasks.{folder}", name)
            for old, new in changes.items():
                if old in text:
                    unused.pop(old, None)
                    text = text.replace(old, new)
            path.write_text(text + additions.get(path.stem, ""))
        assert not unused
        importlib.invalidate_caches()
        module = importlib.import_module(f"{name}.task")
        for task in module.TASKS:
            registry.register_task(task)
        return module

    yield copy
    for name in [n for n in sys.modules if n.split(".")[0].startswith("outside_")]:
        del sys.modules[name]


@pytest.fixture
def base(tmp_path):
    return helpers.save_base(tmp_path / "base")


def pairs(count, seed):
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(helpers.WORDS, 4)) for _ in range(2 * count)]
    return list(zip(texts[::2], texts[1::2])), draw.random(count).tolist()


def test_a_copied_embedder_with_a_setting_and_a_pooling(copied, base, tmp_path, capsys):
    code = "\n\nimport numpy as np\nfrom keras import ops\n" + POOLING
    task = copied("embedding", "outside_embedding", EMBEDDING, poolings=code)
    examples_class, model_class = task.Similarity.example_class, task.Similarity.model_classes[0]
    assert not issubclass(model_class, keras_bert_impl.TextEmbedder)
    train, dev = (examples_class(*pairs(16, seed), source="pairs") for seed in range(2))
    run = tmp_path / "run"
    mine = {"threshold": 0.25, "pooling": "firsthalf"}
    model = finetune(base, train, dev, run, **RUN, **mine)
    assert type(model) is model_class and (model.threshold, model.pooling) == (0.25, "firsthalf")
    with pytest.raises(InputError, match="threshold was 0.25"):
        finetune(base, train, dev, run, **RUN, **mine | {"threshold": 1.0})
    # Its files.
    texts = ["good film", "the plot is not dull"]
    vectors = model.encode(texts)
    states = model.encoder(model.tokenizer(texts[:1]), training=False)["sequence_output"][0]
    np.testing.assert_allclose(vectors[0], np.mean(states[:2], axis=0), atol=1e-5)  # of 4 tokens
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    saved = load_tuned(run)
    for stored in (loaded, saved):
        assert type(stored) is model_class
        assert (stored.threshold, stored.pooling) == (0.25, "firsthalf")
        np.testing.assert_allclose(stored.encode(texts), vectors, atol=1e-6)
    assert load_tuned(run, threshold=2.0).threshold == 2.0
    # Its scores, pages and card.
    scores = json.loads((run / "scores.json").read_text())
    untuned = {f"untuned/{name}": scores.pop(f"untuned/{name}") for name in ("pearson", "spearman")}
    assert evaluate(saved, dev) == scores and np.isfinite(list(untuned.values())).all()
    page = write_report(run, saved, dev).read_text()
    assert "Scores" in page and "cosine" in page
    assert "Attention" in look(saved, texts[0], tmp_path / "look.html").read_text()
    card = (run / "model" / "README.md").read_text()
    assert "pipeline_tag: sentence-similarity" in card
    assert "from outside_embedding.model import OutsideEmbedder" in card
    # Its commands.
    table = tmp_path / "dev.tsv"
    lines = [f"{a}\t{b}\t{label}\n" for (a, b), label in zip(dev.texts, dev.labels)]
    table.write_text("a\tb\tscore\n" + "".join(lines))
    columns = ["--text", "a", "--pair", "b"]
    assert (
        cli.main(["predict", "--model", str(run), "--input", str(table), *columns, "--json"]) == 0
    )
    assert len(capsys.readouterr().out.splitlines()) == len(dev)
    named = ["--model", str(run), "--dev", str(table), *columns, "--label", "score", "--json"]
    assert cli.main(["evaluate", "--task", "outside-pairs", *named]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(scores, abs=1e-6)
    # Its exports.
    saved.export(tmp_path / "served")
    served = tf.saved_model.load(
        str(next((tmp_path / "served").glob("[0-9]*"), tmp_path / "served"))
    )
    outputs = served.signatures["serving_default"](tf.constant(texts))
    np.testing.assert_allclose(outputs["vectors"], vectors, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "openvino", "litert"])
def test_a_copied_embedder_in_other_formats(format, copied, tmp_path):
    code = "\n\nimport numpy as np\nfrom keras import ops\n" + POOLING
    task = copied("embedding", "outside_embedding", EMBEDDING, poolings=code)
    model_class = task.Similarity.model_classes[0]
    model = model_class(helpers.encoder(), helpers.tokenizer(), pooling="firsthalf")
    model.export(tmp_path / "exported", format=format)  # compares its outputs with the model's
    assert any((tmp_path / "exported").iterdir())


@pytest.mark.slow
def test_a_copied_tagger(copied, base, tmp_path):
    task = copied("tagging", "outside_tagging", TAGGING)
    examples_class = task.Tagging.example_class
    texts, _ = helpers.examples(16)
    words = [text.split() for text in texts]
    labels = [["B-A" if word in helpers.GOOD else "O" for word in row] for row in words]
    data = examples_class(words, labels, ["B-A", "O"], source="words")
    run = tmp_path / "run"
    model = finetune(base, data, data, run, **RUN, label_all_tokens=True)
    assert type(model).__name__ == "OutsideTagger" and model.label_all_tokens
    saved = load_tuned(run)
    assert type(saved) is type(model) and saved.tag(words) == model.tag(words)
    scores = json.loads((run / "scores.json").read_text())
    assert scores.pop("most_frequent_tag/f1") == 1  # the baseline, which is not evaluated again
    assert evaluate(saved, data) == scores
    assert "Scores" in write_report(run, saved, data).read_text()
    assert len(attribute(saved, texts[0]).words) == len(words[0])
    assert "token-classification" in (run / "model" / "README.md").read_text()
    saved.export(tmp_path / "served")
