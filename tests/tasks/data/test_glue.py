import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks import read_glue
from keras_bert_impl.tasks.data.glue import has_glue

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
