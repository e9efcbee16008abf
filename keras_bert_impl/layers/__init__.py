"""Keras layers of the encoder and its heads, on any Keras backend."""

from keras_bert_impl.layers.adapters import LoRADense, VirtualTokens, is_added
from keras_bert_impl.layers.attention import AttentionBias, SelfAttention
from keras_bert_impl.layers.block import TransformerBlock
from keras_bert_impl.layers.crf import CRF
from keras_bert_impl.layers.dense import Dense
from keras_bert_impl.layers.dropout import Dropout, dropout_seed
from keras_bert_impl.layers.embeddings import Embeddings
from keras_bert_impl.layers.groups import ChoiceLogits, MergeGroups, SplitGroups
from keras_bert_impl.layers.heads import ClassificationHead, GatherPositions, MaskedLMHead
from keras_bert_impl.layers.longformer.attention import LongformerAttention
from keras_bert_impl.layers.longformer.bias import GlobalAttentionBias
from keras_bert_impl.layers.longformer.segment_mask import SegmentMask
from keras_bert_impl.layers.normalization import LayerNormalization
from keras_bert_impl.layers.pooling.tokens import (
    LastPooling,
    LayerMix,
    MaxPooling,
    MeanPooling,
    MeanSqrtPooling,
    Pooler,
    ScalarMix,
    WeightedMeanPooling,
)
from keras_bert_impl.layers.pooling.windows import PoolWindows
from keras_bert_impl.layers.rotary import RotaryPositions
