"""Counts what `from_pretrained`, `fit` and `export` of a tiny classifier enter; prints JSON.

A program, because imports and caches of other tests would change the counts.
"""

import json
import sys
import tempfile
import threading
from pathlib import Path

import keras_bert_impl
from keras_bert_impl import TextClassifier
from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tokenizers import WordPieceTokenizer

ROOT = str(Path(keras_bert_impl.__file__).parent) + "/"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad"]


def counted(function):
    """Calls a function; returns its result, and the files of ours whose functions it calls and the
    frames of ours above the first matrix product of an encoder, outermost first."""
    files, frames = set(), []

    def enter(frame, event, _):
        code = frame.f_code
        if event != "call" or code.co_name == "<module>":
            return
        if code.co_filename.startswith(ROOT):
            files.add(code.co_filename.removeprefix(ROOT))
        elif code.co_name in ("matmul", "einsum") and "/keras/" in code.co_filename and not frames:
            above = own_frames(frame)
            if any("models/encoder.py:Encoder.call" in name for name in above):
                frames.extend(above)

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        result = function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return result, {"files": sorted(files), "frames": frames}


def own_frames(frame):
    """Returns the package's functions that lead to a frame, outermost first."""
    names = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(ROOT):
            names.append(f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def main():
    config = EncoderConfig(
        vocabulary_size=len(VOCABULARY),
        hidden_dim=8,
        num_layers=1,
        num_heads=2,
        intermediate_dim=16,
        max_length=16,
    )
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = WordPieceTokenizer(VOCABULARY)
        TextClassifier(Encoder(config), tokenizer, num_classes=2).save_pretrained(folder)
        counts = {}
        model, counts["from_pretrained"] = counted(lambda: TextClassifier.from_pretrained(folder))
        _, counts["fit"] = counted(lambda: model.fit(["a good"], [1], verbose=0))
        _, counts["export"] = counted(lambda: model.export(f"{folder}/exported"))
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
