"""Files of all kinds and their readers, for `tests.mutated_kinds`.

`READERS` is like `MODEL_READERS`, and has tokenizers, records, runs and labeled data as well.
"""

import json

import numpy as np
import safetensors.numpy

from keras_bert_impl.checkpoints.hub.contents import gather
from keras_bert_impl.checkpoints.interop.source import SafetensorsFile, Shards
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.records import FORMAT_VERSION
from keras_bert_impl.pretraining.masking import dataset
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.tasks.embedding.search import read_places
from keras_bert_impl.tokenizers import WordPieceTokenizer, row_files
from keras_bert_impl.tokenizers.byte_level_bpe import files as bpe_files
from keras_bert_impl.tokenizers.moses import tokenizer as moses_files
from keras_bert_impl.tokenizers.sentencepiece import files as sentencepiece_files
from keras_bert_impl.tokenizers.wordpiece import files as wordpiece_files
from tests.hostile_models import MODEL_READERS, WORDS, plain

WORDPIECE = WordPieceTokenizer(WORDS)

# === Tokenizers ===


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


# === Shards, records, runs and labeled data ===


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


def read_hub(directory):
    paths = {name: directory / name for name in HUB}
    gather(lambda name: paths.get(name), str(directory))


HUB = {
    "config.json": {"model_type": "bert", "registered_name": "x"},
    "modules.json": [{"path": ""}, {"path": "1_Pooling"}],
    "model.safetensors.index.json": {"weight_map": {"a": "config.json.safetensors"}},
    "config.json.safetensors": {},
}

READERS = {
    **MODEL_READERS,
    "WordPiece": (saved_tokenizer, tokenizer_of(wordpiece_files.read)),
    "byte-level BPE": plain(BPE, tokenizer_of(bpe_files.read)),
    "SentencePiece": plain(UNIGRAM, tokenizer_of(sentencepiece_files.read)),
    "FlauBERT": (moses_directory, tokenizer_of(moses_files._read)),
    "shards": (
        shard_directory,
        lambda d: Shards(d / "model.safetensors.index.json", SafetensorsFile),
    ),
    "manifest": (records_directory, read_records),
    "places": plain(
        {"a.jsonl": {"path": "p", "line": 1, "text": "t"}},
        lambda d: read_places(d / "a.npy", [0], 1),
    ),
    "hub": plain(HUB, read_hub),
}


def write(directory, name, data):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
