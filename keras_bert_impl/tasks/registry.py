"""The task registry: finds a task by its name, example class or model class."""

import functools
import importlib.util
import pkgutil
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.interop import OWN_SETTINGS, open_model
from keras_bert_impl.data.tables.checks import check_learnable
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.task_model import MODEL_CLASS, TaskModel
from keras_bert_impl.utils.errors import InputError, listed


class NotFineTunedError(InputError):
    """Raised if a model directory does not contain a fine-tuned model."""


_registered: list[type[Task]] = []


def register_task(task: type[Task]) -> type[Task]:
    """Registers a task of another package. Can be used as a class decorator.

    Raises:
        InputError: another task already has this name, or this class of examples.
    """
    for existing in all_tasks():
        is_named = task.name is not None and task.name == existing.name
        if is_named and task.model_classes != existing.model_classes:
            raise InputError(f"a task named {task.name!r} is already registered.")
        if task.example_class is not None and task.example_class is existing.example_class:
            raise InputError(
                f"{task.example_class.__name__} is already registered for {existing.__name__}."
            )
    _registered.append(task)
    return task


def all_tasks() -> list[type[Task]]:
    return [*_import_built_in(), *_registered]


@functools.cache
def _import_built_in():
    tasks = []
    for folder in pkgutil.iter_modules([Path(__file__).parent], f"{__package__}."):
        if folder.ispkg and importlib.util.find_spec(f"{folder.name}.task"):
            tasks += importlib.import_module(f"{folder.name}.task").TASKS
    return tasks


def task_named(name: str | None) -> type[Task]:
    """Returns the task with this name, a value of `--task`. None means text classification."""
    for task in all_tasks():
        if task.name == name and task.example_class is not None:
            return task
    names = listed(dict.fromkeys(task.name for task in all_tasks() if task.name))
    raise InputError(f"unknown task {name!r}. Choose one of {names}.")


def task_of_model(model: TaskModel | type[TaskModel]) -> type[Task]:
    """Returns the task of a model or a model class."""
    for model_class in (model if isinstance(model, type) else type(model)).__mro__:
        for task in all_tasks():
            if model_class in task.model_classes:
                return task
    raise InputError(f"no task uses models of class {type(model).__name__}.")


def task_of(train: Any, dev: Any) -> Task:
    """Creates the task for a training set and a validation set."""
    if type(train) is not type(dev):
        raise InputError(f"{train.source} and {dev.source} contain examples of different tasks.")
    for examples in (train, dev):
        _check_labeled(examples)
    check_learnable(train)
    return task_of_examples(train)(train, dev)


def _check_labeled(examples):
    needs_labels = task_of_examples(examples).needs_labels
    if not len(examples) or (needs_labels and not examples.has_labels):
        raise InputError(f"{examples.source} has no labeled texts.")


def task_of_examples(examples: Any) -> type[Task]:
    for kind in type(examples).__mro__:
        for task in all_tasks():
            if task.example_class is kind:
                return task
    raise InputError(f"no task takes examples of class {type(examples).__name__}.")


def score(model: TaskModel, examples: Any, directory: Path | None = None) -> dict[str, float]:
    """Scores a model on labeled examples of its task; see `Task.score`."""
    _check_labeled(examples)
    task = task_of_examples(examples)
    if not isinstance(model, task.model_classes):
        raise InputError(
            f"{examples.source} contains examples for a {task.model_classes[0].__name__}, but the "
            f"model is a {type(model).__name__}. Read the file with the reader of the model's task."
        )
    return task.score(model, examples, directory)


def score_more(
    model: TaskModel, more: dict[str, Any], directory: Path | None = None
) -> dict[str, float]:
    """Scores a model on several sets. The names of the scores are `set/metric`."""
    scores: dict[str, float] = {}
    for name, examples in more.items():
        folder = None if directory is None else directory / name
        if folder is not None:
            folder.mkdir(exist_ok=True)
        set_scores = score(model, examples, folder)
        scores |= {f"{name}/{metric}": value for metric, value in set_scores.items()}
    return scores


def model_class_of(
    directory: str | Path, base: str | Path | None = None, kind: type[TaskModel] = TaskModel
) -> type[TaskModel]:
    """Returns the task model class that the `config.json` of a model directory names.

    Raises:
        InputError: this class is not a subclass of `kind`.
    """
    source = open_model(directory, base=base)
    model_class = _read_named_class(source) or _infer_class(source)
    if not issubclass(model_class, kind):
        raise InputError(f"{directory} contains a {model_class.__name__}, not a {kind.__name__}.")
    return model_class


def _read_named_class(source):
    return model_class_named(source.config.mapping(OWN_SETTINGS).text(MODEL_CLASS, None))


def model_class_named(name: str | None) -> type[TaskModel] | None:
    classes = {model.__name__: model for task in all_tasks() for model in task.model_classes}
    return classes.get(name)


def _infer_class(source):
    for task in all_tasks():
        model_class = task.recognize(source)
        if model_class is not None:
            return model_class
    architectures = source.config.list_of("architectures", str, [])
    suffixes = [end for task in all_tasks() for end in task.architectures]
    raise NotFineTunedError(
        f"{source.path} is not a fine-tuned model: no architecture in its config.json ends in "
        f"{', '.join(suffixes)}. Received: {listed(architectures)}"
    )
