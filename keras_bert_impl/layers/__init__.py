"""Keras layers of the encoder and its heads, for any Keras backend."""

from keras_bert_impl.layers.adapters import LoRADense, VirtualTokens, is_added
from keras_bert_impl.layers.attention import AttentionBias, SelfAttention
from keras_bert_impl.layers.basic import Dense, Dropout, LayerNormalization, dropout_seed
from keras_bert_impl.layers.bigbird import BigBirdAttention, BlockSparsity, ExampleIds
from keras_bert_impl.layers.block import TransformerBlock
from keras_bert_impl.layers.crf import CRF
from keras_bert_impl.layers.embeddings import Embeddings
from keras_bert_impl.layers.heads import (
    ClassificationHead,
    GatherPositions,
    MaskedLMHead,
    ResidualHead,
)
from keras_bert_impl.layers.longformer import GlobalAttentionBias, LongformerAttention, SegmentMask
from keras_bert_impl.layers.pooling import (
    ChoiceLogits,
    LastPooling,
    LayerMix,
    MaxPooling,
    MeanPooling,
    MeanSqrtPooling,
    MergeGroups,
    Pooler,
    PoolWindows,
    ScalarMix,
    SplitGroups,
    WeightedMeanPooling,
)
from keras_bert_impl.layers.rotary import RotaryPositions
