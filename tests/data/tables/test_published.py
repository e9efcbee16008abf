import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bert_impl.data.tables.published import has_glue
from keras_bert_impl.tasks import read_glue, read_paws_x, read_tfds, read_xnli
from keras_bert_impl.utils.errors import InputError

# The layouts of the published files, with our own sentences.
FILES = {
    "CoLA/dev.tsv": "gj04\t1\t\tThe tea is hot.\ngj04\t0\t*\tTea the hot is.\n",
    "CoLA/test.tsv": "index\tsentence\n0\tThe tea is hot.\n",
    "SST-2/dev.tsv": "sentence\tlabel\na fine film . \t1\n",
    "SST-2/test.tsv": "index\tsentence\n0\ta fine film .\n",
    "MRPC/dev.tsv": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    '1\t1\t2\t" He said so .\tHe did say so .\n',
    "STS-B/dev.tsv": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
    "sentence1\tsentence2\tscore\n"
    "0\tg\tf\ty\t0\tn\tn\tA cat.\tA dog.\t2.500\n",
    "RTE/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA b.\tB a.\tnot_entailment\n",
    "QNLI/dev.tsv": "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n",
    "WNLI/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA b.\tB a.\t1\n",
    "MNLI/dev_matched.tsv": "index\tsentence1\tsentence2\tgold_label\n0\tA b.\tB a.\tneutral\n",
    "MNLI/dev_mismatched.tsv": "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\t"
    "label2\tlabel3\tlabel4\tlabel5\tgold_label\n"
    "0\t1\t1c\tg\tp\tp\tp\tp\tC d.\tD c.\tneutral\t\t\t\t\tcontradiction\n",
    "MNLI/train.tsv": "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\t"
    'gold_label\n0\t1\t1n\tg\t( p )\tp\tp\tp\tG "h.\tn/a\tneutral\tneutral\n',
    "MNLI/test_matched.tsv": "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\n"
    "0\t1\t1\tg\tp\tp\tp\tp\tI j.\tJ i.\n",
    "diagnostic/diagnostic.tsv": "index\tsentence1\tsentence2\n0\tA b.\tB a.\n",
    "diagnostic/diagnostic-full.tsv": "Lexical Semantics\tPredicate-Argument Structure\tLogic\t"
    "Knowledge\tDomain\tPremise\tHypothesis\tLabel\n\t\tNegation\t\tNews\tE f.\tF e.\tentailment\n",
    # Some questions in the published file contain a line break: two lines of four and three cells.
    "QQP/train.tsv": 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\t"Who?\n'
    '"\tIs it he?\t0\n1\t3\t4\tHow?\tWhat?\t1\n',
    "QQP/test.tsv": "id\tquestion1\tquestion2\n0\tWho?\tWhat?\n",
    "QQP/dev.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tWho?\t\t0\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "task, text, label, name",
    [
        ("cola", "The tea is hot.", 1, "acceptable"),
        ("sst2", "a fine film . ", 1, "positive"),
        ("mrpc", ('" He said so .', "He did say so ."), 1, "equivalent"),
        ("rte", ("A b.", "B a."), 1, "not_entailment"),
        ("qnli", ("Who?", "He."), 0, "entailment"),
        ("wnli", ("A b.", "B a."), 1, "entailment"),
        ("mnli", ("A b.", "B a."), 1, "neutral"),
        ("qqp", ("Who?", ""), 0, "not_duplicate"),
    ],
)
def test_reads_class_labels(folder, task, text, label, name):
    examples = read_glue(task, folder, "dev")
    assert examples.texts[0] == text
    assert examples.labels[0] == label
    assert examples.label_names[label] == name


def test_reads_regression_labels(folder):
    examples = read_glue("stsb", folder, "dev")
    assert examples.texts == [("A cat.", "A dog.")] and examples.labels == [2.5]
    assert examples.label_names is None and examples.metrics == ("pearson", "spearman")


@pytest.mark.parametrize("task", ["cola", "sst2"])
def test_test_split_has_no_labels(folder, task):
    examples = read_glue(task, folder, "test")
    assert len(examples) == 1 and examples.labels is None


