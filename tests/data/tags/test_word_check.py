"""Columns of ids and labels are not read as words; unusual words stay words."""

import re

import pandas
import pytest

from keras_bert_impl.tasks import TaggedExamples, read_tags
from keras_bert_impl.utils.errors import InputError

# Content of a file, and the options with which its words are read.
WITHOUT_WORDS = {
    "webanno.tsv": ("1-1\tMira\tB-P\n1-2\tcame\tO\n\n2-1\tHe\tO\n2-2\tleft\tO\n", "text=1 "),
    "offsets.tsv": ("0-4\tMira\tB-P\n5-9\tcame\tO\n\n10-12\tHe\tO\n13-17\tleft\tO\n", "text=1 "),
    "ends.tsv": ("0\t4\tMira\tB-P\n5\t9\tcame\tO\n\n10\t12\tHe\tO\n13\t17\tleft\tO\n", "text=2 "),
    "ids.conll": ("t1 Mira B-P\nt2 came O\n\nt1 He O\nt2 left O\n", "text=1 "),
    "documents.conll": ("bc/x Mira B-P\nbc/x came O\n\nbc/y He O\nbc/y left O\nbc/y . O\n", "text=1 "),
    "labels.conll": ("B-P Mira\nO came\n\nO He\nO left\n", "text=1, label=0 "),
    "flair.tsv": ("\tMira\tB-P\n\tcame\tO\n\n\tHe\tO\n\tleft\tO\n", "text=1 "),
    "uuids.tsv": (
        "".join(
            f"{hash_}-12ab\t{word}\t{label}\n"
            for hash_, word, label in (
                ("0f3a", "Mira", "B-P"), ("77c1", "came", "O\n"), ("b2d9", "He", "O"),
                ("4e08", "left", "O"), ("9ac5", ".", "O"),
            )
        ), "text=1 ",
    ),
    "token.csv": ("sent_id,token,word,tag\n1,1,Mira,B-P\n1,2,came,O\n2,1,He,O\n2,2,left,O\n", "text=word "),
    "parts.conll": (
        "NNP Mira B-P\nVBD came O\n\nPRP He O\nVBD left O\n\n"
        + "".join(f"{'ABC'[n % 3]} {chr(97 + n % 26) * (1 + n // 26)} O\n" for n in range(100)), "text=1 ",
    ),
    "lists.jsonl": (
        '{"tokens": [1, 2], "words": ["Mira", "came"], "tags": ["B-P", "O"]}\n'
        '{"tokens": [1, 2], "words": ["He", "left"], "tags": ["O", "O"]}\n',
        "text=words ",
    ),
}  # fmt: skip
WORDS = {
    "prices": "3.50 CD B-M\n4.20 CD I-M\n\n5.10 CD B-M\n6 CD O\n",
    "numbers": "1 CD B-NP O\n2 CD I-NP B-X\n3 CD I-NP O\n4 CD B-NP O\n",
    "numbers alone": "1 O\n2 B-X\n3 O\n4 O\n",
    "dates": "1990 CD B-D\n- SYM I-D\n1995 CD I-D\n",
    "ideographs": "我 B-PER\n爱 O\n北 B-LOC\n京 I-LOC\n",
    "Thai": "ภาษา NN O\nไทย NN B-X\n",
    "emojis and URLs": "😀 O\n👍🏽 B-X\n😀 O\nhttp://a.b/1 B-URL\n",
    "a repeated word": "ha UH O\nha UH O\nha UH O\nha UH O\nha UH O\n",
    "letters": "I PRP\nB NN\nS NN\nI PRP\nO UH\n",
}


@pytest.mark.parametrize("name", WITHOUT_WORDS)
def test_names_the_column_that_contains_words(tmp_path, name):
    content, arguments = WITHOUT_WORDS[name]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=rf"does not contain words.*Pass {arguments}\(--text"):
        read_tags(path)
    arguments = dict(argument.split("=") for argument in arguments.strip().split(", "))
    examples = read_tags(path, **arguments)
    assert examples.texts[0] == ["Mira", "came"] and examples.texts[1][:2] == ["He", "left"]
    assert examples.labels[0] == ["B-P", "O"] and examples.remarks() == []


def test_columns_of_frames_are_checked():
    frame = pandas.DataFrame(
        {"sentence_id": [1, 1, 2, 2], "token": ["1-1", "1-2", "2-1", "2-2"], "tag": list("OOOO")}
    )
    with_words = frame.assign(form=["Mira", "came", "He", "left"])
    with pytest.raises(InputError, match="column token does not contain words.*text=form"):
        read_tags(with_words)
    # No other column contains words: nothing better can be named.
    assert "the words may be numbers of words" in read_tags(frame).remarks()[0]


@pytest.mark.parametrize("kind", WORDS)
def test_words_without_letters_are_words(tmp_path, kind):
    path = tmp_path / "a.conll"
    path.write_text(WORDS[kind])
    expected = [row.split()[0] for row in WORDS[kind].splitlines() if row]
    assert sum(read_tags(path).texts, []) == expected


@pytest.mark.parametrize(
    "words, labels, message",
    [
        (list("ab") * 1000, ["O"] * 2000, "the longest of 1 sentences has 2,000 words.*--sentence"),
        (["a", "\u200b\u00ad"], ["O", "B-X"], "1 words contain only invisible characters"),
        (["a", "b"], ["B:X", "B:Y"], "'B:X' are read as entity types.*like 'B-PER'"),
        (["a", "b"], ["B:X", "I:X"], None),
        ([f"w{n % 7}" for n in range(200)], [f"w{n}" for n in range(200)], "200 labels, and 200"),
        (["a", "b"], ["B-X", "O"], None),
    ],
)
def test_remarks_name_odd_properties(words, labels, message):
    remarks = TaggedExamples([words], [labels], sorted({"O", *labels})).remarks()
    if message is None:
        assert remarks == []
    else:
        (remark,) = remarks
        assert re.search(message, remark)
