"""Creates the early TF Hub models in tests/fixtures/google: `make_google_hub_models.py FOLDER`.

Creates tiny encoders with random weights, using the code of the first models on TF Hub, and records
the outputs. It needs three environments with Python 3.7 and sentencepiece 0.1.99. Each environment
creates different models:

- tensorflow 1.15.5, tensorflow-hub 0.12.0, bert-tensorflow 1.0.1 and albert-tensorflow 1.1: modules
  for TensorFlow 1, like `google/bert_.../1` and `google/albert_.../3`;
- tensorflow 2.1.4, tf-models-official 2.1.0.dev1: `tensorflow/bert_.../1`;
- tensorflow 2.2.3, tf-models-official 2.2.0: `tensorflow/bert_.../2`, `tensorflow/albert_.../1`.
"""

from __future__ import annotations  # for Python 3.7

import argparse
import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece  # must be imported before TensorFlow 1, otherwise the process crashes
import tensorflow as tf

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
ALBERT = dict(BERT, embedding_size=8, num_hidden_groups=1, inner_group_num=1)
IDS = np.array([[2, 7, 9, 3, 12, 3, 0], [2, 18, 3, 5, 6, 8, 3]], "int32")
MASK = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]], "int32")
SEGMENTS = np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]], "int32")
FEATURES = {"input_ids": IDS, "input_mask": MASK, "segment_ids": SEGMENTS}
POSITIONS = np.arange(7, dtype="int32")[None].repeat(2, axis=0)