def test_accepts_the_folder_of_a_task(folder):
    assert len(read_glue("cola", folder / "CoLA", "dev")) == 2


def test_errors_give_file_and_line(folder):
    with pytest.raises(InputError, match="unknown GLUE task 'sst3'"):
        read_glue("sst3", folder, "dev")
    with pytest.raises(InputError, match="neither RTE/train.tsv nor train.tsv"):
        read_glue("rte", folder, "train")
    (folder / "CoLA/dev.tsv").write_text("gj04\t1\t\tThe tea.\ngj04\t2\t\tThe tea.\n")
    with pytest.raises(InputError, match="CoLA/dev.tsv, line 2: label '2' is not one of '0', '1'"):
        read_glue("cola", folder, "dev")


def test_mnli_has_two_dev_sets_and_qqp_empty_texts(folder):
    mismatched = read_glue("mnli", folder, "dev_mismatched")
    assert mismatched.texts == [("C d.", "D c.")] and mismatched.labels == [2]
    train = read_glue("mnli", folder, "train")
    assert train.texts == [('G "h.', "n/a")] and train.labels == [1]
    assert read_glue("mnli", folder, "test").texts == [("I j.", "J i.")]
    diagnostic = read_glue("diagnostic", folder, "dev")
    assert diagnostic.texts == [("E f.", "F e.")] and diagnostic.labels == [0]
    assert diagnostic.label_names == mismatched.label_names
    assert diagnostic.metrics[0] == "matthews"
    assert read_glue("diagnostic", folder, "test").texts == [("A b.", "B a.")]
    assert read_glue("qqp", folder, "test").texts == [("Who?", "What?")]


def test_skips_bad_rows_on_request(folder):
    with pytest.raises(InputError, match="QQP/train.tsv, line 2: 4 columns, expected 6"):
        read_glue("qqp", folder, "train")
    examples = read_glue("qqp", folder, "train", skip_bad_rows=True)
    assert examples.texts == [("How?", "What?")] and examples.labels == [1]
    assert len(examples.skipped) == 2 and "line 3: 3 columns" in examples.skipped[1]
    (folder / "RTE/dev.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n0\tc\td\tentailment\n"
    )
    with pytest.raises(InputError, match="RTE/dev.tsv, line 3: id '0' is already used in line 2"):
        read_glue("rte", folder, "dev")


def test_finds_the_dev_sets_of_mnli_in_its_own_folder(folder):
    for place in (folder, folder / "MNLI"):
        assert has_glue("mnli", place, "dev_mismatched")
    assert not has_glue("mnli", folder / "CoLA", "dev_mismatched")


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
def languages(tmp_path):
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


def test_reads_one_language_of_xnli(languages):
    dev, train = read_xnli(languages, "dev", "de"), read_xnli(languages, "train", "de")
    assert dev.texts == [("A b.", "B a."), ("E f.", "F e.")] and dev.lines == [2, 4]
    names = ["entailment", "neutral", "contradiction"]
    assert dev.label_names == train.label_names == names
    assert dev.labels == [1, 2] and train.labels == [2, 0]
    with pytest.raises(InputError, match="no rows in language 'sw'. Found: de, fr"):
        read_xnli(languages, "dev", "sw")
    with pytest.raises(InputError, match="neither XNLI-1.0/xnli.test.tsv nor xnli.test.tsv"):
        read_xnli(languages, "test", "de")


def test_unreadable_rows_are_reported_for_every_language(languages):
    path = languages / "XNLI-1.0/xnli.dev.tsv"
    path.write_text(path.read_text() + "fr\tneutral\n")
    with pytest.raises(InputError, match="xnli.dev.tsv, line 5: 2 columns, expected 19"):
        read_xnli(languages, "dev", "de")
    assert len(read_xnli(languages, "dev", "de", skip_bad_rows=True)) == 2


