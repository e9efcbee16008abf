"""A pre-training objective of your own: predict the first letter of each masked token.

An objective is a small class: it adds a head to the encoder (`connect`) and says what the labels
are. This one has 27 classes instead of a vocabulary (First Char of Yamaguchi et al. 2021,
"Frustratingly Simple Pretraining Alternatives to Masked Language Modeling"). The corpus is the
documentation of this package, and the encoder is newly initialized.

    python examples/custom_objective.py
"""

import re
import tempfile

import keras
import numpy as np
from common import FOLDER, parse_arguments

from keras_bert_impl import (
    AdamW,
    Encoder,
    EncoderConfig,
    Pretrainer,
    WordPieceTokenizer,
    learn_wordpiece_vocabulary,
    prepare,
)
from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.pretraining import pretraining_dataset
from keras_bert_impl.pretraining.objectives import Objective


class FirstLetter(Objective):
    """Classifies masked positions by the first letter of their token: 1 to 26, 0 for others."""

    name = "first_letter"
    features = ("masked_positions",)

    def __init__(self, vocabulary: list[str], weight: float = 1.0) -> None:
        super().__init__(weight)
        first = [token.removeprefix("##")[0] for token in vocabulary]
        letters = [ord(c) - 96 if "a" <= c <= "z" else 0 for c in first]
        self.letters = np.array(letters, "int32")  # token id -> class

    def connect(self, encoder, encoded, inputs):
        states = GatherPositions()(encoded["sequence_output"], inputs["masked_positions"])
        return {self.name: keras.layers.Dense(27, dtype="float32", name=self.name)(states)}

    def weights(self, features, weights):
        return {self.name: weights["masked_lm"]}  # 0 where nothing is masked

    def labels(self, features, labels, outputs):
        return {self.name: keras.ops.take(self.letters, labels["masked_lm"])}


def main(argv: list[str] | None = None) -> tuple[float, float]:
    arguments = parse_arguments(argv, __doc__, needs_model=False)
    pages = sorted((FOLDER.parent / "docs").glob("*.md"))
    # Words only: otherwise half of the tokens would be markup, which has no first letter.
    texts = [re.sub(r"[^A-Za-z\n]+", " ", page.read_text()) for page in pages]
    tokenizer = WordPieceTokenizer(learn_wordpiece_vocabulary(texts, 2000))
    sizes = {"hidden_dim": 64, "num_layers": 1, "num_heads": 2, "intermediate_dim": 128}
    config = EncoderConfig(tokenizer.vocabulary_size, max_length=64, initializer_range=0.1, **sizes)
    objective = FirstLetter(tokenizer.vocabulary)
    pretrainer = Pretrainer(Encoder(config), [objective])
    pretrainer.compile(AdamW(5e-3))
    with tempfile.TemporaryDirectory() as records:
        prepare(texts, records, tokenizer, length=64, objective="mlm", held_out=0.1, num_workers=1)
        train = pretraining_dataset(records, batch_size=32)
        held_out = pretraining_dataset(records, batch_size=32, split="held_out")
        steps = 150 if arguments.quick else 1500
        pretrainer.fit(train, steps_per_epoch=steps, shuffle=False, verbose=0)
        scores = pretrainer.evaluate(held_out, verbose=0, return_dict=True)
        counts = np.zeros(27)
        for _, labels, weights in held_out.as_numpy_iterator():
            np.add.at(counts, objective.letters[labels["masked_lm"]], weights["masked_lm"])
    baseline, accuracy = counts.max() / counts.sum(), scores["first_letter_accuracy"]
    print("first letter of a masked token, on held-out pages")
    print(
        f"    accuracy {accuracy:.1%} after {steps} steps; the most frequent class {baseline:.1%}"
    )
    return baseline, accuracy


if __name__ == "__main__":
    main()
