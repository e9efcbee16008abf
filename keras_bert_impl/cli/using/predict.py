"""`keras-bert predict`: labels and scores of texts, entities, answers to questions, choices."""

import dataclasses
import json
import sys

from keras_bert_impl.cli.common import delimiter
from keras_bert_impl.io.errors import InputError, listed

EXAMPLE = (
    "  keras-bert predict --model run --input reviews.txt\n"
    "  echo 'a joy from start to end' | keras-bert predict --model run --input - --json\n"
    "  keras-bert predict --model run --input asked.jsonl --text question --pair context\n"
    "  keras-bert predict --model run --input choices.jsonl"
)


def add_arguments(parser):
    """The arguments of the command."""
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument(
        "--input",
        required=True,
        metavar="FILE",
        help="a text on each line, - for standard input; or a table: .csv, .tsv, .jsonl, .json, "
        ".parquet, .arrow or .feather; for choices what finetune takes",
    )
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="the column of the text or question; of a table with one column it need not be said",
    )
    parser.add_argument(
        "--pair", metavar="COLUMN", help="the column of the second segment or context, if any"
    )
    parser.add_argument("--delimiter", type=delimiter, metavar="CHAR", help="what separates the "
                        "cells of a table with quotes, such as ; or tab; default: by the file")
    parser.add_argument("--base", metavar="MODEL", help="what it was tuned from, if that has moved")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each text")


def run(arguments):
    """Prints a line for each text, some texts at a time.

    Label and score, or the values of a regression; of words `word/label`; of a question the answer
    and its probability, or nothing; of choices the best ending and its probability; of a pair the
    cosine of its embeddings.
    """
    from keras_bert_impl.tasks.data.tables import in_blocks
    from keras_bert_impl.tasks.runs.run import load_tuned

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    kind = type(model).__name__
    if kind == "MultipleChoice":
        blocks = [_choices(arguments)]
    else:
        blocks = in_blocks(_texts(arguments, kind))
    for texts in blocks:
        for answer, columns in _ANSWERS[kind](model, texts):
            if arguments.json:
                print(json.dumps(answer, ensure_ascii=False))
            else:
                print("\t".join(columns))
        sys.stdout.flush()


# Each yields, for a text, a dict of what there is to say, and the columns of a line.


def _classes(model, texts):
    from keras_bert_impl.tasks.data.labels import join_names
    from keras_bert_impl.tasks.scores.decisions import check_scores

    rows = model.predict(texts, verbose=0)
    check_scores(rows)
    for row in rows.tolist():
        scores = dict(zip(model.labels, row))
        if model.problem_type == "regression":
            yield {"values": row}, [f"{value:.6g}" for value in row]
        elif model.problem_type == "multi_label_classification":
            chosen = [name for name, score in scores.items() if score >= 0.5]
            yield {"labels": chosen, "scores": scores}, [join_names(chosen)]
        else:
            label = max(scores, key=scores.get)
            answer = {"label": label, "score": scores[label], "scores": scores}
            yield answer, [label, f"{scores[label]:.4f}"]


def _tags(model, texts):
    from keras_bert_impl.tasks.inputs.words import find_words

    tags, entities = model.annotate(texts)
    for number, (text, labels) in enumerate(zip(texts, tags)):
        words = find_words(text)
        words = [text[start:end] for start, end in zip(words.starts, words.ends)]
        answer = {"words": words, "labels": labels}
        if entities is not None:
            answer["entities"] = [entity._asdict() for entity in entities[number]]
        yield answer, [" ".join(f"{word}/{label}" for word, label in zip(words, labels))]


def _answers(model, texts):
    from keras_bert_impl.tasks.question_answering.decode import best_text

    for answers in model.predict(texts, verbose=0):
        text = best_text(answers, model.null_threshold)
        best = next((a for a in answers if a.text == text), answers[0])
        answer = {"answer": text, "score": best.score, "start": best.start, "end": best.end}
        answer["answers"] = [dataclasses.asdict(each) for each in answers]
        yield answer, [text, f"{best.score:.4f}"]


def _chosen(model, texts):
    from keras_bert_impl.tasks.scores.decisions import check_scores

    probabilities = model.predict(texts, verbose=0)
    check_scores(probabilities, "example")
    for (_, endings), row in zip(texts, probabilities):
        choice, scores = int(row.argmax()), row.tolist()
        answer = {"choice": choice, "ending": endings[choice], "score": scores[choice]}
        yield answer | {"scores": scores}, [endings[choice], f"{scores[choice]:.4f}"]


def _similarities(model, texts):
    from keras_bert_impl.tasks.scores.decisions import check_scores

    cosines = model.similarities(texts)
    check_scores(cosines, "pair")
    for cosine in cosines.tolist():
        yield {"cosine": cosine}, [f"{cosine:.4f}"]


_ANSWERS = {
    "TextClassifier": _classes,
    "TokenClassifier": _tags,
    "FeatureTagger": _tags,
    "QuestionAnswerer": _answers,
    "MultipleChoice": _chosen,
    "TextEmbedder": _similarities,
}


def _texts(arguments, kind):
    """Iterator of the texts or pairs of the input."""
    from keras_bert_impl.io.lines import STANDARD_INPUT, read_lines, suffix_of
    from keras_bert_impl.tasks.data.tables import FORMATS, read_texts_of

    path = arguments.input
    is_table = path != STANDARD_INPUT and (arguments.delimiter or suffix_of(path) in FORMATS)
    if arguments.text or is_table:
        if path == STANDARD_INPUT:
            raise InputError("standard input has a text on each line; write a table to a file.")
        return read_texts_of(path, *_columns(arguments, kind), arguments.delimiter)
    if arguments.pair:
        raise InputError("--pair needs --text, the column of the first segment.")
    return (text for _, text in read_lines(path))


def _columns(arguments, kind):
    """(column of the text, column of the second segment or None) of a table."""
    from keras_bert_impl.tasks.data.tables import table_columns

    if arguments.text:
        return arguments.text, arguments.pair
    columns = table_columns(arguments.input, arguments.delimiter)
    if kind == "QuestionAnswerer" and {"question", "context"} <= set(columns):
        return "question", "context"
    if len(columns) == 1 and not arguments.pair:
        return columns[0], None
    raise InputError(
        f"{arguments.input} is a table with the columns {listed(columns)}: say which one holds the "
        "texts by --text COLUMN, and for pairs --pair COLUMN."
    )


def _choices(arguments):
    from keras_bert_impl.tasks.multiple_choice.data import read_choices

    if arguments.text or arguments.pair:
        raise InputError("prompts and endings are in no columns to name: leave --text and --pair.")
    return read_choices(arguments.input).texts
