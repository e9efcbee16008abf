"""A custom pre-training objective: predict the first letter of each masked token.

An objective adds a head to the encoder and defines the labels. This objective has 27 classes
instead of a vocabulary (First Char, Yamaguchi et al., EMNLP 2021). The corpus is the documentation.

    python examples/custom_objective.py
"""

import tempfile

import keras
import numpy as np
from common import documentation, parse_arguments

from keras_bert_impl import AdamW, Encoder, EncoderConfig, Pretrainer, prepare
from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.pretraining import pretraining_dataset
from keras_bert_impl.pretraining.objectives import Objective
from keras_bert_impl.tokenizers import WordPieceTokenizer, learn_wordpiece_vocabulary


class FirstLetter(Objective):
    name = "first_letter"
    features = ("masked_positions",)

    def connect(self, encoder, encoded, inputs):
        states = GatherPositions()(encoded["sequence_output"], inputs["masked_positions"])
        return {self.name: keras.layers.Dense(27, dtype="float32", name=self.name)(states)}

    def weights(self, features, weights):
        return {self.name: weights["masked_lm"]}  # 0 where nothing is masked

    def labels(self, features, labels, outputs):
        return {self.name: keras.ops.take(self.letters, labels["masked_lm"])}


def main(argv: list[str] | None = None) -> tuple[float, float]:
    steps = 150 if parse_arguments(argv, __doc__, needs_model=False).quick else 1500
    tokenizer = WordPieceTokenizer(learn_wordpiece_vocabulary(documentation(), 2000))
    first = np.array([ord(t.removeprefix("##")[0]) - 96 for t in tokenizer.vocabulary], "int32")
    FirstLetter.letters = np.where((first > 0) & (first < 27), first, 0)  # 0 for no letter
    config = EncoderConfig(tokenizer.vocabulary_size, 64, 1, 2, 128, 64, initializer_range=0.1)
    pretrainer = Pretrainer(Encoder(config), [FirstLetter()])
    pretrainer.compile(AdamW(5e-3))
    with tempfile.TemporaryDirectory() as records:
        prepare(documentation(), records, tokenizer, 64, "mlm", held_out=0.1, num_workers=1)
        train = pretraining_dataset(records, batch_size=32)
        held_out = pretraining_dataset(records, batch_size=32, split="held_out")
        pretrainer.fit(train, steps_per_epoch=steps, shuffle=False, verbose=0)
        scores = pretrainer.evaluate(held_out, verbose=0, return_dict=True)
        counts = np.zeros(27)
        for _, labels, weights in held_out.as_numpy_iterator():
            np.add.at(counts, FirstLetter.letters[labels["masked_lm"]], weights["masked_lm"])
    accuracy, baseline = scores["first_letter_accuracy"], counts.max() / counts.sum()
    print(f"accuracy {accuracy:.1%} on held-out pages; the most frequent class {baseline:.1%}")
    return baseline, accuracy


if __name__ == "__main__":
    main()
