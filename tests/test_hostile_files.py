"""Replaces every value of every external file by junk: readers succeed or raise `InputError`.

The normal run takes a sample; `pytest -m slow tests/test_hostile_files.py` takes all cases.
"""

import collections
import json
import logging
import random
import types
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl import cards, plots
from keras_bert_impl.hub.contents import gather
from keras_bert_impl.interop import huggingface, open_model, peft
from keras_bert_impl.interop.google import settings as google_settings
from keras_bert_impl.interop.keras_hub.names import KINDS, Head, config_of
from keras_bert_impl.interop.keras_hub.preset import _serialized, _weights_files
from keras_bert_impl.interop.opening import base_of
from keras_bert_impl.interop.sentence_transformers import read_sentence_settings
from keras_bert_impl.interop.source import ModelSource, SafetensorsFile, Shards
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import read_json, read_yaml
from keras_bert_impl.pretraining.corpus import readers
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.records import FORMAT_VERSION
from keras_bert_impl.pretraining.masking import dataset
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.tasks import (
    FeatureTagger,
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
    read_squad,
    read_table,
    read_tags,
)
from keras_bert_impl.tasks.embedding.search import read_places
from keras_bert_impl.tasks.multiple_choice.data import read_choices
from keras_bert_impl.tasks.registry import model_class_of
from keras_bert_impl.tokenizers import WordPieceTokenizer, row_files
from keras_bert_impl.tokenizers.byte_level_bpe import files as bpe_files
from keras_bert_impl.tokenizers.moses import tokenizer as moses_files
from keras_bert_impl.tokenizers.sentencepiece import files as sentencepiece_files
from keras_bert_impl.tokenizers.wordpiece import files as wordpiece_files
from keras_bert_impl.training.runs.reports import read_metrics
from keras_bert_impl.training.runs.run_directory import RunDirectory
from tests.mutations import cases, mutated, outcome

SAMPLE = 600  # out of 127,000
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
WORDPIECE = WordPieceTokenizer(WORDS)
TASKS = (
    FeatureTagger,
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)

# === Files and their readers ===

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
    name, arguments = _serialized(directory / "config.json")
    if name in KINDS:
        config = config_of(KINDS[name], arguments, directory / "config.json")
        Head(KINDS[name], config, *_serialized(directory / "task.json"))
    _weights_files(directory)
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


def saved_tokenizer(directory):
    WORDPIECE.save_pretrained(directory)
    names = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    return {name: json.loads((directory / name).read_text()) for name in names}


def added(*tokens):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": n, "content": token, "special": True} | flags for n, token in enumerate(tokens)]


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BPE = {
    "tokenizer.json": {
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate([*ROBERTA, "a", "b", "ab"])},
            "merges": [["a", "b"]],
            "dropout": None,
            "byte_fallback": False,
        },
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "normalizer": None,
        "post_processor": {"type": "RobertaProcessing", "trim_offsets": True},
        "added_tokens": added(*ROBERTA),
    },
    "tokenizer_config.json": {
        "tokenizer_class": "RobertaTokenizer",
        "add_prefix_space": False,
        "mask_token": {"content": "<mask>"},
    },
}
UNIGRAM = {
    "tokenizer.json": {
        "model": {
            "type": "Unigram",
            "unk_id": 3,
            "vocab": [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁a", -1.5]]
            + [["<mask>", 0.0]],
        },
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled"}]},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
            ],
        },
        "added_tokens": added("<s>", "<pad>", "</s>", "<unk>"),
    },
    "tokenizer_config.json": {
        "tokenizer_class": "XLMRobertaTokenizer",
        "additional_special_tokens": ["<x>"],
        "added_tokens_decoder": {"5": {"content": "<mask>", "lstrip": True}},
    },
    "config.json": {"model_type": "xlm-roberta", "vocab_size": 9},
}
SPECIALS = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10))]
FLAUBERT = {
    "vocab.json": {token: number for number, token in enumerate([*SPECIALS, "a</w>"])},
    "tokenizer_config.json": {"tokenizer_class": "FlaubertTokenizer", "do_lowercase": False},
}


def moses_directory(directory):
    (directory / "merges.txt").write_text("a b 1\n")
    return FLAUBERT


