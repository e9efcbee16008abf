"""Variable names of encoders in libraries for Keras 2."""

import dataclasses
import re
from collections.abc import Iterable

# In a name, {0} is the 0-based layer number, and {1} the 1-based layer number.
_KERAS_BERT = {
    "embeddings/token_embeddings": "Embedding-Token/embeddings",
    "embeddings/position_embeddings": "Embedding-Position/embeddings",
    "embeddings/segment_embeddings": "Embedding-Segment/embeddings",
    "embeddings/layer_norm": "Embedding-Norm",
    "layer/attention/query/kernel": "Encoder-{1}-MultiHeadSelfAttention_Wq",
    "layer/attention/query/bias": "Encoder-{1}-MultiHeadSelfAttention_bq",
    "layer/attention/key/kernel": "Encoder-{1}-MultiHeadSelfAttention_Wk",
    "layer/attention/key/bias": "Encoder-{1}-MultiHeadSelfAttention_bk",
    "layer/attention/value/kernel": "Encoder-{1}-MultiHeadSelfAttention_Wv",
    "layer/attention/value/bias": "Encoder-{1}-MultiHeadSelfAttention_bv",
    "layer/attention/output/kernel": "Encoder-{1}-MultiHeadSelfAttention_Wo",
    "layer/attention/output/bias": "Encoder-{1}-MultiHeadSelfAttention_bo",
    "layer/attention_layer_norm": "Encoder-{1}-MultiHeadSelfAttention-Norm",
    "layer/intermediate/kernel": "Encoder-{1}-FeedForward_W1",
    "layer/intermediate/bias": "Encoder-{1}-FeedForward_b1",
    "layer/output/kernel": "Encoder-{1}-FeedForward_W2",
    "layer/output/bias": "Encoder-{1}-FeedForward_b2",
    "layer/output_layer_norm": "Encoder-{1}-FeedForward-Norm",
    "pooler/dense": "NSP-Dense",
    "masked_lm/dense": "MLM-Dense",
    "masked_lm/layer_norm": "MLM-Norm",
    "masked_lm/output_bias": "MLM-Sim/bias",
    "next_sentence/dense": "NSP",
}
# Attention and feed-forward layers are numbered in the order of creation.
_BERT4KERAS = {
    "embeddings/token_embeddings": "Embedding-Token/embeddings",
    "embeddings/position_embeddings": "Embedding-Position/embeddings",
    "embeddings/segment_embeddings": "Embedding-Segment/embeddings",
    "embeddings/layer_norm": "Embedding-Norm",
    "embeddings/projection": "Embedding-Mapping",
    "layer/attention/query": "Transformer-{0}-MultiHeadSelfAttention/dense/0",
    "layer/attention/key": "Transformer-{0}-MultiHeadSelfAttention/dense/1",
    "layer/attention/value": "Transformer-{0}-MultiHeadSelfAttention/dense/2",
    "layer/attention/output": "Transformer-{0}-MultiHeadSelfAttention/dense/3",
    "layer/attention_layer_norm": "Transformer-{0}-MultiHeadSelfAttention-Norm",
    "layer/intermediate": "Transformer-{0}-FeedForward/dense/0",
    "layer/output": "Transformer-{0}-FeedForward/dense/1",
    "layer/output_layer_norm": "Transformer-{0}-FeedForward-Norm",
    "pooler/dense": "Pooler-Dense",
    "masked_lm/dense": "MLM-Dense",
    "masked_lm/layer_norm": "MLM-Norm",
    "masked_lm/output_bias": "MLM-Bias/beta",
    "next_sentence/dense": "NSP-Proba",
}
_BERT_FOR_TF2 = {
    "embeddings/token_embeddings": "word_embeddings/embeddings",
    "embeddings/position_embeddings": "position_embeddings/embeddings",
    "embeddings/segment_embeddings": "token_type_embeddings/embeddings",
    "embeddings/projection": "word_embeddings_projector/projector",
    "layer/attention/query": "layer_{0}/attention/self/query",
    "layer/attention/key": "layer_{0}/attention/self/key",
    "layer/attention/value": "layer_{0}/attention/self/value",
    "layer/attention/output": "layer_{0}/attention/output/dense",
    "layer/attention_layer_norm": "layer_{0}/attention/output/LayerNorm",
    "layer/intermediate": "layer_{0}/intermediate",
    "layer/output": "layer_{0}/output/dense",
    "layer/output_layer_norm": "layer_{0}/output/LayerNorm",
}
_MODEL_GARDEN = {
    "embeddings/token_embeddings": "word_embeddings/embeddings",
    "embeddings/position_embeddings": "position_embedding/embeddings",
    "embeddings/segment_embeddings": "type_embeddings/embeddings",
    "embeddings/layer_norm": "embeddings/layer_norm",
    "layer/attention/query": "transformer/layer_{0}/self_attention/query",
    "layer/attention/key": "transformer/layer_{0}/self_attention/key",
    "layer/attention/value": "transformer/layer_{0}/self_attention/value",
    "layer/attention/output": "transformer/layer_{0}/self_attention/attention_output",
    "layer/attention_layer_norm": "transformer/layer_{0}/self_attention_layer_norm",
    "layer/intermediate": "transformer/layer_{0}/intermediate",
    "layer/output": "transformer/layer_{0}/output",
    "layer/output_layer_norm": "transformer/layer_{0}/output_layer_norm",
    "pooler/dense": "pooler_transform",
}


