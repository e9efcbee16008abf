"""What is exported of a directory: the tuned model, or what else it can be used as."""

from pathlib import Path

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving import EncoderSignatures
from keras_bert_impl.tasks.masked_lm import MaskedLM
from keras_bert_impl.tasks.run import load_embedder, load_tuned
from keras_bert_impl.tokenizers import Tokenizer


def load_signatures(name_or_path, use=None, dtype=None, base=None):
    """The signatures of a run directory, a model directory or a name.

    Args:
        name_or_path: str or `Path`.
        use: str. `"encoder"`, `"embedder"` or `"masked-lm"`: what to take the model for. Default:
            the task that it was tuned for.
        dtype: Keras dtype policy. Default: that of the run, else float32.
        base: as of `load_tuned`.

    Returns:
        `serving.signatures.Signatures`.

    Raises:
        InputError: there is no such model.
    """
    if use is None:
        return load_tuned(name_or_path, dtype, base).signatures()
    if use == "embedder":
        return load_embedder(name_or_path, dtype).signatures()
    model = Path(name_or_path) / "model"
    source = model if model.is_dir() else name_or_path
    if use == "masked-lm":
        return MaskedLM.from_pretrained(source, dtype=dtype or "float32").signatures()
    encoder = Encoder.from_pretrained(source, dtype=dtype or "float32")
    return EncoderSignatures(encoder, Tokenizer.from_pretrained(source))
