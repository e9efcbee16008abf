import gzip
import logging

import pytest

from keras_bert_impl.data.tables.source import ExampleSource
from keras_bert_impl.data.tags.columns import read_columns, read_conllu
from keras_bert_impl.data.tags.reading.read_tags import read_tags
from keras_bert_impl.data.tags.spans import detect_scheme
from keras_bert_impl.tasks.tagging.task import Tagging
from keras_bert_impl.utils.errors import InputError

CONLL2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

-DOCSTART- -X- O O

Peter NNP B-NP B-PER
"""
CONLLU = "\n".join(
    [
        "# sent_id = one",
        "# text = They don't, 1 000 times",
        "1\tThey\tthey\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_",
        "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
        "2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_",
        "3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_",
        "3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t2:conj\t_",
        "4\t1 000\t1000\tNUM\tCD\t_\t2\tnummod\t_\t_",
        "",
        "1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_",
        "",
    ]
)


def written(tmp_path, content, name="data.txt"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_reads_conll_2003(tmp_path):
    path = written(tmp_path, CONLL2003)
    examples = read_columns(path)
    assert examples.texts == [["EU", "rejects"], ["Peter"]]
    assert examples.labels == [["B-ORG", "O"], ["B-PER"]]
    assert examples.label_names == ["B-ORG", "B-PER", "O"]
    assert examples.lines == [[3, 4], [8]]
    assert examples.where(1) == f"{path}, line 8"
    assert read_columns(path, label=1).labels == [["NNP", "VBZ"], ["NNP"]]
    words = read_columns(path, label=None)
    assert words.labels is None and words.label_names is None and words.texts == examples.texts
    assert words.fingerprint != examples.fingerprint == read_columns(path).fingerprint


def test_original_conll_2003_files_are_iob1(tmp_path):
    # IOB1 as in eng.train, and five columns, including the lemma, as in deu.train.
    path = written(tmp_path, "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nPeter NNP I-NP I-PER\n")
    assert read_columns(path).labels == [["I-ORG", "I-PER"]]
    assert detect_scheme(["I-ORG", "I-PER", "O", "B-PER"]) == "IOB1"
    german = written(tmp_path, "Der der ART I-NC O\nHans Hans NE I-NC I-PER\n", "deu.train")
    assert read_columns(german).labels == [["O", "I-PER"]]
    german.write_text("Größe g NN I-NC O\n", encoding="latin-1")  # its published encoding
    with pytest.raises(InputError, match="deu.train, line 1: not UTF-8 .*pass --encoding"):
        read_columns(german)


def test_reads_ontonotes(tmp_path):
    content = """#begin document (bc/x); part 000
bc/x 0 0 Mira NNP (TOP* - - - A (PERSON) * (0)
bc/x 0 1 came VBD *) come - - - * * -

bc/x 0 0 New NNP (TOP* - - - A (GPE* * * -
bc/x 0 1 York NNP * - - - A *) * * -
bc/x 0 2 is VBD *) be - - - * (V*) * -

