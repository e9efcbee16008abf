"""`keras-bert models`: lists the published models by name."""

import difflib
import re
import sys
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import print_json, print_table, say
from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.published import MODELS

EXAMPLE = "  keras-bert models uncased bert\n  keras-bert models chinese --json"
USES_TENSORFLOW = False
_COLUMNS = ("name", "parameters", "layers", "hidden", "tokenizer", "lowercase")
_WIDE = (
    "name", "parameters", "architecture", "layers", "hidden", "heads", "vocabulary",
    "tokenizer", "lowercase", "hub", "licence", "paper",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "filter",
        nargs="*",
        metavar="WORD",
        help="list the models with all of these words in their row, such as uncased or electra",
    )
    parser.add_argument("--wide", action="store_true", help="show every column")
    parser.add_argument("--json", action="store_true", help="print a JSON list of every column")


def run(arguments: Namespace) -> None:
    """Prints the table; exits with status 1 if no model matches."""
    rows = [row for row in _rows() if _matches(row, arguments.filter)]
    if not rows:
        words = " ".join(arguments.filter)
        near = difflib.get_close_matches("-".join(arguments.filter), MODELS, n=3, cutoff=0.4)
        hint = f"; the nearest names are {', '.join(near)}." if near else "."
        say(f"keras-bert: no published model matches {words!r}{hint}")
        sys.exit(1)
    if arguments.json:
        print_json(rows)
        return
    for row in rows:
        row["lowercase"] = "yes" if row["lowercase"] else "no"
    print_table(rows, {key: key for key in (_WIDE if arguments.wide else _COLUMNS)})


def _rows():
    for name, model in MODELS.items():
        config = EncoderConfig.named(name)
        yield {
            "name": name,
            "parameters": config.num_parameters(),
            "architecture": config.architecture,
            "layers": config.num_layers,
            "hidden": config.hidden_dim,
            "heads": config.num_heads,
            "vocabulary": config.vocabulary_size,
            "tokenizer": model.tokenizer,
            "lowercase": model.lowercase,
            "hub": model.hub,
            "licence": model.licence,
            "paper": model.paper,
        }


def _matches(row, words):
    """Whether each word begins a word of the name, architecture or tokenizer."""
    text = " ".join(row[key] for key in ("name", "architecture", "hub", "tokenizer")).lower()
    text += " uncased" if row["lowercase"] else " cased"

    return all(re.search(rf"(?<![a-z0-9]){re.escape(word.lower())}", text) for word in words)
