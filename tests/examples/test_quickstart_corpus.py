"""Passages from Python files: what is kept and dropped, and how they are split."""

import textwrap

import pytest

from examples.quickstart.corpus import (
    Passage,
    file_documents,
    installed_files,
    largest_libraries,
    read_passages,
    split_by_module,
    write_labeled,
    write_sentences,
)
from examples.quickstart.prose import prose_sentences
from keras_bert_impl import InputError
from keras_bert_impl.pretraining import read_documents

MODULE = '''
"""Tools that work on the shapes of boats. They are written for builders of boats."""

def hull():
    """Measures the hull of a boat in metres.

    The hull is measured from the bow to the stern. It must be dry when it is measured.
    """

class Mast:
    """A mast carries the sails of a boat. It is made of wood or of steel."""

    def raise_sail(self):
        """Raises the sail to the top of the mast."""
'''


def write_module(folder, name, text=MODULE):
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return ("boats", name, path)


def passage(library, module, text):
    return Passage(library, f"{module}:thing", text.split("\n"))


# === Prose ===


@pytest.mark.parametrize(
    "docstring, expected",
    [
        # All kinds of code are dropped; the prose around them is kept.
        (
            "This is the first sentence here.\n\n>>> add(1, 2)\n3\n\nThis is the last one here.",
            ["This is the first sentence here.", "This is the last one here."],
        ),
        (
            "This is what you do with it::\n\n    This is code in it.\n\nThis is not code at all.",
            ["This is not code at all."],
        ),
        ("```\nThis is in a fence.\n```\nThis is not in a fence.", ["This is not in a fence."]),
        (
            ".. math::\n\n    This is in a formula.\n\n.. note::\n    This is a note to the user.",
            ["This is a note to the user."],
        ),
        # Markup becomes plain words.
        (
            "Use :func:`~numpy.solve` or ``inverse`` with *great* care, as [this](http:x) says.",
            ["Use solve or inverse with great care, as this says."],
        ),
        # Three styles of parameters: names and types are dropped, descriptions kept.
        (
            "Builds it.\n\nArgs:\n    size: The size of the\n        boat in metres.",
            ["The size of the boat in metres."],
        ),
        (
            "Parameters\n----------\nsize : float, optional\n    The size of the boat in metres.",
            ["The size of the boat in metres."],
        ),
        (
            ":param size: the size of the boat in metres.\n:type size: a float it is.",
            ["The size of the boat in metres."],
        ),
        # Sections without prose, tables, headings, and lines of symbols.
        ("References\n----------\nThe book of boats, by a sailor of old.", []),
        ("=====  =====\nThis is a heading of one\n=====  =====", []),
        ("The result is x = y[0] + {z} in the end.", []),
        ("No stop at the end of this line", []),
        ("Nom de la fonction qui mesure bateaux.", []),
    ],
)
def test_prose(docstring, expected):
    assert prose_sentences(docstring) == expected


# === Files ===


def test_documents_of_a_file(tmp_path):
    documents = dict(file_documents(write_module(tmp_path, "boats.shape")))
    # The method's short docstring joins that of its class, which then has three sentences.
    assert documents["boats.shape:Mast"][-1] == "Raises the sail to the top of the mast."
    assert len(documents["boats.shape:hull"]) == 3
    assert len(documents["boats.shape"]) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"def broken(:\n    '''This does not parse in any version.'''",
        b"'''A null byte is in this file.'''\0",
        "'''Latin letters in it: \xe9\xe8.'''".encode("latin-1"),
        b"'''" + b"A long file it is. " * 200_000 + b"'''",
        b"x = '''" + b"'''\ny = " + b"(" * 5000 + b")" * 5000,
    ],
    ids=["syntax", "null byte", "encoding", "huge", "nested"],
)
def test_unusable_files_have_no_documents(tmp_path, content):
    path = tmp_path / "module.py"
    path.write_bytes(content)
    assert file_documents(("boats", "module", path)) == []


def test_missing_file_has_no_documents(tmp_path):
    assert file_documents(("boats", "gone", tmp_path / "gone.py")) == []


def test_files_are_not_executed(tmp_path):
    witness = tmp_path / "witness"
    text = f"{MODULE}\nopen({str(witness)!r}, 'w')\n"
    assert read_passages([write_module(tmp_path, "effects", text)], processes=1)
    assert not witness.exists()


def test_lists_the_files_of_packages_and_of_python():
    files = installed_files()
    assert files == sorted(files)
    modules = {(library, module) for library, module, _ in files}
    assert {("python", "json.decoder"), ("numpy", "numpy.linalg")} <= modules
    assert not any("tests" in module.split(".")[:-1] for _, module in modules)


# === The corpus ===


