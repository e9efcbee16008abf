"""Files of models and their readers, for `tests.mutated_kinds`: settings, adapters, presets.

`MODEL_READERS` maps a name to (function of a folder that returns the contents of the files to
change, function that reads the folder).
"""

import types

import numpy as np
import safetensors.numpy

from keras_bert_impl.checkpoints.interop import huggingface, open_model, peft
from keras_bert_impl.checkpoints.interop.google import settings as google_settings
from keras_bert_impl.checkpoints.interop.keras_hub.names import KINDS, Head, config_of
from keras_bert_impl.checkpoints.interop.keras_hub.preset import _read_class, _resolve_weights
from keras_bert_impl.checkpoints.interop.opening import base_of
from keras_bert_impl.checkpoints.interop.sentence_transformers import read_sentence_settings
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.tasks import (
    FeatureTagger,
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.tasks.registry import model_class_of
from keras_bert_impl.tokenizers import row_files
from keras_bert_impl.tokenizers.wordpiece import files as wordpiece_files
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
TASKS = (
    FeatureTagger,
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)

SIZES = {"vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 16, "max_position_embeddings": 32, "hidden_dropout_prob": 0.1}
LABELS = {"id2label": {"0": "ham", "1": "spam"}, "label2id": {"ham": 0, "spam": 1}}
HEAD = LABELS | {"problem_type": "single_label_classification"}
OWN = {"keras_bert_impl": {"model_class": "TextClassifier", "max_length": 16}}
CONFIGS = {
    "bert": SIZES
    | HEAD
    | OWN
    | {"model_type": "bert", "hidden_act": "gelu", "is_decoder": False, "pad_token_id": 0}
    | {"architectures": ["BertForSequenceClassification"], "classifier_dropout": 0.1},
    "roberta": SIZES
    | HEAD
    | {"model_type": "roberta", "pad_token_id": 1, "layer_norm_eps": 1e-5, "num_labels": 2}
    | {"architectures": ["RobertaForTokenClassification"], "type_vocab_size": 1},
    "albert": SIZES
    | {"model_type": "albert", "num_hidden_groups": 1, "inner_group_num": 1, "embedding_size": 4}
    | {"architectures": ["AlbertForMultipleChoice"], "classifier_dropout_prob": 0.1},
    "distilbert": {
        "model_type": "distilbert",
        "vocab_size": 7,
        "dim": 8,
        "n_layers": 2,
        "n_heads": 2,
    }
    | {"hidden_dim": 16, "architectures": ["DistilBertForQuestionAnswering"], "dropout": 0.1}
    | {"seq_classif_dropout": 0.2, "qa_dropout": 0.1, "activation": "gelu"},
    "electra": SIZES | {"model_type": "electra", "embedding_size": 8} | LABELS,
    "flaubert": {"model_type": "flaubert", "vocab_size": 7, "emb_dim": 8, "n_layers": 2}
    | {"n_heads": 2, "gelu_activation": True, "pre_norm": False, "asm": False, "init_std": 0.02},
    "modernbert": SIZES
    | {"model_type": "modernbert", "hidden_activation": "gelu", "classifier_pooling": "mean"}
    | {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e5}}}
    | {
        "layer_types": ["full_attention", "sliding_attention"],
        "local_attention": 8,
        "pad_token_id": 0,
    },
    "embedder": SIZES
    | {
        "keras_bert_impl": {
            "model_class": "TextEmbedder",
            "layer_weights": [0.5, 0.5],
            "scale": 2.0,
        }
    }
    | {"model_type": "bert", "hidden_act": "gelu_python"},
    "tagger": SIZES
    | LABELS
    | {"keras_bert_impl": {"lstm_dim": 8, "features": "mix", "crf": True, "doc_stride": 4}}
    | {"model_type": "bert"},
    "answerer": SIZES
    | {"keras_bert_impl": {"null_threshold": -1.5, "num_best": 3, "head_dropout": 0.1}}
    | {"architectures": ["BertForQuestionAnswering"]},
}


def read_config(directory):
    source = open_model(directory)
    config = huggingface.read_encoder_config(source)
    for task in TASKS:
        try:
            task.pretrained_arguments(source, config, task.saved_settings(source, {}))
        except InputError as error:
            if "pass num_classes" not in str(error):
                raise
    try:
        model_class_of(directory)
    except InputError as error:
        if "is not a fine-tuned model" not in str(error):
            raise


