"""TensorFlow 1 variables of BERT, ALBERT and ELECTRA, which are identified by name.

TF Hub modules use the same names as checkpoints. In a model trained on top of a module, the names
are below the module's name: `module/bert/...` next to the model's own `output_weights`.
"""

import re

from keras_bert_impl.interop.google.checkpoint import Checkpoint
from keras_bert_impl.interop.google.names import (
    ALBERT,
    BERT,
    ELECTRA,
    Name,
    electra_generator,
    unknown_model,
    unknown_variable,
)
from keras_bert_impl.interop.google.tensors import Location
from keras_bert_impl.io.errors import InputError

# Variables of a training run other than the model's.
_OF_THE_RUN = re.compile(r"(.*/)?(adam_[mv]|Adam(_1)?|beta[12]_power|global_step)")
_IN_THE_ENCODER = re.compile("(bert|electra|generator)/encoder/")
_ELECTRA_SCOPES = {
    False: ("generator/", "generator_predictions/"),
    True: ("electra/encoder/", "electra/embeddings_project/", "discriminator_predictions/"),
}


def named_locations(checkpoint: Checkpoint, generator: bool) -> tuple[str, dict[str, Location]]:
    """Identifies the model in a checkpoint and locates its tensors.

    Returns:
        (`model_type` as in a Hugging Face configuration, tensor names -> `Location`). Variables with
        an unknown name keep it.
    """
    variables = _by_short_name(checkpoint)
    model_type, names = _names(checkpoint, variables, generator)
    hidden: tuple[str, ...] = _ELECTRA_SCOPES[generator] if model_type == "electra" else ()
    locations = {}
    for short, variable in sorted(variables.items()):
        if _OF_THE_RUN.fullmatch(short) or short.startswith(hidden):
            continue
        known = ((name, name.to_huggingface(short)) for name in names)
        name, renamed = next(((n, r) for n, r in known if r), (None, variable))
        slot = short.rpartition("/")[0] in variables  # belongs to some optimizer
        if name is None and _IN_THE_ENCODER.match(short) and not slot:
            raise unknown_variable(checkpoint.path, variable)
        locations[renamed] = Location(variable, transpose=name is not None and name.transpose)
    return model_type, locations


def _by_short_name(checkpoint):
    """Returns a dict of the encoder code's variable names to the names in the checkpoint."""
    scope = _scope(checkpoint)
    variables = {name.removeprefix(scope): name for name in checkpoint.variables}
    for short, name in sorted(variables.items()):
        if short != name and short in checkpoint.variables:
            raise InputError(
                f"{checkpoint.path} has both {short} and {name}, but only one encoder can be read."
            )
        if re.search(r"/part_\d+$", name):
            raise InputError(
                f"{checkpoint.path}: tensor {name} is a part of a partitioned variable; save it "
                "whole, in the scope in which it was partitioned."
            )
    return variables


def _scope(checkpoint):
    """Returns the prefix of the encoder's variable names: empty, or such as `module/`."""
    words = re.compile(r"(.*/)?(bert|electra)/embeddings/word_embeddings")
    found = [match for match in map(words.fullmatch, sorted(checkpoint.variables)) if match]
    if len(found) > 1:
        raise InputError(
            f"{checkpoint.path} has {found[0][0]:.200} and {found[1][0]:.200}; a checkpoint with "
            "two encoders is not supported."
        )
    return found[0][1] or "" if found else ""


def _names(
    checkpoint: Checkpoint, variables: dict[str, str], generator: bool
) -> tuple[str, list[Name]]:
    """Returns the `model_type` and the names of its tensors."""
    scopes = {"/".join(name.split("/")[:3]) for name in variables}
    electra = any(scope.startswith("electra/") for scope in scopes)
    if generator and not any(scope.startswith("generator/") for scope in scopes):
        raise InputError(f"{checkpoint.path} has no ELECTRA generator.")
    if electra:
        return "electra", electra_generator(variables) if generator else ELECTRA
    if "bert/encoder/transformer" in scopes:
        return "albert", ALBERT
    if any(scope.startswith("bert/") for scope in scopes):
        return "bert", BERT
    raise unknown_model(checkpoint.path, sorted(variables))