@dataclasses.dataclass(frozen=True)
class Library:
    """Naming scheme of a library.

    Args:
        name: Name of the library.
        place: Part of a variable name that only this library uses.
        names: The library's variable names, keyed by the variable name in this package. In the
            keys, `layer` stands for the path of a block.
        settings: Settings with a fixed value in the library's code, which `bert_config.json` cannot
            change.
    """

    name: str
    place: str
    names: dict[str, str]
    settings: dict[str, float | str]

    def spelling(self, variable: str) -> str | None:
        """Converts a variable name of this package, such as `layer_0/output/kernel`."""
        # In BERT, both heads for sentence pairs use the same tensor.
        variable = variable.replace("sentence_order/", "next_sentence/")
        match = re.match(r"layer_(\d+)/", variable)
        number = int(match[1]) if match else 0
        ours = f"layer/{variable[match.end() :]}" if match else variable
        layer, _, last = ours.rpartition("/")
        if ours in self.names:
            return self.names[ours].format(number, number + 1)
        if layer in self.names:
            return f"{self.names[layer]}/{last}".format(number, number + 1)
        return None


MODEL_GARDEN = "TensorFlow Hub"
_LIBRARIES = (
    Library("keras-bert", "Encoder-1-FeedForward_W1", _KERAS_BERT, {"hidden_act": "gelu_new"}),
    Library("bert4keras", "Transformer-0-FeedForward", _BERT4KERAS, {"layer_norm_eps": 1e-7}),
    Library(
        "bert-for-tf2", "encoder/layer_0/attention/self", _BERT_FOR_TF2, {"hidden_act": "gelu_new"}
    ),
    Library(MODEL_GARDEN, "transformer/layer_0", _MODEL_GARDEN, {"hidden_act": "gelu_new"}),
)


def library_of(stored: Iterable[str]) -> Library | None:
    """Returns the library that uses these variable names, or None if it is unknown."""
    names = "/".join(("", *stored))
    return next((library for library in _LIBRARIES if f"/{library.place}" in names), None)


_NUMBERED = re.compile(r"(.*-(?:MultiHeadSelfAttention|FeedForward)/dense)(?:_(\d{1,9}))?/(.*)")


def with_ranks(stored: Iterable[str]) -> dict[str, str]:
    """Renumbers the sublayers of each layer from 0, as in `dense/0/kernel`.

    bert4keras does not name the `Dense` sublayers of a layer, so Keras numbers the sublayers. Some
    versions of Keras number the sublayers of the whole model consecutively.
    """
    names = {name: _NUMBERED.fullmatch(name) for name in stored}
    numbers: dict[str, set[int]] = {}
    for match in filter(None, names.values()):
        numbers.setdefault(match[1], set()).add(int(match[2] or 0))
    ranks = {place: sorted(layer_numbers) for place, layer_numbers in numbers.items()}
    return {
        name: f"{match[1]}/{ranks[match[1]].index(int(match[2] or 0))}/{match[3]}"
        if match
        else name
        for name, match in names.items()
    }
