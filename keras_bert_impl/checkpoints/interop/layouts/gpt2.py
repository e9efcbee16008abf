"""File layout of GPT-2."""

from typing import Any

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.layouts.bert import (
    READ,
    BertLayout,
    Heads,
    TensorName,
    layer_norm,
)
from keras_bert_impl.utils.errors import InputError


class Gpt2Layout(BertLayout):
    """GPT-2: causal, pre-norm, learned positions, no segments, no normalized embeddings."""

    model_type = "gpt2"
    prefix = "transformer"
    token_embeddings = "wte.weight"
    keys = {
        "vocabulary_size": "vocab_size",
        "hidden_dim": "n_embd",
        "num_layers": "n_layer",
        "num_heads": "n_head",
        "intermediate_dim": "n_inner",
        "max_length": "n_positions",
        "activation": "activation_function",
        "dropout": "resid_pdrop",
        "embedding_dropout": "embd_pdrop",
        "attention_dropout": "attn_pdrop",
        "layer_norm_epsilon": "layer_norm_epsilon",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
    }
    read = READ | {"embedding_dropout": READ["dropout"]}
    required = ("vocabulary_size", "hidden_dim", "num_layers", "num_heads")
    silent = {
        "max_length": 1024,
        "num_segments": 0,
        "activation": "gelu_new",
        "dropout": 0.1,
        "embedding_dropout": 0.1,
        "layer_norm_epsilon": 1e-5,
        "use_pooler": False,
        "pre_norm": True,
        "final_norm": True,
        "embedding_norm": False,
        "causal": True,
    }
    fixed = {
        "add_cross_attention": False,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
    }
    classes = {None: "GPT2Model", "left_to_right": "GPT2LMHeadModel"}

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        fields = dict(settings)
        if fields.pop("embedding_dropout") != fields["dropout"]:
            raise InputError("embd_pdrop and resid_pdrop must be equal.")
        fields.setdefault("intermediate_dim", 4 * fields["hidden_dim"])
        # The last token, <|endoftext|>, is also the padding token.
        fields.setdefault("pad_token_id", fields["vocabulary_size"] - 1)
        return fields

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        return super().to_settings(fields | {"embedding_dropout": fields["dropout"]})

    def encoder_tensors(self, config: EncoderConfig) -> list[TensorName]:
        names = [
            TensorName("embeddings/token_embeddings", self.token_embeddings),
            TensorName("embeddings/position_embeddings", "wpe.weight"),
        ]
        for index in range(config.num_layers):
            ours, theirs = f"layer_{index}", f"h.{index}"
            names += layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.ln_1")
            for part, name in enumerate(("query", "key", "value")):
                names += _list_dense(f"{ours}/attention/{name}", f"{theirs}.attn.c_attn", part, 3)
            names += _list_dense(f"{ours}/attention/output", f"{theirs}.attn.c_proj")
            names += layer_norm(f"{ours}/output_layer_norm", f"{theirs}.ln_2")
            names += _list_dense(f"{ours}/intermediate", f"{theirs}.mlp.c_fc")
            names += _list_dense(f"{ours}/output", f"{theirs}.mlp.c_proj")
        return names + layer_norm("final_layer_norm", "ln_f")

    def tied_tensors(self) -> dict[str, str]:
        return {"lm_head.weight": self.token_embeddings}

    def heads(self) -> Heads:
        return {"masked_lm": []}  # The output matrix is the token embeddings, without a bias.


def _list_dense(ours: str, theirs: str, part: int = 0, num_parts: int = 1) -> list[TensorName]:
    """Returns the names of a linear layer whose matrix is not transposed (`Conv1D`)."""
    return [
        TensorName(f"{ours}/kernel", f"{theirs}.weight", part=part, num_parts=num_parts),
        TensorName(f"{ours}/bias", f"{theirs}.bias", part=part, num_parts=num_parts),
    ]
