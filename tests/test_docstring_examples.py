"""Runs every docstring example, in a folder with the files that the examples read.

A comment after an expression, or on the line below, is compared with the expression's value if the
comment is a Python value: `# [1, 2]`. `...` in a list stands for any further items.
`# such as [1, 2]` is not compared. Examples may use the package's public names, their own imports,
and a few objects that users have; see `docstring_world`.
"""

import ast
import doctest
import re
import shutil
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl
from tests import docstring_world

ROOT = Path(keras_bert_impl.__file__).parent
# Examples that are not run, and why.
NOT_RUN = {
    "checkpoints.hub.local_directory": "downloads a model",
    "models.encoder.Encoder.from_keras_hub": "downloads a preset",
    "models.encoder.Encoder.from_pretrained": "downloads a model",
    "pretraining.corpus.beam_cleaning.CleanTexts": "needs Apache Beam",
    "data.tables.published.read_tfds": "downloads a dataset",
}
# Examples that export models or train several times.
SLOW = {
    "pretraining.adaptation.adapt",
    "runs.distillation.IntermediateLayers",
    "runs.distillation.SoftTargets",
    "finetuning.finetune.finetune",
    "finetuning.finetune.finetune_set",
    "finetuning.glue.finetune_glue",
    "tasks.tagging.feature_tagger.FeatureTagger",
    "training.tuning.choice.save_tuned",
}
# Paths that an example writes and another example reads.
WRITTEN = {
    "pretraining.adaptation.adapt": ("run",),
    "pretraining.corpus.preparation.prepare": ("records",),
    "pretraining.run.pretrain": ("run", "records"),
    "finetuning.finetune.finetune": ("run",),
}
# Set to 1 to save time.
SHORTER = re.compile(r"\b(epochs|steps_per_epoch|adapt_steps|layers)=([2-9]|\d\d+)")


def examples():
    """Returns a dict of dotted name to example source."""
    sources = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        sources |= _examples_in(ast.parse(path.read_text(encoding="utf-8")), module)
    return sources


def _examples_in(node, name):
    documentation = ast.get_docstring(node) or ""
    sources = {}
    for block in documentation.split("\nExample:\n")[1:]:
        lines = block.splitlines()
        end = next((i for i, line in enumerate(lines) if line[:1].strip()), len(lines))
        sources[name] = textwrap.dedent("\n".join(lines[:end])).strip() + "\n"
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            sources |= _examples_in(child, f"{name}.{child.name}")
    return sources


EXAMPLES = examples()


def test_tables_name_examples():
    named = {*NOT_RUN, *SLOW, *WRITTEN, *docstring_world.OWN}
    assert named <= EXAMPLES.keys()
    assert len(EXAMPLES) > 80


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with the files that the examples read."""
    root = tmp_path_factory.mktemp("examples")
    docstring_world.write_files(root)
    return root


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in EXAMPLES
        if name not in NOT_RUN
    ],
)
def test_example_runs(name, root, tmp_path, monkeypatch):
    if "keras_hub" in name:
        pytest.importorskip("keras_hub")
    source = SHORTER.sub(r"\1=1", EXAMPLES[name])
    for path in root.iterdir():
        if path.name in source and path.name not in WRITTEN.get(name, ()):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    if source.startswith(">>>"):
        _run_session(source, _names(name, source))
    else:
        _run(source, _names(name, source))


def _names(name, source):
    """Returns a dict of the names that an example uses."""
    session = doctest.DocTestParser().get_examples(source)
    tree = ast.parse("".join(example.source for example in session) or source)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    objects = docstring_world.COMMON | docstring_world.OWN.get(name, {})
    names = {"__name__": "example", "keras": keras, "np": np, "tf": tf}
    names |= {n: getattr(keras_bert_impl, n) for n in used & {*keras_bert_impl.__all__}}
    return names | {n: objects[n]() for n in sorted(used & objects.keys())}


def _run_session(source, names):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(source, names, "example", None, 0)
    output = []
    assert not doctest.DocTestRunner(optionflags=flags).run(test, out=output.append).failed, (
        "".join(output)
    )


def _run(source, names):
    """Runs statements; compares the value of each expression with its comment."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        code = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        comment = _comment(lines, statement)
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "example", "exec"), names)
        elif comment.startswith("InputError: "):
            with pytest.raises(keras_bert_impl.InputError, match=re.escape(comment[12:])):
                eval(code, names)
        else:
            received = eval(code, names)
            if re.match(r"[\[({'\"\d-]|(True|False|None)$", comment):
                assert _plain(received) == _Expected(eval(comment, names)), code


def _comment(lines, statement):
    """Returns the comment after a statement, or alone on the line below."""
    last = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
    below = "".join(lines[statement.end_lineno : statement.end_lineno + 1])
    return (last.strip() or below.strip() * below.startswith("#")).removeprefix("#").strip()


class _Expected:
    """Equals a value, with a tolerance for floats, and up to `...` for lists."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return _matches(_plain(self.value), other)

    def __repr__(self):
        return repr(self.value)


def _matches(expected, received):
    if isinstance(expected, list) and isinstance(received, list):
        if expected[-1:] == [...]:
            expected = expected[:-1]
            received = received[: len(expected)]
        return len(expected) == len(received) and all(map(_matches, expected, received))
    return expected == (pytest.approx(received) if isinstance(expected, float) else received)


def _plain(value):
    """Converts tensors and sequences to lists, and bytes to str."""
    if isinstance(value, tf.RaggedTensor):
        return _plain(value.to_list())
    if tf.is_tensor(value) or isinstance(value, (np.ndarray, np.generic)):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, (list, range)) or type(value) is tuple:
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
