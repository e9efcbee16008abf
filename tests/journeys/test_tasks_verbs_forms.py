"""Every task with every command and every form of file: the same result, or a refusal by name."""

import json

import pytest

from keras_bert_impl.cli.main import main
from tests.journeys import forms
from tests.tasks.helpers import save_base

TASKS = forms.tasks()
VERBS = ["check", "evaluate", "against", "report", "predict"]
# One form of each task is tested with every command; the other forms only in the slow tests.
FORMS = [
    pytest.param(task, form, marks=pytest.mark.slow if number > 1 else ())
    for task, data in TASKS.items()
    for number, form in enumerate(data.forms)
    if number
]
SETTINGS = ["--epochs=1", "--batch-size=8", "--max-length=32", "--learning-rate=0.01"]
QUESTION_SETTINGS = ["--doc-stride=8", "--max-question-length=8"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A run for each task, trained on the first form of its rows, made when it is first needed."""
    folder = tmp_path_factory.mktemp("world")
    base = save_base(folder / "base")
    runs, results = {}, {}

    class World:
        def file(self, task, form):
            return TASKS[task].write(folder / task / form, form, TASKS[task].rows[24:], "dev")

        def run(self, task):
            if task not in runs:
                data, form = TASKS[task], next(iter(TASKS[task].forms))
                train = data.write(folder / task / form, form, data.rows[:24], "train")
                files = [f"--train={train}", f"--dev={self.file(task, form)}"]
                out = folder / task / "run"
                command = ["finetune", f"--model={base}", f"--out={out}", *files, *SETTINGS]
                command += QUESTION_SETTINGS if task == "questions" else []
                assert main([*command, *data.arguments("finetune")]) == 0
                runs[task] = out
            return runs[task]

        def result(self, task, verb, form, capsys):
            """Runs a command; returns (exit status, result, message)."""
            key = task, verb, form
            if key not in results:
                run = None if verb == "check" else self.run(task)
                capsys.readouterr()
                status = main(self.command(task, verb, form, run))
                output = capsys.readouterr()
                results[key] = status, self.value(verb, output.out, form), output.err
            return results[key]

        def command(self, task, verb, form, run):
            file, data = self.file(task, form), TASKS[task]
            arguments = data.arguments(verb)
            if verb == "check":
                return ["check", str(file), "--json", *arguments]
            if verb == "predict":
                return ["predict", f"--model={run}", f"--input={file}", "--json", *arguments]
            if verb == "report":
                out = folder / task / form / "report.html"
                return ["report", str(run), f"--dev={file}", f"--out={out}", *arguments]
            against = [f"--against={run}"] if verb == "against" else []
            return ["evaluate", f"--model={run}", f"--dev={file}", "--json", *against, *arguments]

        def value(self, verb, printed, form):
            if verb == "report":
                return None
            lines = printed.strip().splitlines()
            if verb == "predict":
                return [_answer(json.loads(line)) for line in lines]
            result = json.loads(printed) if printed else {}
            for name in ("file", "delimiter", "columns", "encoding"):
                result.pop(name, None)
            return result

    return World()


def _answer(row):
    """Returns the columns that the prediction adds to the input."""
    return {name: value for name, value in row.items() if name not in ("text", "words", "id")}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("task", "form"), FORMS)
def test_a_form_gives_the_result_of_the_first_form(world, task, form, verb, capsys):
    status, result, message = world.result(task, verb, form, capsys)
    assert status == 0, message
    first = next(iter(TASKS[task].forms))
    assert result == world.result(task, verb, first, capsys)[1]


def _in_memory(kind, rows):
    import pandas
    import pyarrow

    return {
        "list": lambda: rows,
        "frame": lambda: pandas.DataFrame(rows),
        "arrow": lambda: pyarrow.Table.from_pylist(rows),
    }[kind]()


@pytest.mark.parametrize("kind", ["list", "frame", "arrow"])
@pytest.mark.parametrize("task", list(TASKS))
def test_rows_in_memory_are_read_as_from_a_file(task, kind, tmp_path):
    data = TASKS[task]
    options = {name: value for name, value in data.options.items() if name != "regression"}
    if task == "numbers":
        options["numeric"] = True
    if task == "several labels":
        del options["label_separator"]  # lists need no separator
    file = data.read(data.write(tmp_path, "jsonl", data.rows, "rows"), **options)
    examples = data.read(_in_memory(kind, data.rows), **options)
    assert (examples.texts, examples.labels) == (file.texts, file.labels)
