"""`keras-bert models`: lists the published models by name."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import print_json, print_table
from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.published import MODELS

EXAMPLE = "  keras-bert models --json"
USES_TENSORFLOW = False


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")


def run(arguments: Namespace) -> None:
    """Prints the table."""
    rows = [
        {
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
        for name, model in MODELS.items()
        for config in [EncoderConfig.named(name)]
    ]
    if arguments.json:
        print_json(rows)
        return
    for row in rows:
        row["lowercase"] = "yes" if row["lowercase"] else "no"
    print_table(rows, {key: key for key in rows[0]})