def test_repeated_sentences_are_kept_once(tmp_path):
    files = [write_module(tmp_path, "first"), write_module(tmp_path, "second")]
    passages = read_passages(files, processes=1)
    assert {passage.module for passage in passages} == {"first"}


def test_processes_do_not_change_the_corpus(tmp_path):
    files = []
    for number in range(130):  # three tasks of 64 files
        word = "abcdefghij"[number % 10] * (number // 10 + 1)
        text = MODULE.replace(" is ", f" {word} is ").replace(" boat", f" {word} boat")
        files.append(write_module(tmp_path, f"module_{number:03}", text))
    first = read_passages(files, processes=1)
    assert len({passage.module for passage in first}) == 130
    assert read_passages(files[::-1], processes=2) == first


def test_nothing_found_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="have no documentation"):
        read_passages([write_module(tmp_path, "empty", "x = 1\n")], processes=1)


def test_corpus_is_written_as_bert_reads_it(tmp_path):
    passages = read_passages([write_module(tmp_path, "boats")], processes=1)
    write_sentences(passages, tmp_path / "corpus.txt")
    documents = list(read_documents(tmp_path / "corpus.txt"))
    assert [document.paragraphs for document in documents] == [p.sentences for p in passages]


# === The split ===


def distinct_text(number):
    letters = "".join("abcdefghij"[int(digit)] for digit in f"{number:04}")
    return " ".join(f"{letters}{word}" for word in "one two three four five six seven".split())


def test_split_keeps_modules_whole():
    passages = [
        passage("a", f"module_{number % 200}", distinct_text(number)) for number in range(1000)
    ]
    training, held_out = split_by_module(passages, held_out_fraction=0.2)
    assert len(training) + len(held_out) == 1000
    assert not {p.module for p in training} & {p.module for p in held_out}
    # 200 draws of probability 0.2: 40 modules, standard deviation 5.7; five of those either way.
    assert 12 <= len({p.module for p in held_out}) <= 68
    assert split_by_module(passages, held_out_fraction=0.2) == (training, held_out)
    assert split_by_module(passages, held_out_fraction=0.2, seed=1) != (training, held_out)


def test_near_copies_are_not_held_out():
    passages = []
    for number in range(200):
        text = distinct_text(number // 2)  # each text occurs in two modules
        passages.append(passage("a", f"module_{number}", text + (" again" if number % 2 else "")))
    training, held_out = split_by_module(passages, held_out_fraction=0.3)
    held = {p.sentences[0].removesuffix(" again") for p in held_out}
    trained = {p.sentences[0].removesuffix(" again") for p in training}
    assert held and not held & trained


# === Library classification ===


def labeled_rows(passages, libraries, path, most=100):
    write_labeled(passages, libraries, path, most)
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    assert header == "text\tlabel"
    return [row.split("\t") for row in rows]


def test_names_are_removed(tmp_path):
    text = textwrap.dedent(
        """\
        TensorFlow's graphs run tf.function in the tensorflow.python package of TensorFlow Text.
        The scikit-learn estimators (sklearn) and Scikit_learn's np.arrays are alike in this.
        A newtf or a platform is no name, and the numpylike word stays as it is."""
    )
    passages = [
        passage("tensorflow", "tensorflow.python.x", text),
        passage("scikit-learn", "sklearn.y", text),
        passage("numpy", "numpy.z", text),
    ]
    rows = labeled_rows(passages, ["tensorflow", "scikit-learn", "numpy"], tmp_path / "rows.tsv")
    assert [text for text, label in rows if label == "numpy"] == [
        "Graphs run function in the python package of Text. "
        "The estimators and arrays are alike in this. "
        "A newtf or a platform is no name, and the numpylike word stays as it is."
    ]


def test_libraries_are_ranked_capped_and_spread(tmp_path):
    passages = [
        passage(library, f"{library}.m{number}", "\n".join([distinct_text(number)] * 3))
        for library, count in (("small", 2), ("large", 40), ("middle", 10))
        for number in range(count)
    ]
    assert largest_libraries(passages, 2) == ["large", "middle"]
    rows = labeled_rows(passages, ["large", "middle"], tmp_path / "rows.tsv", most=4)
    assert [label for _, label in rows] == ["large"] * 4 + ["middle"] * 4
    words = [distinct_text(number).split()[0].capitalize() for number in (0, 10, 20, 30)]
    assert [text.split()[0] for text, _ in rows[:4]] == words
    with pytest.raises(InputError, match="at least two"):
        largest_libraries(passages[:2])


def test_labeled_passages_are_short(tmp_path):
    sentence = "This sentence of ten words stands here again and again."
    passages = [passage("a", "m", "\n".join([sentence] * 20))]
    rows = labeled_rows(passages, ["a"], tmp_path / "rows.tsv")
    # 60 words are six sentences
    assert rows == [[" ".join([sentence] * count), "a"] for count in (6, 6, 6, 2)]
