import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks import read_paws_x, read_xnli

# The layouts of the published files, with our own sentences.
XNLI = [
    "language gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse "
    "sentence2_parse sentence1 sentence2 promptID pairID genre label1 label2 label3 label4 label5 "
    "sentence1_tokenized sentence2_tokenized match".split(),
    ["de", "neutral", "", "", "", "", "A b.", "B a.", *["x"] * 11],
    ["fr", "entailment", "", "", "", "", "C d.", "D c.", *["x"] * 11],
    ["de", "contradiction", "", "", "", "", "E f.", "F e.", *["x"] * 11],
]


@pytest.fixture
def folder(tmp_path):
    files = {
        "XNLI-1.0/xnli.dev.tsv": "".join("\t".join(row) + "\n" for row in XNLI),
        "XNLI-MT-1.0/multinli/multinli.train.de.tsv": "premise\thypo\tlabel\n"
        "A b.\tB a.\tcontradictory\nC d.\tD c.\tentailment\n",
        "de/translated_train.tsv": 'id\tsentence1\tsentence2\tlabel\n1\tA "b".\tB a.\t1\n',
        "en/train.tsv": "id\tsentence1\tsentence2\tlabel\n1\tA b.\tB a.\t0\n",
        "de/test_2k.tsv": "id\tsentence1\tsentence2\tlabel\n1\t\t\t0\n2\tC d.\tD c.\t0\n"
        "3\tNS\tD c.\t1\n4\tNS 4.\tD c.\t1\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def test_reads_one_language_of_xnli(folder):
    dev, train = read_xnli(folder, "dev", "de"), read_xnli(folder, "train", "de")
    assert dev.texts == [("A b.", "B a."), ("E f.", "F e.")] and dev.lines == [2, 4]
    names = ["entailment", "neutral", "contradiction"]
    assert dev.label_names == train.label_names == names
    assert dev.labels == [1, 2] and train.labels == [2, 0]
    with pytest.raises(InputError, match="no rows in language 'sw'. It has de, fr"):
        read_xnli(folder, "dev", "sw")
    with pytest.raises(InputError, match="neither XNLI-1.0/xnli.test.tsv nor xnli.test.tsv"):
        read_xnli(folder, "test", "de")


def test_unreadable_rows_are_reported_for_every_language(folder):
    path = folder / "XNLI-1.0/xnli.dev.tsv"
    path.write_text(path.read_text() + "fr\tneutral\n")
    with pytest.raises(InputError, match="xnli.dev.tsv, line 5: 2 columns, expected 19"):
        read_xnli(folder, "dev", "de")
    assert len(read_xnli(folder, "dev", "de", skip_bad_rows=True)) == 2


def test_reads_paws_x(folder):
    train = read_paws_x(folder, "train", "de")
    assert train.texts == [('A "b".', "B a.")] and train.label_names == ["different", "paraphrase"]
    assert train.labels == [1] and read_paws_x(folder, "train").labels == [0]
    with pytest.raises(InputError, match="test_2k.tsv, line 2: the text in column 'sentence1' is"):
        read_paws_x(folder, "test", "de")
    test = read_paws_x(folder, "test", "de", skip_bad_rows=True)
    assert test.texts == [("C d.", "D c."), ("NS 4.", "D c.")] and test.labels == [0, 1]
    assert len(test.skipped) == 2 and "line 4: a text is 'NS'" in test.skipped[1]
    with pytest.raises(InputError, match="split must be one of train, dev, test"):
        read_paws_x(folder, "validation", "de")
