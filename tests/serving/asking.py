"""Queries exported models from processes that a crash may end."""

import json
import subprocess
import sys

from keras_bert_impl.serving.check import TOLERANCE, difference_of_rows
from tests.tasks.helpers import ROOT


def output_of(command, text=""):
    """Returns the lines that a program prints; a crash fails the test."""
    process = subprocess.run(
        [sys.executable, *map(str, command)],
        input=text,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout.splitlines()


def fuzz(signatures, directory, inputs, folder, server=(), seed=0):
    """Sends random requests; checks that answers are complete, and a sample against the model.

    Args:
        signatures: `Signatures` of the model.
        directory: `Path` of the SavedModel.
        inputs: int, number of examples to send.
        folder: `Path` of a folder for the sample file.
        server: (`"grpc"` or `"rest"`, port, name of the model). Default: uses the C API.
        seed: int.

    Returns:
        dict of the counts from `tests.serving.fuzz`.
    """
    ranks, sample = {**signatures.strings, "ids": signatures.features_rank}, folder / "sample.jsonl"
    command = ["-m", "tests.serving.fuzz", directory, "--inputs", inputs, "--seed", seed]
    command += ["--ranks", json.dumps(ranks), "--sample", sample]
    command += ["--server", *server] if server else []
    result = json.loads(output_of(command)[-1])
    print(json.dumps({"directory": str(directory), "server": server, **result}))
    assert result["inputs"] >= inputs
    assert result["answered"] > 0 and result["refused"] > 0 and result["compared"] > 0
    texts, answers = _comparable(sample)
    pairs = zip(signatures.reference(**texts), answers, strict=True)
    expected, received = zip(*(pair for pair in pairs if not _is_cut_in_a_tie(*pair)))
    assert len(expected) > 0.9 * len(answers)
    difference = difference_of_rows(expected, received)
    assert difference <= TOLERANCE, difference
    return result


def _comparable(sample):
    """(dict of lists of texts, list of answers) for the examples that the model itself accepts."""
    texts, answers = {}, []
    for request in map(json.loads, sample.read_text(encoding="utf-8").splitlines()):
        inputs, outputs = request["inputs"], request["outputs"]
        for example, row in zip(zip(*inputs.values()), zip(*outputs.values())):
            answer = dict(zip(outputs, row))
            # The model requires a mask to fill, and at least two endings, with empty ones last.
            endings = dict(zip(inputs, example)).get("endings", ["one", "other"])
            in_order = sorted(endings, key=lambda text: text == "") == endings
            if answer.get("num_masks") == 0 or not (all(endings[:2]) and endings[1:] and in_order):
                continue
            if "choice" in answer and _are_alike(answer["scores"]):
                continue
            if "num_answers" in answer and _has_ties(answer["scores"][: answer["num_answers"]]):
                continue
            answers.append(answer)
            for name, text in zip(inputs, example):
                texts.setdefault(name, []).append(_readable(text))
    return texts, answers


def _are_alike(scores):
    """Whether only rounding decides the choice, between endings equal after truncation."""
    second, best = sorted(scores)[-2:]
    return best - second <= TOLERANCE


def _has_ties(scores):
    """Whether only rounding ranks two answers, as in a context that repeats itself."""
    return any(better - worse <= TOLERANCE for better, worse in zip(scores, scores[1:]))


def _is_cut_in_a_tie(expected, received):
    """Whether only rounding decides which of several tied answers is the last one returned."""
    if "answers" not in expected:
        return False
    texts = [text for text in expected["answers"] if text]
    theirs = [text for text in received["answers"] if text]
    if not texts or texts[:-1] != theirs[: len(texts) - 1] or texts[-1] == theirs[len(texts) - 1]:
        return False
    last = expected["answers"].index(texts[-1])
    return abs(expected["scores"][last] - received["scores"][last]) <= TOLERANCE


def _readable(text):
    """Decodes bytes kept in a str, replacing invalid UTF-8."""
    if isinstance(text, list):
        return [_readable(part) for part in text]
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
