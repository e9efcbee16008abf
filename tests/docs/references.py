"""Resolves what pages name: functions and their arguments, commands, options and settings."""

import dataclasses
import functools
import importlib
import inspect

import keras

import keras_bert_impl
from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.cli import main
from keras_bert_impl.cli import settings as cli_settings
from keras_bert_impl.pretraining.recipes import recipes
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.serving.onnx import export_onnx
from keras_bert_impl.serving.openvino import export_openvino
from keras_bert_impl.tasks import FinetuneSettings, TaskModel
from keras_bert_impl.training import ReplicatedTrainer

PACKAGES = (
    "",
    "tasks",
    "pretraining",
    "tokenizers",
    "layers",
    "training",
    "serving",
    "checkpoints",
)


def find(name):
    """Returns the object of a dotted name, such as `tasks.read_glue` or `Encoder.from_pretrained`.

    Raises:
        AttributeError: there is none.
    """
    first, _, path = name.partition(".")
    if first in PACKAGES:
        value = importlib.import_module(f"keras_bert_impl.{first}")
    else:
        value = getattr(keras_bert_impl, first)
    for part in filter(None, path.split(".")):
        value = getattr(value, part)
    return value


def accepts(owner, function, argument):
    """Whether a function has an argument, or passes it on to one that has.

    Args:
        owner: the class that has the function, or None.
    """
    parameters = inspect.signature(function).parameters
    if argument in parameters and parameters[argument].kind is not inspect.Parameter.VAR_KEYWORD:
        return True
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return False
    return argument in _passed_on(owner, function)


def _passed_on(owner, function):
    """The names of `**kwargs` of a function."""
    name = function.__name__
    if name in ("finetune", "finetune_set"):
        return _fields(FinetuneSettings)
    if name in ("pretrain", "adapt"):
        return _fields({"pretrain": PretrainSettings, "adapt": AdaptationSettings}[name])
    if name in ("from_pretrained", "load_tuned"):
        names = _arguments(owner.__init__) if owner else set()
        if owner is not None and issubclass(owner, TaskModel):
            return names | _arguments(TaskModel.from_pretrained)
        return names | _fields(EncoderConfig)
    if name == "compile":
        inherited = _arguments(TaskModel.compile) | _arguments(ReplicatedTrainer.compile)
        return inherited | _arguments(keras.Model.compile)
    if name == "set_params":  # of scikit-learn
        return _arguments(owner.__init__)
    if name == "evaluate":
        return _arguments(keras.Model.evaluate)
    if name == "export":
        return _arguments(export_onnx) | _arguments(export_openvino)
    if owner is None or name != "__init__":
        return set()
    return set().union({"name", "dtype"}, *(_arguments(base.__init__) for base in owner.__mro__))


def _fields(settings_class):
    return {field.name for field in dataclasses.fields(settings_class)}


def _arguments(function):
    return set(inspect.signature(function).parameters)


@functools.cache
def command(name):
    """Returns (class of the settings of a `keras-bert` command or None, parser).

    Raises:
        InputError: there is none.
    """
    command_class, parser = main.load(name)
    return command_class.settings_class, parser


def parse(words):
    """Parses the words of a `keras-bert` command, as the command line does, without running it.

    Raises:
        InputError: an argument, a setting or its value is not accepted.
    """
    name, arguments = main._split(words)
    if name in (None, "help"):
        assert set(arguments) <= {"--help", "-h", "--version"}, arguments
        return
    settings_class, parser = command(name)
    if "--help" in arguments or "-h" in arguments:
        return
    parsed = main.parse(parser, arguments)
    if settings_class is None:
        return
    named_recipes = recipes() if name == "pretrain" else {}
    if parsed.recipe and parsed.recipe not in named_recipes:
        assert parsed.recipe.endswith(".yaml"), parsed.recipe
        parsed.recipe = None  # a file of the user's
        cli_settings.given_settings(parsed, settings_class, named_recipes)
        return
    cli_settings.resolve_settings(parsed, settings_class, named_recipes)


def check_reference(reference):
    """Asserts that a reference of the migration page exists; for its forms, see `Row.ours`."""
    if reference.startswith("keras-bert"):
        _, name, *options = reference.split()
        _, parser = command(name)
        for option in options:
            assert option in parser._option_string_actions, reference
        return
    path, _, argument = reference.partition("(")
    value = find(path)
    if not argument:
        return
    assert argument.endswith("=)"), reference
    owner = value if inspect.isclass(value) else None
    if "." in path and owner is None:
        above = find(path.rpartition(".")[0])
        owner = above if inspect.isclass(above) else None
    function = value.__init__ if inspect.isclass(value) else value
    assert accepts(owner, function, argument[:-2]), reference
