"""LoRA: fine-tune 1% of the weights.

LoRA adds two rank-4 matrices to each query and value matrix. Only these matrices and the head are
trained. `save_tuned` saves only the trained weights; `transformers` and `peft` load the same
directory.

    python examples/lora.py --model bert-base-uncased
"""

import math
import tempfile
from pathlib import Path

from common import parse_arguments

from keras_bert_impl import Adapter, TextClassifier, save_tuned

COMPLAINTS = "late broken rude dirty wrong missing slow damaged".split()
PRAISE = "early perfect friendly clean right complete fast lovely".split()
FRAMES = ["The parcel was {}.", "What a {} service.", "My order was {}.", "Everything was {}."]
NEW = {"The room was filthy.": "complaint", "A wonderful team!": "praise"}


def main(argv: list[str] | None = None) -> tuple[list[str], float]:
    arguments = parse_arguments(argv, __doc__)
    texts = [frame.format(word) for frame in FRAMES for word in COMPLAINTS + PRAISE]
    labels = (["complaint"] * len(COMPLAINTS) + ["praise"] * len(PRAISE)) * len(FRAMES)
    classifier = TextClassifier.from_pretrained(
        arguments.model,
        labels=["complaint", "praise"],
        pooling="mean",
        adapter=Adapter("lora", size=4),
    )
    classifier.compile(learning_rate=5e-3)
    classifier.fit(texts, labels, epochs=4 if arguments.quick else 10, batch_size=16, verbose=0)

    trained = sum(math.prod(weight.shape) for weight in classifier.trainable_weights)
    share = trained / classifier.count_params()
    print(f"trained {trained:,} of {classifier.count_params():,} weights ({share:.2%})")
    with tempfile.TemporaryDirectory() as folder:
        save_tuned(classifier, folder, base=arguments.model)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.safetensors"))
        print(
            f"saved {size / 1e6:.1f} MB; the whole model has {4e-6 * classifier.count_params():.0f}"
        )
        answers = TextClassifier.from_pretrained(folder).classify(list(NEW))
    for text, answer in zip(NEW, answers, strict=True):
        print(f"{answer:10} {text}")
    return answers, share


if __name__ == "__main__":
    main()