def tokenizer_of(reader):
    def read(directory):
        row_files.kind_of(directory)
        reader(directory)

    return read


def shard_directory(directory):
    safetensors.numpy.save_file({"a": np.zeros(2, "float32")}, directory / "one.safetensors")
    return {
        "model.safetensors.index.json": {
            "metadata": {"total_size": 8},
            "weight_map": {"a": "one.safetensors"},
        }
    }


def records_directory(directory):
    splits = {}
    for split in records.SPLITS:
        name = f"{split}.tfrecord.gz"
        (directory / name).write_bytes(b"12345")
        splits[split] = {"shards": [{"file": name, "rows": 1, "bytes": 5, "sha256": "0"}]}
        splits[split] |= {"rows": 1, "tokens": 9, "examples": 2, "pairs_labelled_1": 1}
        splits[split] |= {"examples_in_fullest_row": 2}
    content = {"version": FORMAT_VERSION, "splits": splits}
    content["tokenizer"] = {"fingerprint": "0", "vocabulary_size": 7}
    content["settings"] = {"length": 32, "objective": "mlm_nsp", "max_examples_per_row": 8}
    return {"manifest.json": content}


def read_records(directory):
    manifest = records.read_manifest(directory)
    dataset.checked_objectives(manifest)
    dataset.Batcher(manifest, WORDPIECE, 0, ["masked_lm"], Masking())
    dataset.num_held_out_batches(manifest, 8)


def read_run(directory):
    cards.run_sections(directory)
    run = object.__new__(RunDirectory)  # without starting a run
    run.path, run.data = directory, directory / "data.json"
    run._check_same_data({"train": PART, "dev": PART})


PART = {"source": "s", "examples": 2, "sha256": "0"}
RUN = {"data.json": {"train": PART, "dev": PART}, "scores.json": {"accuracy": 0.5}}
QUESTION = {"id": "1", "question": "who", "answers": [{"text": "Ada", "answer_start": 0}]}
SQUAD = [{"title": "t", "paragraphs": [{"context": "Ada wrote.", "qas": [QUESTION]}]}]


def read_metrics_lines(directory):
    list(read_metrics(directory / "metrics.jsonl", 10))
    plots._read(directory / "metrics.jsonl")


def read_hub(directory):
    paths = {name: directory / name for name in HUB}
    gather(lambda name: paths.get(name), "hub")


HUB = {
    "config.json": {"model_type": "bert", "registered_name": "x"},
    "modules.json": [{"path": ""}, {"path": "1_Pooling"}],
    "model.safetensors.index.json": {"weight_map": {"a": "config.json.safetensors"}},
    "config.json.safetensors": {},
}


def plain(content, read):
    return lambda directory: content, read


ANNOTATIONS = Path(__file__).parent / "data" / "annotations"
EXPORTS = {name: ANNOTATIONS / f"{name}.json" for name in ("label_studio", "spacy", "gliner")}

