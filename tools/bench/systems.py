"""A pre-training step written in the usual way of each library, on the same batches.

A system is a function of (`EncoderConfig`, precision, path of the batches) that returns the
function to be measured. This function trains once on every batch and reports the last loss and the
number of tokens without padding. All systems use dropout 0.1, AdamW, and a global gradient norm of
at most 1.
"""

import numpy as np
from batches import load_batches

_LEARNING_RATE, _WEIGHT_DECAY, _CLIP = 1e-4, 0.01, 1.0


def ours(config, precision, path, next_sentence=False, jit_compile=False, replicas=1):
    """`Pretrainer.fit`; in packed rows, attention stays within examples.

    Several replicas are logical devices of this machine's processor under a `MirroredStrategy`.
    """
    import tensorflow as tf

    from keras_bert_impl import Encoder, Pretrainer
    from keras_bert_impl.training.optimizers.adamw import AdamW

    features, labels, weights, tokens = load_batches(path)
    objectives = ["masked_lm", "next_sentence"]
    if not next_sentence:
        objectives.remove("next_sentence")
        del features["cls_positions"], labels["next_sentence"], weights["next_sentence"]
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        devices = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0], devices
        )
        strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])
    with strategy.scope():
        model = Pretrainer(Encoder(config, dtype=_choose_policy(precision)), objectives)
        optimizer = AdamW(_LEARNING_RATE, weight_decay=_WEIGHT_DECAY, global_clipnorm=_CLIP)
        model.compile(optimizer, jit_compile=jit_compile)
    return _fit(model, (features, labels, weights), tokens)


def keras_hub(config, precision, path, jit_compile=False):
    """`BertMaskedLM.fit`, with the defaults of its `compile` except for the optimizer.

    It does not support packed rows: attention crosses examples, at the same cost.
    """
    import keras
    import keras_hub as library

    features, labels, weights, tokens = load_batches(path)
    backbone = library.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
        dropout=config.dropout,
        max_sequence_length=config.max_length,
        num_segments=config.num_segments,
        dtype=_choose_policy(precision),
    )
    model = library.models.BertMaskedLM(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(
        _LEARNING_RATE, weight_decay=_WEIGHT_DECAY, global_clipnorm=_CLIP
    )
    model.compile(optimizer, jit_compile=jit_compile)
    inputs = {
        "token_ids": features["token_ids"],
        "segment_ids": features["segment_ids"],
        "padding_mask": np.minimum(features["example_ids"], 1),
        "mask_positions": features["masked_positions"],
    }
    return _fit(model, (inputs, labels["masked_lm"], weights["masked_lm"]), tokens)


def transformers(config, precision, path, compiled=False):
    """`BertForMaskedLM` with SDPA attention, fused AdamW, and autocast for bfloat16.

    The head computes logits at every position. It has no option to compute them only at masked
    positions.
    """
    import torch
    import transformers as library

    features, labels, weights, tokens = load_batches(path)
    model = library.BertForMaskedLM(
        library.BertConfig(
            vocab_size=config.vocabulary_size,
            hidden_size=config.hidden_dim,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_dim,
            max_position_embeddings=config.max_length,
            attn_implementation="sdpa",
        )
    ).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY, fused=True
    )
    inputs = {
        "input_ids": features["token_ids"],
        "token_type_ids": features["segment_ids"],
        "attention_mask": np.minimum(features["example_ids"], 1),
        "labels": _spread_labels(features, labels, weights),
    }
    inputs = {name: torch.from_numpy(array).long() for name, array in inputs.items()}
    forward = torch.compile(model) if compiled else model

    def work():
        for step in range(len(inputs["input_ids"])):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                loss = forward(**{name: tensor[step] for name, tensor in inputs.items()}).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            optimizer.step()
            optimizer.zero_grad()
        return {"tokens": tokens, "loss": loss.item()}

    return work


SYSTEMS = {
    "ours": ours,
    "ours-xla": lambda *args: ours(*args, jit_compile=True),
    "ours-nsp": lambda *args: ours(*args, next_sentence=True),
    "ours-2-replicas": lambda *args: ours(*args, replicas=2),
    "ours-4-replicas": lambda *args: ours(*args, replicas=4),
    "keras-hub": keras_hub,
    "keras-hub-xla": lambda *args: keras_hub(*args, jit_compile=True),
    "transformers": transformers,
    "transformers-compiled": lambda *args: transformers(*args, compiled=True),
}


def _choose_policy(precision):
    return {"float32": "float32", "bfloat16": "mixed_bfloat16"}[precision]


def _fit(model, batches, tokens):
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(batches).prefetch(1)

    def work():
        history = model.fit(dataset, verbose=0).history
        return {"tokens": tokens, "loss": history["loss"][-1]}

    return work


def _spread_labels(features, labels, weights):
    """Returns int `[steps, batch, length]`, with -100 where nothing is predicted."""
    shape = features["token_ids"].shape
    per_token = np.full(shape, -100)
    used = np.nonzero(weights["masked_lm"])
    per_token[(*used[:2], features["masked_positions"][used])] = labels["masked_lm"][used]
    return per_token
