"""Reading a SentencePiece model: pieces, their scores, and the character map."""

import base64
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import read_bytes

_UNIGRAM, _BYTE = 1, 6  # values in sentencepiece_model.proto
_TYPES = {2: "BPE", 3: "word", 4: "character"}


def read_model(path: Path) -> tuple[list[str], list[float], str]:
    """Reads a unigram model.

    Returns:
        (pieces, scores, character_map). The character map is base64 of the compiled one, which may
        be empty.

    Raises:
        InputError: If the file is not a SentencePiece model, is damaged, or of an unsupported kind.
    """
    # Imported here since only these models need protobuf.
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # made at import
    try:
        model.ParseFromString(read_bytes(path))
    except DecodeError as error:
        raise InputError(f"{path} is damaged or not a SentencePiece model.") from error
    if not model.pieces or not model.HasField("trainer_spec"):
        raise InputError(f"{path} is damaged or not a SentencePiece model: it has no pieces.")
    kind, size = model.trainer_spec.model_type, model.trainer_spec.vocab_size
    if kind != _UNIGRAM:
        raise InputError(
            f"{path}: a SentencePiece model of type {_TYPES.get(kind, kind)} is not supported, "
            "only unigram."
        )
    if model.trainer_spec.byte_fallback or any(piece.type == _BYTE for piece in model.pieces):
        raise InputError(f"{path}: byte_fallback is not supported.")
    if model.trainer_spec.treat_whitespace_as_suffix or not model.normalizer_spec.add_dummy_prefix:
        raise InputError(
            f"{path}: only models that put the space mark before each word are supported "
            "(add_dummy_prefix, not treat_whitespace_as_suffix)."
        )
    if size and size != len(model.pieces):
        raise InputError(f"{path} has {len(model.pieces)} pieces, but its vocab_size is {size}.")
    pieces = [piece.piece for piece in model.pieces]
    scores = [piece.score for piece in model.pieces]
    return pieces, scores, base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