#end document
"""
    path = written(tmp_path, content)
    examples = read_tags(path, groups="document")
    assert examples.texts == [["Mira", "came"], ["New", "York", "is"]]
    assert examples.labels == [["B-PERSON", "O"], ["B-GPE", "I-GPE", "O"]]
    assert examples.groups == ["1", "1"]
    assert read_tags(path, text=3, label=4).labels[0] == ["NNP", "VBD"]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_reads_all_line_endings_of_conllu(tmp_path, end):
    path = written(tmp_path, CONLLU.replace("\n", end), "en.conllu")
    assert read_conllu(path).texts == [["They", "do", "n't", "1 000"], ["#"]]


def test_reads_wikiann(tmp_path):
    path = written(tmp_path, "en:R.H.\tB-PER\nen::\tO\n\n")
    assert read_columns(path, word_prefix="en:").texts == [["R.H.", ":"]]
    with pytest.raises(InputError, match="line 1: the word 'en:R.H.' does not start with 'de:'"):
        read_columns(path, word_prefix="de:")


def test_accepts_tabs_in_blank_lines_and_number_signs_in_words(tmp_path):
    path = written(tmp_path, "#a\tO\n\t\nNew York\tB-LOC\n \t \n\n\u00a0\tO")
    assert read_columns(path).texts == [["#a"], ["New York"], ["\u00a0"]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_reads_all_line_endings_and_byte_order_marks(tmp_path, end, encoding):
    content = CONLL2003.replace("EU", "Größe").replace("\n", end).encode(encoding)
    examples = read_columns(written(tmp_path, content))
    assert examples.texts == [["Größe", "rejects"], ["Peter"]]
    assert examples.labels[0] == ["B-ORG", "O"]


def test_rejects_one_column_for_words_and_labels(tmp_path):
    path = written(tmp_path, "good\nfilm\n\nbad\n")
    with pytest.raises(InputError, match="the same column, 0. The file has 1"):
        read_columns(path)
    assert read_columns(path, label=None).texts == [["good", "film"], ["bad"]]
    path = written(tmp_path, "good O\n")
    with pytest.raises(InputError, match="the same column, 1. The file has 2"):
        read_columns(path, word=-1)
    with pytest.raises(InputError, match="data.csv is a table.*Use read_tags"):
        read_columns(written(tmp_path, "good,O\nfilm,O\n", "data.csv"))


@pytest.mark.parametrize("mark", ["\t", " "])
def test_skips_comments_before_a_sentence(tmp_path, mark):
    content = """# global.columns = FORM NE
# newdoc id = 1
# sent_id = a-1
# text = Ada wrote # notes

# newpar
# text =
Ada B-PER
# O
#notes O

