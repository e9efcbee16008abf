"""`keras-bert recipes`: lists the pre-training recipes, or prints one of them."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import print_json, print_table
from keras_bert_impl.cli.kinds import RECIPE
from keras_bert_impl.cli.parser import suggestion
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.recipes import recipe_text, recipes

EXAMPLE = "  keras-bert recipes\n  keras-bert recipes electra_small > mine.yaml"
USES_TENSORFLOW = False


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("name", nargs="?", type=RECIPE, help="recipe to print the file of")
    parser.add_argument("--json", action="store_true", help="print all settings as JSON")


def run(arguments: Namespace) -> None:
    """Prints the table, the settings or the file."""
    known = recipes()
    if arguments.name not in (None, *known):
        hint = suggestion(arguments.name, known) or f"choose from {', '.join(known)}."
        raise InputError(f"there is no recipe {arguments.name!r}; {hint}")
    if arguments.json:
        print_json(known if arguments.name is None else known[arguments.name])
    elif arguments.name is not None:
        print(recipe_text(arguments.name), end="")
    else:
        rows = [_row(name, recipe) for name, recipe in known.items()]
        print_table(rows, {key: key for key in rows[0]})


def _row(name, recipe):
    lengths = recipe["records_length"], recipe.get("long_records_length")
    return {
        "name": name,
        "model": recipe["model"].rpartition("/")[2],
        "steps": recipe["total_steps"],
        "rows": recipe["batch_size"],
        "length": " + ".join(str(length) for length in lengths if length),
        "objectives": ", ".join(recipe["objectives"]),
        "records": recipe["records_objective"],
        "tokenizer": recipe["records_tokenizer"],
    }
