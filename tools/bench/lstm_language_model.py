#!/usr/bin/env python
"""Pre-trains a bidirectional LSTM language model like ELMo and fine-tunes it on tagging.

    python tools/bench/lstm_language_model.py ABLATION --train F.conllu --dev F.conllu --seed 1

ABLATION is the `--out` of `python -m examples.experiments.ablations --task tagging`. Records, steps,
batches, schedules and settings are equal to the runs of the ablation with the same seed. The LSTMs
and the encoder have equally many weights, within 0.1%.

Source: Peters et al. 2018, "Deep contextualized word representations" (arXiv:1802.05365).
"""

import argparse
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers, ops

from keras_bert_impl import Encoder, EncoderConfig, Tokenizer
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.pretraining import pretraining_dataset
from keras_bert_impl.pretraining.building import make_schedule
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.tasks import TokenClassifier, read_conllu, score_tags
from keras_bert_impl.training.optimizers.adamw import AdamW, default_optimizer
from keras_bert_impl.utils.io.reading import read_yaml


def language_model(vocabulary_size: int, width: int, units: int) -> keras.Model:
    """Returns a model with two LSTM layers per direction, which share embeddings and softmax."""
    inputs = {k: keras.Input((None,), dtype="int32", name=k) for k in ("token_ids", "padding_mask")}
    embedding = layers.ReversibleEmbedding(vocabulary_size, width)
    is_token, states, outputs = ops.not_equal(inputs["padding_mask"], 0), [], {}
    for name, is_backward in (("next", False), ("previous", True)):
        x = embedding(inputs["token_ids"])
        for _ in range(2):
            lstm = layers.LSTM(units, return_sequences=True, go_backwards=is_backward)
            x = lstm(x, mask=is_token)
            x = ops.flip(x, axis=1) if is_backward else x
        states.append(x)
        outputs[name] = embedding(layers.Dense(width)(x), reverse=True)
    return keras.Model(inputs, outputs | {"states": ops.concatenate(states, axis=-1)})


def units_of(width: int, weights: int) -> int:
    """Returns the largest number of units with at most this number of weights."""

    def count(units):
        cells = 4 * units * (width + units + 1) + 4 * units * (2 * units + 1)
        return 2 * (cells + width * (units + 1))

    return max(units for units in range(1, 4096) if count(units) <= weights)


def batch_of(features, labels, weights):
    """Returns the inputs, labels and weights of both directions."""
    ids, has_next = features["token_ids"], weights["left_to_right"]
    inputs = {"token_ids": ids, "padding_mask": tf.cast(features["example_ids"] > 0, tf.int32)}
    back = [[0, 0], [1, 0]]
    labels = {"next": labels["left_to_right"], "previous": tf.pad(ids[:, :-1], back)}
    return inputs, labels, {"next": has_next, "previous": tf.pad(has_next[:, :-1], back)}


def pretrain(recipe: dict, records: Path) -> keras.Model:
    settings = PretrainSettings(**recipe)
    config = EncoderConfig(**settings.model)
    keras.utils.set_random_seed(settings.seed)
    in_blocks = config.num_parameters() - config.vocabulary_size * config.hidden_dim
    units = units_of(config.hidden_dim, in_blocks)
    whole = language_model(config.vocabulary_size, config.hidden_dim, units)
    model = keras.Model(whole.inputs, {name: whole.output[name] for name in ("next", "previous")})
    print(f"{model.count_params():,} weights; the encoder has {config.num_parameters():,}")
    names = ("weight_decay", "beta_2", "epsilon", "global_clipnorm", "bias_correction")
    optimizer = AdamW(make_schedule(settings), **{name: recipe[name] for name in names})
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, dict.fromkeys(model.output, loss), jit_compile=True)
    seed, size = settings.seed, settings.batch_size
    batches = pretraining_dataset(records, size, seed, objectives=["left_to_right"])
    model.fit(batches.map(batch_of), steps_per_epoch=settings.total_steps, verbose=2)
    return whole


def tagger(language_model: keras.Model, tokenizer: Tokenizer, **arguments) -> TokenClassifier:
    """Returns a `TokenClassifier` of the LSTMs' states. Its encoder is not used."""

    class Tagger(TokenClassifier):
        @staticmethod
        def token_vectors(encoder, inputs):
            return language_model({k: inputs[k] for k in language_model.input})["states"]

    unused = Encoder(EncoderConfig(tokenizer.vocabulary_size, 2, 1, 1, 2), trainable=False)
    return Tagger(unused, tokenizer, **arguments)


def finetune(
    language_model: keras.Model,
    train: TaggedExamples,
    dev: TaggedExamples,
    records: Path,
    recipe: dict,
) -> float:
    """Fine-tunes the language model; returns the accuracy on `dev`."""
    keras.utils.set_random_seed(recipe["seed"])
    tokenizer = Tokenizer.from_pretrained(records)
    length = recipe["max_length"] or 128
    classifier = tagger(language_model, tokenizer, labels=train.label_names, max_length=length)
    steps = recipe["epochs"] * classifier.steps_per_epoch(train.texts, recipe["batch_size"])
    optimizer = default_optimizer(steps, recipe["learning_rate"])
    classifier.compile(optimizer, metrics=[], seed=recipe["seed"])
    how = {name: recipe[name] for name in ("batch_size", "epochs")}
    classifier.fit(train.texts, train.labels, verbose=2, **how)
    return score_tags(dev, classifier.tag(dev.texts))["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ablation", type=Path)
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument(
        "--learning-rates",
        nargs="+",
        type=float,
        default=[5e-4, 1e-3, 2e-3, 5e-3, 1e-2],
        help="learning rates of fine-tuning",
    )
    arguments = parser.parse_args()
    records, run = arguments.ablation / "records" / "mlm", f"seed={arguments.seed}"
    recipes = [arguments.ablation / kind / run for kind in ("pretraining", "finetuning")]
    of_pretraining, recipe = (dict(read_yaml(path / "recipe.yaml")) for path in recipes)
    train, dev = read_conllu(arguments.train), read_conllu(arguments.dev)
    pretrained = pretrain(of_pretraining, records)
    weights = pretrained.get_weights()
    for learning_rate in arguments.learning_rates:
        pretrained.set_weights(weights)
        accuracy = finetune(
            pretrained, train, dev, records, recipe | {"learning_rate": learning_rate}
        )
        print(f"{run}, learning rate {learning_rate}: accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
