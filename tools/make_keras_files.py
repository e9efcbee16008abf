"""Writes small random models in the formats of Keras 2 libraries, together with their outputs.

`LIBRARY` is the name of a function below. Each function needs an environment with the library:

    python3.11 -m venv keras2
    keras2/bin/pip install "tensorflow-cpu==2.15.1" "transformers==4.37.2" tensorflow-hub \
        "setuptools<70" wheel
    keras2/bin/pip install --no-build-isolation --no-deps LIBRARY
    keras2/bin/python tools/make_keras_files.py FOLDER LIBRARY ...

bert4keras needs TensorFlow 2.12, and DeLFT 0.3.4 needs `tensorflow_addons==0.23.0`. In bert-for-tf2
and params-flow, first replace `tensorflow.python.keras` with `tensorflow.keras`. Each model has a
folder `FOLDER/LIBRARY-FORM` with `expected.npz`: token ids padded with 0, and
`out_last_hidden_state`.
"""

import json
import os
import sys
import tarfile
from pathlib import Path

os.environ |= {"TF_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}

import numpy as np
import tensorflow as tf

keras = tf.keras
LENGTH, LENGTHS = 10, (7, 10, 5, 9)
CONFIG = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}


def features() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns token ids, mask and segments, `[batch, length]`."""
    place, lengths = np.arange(LENGTH)[None], np.array(LENGTHS)[:, None]
    mask = (place < lengths).astype("int32")
    ids = np.random.default_rng(0).integers(4, 19, mask.shape) * mask
    return ids.astype("int32"), mask, (place >= lengths // 2).astype("int32") * mask


IDS, MASK, SEGMENTS = features()


def write(name: str, save: object, states: object, config: str | None, segments: bool = True):
    """Writes a file with `save`, a configuration and the expected states."""
    path = FOLDER / name
    path.mkdir(parents=True, exist_ok=True)
    save(path)
    if config is not None:
        (path / config).write_text(json.dumps(CONFIG))
    type_ids = {"token_type_ids": SEGMENTS} if segments else {}
    expected = {"input_ids": IDS, "attention_mask": MASK, **type_ids}
    np.savez(path / "expected.npz", **expected, out_last_hidden_state=np.asarray(states))
    print(name, *sorted(file.name for file in path.iterdir()), flush=True)


def with_noise(model: object) -> None:
    """Adds noise to all weights, because biases of 0 and scales of 1 can hide errors."""
    random = np.random.default_rng(1)
    for weight in model.weights:
        if weight.dtype.is_floating:
            weight.assign_add(0.2 * random.standard_normal(weight.shape).astype("float32"))


def keras_bert() -> None:
    """Whole models and weights, with the heads for pre-training."""
    from keras_bert import get_model

    model = get_model(
        token_num=40,
        head_num=2,
        transformer_num=2,
        embed_dim=8,
        feed_forward_dim=16,
        seq_len=LENGTH,
        pos_num=24,
    )
    with_noise(model)
    last = model.get_layer("Encoder-2-FeedForward-Norm").output
    states = keras.Model(model.inputs[:2], last).predict([IDS, SEGMENTS], verbose=0)
    write(
        "keras_bert-weights", lambda p: model.save_weights(p / "w.h5"), states, "bert_config.json"
    )
    write("keras_bert-whole", lambda p: model.save(p / "tf_model.h5"), states, None)


def bert4keras() -> None:
    """Whole models, weights and checkpoints, with the heads for pre-training."""
    from bert4keras.models import build_transformer_model

    config = FOLDER / "config.json"
    config.write_text(json.dumps(CONFIG))
    model = build_transformer_model(str(config), None, "bert", with_nsp=True, with_mlm=True)
    config.unlink()
    with_noise(model)
    last = model.get_layer("Transformer-1-FeedForward-Norm").output
    states = keras.Model(model.inputs, last).predict([IDS, SEGMENTS], verbose=0)
    for form, file in {"weights": "w.h5", "checkpoint": "best.weights"}.items():
        save = lambda p: model.save_weights(str(p / file))  # noqa: E731, B023
        write(f"bert4keras-{form}", save, states, "bert_config.json")
    write("bert4keras-whole", lambda p: model.save(p / "model.h5"), states, None)


def bert_for_tf2() -> None:
    """Weights and checkpoints of a classifier, with and without segments."""
    import bert

    settings = dict(
        vocab_size=40,
        token_type_vocab_size=2,
        num_layers=2,
        hidden_size=8,
        intermediate_size=16,
        num_heads=2,
        max_position_embeddings=24,
        intermediate_activation="gelu",
        mask_zero=True,
    )
    for segments in (True, False):
        layer = bert.BertModelLayer.from_params(bert.BertModelLayer.Params(**settings), name="bert")
        inputs = [keras.Input((LENGTH,), dtype="int32") for _ in range(1 + segments)]
        states = layer(inputs if segments else inputs[0])
        output = keras.layers.Dense(3, name="mine")(states[:, 0])
        model = keras.Model(inputs, output)
        with_noise(model)
        values = [IDS, SEGMENTS] if segments else [IDS]
        states = keras.Model(inputs, states).predict(values, verbose=0)
        name = "bert_for_tf2" + ("" if segments else "-without_segments")
        config = "bert_config.json"
        save = lambda p: model.save_weights(str(p / "w.h5"))  # noqa: E731, B023
        write(f"{name}-weights", save, states, config, segments)
        if segments:
            save = lambda p: model.save_weights(str(p / "cp.ckpt"))  # noqa: E731, B023
            write(f"{name}-checkpoint", save, states, config)
            write(f"{name}-whole", lambda p: model.save(p / "model.h5"), states, None)  # noqa: B023


def notebook() -> None:
    """A functional model around `TFBertModel`, as in many notebooks, in every file format."""
    from transformers import BertConfig, TFBertModel

    encoder = TFBertModel(BertConfig(**CONFIG))
    inputs = [keras.Input((LENGTH,), dtype="int32", name=n) for n in ("ids", "mask", "segments")]
    sequence = encoder(inputs[0], attention_mask=inputs[1], token_type_ids=inputs[2])[0]
    hidden = keras.layers.Dropout(0.1)(keras.layers.GlobalAveragePooling1D()(sequence))
    hidden = keras.layers.Dense(6, activation="relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid", name="out")(hidden))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    values = [IDS, MASK, SEGMENTS]
    model.fit(values, np.ones(4), verbose=0)
    with_noise(model)
    states = keras.Model(inputs, sequence).predict(values, verbose=0)
    forms = {
        "weights": (lambda p: model.save_weights(p / "model_fold0.h5"), "config.json"),
        "weights_v3": (lambda p: model.save_weights(p / "model.weights.h5"), "config.json"),
        "checkpoint": (lambda p: model.save_weights(p / "cp-0001.ckpt"), "config.json"),
        "saved_model": (lambda p: model.save(p, save_format="tf"), "config.json"),
        "whole": (lambda p: model.save(p / "model.h5"), None),
        "keras": (lambda p: model.save(p / "model.keras"), None),
    }
    for form, (save, config) in forms.items():
        if form == "keras":
            model.compile("sgd", "binary_crossentropy")  # without the moments of Adam
        write(f"notebook-{form}", save, states, config)


def delft() -> None:
    """Weights of DeLFT's BERT with a CRF, which is a model inside a wrapper."""
    from delft.utilities.crf_wrapper_for_bert import CRFModelWrapperForBERT
    from transformers import BertConfig, TFBertModel

    names = ("input_token", "input_token_type", "input_attention_mask")
    inputs = [keras.Input((None,), dtype="int32", name=name) for name in names]
    encoder = TFBertModel(BertConfig(**CONFIG))
    sequence = encoder(inputs[0], token_type_ids=inputs[1], attention_mask=inputs[2])[0]
    base = keras.Model(inputs, [keras.layers.Dropout(0.1)(sequence)])
    model = CRFModelWrapperForBERT(base, 5)
    model.build(input_shape=3 * [(None, None)])
    with_noise(model)
    states = base.predict([IDS, SEGMENTS, MASK], verbose=0)
    save = lambda p: model.save_weights(p / "model_weights.hdf5")  # noqa: E731
    write("delft-weights", save, states, "config.json")


