"""Google's checkpoints and SavedModels, presented as a model directory is."""

from pathlib import Path

from keras_bert_impl.interop.google.checkpoint import Checkpoint, find_checkpoint
from keras_bert_impl.interop.google.named import named_places
from keras_bert_impl.interop.google.objects import OBJECT_GRAPH, object_places
from keras_bert_impl.interop.google.saved_model import read_program
from keras_bert_impl.interop.google.settings import gelu, huggingface_settings, read_settings
from keras_bert_impl.interop.google.tensors import GoogleTensors
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import file_within


def is_google_checkpoint(path):
    """bool. Whether a path is a checkpoint of TensorFlow, a directory with one, or a SavedModel.

    Args:
        path: str or `Path`, as of `open_google_checkpoint`.
    """
    path = Path(path)
    if path.is_dir():
        return (path / "saved_model.pb").is_file() or any(path.glob("*.index"))
    return find_checkpoint(path) is not None


def open_google_checkpoint(path, generator=False):
    """Opens a BERT, ALBERT or ELECTRA in one of the forms that Google published them in.

    These are a checkpoint of TensorFlow 1 (`bert_model.ckpt`), a checkpoint of the Model Garden's
    encoders and pre-trainers, and a module or SavedModel of TF Hub. Nothing in them is run.

    Args:
        path: str or `Path`: a directory, the prefix of the checkpoint in it
            (`.../bert_model.ckpt`), or one of its files, such as `bert_model.ckpt.index`.
        generator: bool, default False. Of an ELECTRA, whether to take the generator and not the
            discriminator.

    Returns:
        dict as in a Hugging Face `config.json`; `GoogleTensors` with Hugging Face's names.

    Raises:
        InputError: a file is missing or damaged; there is no such model in it; the configuration
            and the tensors contradict each other.

    Example:
        >>> config, tensors = open_google_checkpoint("uncased_L-12_H-768_A-12")
        >>> tensors.header["bert.pooler.dense.weight"]
        ('F32', (768, 768))
    """
    prefix, directory = _found(path)
    checkpoint = Checkpoint(prefix)
    by_objects = OBJECT_GRAPH in checkpoint.variables
    file, stated = read_settings(directory)
    num_heads, program = None, None
    if not by_objects:
        model_type, places = named_places(checkpoint, generator)
    elif generator:
        raise InputError(f"{checkpoint.path} has no generator of an ELECTRA in it.")
    else:
        model_type, places, num_heads = object_places(checkpoint)
    if directory != prefix.parent:
        program = read_program(file_within(directory, "saved_model.pb"))
        stated["hidden_act"] = program.hidden_act
    elif stated.get("hidden_act", "gelu") == "gelu":
        stated["hidden_act"] = gelu(model_type, by_objects)
    tensors = GoogleTensors(checkpoint, places)
    settings = huggingface_settings(model_type, tensors, file, stated, num_heads, program)
    return settings, tensors


def _found(path):
    """The prefix of a checkpoint, and the directory with the other files of the model."""
    prefix = find_checkpoint(path)
    if prefix is None:
        raise InputError(f"{path} is no checkpoint of TensorFlow and no directory with one.")
    above = prefix.parent.parent  # of the folder `variables` of a SavedModel
    return prefix, above if (above / "saved_model.pb").is_file() else prefix.parent
