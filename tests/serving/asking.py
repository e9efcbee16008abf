"""Asks what was exported, from processes that a crash would end."""

import json
import subprocess
import sys

from keras_bert_impl.serving.check import TOLERANCE, difference_of_rows
from tests.tasks.helpers import ROOT


def output_of(command, given=""):
    """Lines that a program printed; a crash fails the test."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        input=given,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def fuzz(signatures, directory, inputs, folder, server=(), seed=0):
    """Sends random requests; every answer must be whole, and a sample be the model's own.

    Args:
        signatures: `Signatures` of the model.
        directory: `Path` of the SavedModel.
        inputs: int, examples to send.
        folder: `Path` for a file.
        server: (`"grpc"` or `"rest"`, port, name of the model). Default: it is the C API that is
            asked.
        seed: int.

    Returns:
        dict of what `tests.serving.fuzz` counted.
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
    wanted, received = zip(*(pair for pair in pairs if not _is_cut_in_a_tie(*pair)))
    assert len(wanted) > 0.9 * len(answers)
    difference = difference_of_rows(wanted, received)
    assert difference <= TOLERANCE, difference
    return result


def _comparable(sample):
    """(dict of lists of texts, list of answers), of those examples that a model itself takes."""
    texts, answers = {}, []
    for request in map(json.loads, sample.read_text(encoding="utf-8").splitlines()):
        inputs, outputs = request["inputs"], request["outputs"]
        for given, row in zip(zip(*inputs.values()), zip(*outputs.values())):
            answer = dict(zip(outputs, row))
            # The model itself wants a mask to fill, and two endings or more, the empty ones last.
            endings = dict(zip(inputs, given)).get("endings", ["one", "other"])
            in_order = sorted(endings, key=lambda text: text == "") == endings
            if answer.get("num_masks") == 0 or not (all(endings[:2]) and endings[1:] and in_order):
                continue
            if "choice" in answer and _are_alike(answer["scores"]):
                continue
            if "num_answers" in answer and _has_ties(answer["scores"][: answer["num_answers"]]):
                continue
            answers.append(answer)
            for name, text in zip(inputs, given):
                texts.setdefault(name, []).append(_readable(text))
    return texts, answers


def _are_alike(scores):
    """Whether rounding alone chooses: between endings that are the same where they are cut."""
    second, best = sorted(scores)[-2:]
    return best - second <= TOLERANCE


def _has_ties(scores):
    """Whether rounding alone ranks two answers, as it does those of a context that repeats itself."""
    return any(better - worse <= TOLERANCE for better, worse in zip(scores, scores[1:]))


def _is_cut_in_a_tie(wanted, received):
    """Whether rounding alone chooses the last of the n-best answers, from more than are returned."""
    if "answers" not in wanted:
        return False
    texts = [text for text in wanted["answers"] if text]
    others = [text for text in received["answers"] if text]
    if not texts or texts[:-1] != others[: len(texts) - 1] or texts[-1] == others[len(texts) - 1]:
        return False
    last = wanted["answers"].index(texts[-1])
    return abs(wanted["scores"][last] - received["scores"][last]) <= TOLERANCE


def _readable(text):
    """str of bytes that were written as such, what is no UTF-8 replaced."""
    if isinstance(text, list):
        return [_readable(one) for one in text]
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
