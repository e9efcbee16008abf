"""Every name of this package on the migration page exists, row by row."""

import inspect

import migration
import pytest
from migration_table import Row

from keras_bert_impl.utils.errors import InputError
from tests.docs import references

ROWS = migration.rows()


@pytest.mark.parametrize(
    ("library", "row"), ROWS, ids=[f"{title}: {r.theirs}" for title, r in ROWS]
)
def test_what_replaces_a_name_exists(library, row):
    for reference in row.ours:
        references.check_reference(reference)
    assert row.ours or row.note, "a name that nothing replaces needs a note"


@pytest.mark.parametrize(
    "row",
    [row for library, row in ROWS if library == "KerasHub"],
    ids=[row.theirs for library, row in ROWS if library == "KerasHub"],
)
def test_names_of_keras_hub_exist(row):
    path, _, argument = row.theirs.partition("(")
    value = pytest.importorskip("keras_hub").models
    for part in path.split("."):
        value = getattr(value, part)
    if argument:
        function = value.__init__ if inspect.isclass(value) else value
        parameters = inspect.signature(function).parameters
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        assert argument[:-2] in parameters or takes_any


def test_the_page_is_made_from_the_rows():
    assert migration.PAGE.read_text(encoding="utf-8") == migration.page(), (
        "run python tools/docs/migration.py"
    )


@pytest.mark.parametrize(
    "reference",
    [
        "TextClassifier.fits",
        "TextClassifier.fit(epoch=)",
        "TextClassifier.from_pretrained(num_labels=)",
        "TextClassifier.compile(lr=)",
        "finetune(learning_rat=)",
        "pretrain(epochs=)",
        "keras-bert finetun --train",
        "keras-bert finetune --trains",
        "keras-bert finetune --epoch",
    ],
)
def test_a_name_that_does_not_exist_is_found(reference):
    with pytest.raises((AssertionError, AttributeError, InputError)):
        references.check_reference(reference)


def test_an_argument_that_is_passed_on_is_accepted():
    for reference in ("finetune(epochs=)", "pretrain(mask_rate=)", "AdamW(global_clipnorm=)"):
        references.check_reference(reference)


def test_rows_of_a_table_differ():
    for library in migration.LIBRARIES:
        for table in library.tables:
            names = [row.theirs for row in table.rows]
            assert len(names) == len(set(names)), table.title
            assert all(isinstance(row, Row) for row in table.rows)
