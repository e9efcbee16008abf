"""Loads models for export: the fine-tuned model, or another model of the same directory."""

from pathlib import Path

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.runs.run import load_embedder, load_tuned, model_directory
from keras_bert_impl.serving.signatures import Signatures
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.embedding.signature import EncoderSignatures
from keras_bert_impl.tasks.language_modelling.model import MaskedLM
from keras_bert_impl.tokenizers import Tokenizer


def load_model(
    name_or_path: str | Path,
    use: str | None = None,
    dtype: str | None = None,
    base: str | Path | None = None,
) -> TaskModel | Encoder:
    """Loads the model of a run directory, a model directory or a name, for export."""
    if use is None:
        return load_tuned(name_or_path, dtype, base)
    if use == "embedder":
        return load_embedder(name_or_path, dtype, base=base)
    model_class = MaskedLM if use == "masked-lm" else Encoder
    directory = model_directory(name_or_path)
    return model_class.from_pretrained(directory, dtype=dtype or "float32", base=base)


def load_signatures(
    name_or_path: str | Path,
    use: str | None = None,
    dtype: str | None = None,
    base: str | Path | None = None,
) -> Signatures:
    """Loads the serving signatures of a model; for arguments see `load_model`."""
    model = load_model(name_or_path, use, dtype, base)
    if use == "encoder":
        return EncoderSignatures(model, Tokenizer.from_pretrained(model_directory(name_or_path)))
    return model.signatures()