def test_reads_paws_x(languages):
    train = read_paws_x(languages, "train", "de")
    assert train.texts == [('A "b".', "B a.")] and train.label_names == ["different", "paraphrase"]
    assert train.labels == [1] and read_paws_x(languages, "train").labels == [0]
    with pytest.raises(InputError, match="test_2k.tsv, line 2: the text in column 'sentence1' is"):
        read_paws_x(languages, "test", "de")
    test = read_paws_x(languages, "test", "de", skip_bad_rows=True)
    assert test.texts == [("C d.", "D c."), ("NS 4.", "D c.")] and test.labels == [0, 1]
    assert len(test.skipped) == 2 and "line 4: a text is 'NS'" in test.skipped[1]
    with pytest.raises(InputError, match="split must be one of train, dev, test"):
        read_paws_x(languages, "validation", "de")


ROWS = [
    {"text": "a good film", "other": "x", "label": 1, "score": 0.1},
    {"text": "d\u00fcll", "other": "y", "label": 0, "score": 2.5},
    {"text": " ", "other": "z", "label": 1, "score": 1.0},
    {"text": b"\xe9t\xe9", "other": "v", "label": 0, "score": 1.0},
    {"text": "unlabeled", "other": "w", "label": -1, "score": np.nan},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds") / "reviews" / "1.0.0"
    directory.mkdir(parents=True)
    features = tfds.features.FeaturesDict(
        {
            "text": tfds.features.Text(),
            "other": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["bad", "good"]),
            "score": tfds.features.Scalar(tf.float32),
        }
    )
    infos = []
    for split, rows in (("train", ROWS[:2]), ("test", ROWS)):
        path = directory / f"reviews-{split}.tfrecord-00000-of-00001"
        records = [features.serialize_example(row) for row in rows]
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
        infos.append(
            tfds.core.SplitInfo(
                name=split, shard_lengths=[len(rows)], num_bytes=sum(map(len, records))
            )
        )
    tfds.folder_dataset.write_metadata(
        data_dir=str(directory),
        features=features,
        split_infos=infos,
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )
    return directory


def test_reads_classes_pairs_and_numbers(directory):
    examples = read_tfds(directory, "train", "text", "other", "label")
    assert examples.texts == [("a good film", "x"), ("d\u00fcll", "y")]
    assert examples.labels == [1, 0] and examples.label_names == ["bad", "good"]
    numbers = read_tfds(directory, "train", "text", label="score")
    assert numbers.is_numeric and numbers.labels == [float(np.float32(0.1)), 2.5]
    assert read_tfds(str(directory), "train[:1]", "text").texts == ["a good film"]


def test_errors_give_the_number_of_the_example(directory):
    with pytest.raises(InputError, match="split test, example 2: the text in column 'text' is emp"):
        read_tfds(directory, "test", "text", label="label")
    examples = read_tfds(directory, "test", "text", label="label", skip_bad_rows=True)
    assert examples.labels == [1, 0] and len(examples.skipped) == 3
    assert "example 3: feature 'text' is not UTF-8 (byte 0)" in examples.skipped[1]
    assert "example 4: the label is -1, so the example is unlabeled" in examples.skipped[2]


@pytest.mark.parametrize(
    "split, text, label, message",
    [
        ("train", "review", None, "no feature 'review'. Found: "),
        ("dev", "text", None, "split 'dev': TensorFlow Datasets cannot load the dataset"),
        ("train", "score", None, "example 0: feature 'score' is not text"),
        ("train", "text", "other", "example 0: the label must be a class or a number"),
    ],
)
def test_rejects_unknown_splits_and_features(directory, split, text, label, message):
    with pytest.raises(InputError, match=message):
        read_tfds(directory, split, text, label=label)


def test_rejects_unknown_datasets(tmp_path):
    with pytest.raises(InputError, match="dataset_info.json is missing"):
        read_tfds(tmp_path, "train", "text")
    with pytest.raises(
        InputError, match="no_such_reviews: TensorFlow Datasets cannot load the dataset"
    ):
        read_tfds("no_such_reviews", "train", "text", data_dir=tmp_path)
