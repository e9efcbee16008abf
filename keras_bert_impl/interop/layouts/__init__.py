"""File layouts of all architectures, by the `model_type` in `config.json`."""

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.layouts.albert import AlbertLayout
from keras_bert_impl.interop.layouts.bert import BertLayout, ElectraLayout, RobertaLayout
from keras_bert_impl.interop.layouts.distilbert import DistilBertLayout
from keras_bert_impl.interop.layouts.flaubert import FlaubertLayout
from keras_bert_impl.interop.layouts.longformer import LongformerLayout
from keras_bert_impl.interop.layouts.modernbert import ModernBertDecoderLayout, ModernBertLayout
from keras_bert_impl.interop.layouts.names import dense, two_layers

_LAYOUTS: tuple[BertLayout, ...] = (
    BertLayout(),
    RobertaLayout("roberta", "Roberta"),
    RobertaLayout("xlm-roberta", "XLMRoberta"),
    RobertaLayout("camembert", "Camembert"),
    AlbertLayout(),
    DistilBertLayout(),
    ElectraLayout(),
    FlaubertLayout(),
    ModernBertLayout(),
    ModernBertDecoderLayout(),
    LongformerLayout(),
)
LAYOUTS = {layout.model_type: layout for layout in _LAYOUTS}

# Pre-training heads of architectures whose published files have no names for them. `transformers`
# ignores tensors with these names.
OWN_HEADS = {
    "next_sentence": dense("next_sentence/dense", "next_sentence.dense"),
    "sentence_order": dense("sentence_order/dense", "sentence_order.dense"),
    "replaced_token": two_layers(
        "replaced_token", "replaced_token.transform", "replaced_token.dense"
    ),
}


def layout_of(config: EncoderConfig) -> BertLayout:
    """Returns the file layout of an encoder."""
    causal = LAYOUTS.get(f"{config.architecture}-decoder") if config.causal else None
    return causal or LAYOUTS[config.architecture]