def noise(shape: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Returns random numbers with few bits, for small compressed files."""
    return random.integers(-24, 25, shape).astype("float32") / 32


def write_assets(directory: Path, config: dict) -> None:
    """Writes the input files of the exporters: vocabulary, configuration, SentencePiece model."""
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (directory / "albert_config.json").write_text(json.dumps(config, indent=2) + "\n")
    if "embedding_size" in config:
        (directory / "30k-clean.model").write_bytes(sentencepiece_model())


def sentencepiece_model() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join("abcdefghij"), "a b c d", "j i h g f e d c b a"]),
        model_writer=model,
        vocab_size=BERT["vocab_size"],
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    return model.getvalue()


def module(directory: Path, modeling: Any, config: dict, seed: int) -> dict[str, np.ndarray]:
    """Writes a TensorFlow 1 module with the signatures of the published modules.

    ALBERT's exporter is `export_to_tfhub.py` of google-research/albert. BERT's exporter is not
    public, but the modules have the same signatures.
    """
    import tensorflow_hub as hub

    assets = Path(tempfile.mkdtemp())
    write_assets(assets, config)
    albert = "embedding_size" in config

    def module_fn(is_training):
        inputs = {name: tf.placeholder(tf.int32, [None, None], name) for name in FEATURES}
        positions = tf.placeholder(tf.int32, [None, None], "mlm_positions")
        kind = modeling.AlbertModel if albert else modeling.BertModel
        settings = modeling.AlbertConfig if albert else modeling.BertConfig
        model = kind(
            config=settings.from_dict(config),
            is_training=is_training,
            input_ids=inputs["input_ids"],
            input_mask=inputs["input_mask"],
            token_type_ids=inputs["segment_ids"],
            use_one_hot_embeddings=False,
        )
        outputs = {
            "sequence_output": model.get_sequence_output(),
            "pooled_output": model.get_pooled_output(),
        }
        logits = masked_lm(modeling, model, config, positions)
        files = ["30k-clean.model", "albert_config.json"] if albert else ["vocab.txt"]
        files = [tf.constant(str(assets / name)) for name in files]
        for file in files:
            tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, file)
        hub.add_signature("tokens", inputs, outputs)
        if albert:
            sop = dict(outputs, sop_log_probs=tf.nn.log_softmax(sentence_order(model, config)))
            hub.add_signature("sop", inputs, sop)
        hub.add_signature(
            "mlm", dict(inputs, mlm_positions=positions), dict(outputs, mlm_logits=logits)
        )
        lower = {"vocab_file": files[0], "do_lower_case": tf.constant(True)}
        hub.add_signature("tokenization_info", {}, lower)

    tags = [({"train"}, {"is_training": True}), (set(), {"is_training": False})]
    spec = hub.create_module_spec(module_fn, tags_and_args=tags)
    random = np.random.default_rng(seed)
    with tf.Graph().as_default(), tf.Session() as session:
        module_fn(False)
        for variable in tf.global_variables():
            variable.load(noise(variable.shape.as_list(), random), session)
        checkpoint = tf.train.Saver().save(session, str(assets / "model.ckpt-best"))
    spec.export(str(directory), checkpoint_path=checkpoint)

    with tf.Graph().as_default(), tf.Session() as session:
        loaded = hub.Module(str(directory))
        outputs = loaded(dict(FEATURES, mlm_positions=POSITIONS), signature="mlm", as_dict=True)
        if albert:
            outputs.update(loaded(FEATURES, signature="sop", as_dict=True))
        session.run(tf.global_variables_initializer())
        return session.run(outputs)


def masked_lm(modeling: Any, model: Any, config: dict, positions: tf.Tensor) -> tf.Tensor:
    """Returns logits at the given positions, with the variables of `run_pretraining.py`."""
    embeddings = model.get_embedding_table()
    states = tf.gather(model.get_sequence_output(), positions, batch_dims=1)
    with tf.variable_scope("cls/predictions"):
        with tf.variable_scope("transform"):
            activation = modeling.get_activation(config["hidden_act"])
            states = tf.layers.dense(states, embeddings.shape[1].value, activation=activation)
            states = modeling.layer_norm(states)
        bias = tf.get_variable("output_bias", [config["vocab_size"]])
        return tf.einsum("bth,vh->btv", states, embeddings) + bias


def sentence_order(model: Any, config: dict) -> tf.Tensor:
    with tf.variable_scope("cls/seq_relationship"):
        weights = tf.get_variable("output_weights", [2, config["hidden_size"]])
        bias = tf.get_variable("output_bias", [2])
        return tf.matmul(model.get_pooled_output(), weights, transpose_b=True) + bias


def module_bert(directory: Path) -> dict[str, np.ndarray]:
    from bert import modeling

    return module(directory, modeling, BERT, 5)


def module_albert(directory: Path) -> dict[str, np.ndarray]:
    from albert import modeling

    return module(directory, modeling, ALBERT, 6)


def inputs() -> list[tf.Tensor]:
    names = ("input_word_ids", "input_mask", "input_type_ids")
    return [tf.keras.layers.Input((None,), dtype=tf.int32, name=name) for name in names]


def saved_model(
    directory: Path, model: tf.keras.Model, config: dict, seed: int
) -> dict[str, np.ndarray]:
    """Writes a TensorFlow 2 SavedModel in the way of that version's `export_tfhub.py`."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(noise(weight.shape, random))
    assets = Path(tempfile.mkdtemp())
    write_assets(assets, config)
    if "embedding_size" in config:
        model.sp_model_file = tf.saved_model.Asset(str(assets / "30k-clean.model"))
    else:
        model.vocab_file = tf.saved_model.Asset(str(assets / "vocab.txt"))
        model.do_lower_case = tf.Variable(True, trainable=False)
    model.save(str(directory), include_optimizer=False, save_format="tf")
    pooled_output, sequence_output = tf.saved_model.load(str(directory))([IDS, MASK, SEGMENTS])
    return {"sequence_output": sequence_output.numpy(), "pooled_output": pooled_output.numpy()}


def hub_bert_1(directory: Path) -> dict[str, np.ndarray]:
    """Version 1: `BertModel`, a layer that contains all other layers."""
    from official.nlp import bert_modeling

    config = bert_modeling.BertConfig.from_dict(BERT)
    model = bert_modeling.get_bert_model(*inputs(), config=config, name="bert_model")
    return saved_model(directory, model, BERT, 7)


def transformer_encoder(config: Any) -> tf.keras.Model:
    """Version 2."""
    from official.nlp.bert import bert_models

    features = inputs()
    encoder = bert_models.get_transformer_encoder(config, sequence_length=None)
    sequence_output, pooled_output = encoder(features)
    return tf.keras.Model(features, [pooled_output, sequence_output])


def hub_bert_2(directory: Path) -> dict[str, np.ndarray]:
    from official.nlp.bert import configs

    model = transformer_encoder(configs.BertConfig.from_dict(BERT))
    return saved_model(directory, model, BERT, 8)


def hub_albert_1(directory: Path) -> dict[str, np.ndarray]:
    from official.nlp.albert import configs

    model = transformer_encoder(configs.AlbertConfig.from_dict(ALBERT))
    return saved_model(directory, model, ALBERT, 9)


FORMS = {
    "1.15": [module_bert, module_albert],
    "2.1": [hub_bert_1],
    "2.2": [hub_bert_2, hub_albert_1],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for form in FORMS[".".join(tf.__version__.split(".")[:2])]:
        name = form.__name__
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch) / name
            expected: dict[str, Any] = form(directory)
            np.savez_compressed(str(Path(scratch) / "expected.npz"), **expected)
            (Path(scratch) / "expected.npz").rename(directory / "expected.npz")
            with tarfile.open(str(folder / (name + ".tar.xz")), "w:xz", preset=9) as packed:
                packed.add(str(directory), arcname=name)


if __name__ == "__main__":
    main()
