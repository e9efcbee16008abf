"""Typed settings from recipes and options."""

import dataclasses
import typing

import pytest
import yaml

from keras_bert_impl.cli import settings
from keras_bert_impl.cli.parser import CommandParser
from keras_bert_impl.training.runs.run_directory import to_yaml
from keras_bert_impl.utils.errors import InputError


@dataclasses.dataclass(frozen=True)
class Settings:
    batch_size: int = 32
    learning_rate: float = 1e-4
    strategy: str = "auto"
    jit_compile: bool = False
    warmup_steps: int | None = None
    lengths: tuple[int, ...] = (64, 128)


RECIPES = {"tiny": {"batch_size": 4, "learning_rate": 1}}


def resolve(*arguments, settings_class=Settings):
    parser = CommandParser(prog="keras-bert")
    settings.add_settings(parser, settings_class, RECIPES)
    return settings.resolve_settings(parser.parse_args(arguments), settings_class, RECIPES)


def test_defaults_recipe_options_in_this_order(tmp_path):
    assert resolve() == Settings()
    assert resolve("--recipe", "tiny") == Settings(batch_size=4, learning_rate=1.0)
    assert resolve("--recipe", "tiny", "--batch-size=8").batch_size == 8
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("strategy: mirrored\nlearning_rate: 1e-5\nlengths: [16, 32]\n")
    assert resolve("--recipe", str(recipe), "--warmup-steps=10", "--jit-compile") == Settings(
        32, 1e-5, "mirrored", True, 10, (16, 32)
    )


def test_options():
    options = ["--batch-size", "8", "--learning-rate=5e-5", "--jit-compile", "--lengths", "[8, 16]"]
    assert resolve(*options) == Settings(8, 5e-5, jit_compile=True, lengths=(8, 16))
    assert resolve("--recipe", "tiny", "--batch-size", "8", "--warmup-steps", "3").warmup_steps == 3
    with pytest.raises(InputError, match="--batch-size is given twice: 8 and 9"):
        resolve("--batch-size", "8", "--batch-size", "9")


def test_a_switch_overrides_a_recipe_both_ways(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("jit_compile: true")
    assert resolve("--recipe", str(recipe)).jit_compile is True
    assert resolve("--recipe", str(recipe), "--no-jit-compile").jit_compile is False
    with pytest.raises(InputError, match="--jit-compile is given twice: true and false"):
        resolve("--jit-compile", "--no-jit-compile")


def test_keeps_an_option_of_the_command_with_the_name_of_a_setting():
    parser = CommandParser(prog="keras-bert")
    parser.add_argument("--strategy", default="own")
    settings.add_settings(parser, Settings)
    arguments = parser.parse_args(["--strategy", "mirrored"])
    assert arguments.strategy == "mirrored"
    assert settings.resolve_settings(arguments, Settings).strategy == "auto"


def test_values_have_the_types_of_the_fields():
    settings = resolve("--learning-rate=3", "--strategy=4", "--warmup-steps=null", "--lengths=[8]")
    assert settings == Settings(learning_rate=3.0, strategy="4", lengths=(8,))
    assert isinstance(settings.learning_rate, float)


@pytest.mark.parametrize(
    "option, message",
    [
        ("--batchsize=4", "there is no option --batchsize; did you mean --batch-size"),
        ("--zzz=4", "there is no option --zzz; "),
        ("--batch-size=4.5", "batch_size must be an integer, got 4.5"),
        ("--batch-size=true", "batch_size must be an integer, got True"),
        ("--learning-rate=fast", "learning_rate must be a number, got 'fast'"),
        ("--jit-compile=1", "ignored explicit argument '1'"),
        ("--warmup-steps=few", "warmup_steps must be an integer or None"),
        ("--lengths=[8, many]", "lengths must be a list of values, each an integer"),
        ("--strategy=[a", "not valid YAML"),
        ("--batch-size=", "batch_size must be an integer, got None"),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(InputError) as error:
        resolve(option)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "content, message",
    [
        ("batch_size: 4\nlearning_rat: 1", "mine.yaml: there is no setting 'learning_rat'"),
        ("batch_size: four", "mine.yaml: batch_size must be an integer, got 'four'"),
        ("a: b\n  c: [", "mine.yaml, line 2: not valid YAML"),
        ("- batch_size", "mine.yaml: a recipe must contain a line"),
        ("!!python/object/apply:os.system [echo]", "not valid YAML"),
    ],
)
def test_bad_recipes(tmp_path, content, message):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(content)
    with pytest.raises(InputError) as error:
        resolve("--recipe", str(recipe))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "name, message", [("tinny", "did you mean 'tiny'"), ("gone.yaml", "cannot read gone.yaml")]
)
def test_unknown_recipes(name, message):
    with pytest.raises(InputError, match=message):
        resolve("--recipe", name)


def test_a_required_setting():
    @dataclasses.dataclass
    class Needed:
        data: str

    assert resolve("--data=folder", settings_class=Needed).data == "folder"
    with pytest.raises(InputError, match="'data' is missing; write --data VALUE"):
        resolve(settings_class=Needed)


def test_written_settings_are_a_recipe(tmp_path):
    settings = Settings(8, 1e-5, "tpu", True, 7, (1, 2))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(to_yaml(settings))  # like `recipe.yaml` in a run directory
    assert resolve("--recipe", str(recipe)) == settings
    names = [field.name for field in dataclasses.fields(Settings)]
    assert list(yaml.safe_load(recipe.read_text())) == names


def test_only_fields_are_settings():
    @dataclasses.dataclass(frozen=True)
    class WithAConstant(Settings):
        constant: typing.ClassVar[int] = 1

    with pytest.raises(InputError, match="there is no option --constant"):
        resolve("--constant=2", settings_class=WithAConstant)
