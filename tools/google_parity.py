"""Compares this package with PyTorch on a Google checkpoint: `... --checkpoint DIR`.

DIR contains `bert_config.json` and a TensorFlow 1 checkpoint `bert_model.ckpt` with the
pre-training heads. The weights are loaded into a float64 BERT of `transformers`. The name mapping
in this file is independent of the package. Needs the extra `test`.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RENAMES = {
    "encoder.layer.": "encoder.layer_",
    "LayerNorm.weight": "LayerNorm.gamma",
    "LayerNorm.bias": "LayerNorm.beta",
    "embeddings.weight": "embeddings",
    "seq_relationship.weight": "seq_relationship.output_weights",
    "seq_relationship.bias": "seq_relationship.output_bias",
    "predictions.bias": "predictions.output_bias",
    ".weight": ".kernel",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True, type=Path, metavar="DIR")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from tests.checkpoints.interop.google_models import loaded
    from tests.checkpoints.interop.parity import batch, original_features

    original, lengths = in_pytorch(arguments.checkpoint)
    ours, source = loaded(arguments.checkpoint, "masked_lm", "next_sentence")
    print(f"not loaded: {', '.join(source.unread()) or 'nothing'}")
    print("| lengths | sequence | pooled | masked words | next sentence |\n|---|---|---|---|---|")
    for row in lengths:
        features = batch(original.config.vocab_size, row)
        real = features["padding_mask"] == 1
        inputs = original_features(original, features)
        states, heads = original.bert(**inputs), original(**inputs)
        received = ours(features)
        pairs = [
            (received["sequence_output"].numpy()[real], states[0].numpy()[real]),
            (received["pooled_output"], states[1]),
            (received["masked_lm"].numpy()[real], heads[0].numpy()[real]),
            (received["next_sentence"], heads[1]),
        ]
        differences = [f"{np.abs(np.asarray(a) - np.asarray(b)).max():.1e}" for a, b in pairs]
        print(f"| {row} | {' | '.join(differences)} |")


def in_pytorch(directory: Path) -> tuple[Any, list[list[int]]]:
    """Returns the model in float64, and row lengths up to its maximum."""
    import tensorflow as tf
    import torch
    import transformers

    torch.set_grad_enabled(False)
    settings = json.loads((directory / "bert_config.json").read_text())
    model = transformers.BertForPreTraining(transformers.BertConfig(**settings)).double().eval()
    reader = tf.train.load_checkpoint(str(directory / "bert_model.ckpt"))
    for name, parameter in model.named_parameters():
        for theirs, google in RENAMES.items():
            name = name.replace(theirs, google)
        array = reader.get_tensor(name.replace(".", "/"))
        parameter.copy_(torch.tensor(array.T if name.endswith("kernel") else array))
    longest = settings["max_position_embeddings"]
    return model, [[1, 1], [longest // 2, 3], [longest, longest // 3]]


if __name__ == "__main__":
    main()