# O
#tag O
""".replace(" B-PER\n", f"{mark}B-PER\n").replace(" O\n", f"{mark}O\n")
    examples = read_columns(written(tmp_path, content))
    assert examples.texts == [["Ada", "#", "#notes"], ["#", "#tag"]]
    assert examples.lines == [[8, 9, 10], [12, 13]]
    # Within a sentence it is not a comment.
    wrong = content.replace(f"#notes{mark}O", "#notes = a b c")
    with pytest.raises(InputError, match="line 10: . columns, but the first row has 2"):
        read_columns(written(tmp_path, wrong))


def test_file_of_hashtags_has_no_comments(tmp_path):
    assert read_columns(written(tmp_path, "#a O\n#b O\n")).texts == [["#a", "#b"]]


def test_reads_conllu(tmp_path):
    path = written(tmp_path, CONLLU, "en.conllu")
    examples = read_conllu(path)
    assert examples.texts == [["They", "do", "n't", "1 000"], ["#"]]
    assert examples.labels == [["PRON", "AUX", "PART", "NUM"], ["SYM"]]
    assert examples.lines == [[3, 5, 6, 8], [10]]
    assert read_conllu(path, "deprel").labels[1] == ["root"]
    assert read_conllu(path, "feats").labels[0][:2] == ["Case=Nom", "_"]
    assert read_conllu(path, None).labels is None


BAD_ROWS = {
    "ragged": (b"a\tO\n\nb\tO\tO\n\nc\tO\n", "line 3: 3 columns, but the first row has 2"),
    "short": (b"a\tO\n\nb\n\nc\tO\n", "line 3: 1 columns, but the first row has 2"),
    "stray tab": (b"a\tO\n\nb\tO\t\n\nc\tO\n", "line 3: 3 columns"),
    "no label": (b"a\tO\n\nb\t\n\nc\tO\n", "line 3: the label is empty"),
    "no word": (b"a\tO\n\n\tO\n\nc\tO\n", "line 3: the word is empty"),
    "latin-1": (b"a\tO\n\nGr\xf6\xdfe\tO\n\nc\tO\n", r"line 3: not UTF-8 \(byte 2\)"),
    "nul": (b"a\tO\n\nb\0\tO\n\nc\tO\n", "line 3: a NUL byte"),
    "label": (b"a\tB-X\n\nb\t0\n\nc\tO\n", "line 3: label '0' is neither 'O' nor like 'B-PER'"),
    "1 MB": (
        b"a\tO\n\n%b\tO\n\nc\tO\n" % (b"b" * 10**6),
        "line 3: the word has 1000000 characters",
    ),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_bad_rows_are_reported_with_their_line(tmp_path, kind, caplog):
    content, message = BAD_ROWS[kind]
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=message):
        read_columns(path)
    with caplog.at_level(logging.WARNING):
        examples = read_columns(path, skip_bad_rows=True)
    # Skipped with its whole sentence, and reported.
    assert examples.texts == [["a"], ["c"]]
    assert len(examples.skipped) == 1 and examples.skipped[0].startswith(f"{path}, line 3: ")
    assert f"{path}: sentences skipped: 1. {path}, line 3: " in caplog.text


@pytest.mark.parametrize(
    "change, message",
    [
        (("2\tdo\tdo\tAUX", "3\tdo\tdo\tAUX"), "line 5: the id is '3', but this is word 2"),
        (("\tAUX\tVBP", "\tVBP"), "line 5: 9 columns, but CoNLL-U has 10"),
        (("\tAUX\t", "\t_\t"), "line 5: the word has no upos"),
        (("\n\n", "\n\n#sent_id=one\n"), "line 10: sent_id 'one' is already used in line 1"),
        (("\n\n", "\n"), "line 9: the id is '1', but this is word 5"),
    ],
)
def test_rejects_invalid_conllu(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read_conllu(written(tmp_path, CONLLU.replace(*change, 1), "en.conllu"))


def test_rejects_labels_that_are_not_allowed(tmp_path):
    path = written(tmp_path, "a\tB-X\nb\todd\n")
    assert read_columns(path, labels=["odd", "B-X"]).label_names == ["odd", "B-X"]
    with pytest.raises(InputError, match="line 2: label 'odd' is not one of 'O', 'B-X'"):
        read_columns(path, labels=["O", "B-X"])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda path: read_columns(path / "data.txt", label=2), "no column label=2"),
        (lambda path: read_columns(path / "data.txt", word=-3), "no column word=-3"),
        (lambda path: read_columns(path / "data.txt", word="0"), "word must be an integer"),
        (lambda path: read_columns(path / "none.txt"), "none.txt cannot be read"),
        (lambda path: read_columns(path / "empty.txt"), "empty.txt has no rows"),
        (lambda path: read_conllu(path / "empty.txt"), "empty.txt has no usable sentences"),
        (lambda path: read_columns(path / "a.conllu"), "Use read_conllu"),
        (lambda path: read_conllu(path / "a.conllu", "tag"), "label must be one of 'upos'"),
    ],
)
def test_rejects_invalid_files_and_arguments(tmp_path, call, message):
    written(tmp_path, "a\tO\n")
    written(tmp_path, "\n\n", "empty.txt")
    written(tmp_path, CONLLU, "a.conllu")
    with pytest.raises(InputError, match=message):
        call(tmp_path)


@pytest.mark.parametrize("name", ["a.conllu", "a.CONLLU", "a.conllu.gz"])
def test_conllu_files_are_known_by_their_name(tmp_path, name):
    content = gzip.compress(CONLLU.encode()) if name.endswith("gz") else CONLLU
    path = written(tmp_path, content, name)
    with pytest.raises(InputError, match="is a CoNLL-U file. Use read_conllu"):
        read_columns(path)
    source = ExampleSource(train=str(path), dev=str(path))
    assert Tagging.read(source, "train").labels[0] == ["PRON", "AUX", "PART", "NUM"]


def test_labels_are_stripped_of_white_space(tmp_path):
    tabs = written(tmp_path, "Ada\tB-PER \nsat\tO\u00a0\nBob\tB-PER\n")
    assert read_columns(tabs).label_names == ["B-PER", "O"]
    conllu = written(tmp_path, CONLLU.replace("\tPRON\t", "\tPRON \t"), "a.conllu")
    assert read_conllu(conllu).labels[0][0] == "PRON"


def test_reads_spaces_as_words_where_tabs_separate(tmp_path):
    content = """## columns : CHAR\tTAG
## doc-00000\t<B:PS> sat
B\tB-PS
 \tO
##\tO

## doc-00001\t<A:PS>
A\tB-PS
"""
    examples = read_columns(written(tmp_path, content))
    assert examples.texts == [["B", " ", "##"], ["A"]]
    assert examples.labels == [["B-PS", "O", "O"], ["B-PS"]]
