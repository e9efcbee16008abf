"""A custom head: Keras's functional API on an `Encoder`.

The encoder is a Keras model that takes token ids. This network has two outputs for a ticket: a team
(of three) and an urgency (from 0 to 1). docs/training.md exports such a network with a tokenizer.

    python examples/custom_head.py --model bert-base-uncased
"""

import keras
import numpy as np
from common import parse_arguments

from keras_bert_impl import Encoder, Tokenizer
from keras_bert_impl.layers import MeanPooling

TEAMS = ["access", "billing", "bug"]
TICKETS = {  # text: class index of the team, urgency
    "I forgot my {}, no hurry": (0, 0.0),
    "I am locked out of my {}, please help at once": (0, 1.0),
    "Please send the invoice for the {} some day": (1, 0.0),
    "You charged the {} twice, I need the money today": (1, 1.0),
    "The {} has a wrong color, it can wait": (2, 0.0),
    "The {} crashes and nobody can work": (2, 1.0),
}
THINGS = "account calendar report phone page card order file".split()
NEW = ["Our chart crashes and we need it today", "Send me a receipt some day, it can wait"]


def build(encoder: Encoder) -> keras.Model:
    """Returns a model from token ids and mask to a team and an urgency."""
    names = ("token_ids", "segment_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    states = encoder(inputs)["sequence_output"]  # [batch, length, hidden]
    pooled = MeanPooling()(states, inputs["padding_mask"])  # [batch, hidden]
    outputs = {
        "team": keras.layers.Dense(len(TEAMS), activation="softmax", name="team")(pooled),
        "urgency": keras.layers.Dense(1, activation="sigmoid", name="urgency")(pooled),
    }
    return keras.Model(inputs, outputs)


def main(argv: list[str] | None = None) -> tuple[list[str], np.ndarray]:
    arguments = parse_arguments(argv, __doc__)
    tokenizer = Tokenizer.from_pretrained(arguments.model)
    texts = [text.format(thing) for thing in THINGS for text in TICKETS]
    teams, urgency = np.array(list(TICKETS.values()) * len(THINGS)).T
    model = build(Encoder.from_pretrained(arguments.model, use_pooler=False))
    losses = {"team": "sparse_categorical_crossentropy", "urgency": "binary_crossentropy"}
    model.compile(keras.optimizers.AdamW(2e-4, clipnorm=1.0), loss=losses)
    labels = {"team": teams.astype("int32"), "urgency": urgency[:, None]}
    model.fit(tokenizer(texts), labels, 8, epochs=6 if arguments.quick else 10, verbose=0)
    answers = model.predict(tokenizer(NEW), verbose=0)
    found, urgency = [TEAMS[n] for n in answers["team"].argmax(1)], answers["urgency"][:, 0]
    for text, team, value in zip(NEW, found, urgency, strict=True):
        print(f"{team:8} urgency {value:.2f}  {text}")
    return found, urgency


if __name__ == "__main__":
    main()
