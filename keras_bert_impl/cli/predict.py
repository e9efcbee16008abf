"""`keras-bert predict`: labels and scores of texts."""

import json
import sys
from pathlib import Path

from keras_bert_impl.errors import InputError

EXAMPLE = (
    "  keras-bert predict --model run --input reviews.txt\n"
    "  echo 'a joy from start to end' | keras-bert predict --model run --input - --json"
)


def add_arguments(parser):
    """The arguments of the command."""
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument(
        "--input",
        required=True,
        metavar="FILE",
        help="a text on each line, - for standard input; or with --text a .csv, .tsv or .jsonl",
    )
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text")
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each text")


def run(arguments):
    """Prints a line for each text: label and score, or the values of a regression."""
    texts = _texts(arguments)
    from keras_bert_impl.tasks.run import load_classifier

    classifier = load_classifier(arguments.model, arguments.dtype)
    scores = classifier.predict(texts, verbose=0)
    for row in scores.tolist():
        answer = _answer(classifier, row)
        if arguments.json:
            print(json.dumps(answer, ensure_ascii=False))
        else:
            print("\t".join(map(str, _columns(answer))))


def _answer(classifier, row):
    """dict of what there is to say about a text."""
    scores = dict(zip(classifier.labels, row))
    if classifier.problem_type == "regression":
        return {"values": row}
    if classifier.problem_type == "multi_label_classification":
        chosen = [name for name, score in scores.items() if score >= 0.5]
        return {"labels": chosen, "scores": scores}
    label = max(scores, key=scores.get)
    return {"label": label, "score": scores[label], "scores": scores}


def _columns(answer):
    if "values" in answer:
        return [f"{value:.6g}" for value in answer["values"]]
    if "labels" in answer:
        return [",".join(answer["labels"])]
    return [answer["label"], f"{answer['score']:.4f}"]


def _texts(arguments):
    from keras_bert_impl.tasks.tables import read_lines, read_table

    if arguments.text:
        examples = read_table(arguments.input, arguments.text, arguments.pair, allow_empty=True)
        return examples.texts
    if arguments.pair:
        raise InputError("--pair needs --text, the column of the first segment.")
    if arguments.input == "-":
        return sys.stdin.read().splitlines()
    return [text for _, text in read_lines(Path(arguments.input))]
