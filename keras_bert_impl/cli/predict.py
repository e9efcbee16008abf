"""`keras-bert predict`: labels and scores of texts, entities, answers to questions, choices."""

import dataclasses
import json
import sys
from pathlib import Path

from keras_bert_impl.errors import InputError

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
        help="a text on each line, - for standard input; or with --text a .csv, .tsv or .jsonl; "
        "for choices what finetune takes",
    )
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text or question")
    parser.add_argument(
        "--pair", metavar="COLUMN", help="the column of the second segment or context, if any"
    )
    parser.add_argument("--base", metavar="MODEL", help="what it was tuned from, if that has moved")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each text")


def run(arguments):
    """Prints a line for each text.

    Label and score, or the values of a regression; of words `word/label`; of a question the answer
    and its probability, or nothing; of choices the best ending and its probability; of a pair the
    cosine of its embeddings.
    """
    from keras_bert_impl.tasks.run import load_tuned

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    texts = _choices(arguments) if type(model).__name__ == "MultipleChoice" else _texts(arguments)
    for answer, columns in _ANSWERS[type(model).__name__](model, texts):
        if arguments.json:
            print(json.dumps(answer, ensure_ascii=False))
        else:
            print("\t".join(columns))


# Each yields, for a text, a dict of what there is to say, and the columns of a line.


def _classes(model, texts):
    from keras_bert_impl.tasks.decisions import check_scores

    rows = model.predict(texts, verbose=0)
    check_scores(rows)
    for row in rows.tolist():
        scores = dict(zip(model.labels, row))
        if model.problem_type == "regression":
            yield {"values": row}, [f"{value:.6g}" for value in row]
        elif model.problem_type == "multi_label_classification":
            chosen = [name for name, score in scores.items() if score >= 0.5]
            yield {"labels": chosen, "scores": scores}, [",".join(chosen)]
        else:
            label = max(scores, key=scores.get)
            answer = {"label": label, "score": scores[label], "scores": scores}
            yield answer, [label, f"{scores[label]:.4f}"]


def _tags(model, texts):
    from keras_bert_impl.tasks.words import find_words

    tags, entities = model.annotate(texts)
    for number, (text, labels) in enumerate(zip(texts, tags)):
        words = find_words(text)
        words = [text[start:end] for start, end in zip(words.starts, words.ends)]
        answer = {"words": words, "labels": labels}
        if entities is not None:
            answer["entities"] = [entity._asdict() for entity in entities[number]]
        yield answer, [" ".join(f"{word}/{label}" for word, label in zip(words, labels))]


def _answers(model, texts):
    from keras_bert_impl.tasks.answers import best_text

    for answers in model.predict(texts, verbose=0):
        text = best_text(answers, model.null_threshold)
        best = next((a for a in answers if a.text == text), answers[0])
        answer = {"answer": text, "score": best.score, "start": best.start, "end": best.end}
        answer["answers"] = [dataclasses.asdict(each) for each in answers]
        yield answer, [text, f"{best.score:.4f}"]


def _chosen(model, texts):
    from keras_bert_impl.tasks.decisions import check_scores

    probabilities = model.predict(texts, verbose=0)
    check_scores(probabilities, "example")
    for (_, endings), row in zip(texts, probabilities):
        choice, scores = int(row.argmax()), row.tolist()
        answer = {"choice": choice, "ending": endings[choice], "score": scores[choice]}
        yield answer | {"scores": scores}, [endings[choice], f"{scores[choice]:.4f}"]


def _similarities(model, texts):
    from keras_bert_impl.tasks.decisions import check_scores

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


def _choices(arguments):
    from keras_bert_impl.tasks.choice_files import read_choices

    if arguments.text or arguments.pair:
        raise InputError("prompts and endings are in no columns to name: leave --text and --pair.")
    return read_choices(arguments.input).texts
