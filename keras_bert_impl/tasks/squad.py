"""Questions, their contexts and answers, in the layout of SQuAD 1.1 and 2.0."""

import dataclasses
import hashlib
import json

from keras_bert_impl.errors import InputError
from keras_bert_impl.reading import parse_json
from keras_bert_impl.tasks.examples import usable, warn_of_skipped
from keras_bert_impl.tasks.lines import read_lines

_LONGEST_TEXT = 4 << 20  # characters; a long novel


@dataclasses.dataclass(frozen=True)
class QuestionExamples:
    """Questions about contexts, with their answers.

    Attributes:
        ids: list of str, which differ.
        questions, contexts: lists of str.
        answers: list of lists of (text, start): what people answered, and the character of the
            context at which it begins; empty for an impossible question.
        is_impossible: list of bool; None for SQuAD 1.1, whose questions all have answers.
        titles: list of str, the article that each context is of.
        source: str, the file.
        skipped: tuple of str: of each question that was left out, where and why.
    """

    ids: list
    questions: list
    contexts: list
    answers: list
    is_impossible: list | None
    titles: list
    source: str = "examples"
    skipped: tuple = ()

    def __len__(self):
        return len(self.ids)

    @property
    def pairs(self):
        """List of (question, context), as `QuestionAnswerer` takes them."""
        return list(zip(self.questions, self.contexts))

    @property
    def fingerprint(self):
        """sha256, in hex, of ids, questions, contexts and answers."""
        digest = hashlib.sha256()
        for row in zip(self.ids, self.questions, self.contexts, self.answers):
            digest.update(json.dumps(row).encode("ascii"))
        return digest.hexdigest()


def read_squad(path, skip_bad_rows=False):
    """Reads a file in the layout of SQuAD 1.1 or 2.0.

    Args:
        path: str or `Path` of a JSON file in UTF-8, with or without a byte order mark.
        skip_bad_rows: bool. Whether questions that cannot be used are left out, with a warning that
            lists them, instead of ending the reading.

    Returns:
        `QuestionExamples`, without white space around questions. Starts of answers count characters
        (code points), as in the published files.

    Raises:
        InputError: the file has another layout; or a question has no text, context or answer, an id
            that another one has, or an answer that does not stand where it should; or some
            questions have `is_impossible` (SQuAD 2.0) and others have not. Says where.

    Source: Rajpurkar et al. 2016 and 2018, and the published files.

    Example:
        examples = read_squad("dev-v1.1.json")
        examples.pairs[0], examples.answers[0]  # (question, context), [(text, start), ...]
    """
    found = list(_questions(path))
    if not found:
        raise InputError(f"{path} has no questions.")
    is_v2 = any(isinstance(row, dict) and "is_impossible" in row for *_, row in found)
    seen, skipped = {}, [] if skip_bad_rows else None

    def example(found):
        place, title, context, question = found
        try:
            return *_row(question, context, is_v2, seen, place), title
        except InputError as error:
            name = question.get("id") if isinstance(question, dict) else None
            raise InputError(f"{path}, question {name!r:.60} ({place}): {error}") from error

    rows = usable(example, found, skipped)
    warn_of_skipped(path, skipped, "questions")
    if not rows:
        raise InputError(f"{path} has no questions that can be used.")
    ids, questions, contexts, answers, is_impossible, titles = map(list, zip(*rows))
    return QuestionExamples(
        ids,
        questions,
        contexts,
        answers,
        is_impossible if is_v2 else None,
        titles,
        source=str(path),
        skipped=tuple(skipped or ()),
    )


def _questions(path):
    """Yields (place, title, context, question), as they stand in the file."""
    text = "\n".join(line for _, line in read_lines(path))
    document = parse_json(text, path)
    for i, article in enumerate(_list_in(document, "data", path, "the file")):
        place = f"data[{i}]"
        for j, paragraph in enumerate(_list_in(article, "paragraphs", path, place)):
            inner = f"{place}.paragraphs[{j}]"
            for k, question in enumerate(_list_in(paragraph, "qas", path, inner)):
                where = f"{inner}.qas[{k}]"
                yield where, str(article.get("title", "")), paragraph.get("context"), question


def _list_in(value, key, path, place):
    if not isinstance(value, dict) or not isinstance(value.get(key), list):
        raise InputError(f"{path}: {place} has no list {key!r}; this is not the layout of SQuAD.")
    return value[key]


def _row(question, context, is_v2, seen, place):
    """(id, question, context, answers, is_impossible), checked; notes the id in the dict `seen`."""
    if not isinstance(question, dict):
        raise InputError(f"it must be a JSON object. Received: {question!r:.60}")
    name = question.get("id")
    name = str(name) if type(name) is int else _text(name, "id")
    if name in seen:
        raise InputError(f"the question at {seen[name]} has the same id.")
    text = _text(question.get("question"), "question").strip()
    context = _text(context, "context")
    answers = question.get("answers")
    if not isinstance(answers, list):
        raise InputError("it has no list 'answers'.")
    is_impossible = question.get("is_impossible") if is_v2 else False
    if not isinstance(is_impossible, bool):
        raise InputError("it has no true or false 'is_impossible', which other questions have.")
    if is_impossible != (not answers):
        raise InputError(
            "it is impossible, but it has answers." if is_impossible else "it has no answers."
        )
    answers = [_answer(answer, context) for answer in answers]
    seen[name] = place
    return name, text, context, answers, is_impossible


def _text(value, name):
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"its {name} is {'empty' if value == '' else 'no text'}: {value!r:.40}.")
    if len(value) > _LONGEST_TEXT:
        raise InputError(f"its {name} has {len(value):,} characters; is it damaged?")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"its {name} has half a character at {error.start}.") from error
    return value


def _answer(answer, context):
    """(text, start), checked."""
    if not isinstance(answer, dict):
        raise InputError(f"an answer must be a JSON object. Received: {answer!r:.60}")
    text = _text(answer.get("text"), "answer")
    start = answer.get("answer_start")
    if isinstance(start, bool) or not isinstance(start, int):
        raise InputError(f"answer_start must be a number of characters. Received: {start!r:.40}")
    check_answer(text, start, context)
    return text, start


def check_answer(text, start, context):
    """Checks that an answer stands where it is said to.

    Args:
        text: str.
        start: int, the character of the context at which it should begin.
        context: str.

    Raises:
        InputError: it does not; says where the nearest one stands, if any.
    """
    if start >= 0 and text and context.startswith(text, start):
        return
    begin = max(start, 0)
    found = [context.rfind(text, 0, begin + len(text)), context.find(text, begin)]
    found = [place for place in found if place >= 0] if text else []
    nearest = min(found, key=lambda place: abs(place - start), default=None)
    hint = "nowhere in it" if nearest is None else f"at {nearest}"
    there = context[start : start + len(text)] if start >= 0 else ""
    found = f"where {there!r:.60} is" if there else "which has no such character"
    raise InputError(
        f"the answer {text!r:.60} is not at character {start} of the context, {found}, but {hint}."
    )