def config_directory(content):
    def make(directory):
        names = [f"tensor_{number}" for number in range(40)]
        names += ["classifier.bias", "feature_tagger.classifier.dense.bias"]
        tensors = {name: np.zeros(2, "float32") for name in names}
        safetensors.numpy.save_file(tensors, directory / "model.safetensors")
        return {"config.json": content}

    return make, read_config


ADAPTER = {"peft_type": "LORA", "task_type": "SEQ_CLS", "base_model_name_or_path": "base", "r": 2}
ADAPTER |= {
    "lora_alpha": 4,
    "lora_dropout": 0.1,
    "bias": "none",
    "use_rslora": False,
    "use_dora": False,
}
ADAPTER |= {"target_modules": ["query"], "rank_pattern": {"layer.1.attention.self.query": 2}}
ADAPTER |= {
    "alpha_pattern": {"query": 3.0},
    "modules_to_save": ["classifier"],
    "fan_in_fan_out": False,
}
TUNED = CONFIGS["bert"] | {
    "keras_bert_impl": {
        "base": {"name": "base", "sha256": "0"},
        "adapter": {
            "kind": "lora",
            "size": 2,
            "alpha": 4.0,
            "dropout": 0.1,
            "projections": ["query"],
        },
    }
}


def read_adapter(directory):
    base_of(directory)
    config = huggingface.encoder_config(SIZES)
    matrix = np.zeros((2, 8), "float32")
    name = "base_model.model.bert.encoder.layer.{}.attention.self.query.lora_{}.weight"
    tensors = {name.format(n, m): matrix if m == "A" else matrix.T for n in (0, 1) for m in "AB"}
    base = ModelSource(directory, SIZES, types.SimpleNamespace(path=directory, header={}))
    peft.from_peft(config, read_json(directory / "adapter_config.json"), tensors, base)


SENTENCES = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling",
        },
        {"idx": 2, "name": "2", "path": "2_N", "type": "sentence_transformers.models.Normalize"},
    ],
    "1_Pooling/config.json": {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True},
    "sentence_bert_config.json": {"max_seq_length": None, "do_lower_case": False},
    "config_sentence_transformers.json": {"default_prompt_name": None, "prompts": {}},
    "tokenizer_config.json": {"model_max_length": 16},
}
BACKBONE = {"vocabulary_size": 7, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "dropout": 0.1}
BACKBONE |= {"intermediate_dim": 16, "max_sequence_length": 32, "num_segments": 2, "name": "bert"}
PRESET = {
    "config.json": {"registered_name": "keras_hub>BertBackbone", "config": BACKBONE},
    "task.json": {
        "registered_name": "keras_hub>BertTextClassifier",
        "config": {"num_classes": 2, "dropout": 0.1, "activation": None, "hidden_dim": 8},
    },
    "model.weights.json": {
        "weight_map": {"a": "model_00000.weights.h5", "b": ["model_00000.weights.h5"]}
    },
    "tokenizer.json": {
        "registered_name": "keras_hub>BertTokenizer",
        "config": {"lowercase": True, "strip_accents": True, "special_tokens": []},
    },
}


def read_preset(directory):
    name, arguments = _read_class(directory / "config.json")
    if name in KINDS:
        config = config_of(KINDS[name], arguments, directory / "config.json")
        Head(KINDS[name], config, *_read_class(directory / "task.json"))
    _resolve_weights(directory)
    row_files.kind_of(directory)
    wordpiece_files.read(directory)


def preset_directory(directory):
    (directory / "model_00000.weights.h5").touch()
    (directory / "assets" / "tokenizer").mkdir(parents=True)
    (directory / "assets" / "tokenizer" / "vocabulary.txt").write_text("\n".join(WORDS))
    return PRESET


def read_google(directory):
    file, stated = google_settings.read_settings(directory)
    huggingface.encoder_config(SIZES | stated, file)


PARAMS = {
    "encoder": {"type": "bert", "bert": {"num_layers": 2, "dropout_rate": 0.1, "norm_first": False}}
}


def plain(content, read):
    return lambda directory: content, read


MODEL_READERS = {
    **{f"config of {name}": config_directory(content) for name, content in CONFIGS.items()},
    "adapter": plain({"adapter_config.json": ADAPTER}, read_adapter),
    "tuned": plain({"adapter_config.json": ADAPTER, "config.json": TUNED}, read_adapter),
    "sentences": plain(SENTENCES, read_sentence_settings),
    "preset": (preset_directory, read_preset),
    "google": plain({"bert_config.json": SIZES}, read_google),
    "params": plain({"params.yaml": {"task": {"model": PARAMS}}}, read_google),
}