def hub_layer() -> None:
    """A functional model around `hub.KerasLayer` with the module in `tests/fixtures/google`."""
    import tensorflow_hub as hub

    archive = Path(__file__).parents[1] / "tests/fixtures/google/hub_bert.tar.xz"
    with tarfile.open(archive) as file:
        file.extractall(FOLDER / "module", filter="data")
    (module,) = (path.parent for path in FOLDER.glob("module/**/saved_model.pb"))
    inputs = [keras.Input((LENGTH,), dtype="int32", name=n) for n in ("ids", "mask", "segments")]
    names = ("input_word_ids", "input_mask", "input_type_ids")
    layer = hub.KerasLayer(str(module), trainable=True)
    outputs = layer(dict(zip(names, inputs)))
    output = keras.layers.Dense(3)(outputs["pooled_output"])
    model = keras.Model(inputs, output)
    with_noise(model)
    states = keras.Model(inputs, outputs["sequence_output"]).predict([IDS, MASK, SEGMENTS])
    write("hub_layer-weights", lambda p: model.save_weights(p / "w.h5"), states, None)
    sizes = {"vocab_size": 19, "hidden_size": 12, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 20, "max_position_embeddings": 10}
    (FOLDER / "hub_layer-weights" / "bert_config.json").write_text(json.dumps(CONFIG | sizes))


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    FOLDER.mkdir(parents=True, exist_ok=True)
    for library in sys.argv[2:]:
        globals()[library]()
