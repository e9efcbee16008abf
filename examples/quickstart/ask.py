"""Predicts with an exported model in a program that imports only TensorFlow and TF-Text.

python ask.py SAVED_MODEL < texts.json    # a JSON list of strings
"""

import contextlib
import json
import sys

import tensorflow as tf

with contextlib.suppress(ImportError, tf.errors.NotFoundError):
    import tensorflow_text  # noqa: F401 - registers the tokenizer's operations


def main() -> None:
    model = tf.saved_model.load(sys.argv[1])
    answers = model.signatures["serving_default"](text=tf.constant(json.load(sys.stdin)))
    print(
        json.dumps(
            {
                "labels": [label.decode() for label in answers["label"].numpy()],
                "scores": answers["scores"].numpy().tolist(),
                "has_imported_keras_bert_impl": "keras_bert_impl" in sys.modules,
            }
        )
    )


if __name__ == "__main__":
    main()
