"""Compares our encoder with PyTorch: `python tools/parity.py --model DIR`.

Prints the largest absolute difference from PyTorch in float64, for every hidden state, attention
map and pooled output. Compares our encoder (TensorFlow and JAX) with PyTorch, both in float32.
Needs the extra `test`.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

with contextlib.suppress(ImportError):
    import triton  # noqa: F401 - before TensorFlow; for the reason, see tests/conftest.py

ROOT = Path(__file__).resolve().parents[1]
BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX"}
LENGTHS = (128, 97, 40, 5, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", required=True, help="BERT model directory in the Hugging Face format"
    )
    parser.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.path.insert(0, str(ROOT))
    if arguments.backend:
        print(json.dumps(differences_of_ours(arguments.model)))
    else:
        print_table(arguments.model)


def originals(directory: str) -> tuple[dict, dict, dict]:
    """Returns the features, and the outputs of PyTorch in float64 and in float32."""
    import torch
    import transformers

    from tests.checkpoints.interop.parity import batch, original_outputs

    model = transformers.BertModel.from_pretrained(directory, attn_implementation="eager").eval()
    features = batch(model.config.vocab_size, LENGTHS)
    return features, *(original_outputs(model, features, t) for t in (torch.float64, torch.float32))


def differences_of_ours(directory: str) -> dict[str, dict]:
    from keras_bert_impl.models.encoder import Encoder
    from tests.checkpoints.interop.parity import packed, packed_differences, padded_differences

    features, expected, _ = originals(directory)
    encoder = Encoder.from_pretrained(directory)
    model = encoder.with_outputs("hidden_states", "attention_scores")
    return {
        "padded": padded_differences(model(features), expected, features),
        "packed": packed_differences(model(packed(features)), expected, features),
    }


def print_table(directory: str) -> None:
    from tests.checkpoints.interop.parity import padded_differences

    columns = {}
    for backend, title in BACKENDS.items():
        command = [sys.executable, __file__, "--model", directory, "--backend", backend]
        environment = os.environ | {"KERAS_BACKEND": backend}
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        for kind, column in json.loads(output.stdout.splitlines()[-1]).items():
            columns[f"{title}, {kind}"] = column
    features, expected, single = originals(directory)
    columns["PyTorch float32, padded"] = padded_differences(single, expected, features)

    print(f"| output | {' | '.join(columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    layers = len(expected["attention_scores"])
    rows = [("embeddings", "hidden_states", 0)]
    rows += [(f"hidden state {i}", "hidden_states", i) for i in range(1, layers + 1)]
    rows += [(f"attention map {i}", "attention_scores", i - 1) for i in range(1, layers + 1)]
    rows += [("pooled output", "pooled_output", 0)]
    for title, name, index in rows:
        # The pooled output of a packed row is the output of its first example.
        cells = [
            f"{column[name][index]:.1e}" if name in column else "" for column in columns.values()
        ]
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
