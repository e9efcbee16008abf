"""Creates the files in tests/fixtures/google: `python tools/make_google_models.py tests/fixtures/google`.

Creates tiny encoders with random weights in every format of the TensorFlow Model Garden, and
records their outputs. It runs in a separate environment, Python 3.11 with tensorflow 2.20, tf-keras
2.20 and tf-models-official 2.20.
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import argparse
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
import yaml
from official.legacy.bert import configs
from official.modeling import tf_utils
from official.nlp.configs import encoders
from official.nlp.modeling import layers, models, networks
from official.nlp.tools import export_tfhub_lib

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmn"]
BERT = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 10,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
}
FEATURES = {
    "input_word_ids": np.array([[2, 7, 9, 3, 12, 3, 0], [2, 18, 3, 5, 6, 8, 3]], "int32"),
    "input_mask": np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]], "int32"),
    "input_type_ids": np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]], "int32"),
}
POSITIONS = {"masked_lm_positions": np.arange(7, dtype="int32")[None].repeat(2, axis=0)}


def add_noise(model: tf_keras.Model, seed: int) -> None:
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(weight + random.normal(0, 0.3, weight.shape).astype("float32"))


def write_expected(directory: Path, outputs: dict) -> None:
    names = ("sequence_output", "pooled_output", "mlm_logits", "next_sentence")
    arrays: dict[str, Any] = {name: np.asarray(outputs[name]) for name in names if name in outputs}
    np.savez_compressed(directory / "expected.npz", **arrays)


def write_config(directory: Path, config: dict) -> None:
    (directory / "bert_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")


def encoder_of(kind: type, config: dict, **settings) -> tf_keras.Model:
    return kind(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        inner_dim=config["intermediate_size"],
        inner_activation=tf_utils.get_activation(config["hidden_act"]),
        max_sequence_length=config["max_position_embeddings"],
        type_vocab_size=config["type_vocab_size"],
        **settings,
    )


def encoder(directory: Path) -> None:
    """Files like the published checkpoints: the first `BertEncoder`, and `bert_config.json`."""
    model = encoder_of(networks.BertEncoder, BERT, dict_outputs=True)
    add_noise(model, 0)
    write_config(directory, BERT)
    tf.train.Checkpoint(encoder=model).write(str(directory / "bert_model.ckpt"))
    write_expected(directory, model(list(FEATURES.values())))


def pretrainer(directory: Path) -> None:
    """Writes the files of a training run: steps, Adam slots, heads, and `params.yaml`."""
    model = models.BertPretrainerV2(
        encoder_of(networks.BertEncoderV2, BERT),
        mlm_activation=tf_utils.get_activation("gelu"),
        classification_heads=[layers.ClassificationHead(12, 2, name="next_sentence")],
    )
    inputs = FEATURES | POSITIONS
    model(inputs)
    optimizer = tf_keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    add_noise(model, 1)
    step = tf.Variable(1, dtype=tf.int64, name="global_step")
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, global_step=step, **model.checkpoint_items
    )
    checkpoint.write(str(directory / "ckpt-1"))
    (directory / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    bert = encoders.BertEncoderConfig(
        vocab_size=BERT["vocab_size"],
        hidden_size=BERT["hidden_size"],
        num_layers=BERT["num_hidden_layers"],
        num_attention_heads=BERT["num_attention_heads"],
        intermediate_size=BERT["intermediate_size"],
        max_position_embeddings=BERT["max_position_embeddings"],
    )
    config = encoders.EncoderConfig(type="bert", bert=bert).as_dict()
    settings = {"task": {"model": {"encoder": config}}}  # a subset of a run's settings
    (directory / "params.yaml").write_text(yaml.safe_dump(settings))
    write_expected(directory, model(inputs))


def saved_model(directory: Path, config: Any, seed: int, with_mlm: bool = True) -> None:
    """Files like on TF Hub. `config` is a legacy `BertConfig` or an `EncoderConfig`."""
    legacy = isinstance(config, configs.BertConfig)
    named = {"bert_config" if legacy else "encoder_config": config, "with_mlm": with_mlm}
    _, whole = export_tfhub_lib._create_model(**named)
    add_noise(whole, seed)
    with tempfile.TemporaryDirectory() as scratch:
        items = whole.checkpoint_items if with_mlm else {"model": whole, "encoder": whole}
        path = tf.train.Checkpoint(**items).save(str(Path(scratch) / "ckpt"))
        vocabulary = Path(scratch) / "vocab.txt"
        vocabulary.write_text("\n".join(VOCABULARY) + "\n")
        export_tfhub_lib.export_model(
            str(directory),
            model_checkpoint_path=path,
            vocab_file=str(vocabulary),
            do_lower_case=True,
            **named,
        )
    (directory / "keras_metadata.pb").unlink()  # large and never read
    features = FEATURES | POSITIONS if with_mlm else list(FEATURES.values())
    write_expected(directory, whole(features))


def albert() -> encoders.EncoderConfig:
    return encoders.EncoderConfig(
        type="albert",
        albert=encoders.AlbertEncoderConfig(
            vocab_size=BERT["vocab_size"],
            embedding_width=8,
            hidden_size=12,
            num_layers=3,
            num_attention_heads=3,
            intermediate_size=20,
            max_position_embeddings=10,
            type_vocab_size=2,
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    folder = parser.parse_args().directory
    forms = {
        "encoder": encoder,
        "pretrainer": pretrainer,
        "hub_bert": lambda directory: saved_model(directory, configs.BertConfig(**BERT), 2),
        "hub_albert": lambda directory: saved_model(directory, albert(), 3),
        # ELECTRA's encoder is a BERT encoder with narrow embeddings.
        "hub_electra": lambda directory: saved_model(
            directory, configs.BertConfig(**BERT, embedding_size=8), 4, with_mlm=False
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in forms.items():
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch) / name
            directory.mkdir()
            write(directory)
            # the functions of a SavedModel take a megabyte and are not needed
            archive = io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w:xz") as packed:
                packed.add(directory, arcname=name)
            (folder / f"{name}.tar.xz").write_bytes(archive.getvalue())


if __name__ == "__main__":
    main()
