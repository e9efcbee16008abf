"""`keras-bert vocab`."""

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.tokenizers import Tokenizer
from tests.tasks.helpers import save_base

TEXT = "The boat sails on the sea.\nThe sailors sail the boat.\n\nA boat is on the sea.\n"


def test_writes_the_vocabulary_that_the_library_learns(tmp_path, capsys):
    from keras_bert_impl.tokenizers import learn_wordpiece_vocabulary

    text = tmp_path / "corpus.txt"
    text.write_text(TEXT)
    out = tmp_path / "tokenizer"
    assert main(["vocab", str(text), "--out", str(out), "--size", "60"]) == 0
    pieces = (out / "vocab.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in TEXT.splitlines() if line]
    assert pieces == learn_wordpiece_vocabulary(lines, vocabulary_size=60)
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] and "boat" in pieces
    assert f"wrote {len(pieces):,} tokens" in capsys.readouterr().err


@pytest.mark.parametrize("options, is_said", [([], True), (["--cased"], False)])
def test_removed_accents_are_counted(tmp_path, capsys, options, is_said):
    text = tmp_path / "corpus.txt"
    text.write_text(TEXT + "\nÇa va à Orléans, là, là.\n", encoding="utf-8")
    out = tmp_path / "tokenizer"
    assert main(["vocab", str(text), "--out", str(out), "--size", "99", *options]) == 0
    line = "removed the accents of 5 characters, such as à, Ç, é; --cased keeps accents"
    assert (line in capsys.readouterr().err) == is_said


def test_cased(tmp_path):
    text = tmp_path / "corpus.txt"
    text.write_text(TEXT)
    out = tmp_path / "tokenizer"
    assert main(["vocab", str(text), "--out", str(out), "--size", "70", "--cased"]) == 0
    assert "The" in (out / "vocab.txt").read_text().splitlines()
    assert Tokenizer.from_pretrained(out).lowercase is False


def test_bad_input_writes_nothing(tmp_path, capsys):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    out = tmp_path / "tokenizer"
    for arguments, message in (
        ([str(empty), "--out", str(out)], "no text found"),
        ([str(tmp_path / "gone"), "--out", str(out)], "gone does not exist"),
        ([str(empty), "--out", str(out), "--size", "0"], "'0' is not a positive whole number"),
    ):
        assert main(["vocab", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]


def test_options_of_the_other_way_are_refused(tmp_path, capsys):
    text = tmp_path / "corpus.txt"
    text.write_text(TEXT)
    out = ["--out", str(tmp_path / "out")]
    save_base(tmp_path / "base")
    for arguments, message in (
        (["--add", "7"], "--add is not supported without --extend"),
        (["--extend", str(tmp_path / "base"), "--size", "9"], "--size is not supported with --ext"),
        (["--extend", str(tmp_path / "base"), "--cased"], "--cased is not supported with --extend"),
    ):
        assert main(["vocab", str(text), *out, *arguments]) == 2
        assert message in capsys.readouterr().err
