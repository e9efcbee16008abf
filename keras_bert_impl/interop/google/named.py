"""Variables of TensorFlow 1, which have names: BERT, ALBERT and ELECTRA.

A module of TF Hub has the names of a checkpoint. A model that was trained on top of one has them
below the name of the module there: `module/bert/...` beside its own `output_weights`.
"""

import re

from keras_bert_impl.interop.google.names import ALBERT, BERT, ELECTRA, electra_generator
from keras_bert_impl.interop.google.tensors import Place
from keras_bert_impl.io.errors import InputError

# What is in a checkpoint of a training run besides the model.
_OF_THE_RUN = re.compile(r"(.*/)?(adam_[mv]|Adam(_1)?|beta[12]_power|global_step)")
_IN_THE_ENCODER = re.compile("(bert|electra|generator)/encoder/")
_ELECTRA_SCOPES = {
    False: ("generator/", "generator_predictions/"),
    True: ("electra/encoder/", "electra/embeddings_project/", "discriminator_predictions/"),
}


def named_places(checkpoint, generator):
    """What model is in a checkpoint, and where its tensors stand.

    Args:
        checkpoint: `Checkpoint`.
        generator: bool. Whether to take ELECTRA's generator, not the discriminator.

    Returns:
        `model_type` as in a Hugging Face configuration; dict of the names of tensors to `Place`.
        Variables of no known name keep it.

    Raises:
        InputError: no such model in it, or its tensors are in parts.
    """
    variables = _by_short_name(checkpoint)
    model_type, names = _names(checkpoint, variables, generator)
    hidden = _ELECTRA_SCOPES[generator] if model_type == "electra" else ()
    places = {}
    for short, variable in sorted(variables.items()):
        if _OF_THE_RUN.fullmatch(short) or short.startswith(hidden):
            continue
        known = ((name, name.to_huggingface(short)) for name in names)
        name, renamed = next(((n, r) for n, r in known if r), (None, variable))
        slot = short.rpartition("/")[0] in variables  # of some optimizer
        if name is None and _IN_THE_ENCODER.match(short) and not slot:
            raise InputError(
                f"{checkpoint.path}: {variable:.200} is in no layer of a BERT, ALBERT or ELECTRA; "
                "an encoder of another kind cannot be read."
            )
        places[renamed] = Place(variable, transpose=name is not None and name.transpose)
    return model_type, places


def _by_short_name(checkpoint):
    """dict of the names that the encoder's code gives to all names of variables."""
    scope = _scope(checkpoint)
    variables = {name.removeprefix(scope): name for name in checkpoint.variables}
    for short, name in sorted(variables.items()):
        if short != name and short in checkpoint.variables:
            raise InputError(
                f"{checkpoint.path} has both {short} and {name}; only one of them can be read."
            )
        if re.search(r"/part_\d+$", name):
            raise InputError(
                f"{checkpoint.path}: tensor {name} is a part of a variable that was saved in "
                "parts; save it whole, by the scope that it was partitioned in."
            )
    return variables


def _scope(checkpoint):
    """What the names of the encoder's variables begin with: nothing, or such as `module/`."""
    words = re.compile(r"(.*/)?(bert|electra)/embeddings/word_embeddings")
    found = [match for match in map(words.fullmatch, sorted(checkpoint.variables)) if match]
    if len(found) > 1:
        raise InputError(
            f"{checkpoint.path}: {found[0][0]:.200} and {found[1][0]:.200}; a checkpoint of two "
            "encoders cannot be read."
        )
    return found[0][1] or "" if found else ""


def _names(checkpoint, variables, generator):
    scopes = {"/".join(name.split("/")[:3]) for name in variables}
    electra = any(scope.startswith("electra/") for scope in scopes)
    if generator and not any(scope.startswith("generator/") for scope in scopes):
        raise InputError(f"{checkpoint.path} has no generator of an ELECTRA in it.")
    if electra:
        return "electra", electra_generator(variables) if generator else ELECTRA
    if "bert/encoder/transformer" in scopes:
        return "albert", ALBERT
    if any(scope.startswith("bert/") for scope in scopes):
        return "bert", BERT
    some = ", ".join(f"{name:.80}" for name in sorted(variables)[:3]) or "nothing"
    raise InputError(f"{checkpoint.path} has no BERT, ALBERT or ELECTRA in it, but {some}.")
