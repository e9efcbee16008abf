"""Every block of code on every page names what exists: functions, arguments, options, settings."""

from pathlib import Path

import pytest

from keras_bert_impl.utils.errors import InputError
from tests.docs import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("name", NAMES)
def test_python_blocks_name_what_exists(name):
    defined, problems = {}, []
    for line, source in blocks.blocks((ROOT / name).read_text(encoding="utf-8"), "python"):
        problems += [
            f"{name}:{line}: {problem}" for problem in blocks.check_python(source, defined)
        ]
    assert not problems


@pytest.mark.parametrize("name", NAMES)
def test_commands_are_accepted(name):
    problems = []
    for line, source in blocks.blocks((ROOT / name).read_text(encoding="utf-8"), "bash"):
        for words in blocks.commands(source):
            try:
                blocks.check_command(words)
            except (InputError, AssertionError, KeyError) as error:
                problems.append(f"{name}:{line}: keras-bert {' '.join(words)}: {error}")
    assert not problems


def test_commands_are_found():
    source = "A=1 keras-bert vocab a \\\n  --out b  # note\necho x | keras-bert predict -\nls"
    assert list(blocks.commands(source)) == [["vocab", "a", "--out", "b"], ["predict", "-"]]
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in NAMES]
    commands = [
        c for text in pages for _, b in blocks.blocks(text, "bash") for c in blocks.commands(b)
    ]
    assert len(commands) > 100


@pytest.mark.parametrize(
    "words",
    [
        "finetun --model a",
        "finetune --modle a --out b",
        "finetune --model a --out b epoch=3",
        "finetune --model a --out b epochs=-1",
        "pretrain records --out b mask_unit=letter",
        "prepare a --out b",
    ],
)
def test_a_wrong_command_is_found(words):
    with pytest.raises((InputError, AssertionError, KeyError)):
        blocks.check_command(words.split())


@pytest.mark.parametrize(
    "source",
    [
        "from keras_bert_impl import TextClasifier",
        "from keras_bert_impl.tasks import read_tables",
        "TextClassifier.from_pretrained('a', num_labels=2)",
        "m = TextClassifier.from_pretrained('a')\nm.fits(texts)",
        "m = TextClassifier.from_pretrained('a')\nm.fit(texts, epoch=3)",
        "m = TextClassifier.from_pretrained('a')\nm.compile(lr=1)",
        "from keras_bert_impl import finetune\nfinetune('a', b, c, 'd', epoch=3)",
        "EncoderConfig(hidden_size=3)",
    ],
)
def test_a_wrong_name_in_python_is_found(source):
    assert blocks.check_python(source, {})


def test_right_names_in_python_are_accepted():
    source = """
from keras_bert_impl import Encoder, TextClassifier, pretrain
from keras_bert_impl.tasks import read_glue
m = TextClassifier.from_pretrained("a", num_classes=2, max_length=8, dtype="float32")
m.compile(learning_rate=1e-3, accumulation_steps=2, jit_compile=True)
m.fit(["a"], ["b"], epochs=3)
m.encoder.summary()
pretrain("a", "b", total_steps=3)
other.anything(with_any=1)
"""
    assert blocks.check_python(source, {}) == []
