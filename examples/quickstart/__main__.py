"""The quickstart: pre-trains, fine-tunes, exports and asks a small BERT on local text.

The text is the documentation of the installed Python packages. In a checkout:

    bash tools/quickstart.sh                    # creates an environment, and runs the line below
    python -m examples.quickstart --out quickstart-run
"""

import argparse
import dataclasses
import importlib.util
import json
import logging
import os
import sys

_NEEDED = {"sklearn": "scikit-learn, for a baseline", "matplotlib": "matplotlib, for pictures"}


def main(argv: list[str] | None = None) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # By default, TensorFlow enables oneDNN only on newer processors (docs/decisions/onednn.md).
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    parser = argparse.ArgumentParser("python -m examples.quickstart", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    missing = [reason for name, reason in _NEEDED.items() if not importlib.util.find_spec(name)]
    if missing:
        needed = " and ".join(missing)
        parser.error(f"the quickstart needs {needed}: pip install 'keras-bert-impl[metrics,plots]'")
    from examples.quickstart import show
    from examples.quickstart.job import Job, Settings
    from keras_bert_impl import InputError

    parser.add_argument(
        "--out", default="quickstart-run", help="directory to write; finished steps are kept there"
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    for field in dataclasses.fields(Settings):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(
            option, type=field.type, default=field.default, help=f"default: {field.default}"
        )
    options = vars(parser.parse_args(argv))
    out, as_json = options.pop("out"), options.pop("json")
    log = logging.getLogger("keras_bert_impl.models")
    log.setLevel(logging.ERROR)  # Warnings about missing heads are expected here.
    try:
        job = Job(out, Settings(**options), say=lambda line: print(line, file=sys.stderr))
        scores = job.run()
    except (InputError, OSError) as error:
        parser.error(str(error))
    finally:
        log.setLevel(logging.NOTSET)
    pictures = show.draw(job, scores)
    if as_json:
        print(json.dumps(scores, indent=2))
        return
    for title, lines in (
        ("", show.score_lines(scores)),
        ("masked words in held-out sentences", show.fill_mask_lines(job)),
        ("predictions of the SavedModel without keras_bert_impl", show.answer_lines(job)),
        ("pictures", [f"  {path}" for path in pictures]),
    ):
        print("\n".join(filter(None, ["", title, *lines])))


if __name__ == "__main__":
    main()
