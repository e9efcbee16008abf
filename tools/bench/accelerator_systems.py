"""The systems of accelerator.py, written in the usual way of each library.

A system is a function of (`EncoderConfig`, path of the batches) that returns the function to be
measured. This function trains once on every batch and reports the number of tokens without padding,
the last loss, the device and its peak memory. All systems compute in bfloat16 with float32 weights.
They use AdamW, dropout outside the attention, and a global gradient norm of at most 1. Systems
whose name ends with `_forward` only run the encoder on every batch, with bfloat16 weights in
PyTorch.
"""

import numpy as np
from batches import load_batches

_LEARNING_RATE, _WEIGHT_DECAY, _CLIP = 1e-4, 0.01, 1.0


def _load(config, path):
    """Returns (features, labels, weights, real tokens) of the masked LM objective."""
    features, labels, weights, tokens = load_batches(path)
    if features["token_ids"].max() >= config.vocabulary_size:
        raise ValueError("the batches contain ids that are not in the model's vocabulary.")
    features.pop("cls_positions", None)
    return features, labels["masked_lm"], weights["masked_lm"], tokens


# === This package ===


def _create_pretrainer(config):
    from keras_bert_impl import AdamW, Encoder
    from keras_bert_impl.pretraining.pretrainer import Pretrainer

    model = Pretrainer(Encoder(config, dtype="mixed_bfloat16"), ["masked_lm"])
    optimizer = AdamW(_LEARNING_RATE, weight_decay=_WEIGHT_DECAY, global_clipnorm=_CLIP)
    model.compile(optimizer)
    return model


def ours(config, path):
    """`Pretrainer.fit` on JAX."""
    import keras

    features, labels, weights, tokens = _load(config, path)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return len(labels)

        def __getitem__(self, step):
            inputs = {name: array[step] for name, array in features.items()}
            return inputs, {"masked_lm": labels[step]}, {"masked_lm": weights[step]}

    model, data = _create_pretrainer(config), Batches()
    flops = 3 * model.flops(features["token_ids"].shape[-1], weights.sum() / tokens)

    def work():
        loss = model.fit(data, shuffle=False, verbose=0).history["loss"][-1]
        return {"tokens": tokens, "loss": loss, "flops": flops} | _describe_jax_device()

    return work


def ours_forward(config, path):
    """`Encoder` on JAX, compiled."""
    import jax

    from keras_bert_impl import Encoder
    from keras_bert_impl.training.runs.reports import encoder_flops

    features, _, _, tokens = _load(config, path)
    encoder = Encoder(config, dtype="mixed_bfloat16")
    groups = encoder.trainable_variables, encoder.non_trainable_variables
    weights = tuple([variable.value for variable in group] for group in groups)
    batches = [jax.device_put(ids) for ids in features["token_ids"]]
    flops = encoder_flops(config, batches[0].shape[-1])

    @jax.jit
    def states(weights, ids):
        outputs, _ = encoder.stateless_call(*weights, {"token_ids": ids})
        return outputs["sequence_output"]

    def work():
        for ids in batches:
            states(weights, ids).block_until_ready()
        return {"tokens": tokens, "flops": flops} | _describe_jax_device()

    return work


def _describe_jax_device():
    import jax

    device = jax.devices()[0]
    memory = (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
    return {"device": device.device_kind, "memory": memory}


def compiled_step(config, path):
    """Returns (the compiled training step of `ours`, rows of a batch)."""
    import jax

    features, labels, weights, _ = _load(config, path)
    model = _create_pretrainer(config)
    batch = (
        {name: array[0] for name, array in features.items()},
        {"masked_lm": labels[0]},
        {"masked_lm": weights[0]},
    )
    model.optimizer.build(model.trainable_variables)
    model.train_on_batch(*jax.tree.map(lambda array: array[:1], batch))  # creates the metrics
    variables = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in group] for group in variables)
    step = jax.jit(model.train_step, donate_argnums=0)
    return step.lower(state, batch).compile(), labels.shape[1]


# === PyTorch ===


def pytorch(config, path):
    """A plain encoder with scaled dot-product attention and logits only for masked tokens."""
    from accelerator_pytorch import MaskedLM

    features, labels, weights, tokens = _load(config, path)
    names = ("token_ids", "segment_ids", "position_ids", "example_ids", "masked_positions")
    inputs = {name: features[name] for name in names}
    inputs["labels"] = np.where(weights > 0, labels, -100)
    return _train_pytorch(MaskedLM(config), inputs, tokens, lambda loss: loss)


def transformers(config, path):
    """`BertForMaskedLM` or `ModernBertForMaskedLM`; attention crosses the examples in a row."""
    import transformers as library

    features, labels, weights, tokens = _load(config, path)
    per_token = np.full(features["token_ids"].shape, -100)
    slots = np.where(weights > 0, features["masked_positions"], 0)
    np.put_along_axis(per_token, slots, np.where(weights > 0, labels, -100), axis=-1)
    inputs = {
        "input_ids": features["token_ids"],
        "attention_mask": np.minimum(features["example_ids"], 1),
        "labels": per_token,
    }
    model = library.AutoModelForMaskedLM.from_config(_make_transformers_config(config))
    return _train_pytorch(model, inputs, tokens, lambda outputs: outputs.loss)


def transformers_forward(config, path):
    """`BertModel` or `ModernBertModel`, compiled, with CUDA graphs."""
    import torch
    import transformers as library

    features, _, _, tokens = _load(config, path)
    device = _choose_torch_device()
    model = library.AutoModel.from_config(_make_transformers_config(config))
    forward = torch.compile(model.eval().to(device, torch.bfloat16), mode="reduce-overhead")
    batches = torch.from_numpy(features["token_ids"]).long().to(device)

    def work():
        with torch.inference_mode():
            for ids in batches:
                forward(input_ids=ids)
                if device == "cuda":
                    torch.cuda.synchronize()
        return {"tokens": tokens} | _describe_torch_device(device)

    return work


def _make_transformers_config(config):
    import transformers as library

    from keras_bert_impl.checkpoints.interop import huggingface_config

    settings = dict(huggingface_config(config))
    model_type = settings.pop("model_type")
    return library.AutoConfig.for_model(model_type, **settings, attn_implementation="sdpa")


def _train_pytorch(model, inputs, tokens, loss_of):
    import torch

    device = _choose_torch_device()
    torch.set_float32_matmul_precision("high")
    model = model.train().to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY, fused=True
    )
    inputs = {name: torch.from_numpy(array).long().to(device) for name, array in inputs.items()}
    forward = torch.compile(model)

    def work():
        for step in range(len(inputs["labels"])):
            with torch.autocast(device, torch.bfloat16):
                outputs = forward(**{name: tensor[step] for name, tensor in inputs.items()})
                loss = loss_of(outputs)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            optimizer.step()
            optimizer.zero_grad()
        return {"tokens": tokens, "loss": loss.item()} | _describe_torch_device(device)

    return work


def _choose_torch_device():
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _describe_torch_device(device):
    import torch

    if device == "cpu":
        return {"device": "cpu", "memory": 0}
    return {"device": torch.cuda.get_device_name(), "memory": torch.cuda.max_memory_allocated()}
