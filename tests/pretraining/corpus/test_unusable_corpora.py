"""Corpora and settings that `prepare` rejects or warns about."""

import pytest

from keras_bert_impl.pretraining.corpus import blocks
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.masking.dataset import checked_objectives
from keras_bert_impl.utils.errors import InputError


@pytest.mark.parametrize(
    "text, keywords, message",
    [
        ("aa ab.\nac ad.\n", {}, r"only one distinct document .*corpus.txt:1.*three sentences"),
        ("", {}, "no text"),
        (
            "aa.\n\nab.\n\n",
            {"held_out": 0.001},
            "leaves too few of the 2 documents in the held-out split",
        ),
        ("aa.\n\nab.\n\n", {"objective": "nsp"}, "objective must be one of mlm_nsp, .* got 'nsp'"),
        ("aa.\n\nab.\n\n", {"length": 4}, "length must be an integer, at least 8, got 4"),
        ("aa.\n\nab.\n\n", {"passes": 0}, "passes must be a positive integer, got 0"),
        (
            "aa.\n\nab.\n\n",
            {"num_workers": 0},
            "num_workers must be a positive integer or None, got 0",
        ),
        ("aa.\n\nab.\n\n", {"held_out": 1.0}, r"held_out must be a number in \[0, 1\), got 1.0"),
        (
            "\ufffd\n\ufffd\n\n\ufffd \ufffd\n\n",
            {},
            "no document in the train split has text that the tokenizer can encode",
        ),
        (
            "aa.\n\nab.\n\n",
            {"random_next_share": 0},
            r"random_next_share must be .* \(0, 1\), got 0",
        ),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path, tokenizer, text, keywords, message):
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        prepare(path, tmp_path / "records", tokenizer, **{"num_workers": 1, **keywords})
    assert [entry.name for entry in tmp_path.iterdir()] == ["corpus.txt"]


def test_rejects_text_without_a_token(tmp_path, tokenizer):
    path = tmp_path / "corpus.txt"
    path.write_text("\x01\n\n\x01 \x02\n")
    with pytest.raises(InputError, match="no document in the train split has text"):
        prepare(path, tmp_path / "records", tokenizer, objective="mlm", num_workers=1)
    assert not (tmp_path / "records").exists()


def one_sentence_documents(path, count=30):
    path.write_text("\n\n".join(f"{'abcdefghij'[n % 10]}{'abc'[n % 3]} bb." for n in range(count)))
    return path


def untouched(path):
    return [entry.name for entry in path.iterdir()]


def test_rejects_documents_of_one_sentence_for_next_sentence_prediction(
    tmp_path, tokenizer, monkeypatch
):
    corpus = one_sentence_documents(tmp_path / "corpus.txt")
    built = []
    monkeypatch.setattr(blocks, "build_block", lambda *arguments: built.append(arguments))
    with pytest.raises(
        InputError, match="none of the 30 documents has two sentences.*--objective mlm"
    ):
        prepare(corpus, tmp_path / "records", tokenizer, num_workers=1)
    assert not built and untouched(tmp_path) == ["corpus.txt"]
    monkeypatch.undo()
    for objective in ("mlm", "mlm_sop"):  # single segments; a sentence can be split
        manifest = prepare(
            corpus, tmp_path / objective, tokenizer, objective=objective, num_workers=1
        )
        assert manifest["splits"]["train"]["examples"] == 30


def test_warns_of_few_consecutive_pairs(tmp_path, tokenizer, caplog):
    corpus = one_sentence_documents(tmp_path / "corpus.txt")
    corpus.write_text(corpus.read_text() + "\n\n" + "ac ad.\nae af.\n" * 6)
    manifest = prepare(corpus, tmp_path / "records", tokenizer, length=16, num_workers=1)
    train = manifest["splits"]["train"]
    true = train["examples"] - train["pairs_labelled_1"]
    assert 0 < true < 0.2 * train["examples"]
    assert f"only {100 * true / train['examples']:.1f}% of the pairs are consecutive" in caplog.text


def test_rejects_sentences_as_long_as_a_row(tmp_path, tokenizer):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(
        "\n\n".join(
            f"{word} " * 20 + "\n" + f"{word} bb " * 10 for word in ("aa", "ab", "ac", "ad", "ae")
        )
    )
    with pytest.raises(
        InputError, match="segment pairs of the train split are random.*short sentences"
    ):
        prepare(
            corpus,
            tmp_path / "records",
            tokenizer,
            length=16,
            num_workers=1,
            short_sequence_probability=0,
        )
    assert untouched(tmp_path) == ["corpus.txt"]


def test_rejects_records_with_constant_labels(records_directory):
    manifest = records.read_manifest(records_directory)
    train = manifest["splits"]["train"]
    train["pairs_labelled_1"] = train["examples"]
    with pytest.raises(InputError, match="segment pairs of the train split are random"):
        checked_objectives(manifest)
    assert checked_objectives(manifest, ["masked_lm"]) == ("masked_lm",)


def test_rejects_an_empty_held_out_split_before_building(
    tmp_path, write_corpus, tokenizer, monkeypatch
):
    corpus = write_corpus(tmp_path / "corpus.txt", 25)
    monkeypatch.setattr(blocks, "build_block", None)
    with pytest.raises(
        InputError, match="held_out=0.01 leaves too few of the 25 documents in the held-out split"
    ):
        prepare(corpus, tmp_path / "records", tokenizer, held_out=0.01, objective="mlm")
    with pytest.raises(
        InputError, match="held_out=0.99 leaves too few of the 25 documents in the train split"
    ):
        prepare(corpus, tmp_path / "records", tokenizer, held_out=0.99)
    assert untouched(tmp_path) == ["corpus.txt"]
    monkeypatch.undo()
    manifest = prepare(
        corpus, tmp_path / "records", tokenizer, held_out=0.05, objective="mlm", num_workers=1
    )
    assert manifest["splits"]["held_out"]["documents"] == 1