READERS = {
    **{f"config of {name}": config_directory(content) for name, content in CONFIGS.items()},
    "adapter": plain({"adapter_config.json": ADAPTER}, read_adapter),
    "tuned": plain({"adapter_config.json": ADAPTER, "config.json": TUNED}, read_adapter),
    "sentences": plain(SENTENCES, read_sentence_settings),
    "preset": (preset_directory, read_preset),
    "google": plain({"bert_config.json": SIZES}, read_google),
    "params": plain({"params.yaml": {"task": {"model": PARAMS}}}, read_google),
    "recipe": plain(
        {"recipe.yaml": {"dtype": "x", "a": 1}}, lambda d: read_yaml(d / "recipe.yaml")
    ),
    "WordPiece": (saved_tokenizer, tokenizer_of(wordpiece_files.read)),
    "byte-level BPE": plain(BPE, tokenizer_of(bpe_files.read)),
    "SentencePiece": plain(UNIGRAM, tokenizer_of(sentencepiece_files.read)),
    "FlauBERT": (moses_directory, tokenizer_of(moses_files._read)),
    "shards": (
        shard_directory,
        lambda d: Shards(d / "model.safetensors.index.json", SafetensorsFile),
    ),
    "manifest": (records_directory, read_records),
    "run": plain(RUN, read_run),
    "metrics": plain({"metrics.jsonl": {"step": 1, "loss": 0.5}}, read_metrics_lines),
    "squad": plain({"a.json": {"data": SQUAD}}, lambda d: read_squad(d / "a.json", True)),
    "table": plain(
        {"a.jsonl": {"text": "t", "label": "x"}},
        lambda d: read_table(d / "a.jsonl", "text", label="label", skip_bad_rows=True),
    ),
    "choices": plain(
        {"a.jsonl": {"prompt": "p", "endings": ["a", "b"], "answer": 1}},
        lambda d: read_choices(d / "a.jsonl"),
    ),
    "corpus": plain(
        {"a.jsonl": {"text": "t", "more": {"a": 1}}},
        lambda d: list(readers._read_json_lines(d / "a.jsonl", "text")),
    ),
    "places": plain(
        {"a.jsonl": {"path": "p", "line": 1, "text": "t"}},
        lambda d: read_places(d / "a.npy", [0], 1),
    ),
    "hub": plain(HUB, read_hub),
    **{
        f"tags of {name}": plain(
            {"a.json": json.loads(path.read_text("utf-8"))}, lambda d: read_tags(d / "a.json")
        )
        for name, path in EXPORTS.items()
    },
    "tags of Prodigy": plain(
        {"a.jsonl": json.loads((ANNOTATIONS / "prodigy.jsonl").read_text("utf-8").splitlines()[0])},
        lambda d: read_tags(d / "a.jsonl"),
    ),
}


def write(directory, name, data):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Returns a dict of reader name to (directory, contents of its files, function)."""
    found = {}
    for name, (make, read) in READERS.items():
        directory = tmp_path_factory.mktemp("files")
        contents = make(directory)
        for file, content in contents.items():
            write(directory, file, json.dumps(content).encode())
        found[name] = directory, contents, read
    return found


def run(prepared, name, some):
    """Counts the outcomes for one reader; lists the cases that end in any other error."""
    directory, contents, read = prepared[name]
    counts, bad = collections.Counter(), []
    for file, path, junk in some:
        write(directory, file, mutated(contents[file], path, junk))
        try:
            message = outcome(lambda: read(directory))
            counts["read" if message is None else "refused"] += 1
            if message is not None and (len(message) > 3_000 or "\n" in message):
                bad.append((file, path, repr(junk)[:40], f"message: {message[:200]!r}"))
        except Exception as error:  # any other error is a failure
            bad.append((file, path, repr(junk)[:40], repr(error)[:200]))
        write(directory, file, json.dumps(contents[file]).encode())
    return counts, bad


@pytest.mark.parametrize("name", READERS)
def test_files_as_they_should_be_are_read(prepared, name):
    directory, _, read = prepared[name]
    assert outcome(lambda: read(directory)) is None


def test_a_sample_of_junk_in_files(prepared):
    logging.disable(logging.WARNING)
    every = [(name, case) for name in READERS for case in cases(prepared[name][1])]
    chosen = collections.defaultdict(list)
    for name, case in random.Random(0).sample(every, SAMPLE):
        chosen[name].append(case)
    results = {name: run(prepared, name, some) for name, some in chosen.items()}
    logging.disable(logging.NOTSET)
    assert not [case for _, bad in results.values() for case in bad]
    counts = sum((counts for counts, _ in results.values()), collections.Counter())
    assert min(counts["read"], counts["refused"]) > SAMPLE / 10


@pytest.mark.parametrize(
    "name, case",
    [  # found by the slow test below
        ("byte-level BPE", ("tokenizer.json", ("added_tokens",), [["a", "b"], ["c"]])),
        ("manifest", ("manifest.json", ("settings", "length"), 1)),
        ("FlauBERT", ("tokenizer_config.json", ("extra_special_tokens",), 7)),
    ],
)
def test_junk_that_was_not_refused(prepared, name, case):
    counts, bad = run(prepared, name, [case])
    assert not bad and counts["refused"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_all_junk_in_all_files(prepared, name):
    counts, bad = run(prepared, name, cases(prepared[name][1]))
    print(name, dict(counts), len(bad))
    assert not bad
