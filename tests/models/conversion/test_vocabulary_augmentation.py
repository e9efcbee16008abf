"""Vocabulary augmentation: old ids and weights stay; new rows are means of old ones."""

import numpy as np
import pytest
import safetensors.numpy
import torch
import transformers

from keras_bert_impl import MaskedLM
from keras_bert_impl.cli.main import main
from keras_bert_impl.models.conversion.vocabulary_augmentation import add_tokens, augment_vocabulary
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from tests.checkpoints.interop.parity import random_original

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij"), "bad", "##ed"]
VOCABULARY += [f"[unused{number}]" for number in range(53 - len(VOCABULARY))]
# "faded" occurs twice and has 4 subword tokens (f ##a ##d ##ed), 3 more than one. "bad" is one
# token. "zoo" contains an unknown token.
TEXTS = ["Faded bad bad bad big", "faded zoo zoo zoo big big", "bid faced"]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("theirs")
    random_original(transformers.BertForPreTraining).save_pretrained(directory)
    WordPieceTokenizer(VOCABULARY).save_pretrained(directory)
    return directory


def test_keeps_old_rows_and_averages_new_ones(theirs, tmp_path):
    words, tokens_per_word = augment_vocabulary(theirs, tmp_path / "more", TEXTS, min_frequency=2)
    sizes = [
        len(Tokenizer.from_pretrained(path).tokenize([" ".join(TEXTS)])[0])
        for path in (theirs, tmp_path / "more")
    ]
    assert tokens_per_word == pytest.approx([size / len(" ".join(TEXTS).split()) for size in sizes])
    assert words == ["big", "faded"]  # saves 3 * 2 and 2 * 3 tokens; ties sort alphabetically
    tokenizer = Tokenizer.from_pretrained(tmp_path / "more")
    assert tokenizer.vocabulary == [*VOCABULARY, *words]
    assert tokenizer.tokenize(["faded bad face"]).to_list()[0][:2] == [54, VOCABULARY.index("bad")]
    old, new = (
        safetensors.numpy.load_file(path / "model.safetensors")
        for path in (theirs, tmp_path / "more")
    )
    pieces = [VOCABULARY.index(piece) for piece in ("f", "##a", "##d", "##ed")]
    for name in old:
        if old[name].shape[:1] != (53,):
            assert old[name].tobytes() == new[name].tobytes(), name
            continue
        assert old[name].tobytes() == new[name][:53].tobytes(), name
        # A mean of four float32 values in any order is accurate to two units in the last place.
        expected = old[name][pieces].astype("float64").mean(axis=0)
        np.testing.assert_allclose(new[name][54], expected, rtol=2.4e-7, atol=1e-8)
    again = transformers.BertForPreTraining.from_pretrained(tmp_path / "more")
    assert again.config.vocab_size == 55 and again.cls.predictions.bias.shape == (55,)


def test_added_token_embeddings_are_means_of_subwords(theirs, tmp_path):
    larger = add_tokens(
        theirs, tmp_path / "more", ["[E1]", "bad", {"content": "fade", "lstrip": True}]
    )
    assert larger.vocabulary == [*VOCABULARY, "[E1]", "fade"]  # "bad" already has an id
    assert Tokenizer.from_pretrained(tmp_path / "more").fingerprint == larger.fingerprint
    assert larger.tokenize(["bad  fade"]).to_list() == [[VOCABULARY.index("bad"), 54]]
    old, new = (
        safetensors.numpy.load_file(path / "model.safetensors")
        for path in (theirs, tmp_path / "more")
    )
    name = "bert.embeddings.word_embeddings.weight"
    pieces = [VOCABULARY.index(piece) for piece in ("f", "##a", "##d", "##e")]
    np.testing.assert_array_equal(new[name][:53], old[name])
    np.testing.assert_allclose(new[name][54], old[name][pieces].mean(axis=0), rtol=1e-6, atol=1e-8)
    assert len(transformers.AutoTokenizer.from_pretrained(tmp_path / "more")) == 55
    assert MaskedLM.from_pretrained(tmp_path / "more").encoder.config.vocabulary_size == 55


def test_command_writes_a_trainable_model(theirs, tmp_path, capsys):
    (tmp_path / "domain.txt").write_text("\n".join(TEXTS))
    command = ["vocab", str(tmp_path / "domain.txt"), "--extend", str(theirs), "--add", "1"]
    assert main([*command, "--min-frequency", "2", "--out", str(tmp_path / "more")]) == 0
    assert "added 1 tokens (big" in capsys.readouterr().err
    model = MaskedLM.from_pretrained(tmp_path / "more")
    assert model.encoder.config.vocabulary_size == 54
    assert main([*command, "--min-frequency", "9", "--out", str(tmp_path / "none")]) == 2
    assert "occurs at least 9 times in the texts" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_learns_further_merges(tmp_path):
    """The table has rows for ids that the tokenizer lacks, as in published models."""
    tokenizer = ByteLevelBPETokenizer([*ROBERTA, *byte_characters(), "ba"], [("b", "a")])
    assert tokenizer.vocabulary_size == 262
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    theirs = transformers.RobertaForMaskedLM(transformers.RobertaConfig(vocab_size=264, **sizes))
    torch.nn.init.normal_(theirs.lm_head.bias)
    theirs.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    added, _ = augment_vocabulary(tmp_path / "base", tmp_path / "more", TEXTS, 6, min_frequency=3)
    assert added == ["bi", "Ġz", "Ġba", "Ġbi", "ed", "oo"]
    d, space = (tokenizer.vocabulary.index(piece) for piece in "dĠ")
    ids = [261, d, 264, d, 263, 267]  # ba d Ġba d Ġz oo
    ours = MaskedLM.from_pretrained(tmp_path / "more").tokenizer
    assert ours.tokenize(["bad bad zoo"]).to_list() == [ids]
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "more")
    assert again("bad bad zoo", add_special_tokens=False)["input_ids"] == ids
    again = transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "more")
    for name in ("roberta.embeddings.word_embeddings.weight", "lm_head.bias"):
        old, new = (model.state_dict()[name].numpy() for model in (theirs, again))
        assert len(new) == 268 and old[:262].tobytes() == new[:262].tobytes()
        # A mean of two float32 values: one sum and one halving.
        np.testing.assert_allclose(new[264], old[[space, 261]].mean(axis=0), rtol=1.2e-7)
