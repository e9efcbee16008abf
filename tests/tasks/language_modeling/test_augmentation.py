"""Copies of labeled texts with replaced words, against a direct version of the algorithm."""

import re

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.cli.main import main
from keras_bert_impl.data.batches.words import single_token_words
from keras_bert_impl.tasks import (
    Examples,
    MaskedLM,
    augment,
    read_glue,
    read_table,
    write_examples,
)
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import WORDS, save_masked_lm

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##ly", "##s", ".", "7"]
TEXTS = ["A goodly film.", "the plots is 7 , not very  DULL", "7 .", "zebra " * 20 + "joy"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    return save_masked_lm(path, WordPieceTokenizer(PIECES), max_position_embeddings=16)


@pytest.fixture(scope="module")
def model(directory):
    return MaskedLM.from_pretrained(directory)


def expected_candidates(directory, text, top_k):
    """Returns a dict of word to candidate words, using only `transformers` and numpy."""
    model = transformers.AutoModelForMaskedLM.from_pretrained(directory).eval()
    table = model.get_input_embeddings().weight.detach().numpy()
    whole = [PIECES.index(word) for word in WORDS]
    candidates = {}
    for match in re.finditer(r"\w+|[^\w\s]", text):
        word = match[0]
        ids = [PIECES.index(word.lower())] if word.lower() in PIECES else None
        if word.lower() not in WORDS:
            stem = next((w for w in WORDS if word.lower() in (w + "ly", w + "s")), None)
            if stem:
                mean = table[[PIECES.index(stem), PIECES.index("##" + word[len(stem) :])]].mean(0)
                cosines = table[whole] @ mean / np.linalg.norm(table[whole], axis=1)
                candidates[word] = {WORDS[i] for i in np.argsort(-cosines)[:top_k]}
            continue
        masked = f"{text[: match.start()]} [MASK] {text[match.end() :]}"
        row = transformers.AutoTokenizer.from_pretrained(directory)(masked, return_tensors="pt")
        with torch.no_grad():
            logits = model(**row).logits[0]
        place = row["input_ids"][0].tolist().index(4)
        scores = logits[place].numpy()
        order = [i for i in np.argsort(-scores) if i in whole and i != ids[0]]
        candidates[word] = {PIECES[i] for i in order[:top_k]}
    return candidates


def test_replaces_words_by_predictions_or_neighbors(model, directory):
    examples = Examples(TEXTS[:3], ["a", "b", "c"], lines=[2, 3, 4])
    augmented = augment(model, examples, copies=300, rate=0.9, top_k=3, seed=1)
    rows = [augmented.lines.index(line) for line in (2, 3, 4)]
    assert [augmented.texts[row] for row in rows] == TEXTS[:3]  # each precedes its copies
    assert augmented.labels == [{2: "a", 3: "b", 4: "c"}[line] for line in augmented.lines]
    assert augmented.lines.count(4) == 1  # no word to replace
    for text, line in zip(TEXTS[:2], (2, 3)):
        expected = expected_candidates(directory, text, 3)
        copies = [t for t, of in zip(augmented.texts, augmented.lines) if of == line]
        assert len(set(copies)) == len(copies) > 20
        before = re.findall(r"\w+|\W+", text)
        replacements = {word: set() for word in expected}
        for copy in copies:
            after = re.findall(r"\w+|\W+", copy)
            assert len(after) == len(before)  # keeps spaces and punctuation
            for old_word, new_word in zip(before, after):
                if old_word != new_word:
                    replacements[old_word].add(new_word)
        assert replacements == expected


def test_seed_and_row_determine_the_draws(model):
    examples = Examples(TEXTS, ["a"] * 4)
    first = augment(model, examples, copies=4, top_k=3)
    assert augment(model, examples, copies=4, top_k=3, batch_size=5).texts == first.texts
    assert augment(model, examples, copies=4, top_k=3, seed=1).texts != first.texts
    start = [*first.texts].index(TEXTS[2])
    alone = augment(model, Examples(TEXTS[:2], ["a"] * 2), copies=4, top_k=3)
    assert alone.texts == first.texts[:start]


def test_rate_is_the_share_of_replaced_words(model):
    text = " ".join(["good film"] * 40)
    augmented = augment(model, Examples([text], ["a"]), copies=50, rate=0.4, top_k=15)
    changed = np.mean(
        [
            old_word != new_word
            for copy in augmented.texts[1:]
            for old_word, new_word in zip(text.split(), copy.split(), strict=True)
        ]
    )
    # 4,000 draws: five standard errors are 0.04.
    assert abs(changed - 0.4) < 0.04


def test_command_augments_pairs(model, directory, tmp_path, capsys):
    rows = ["a good film,the plot is dull,x", "very great,not a joy,y"]
    (tmp_path / "train.csv").write_text("\n".join(["one,other,label", *rows]) + "\n")
    columns = {"text": "one", "pair": "other", "label": "label"}
    out = tmp_path / "more.jsonl"
    command = ["augment", "--model", directory, "--train", tmp_path / "train.csv", "--out", out]
    command += [part for name, column in columns.items() for part in (f"--{name}", column)]
    assert main([*map(str, command), "--copies", "3", "--top-k", "4", "--seed", "2"]) == 0
    examples = read_table(tmp_path / "train.csv", **columns)
    expected = augment(model, examples, copies=3, top_k=4, seed=2)
    written = read_table(out, **columns)
    assert written.texts == expected.texts and written.labels == expected.labels
    assert written.texts[0] == ("a good film", "the plot is dull") and len(written) > 4
    assert f"wrote {len(written)} texts, from 2" in capsys.readouterr().err
    command[command.index(out)] = tmp_path / "more.csv"
    assert main([*map(str, command)]) == 2


def test_command_reads_glue(model, directory, tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").write_text("sentence\tlabel\na good film\t1\ndull\t0\n")
    out = tmp_path / "more.jsonl"
    command = ["augment", "--model", directory, "--task", "sst2", "--data", tmp_path, "--out", out]
    assert main([*map(str, command), "--copies", "2", "--top-k", "4"]) == 0
    expected = augment(model, read_glue("sst2", tmp_path, "train"), copies=2, top_k=4)
    written = read_table(out, "text", label="label")
    assert written.texts == expected.texts and len(written) > 2
    assert written.labels == [["negative", "positive"][number] for number in expected.labels]
    (tmp_path / "a.txt").write_text("a B-X\n")
    command = ["augment", "--model", directory, "--task", "tagging", "--train", tmp_path / "a.txt"]
    assert main([*map(str, command), "--out", str(out)]) == 2


def test_multi_label_and_numeric_labels_round_trip(model, tmp_path):
    for labels in ([["x", "y"], []], [0.25, -1.5]):
        examples = Examples(["good", "bad"], labels)
        write_examples(tmp_path / "file.jsonl", examples, "text", label="label")
        separator = "," if isinstance(labels[0], list) else None
        again = read_table(
            tmp_path / "file.jsonl",
            "text",
            label="label",
            numeric=separator is None,
            label_separator=separator,
        )
        assert again.labels == labels


def test_byte_level_bpe_words_begin_with_a_space():
    vocabulary = [*ROBERTA, *byte_characters(), "Ġa", "Ġb", "ab", "Ġab"]
    merges = [("Ġ", "a"), ("Ġ", "b"), ("a", "b"), ("Ġa", "b")]
    words = single_token_words(ByteLevelBPETokenizer(vocabulary, merges))
    assert {vocabulary[i]: word for i, word in words.items()} == {"Ġa": "a", "Ġb": "b", "Ġab": "ab"}


@pytest.mark.parametrize("setting", [{"rate": 0.0}, {"copies": 0}, {"top_k": 0}])
def test_rejects_numbers_out_of_range(model, setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        augment(model, Examples(["good"], ["a"]), **setting)
