"""The steps of `clean` remove HTML, broken characters, languages and duplicates; counts add up."""

import json
import random

import pytest

pytest.importorskip("datasketch", reason="takes the extra corpus")
langid = pytest.importorskip("py3langid", reason="takes the extra corpus")

from keras_bert_impl.cli.main import main  # noqa: E402
from keras_bert_impl.pretraining import clean, read_documents  # noqa: E402
from keras_bert_impl.utils.errors import InputError  # noqa: E402

PROSE = [
    "The harbor was quiet when the first boats came back from the sea in the morning.",
    "Nobody on the quay had expected them so early, and the market was still closed.",
    "The fishermen carried the boxes to the hall and waited for the first customers.",
]
PAGE = """<!DOCTYPE html>
<html><head><title>Harbor news</title><script>var tracker = 1;</script></head>

<body><nav><a href="/">Home</a> <a href="/login">Log in</a></nav>
<article><h1>Boats</h1>{paragraphs}</article>
<footer>Copyright. All rights reserved. Cookie settings.</footer></body></html>
"""
LANGUAGES = {
    "de": "Der Hafen war ruhig, als die ersten Boote am Morgen vom Meer zurückkamen.",
    "fr": "Le port était calme lorsque les premiers bateaux sont revenus de la mer ce matin.",
    "es": "El puerto estaba tranquilo cuando los primeros barcos volvieron del mar.",
    "ru": "Гавань была тихой, когда первые лодки вернулись утром с моря.",
    "zh": "今天早上第一批渔船从海上回来的时候，港口非常安静。",
}


def page(sentences):
    return PAGE.format(paragraphs="".join(f"<p>{text}</p>" for text in sentences))


def texts_of(path):
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


def test_boilerplate_of_pages_is_removed(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "one.html").write_text(page(PROSE))
    (tmp_path / "pages" / "two.html").write_text("<html><body><script>a()</script></body></html>")
    (tmp_path / "pages" / "three.txt").write_text("a < b, and <p> is a tag of HTML pages")
    out = tmp_path / "clean.jsonl"
    counts = clean(tmp_path / "pages", out)
    page_text, three = texts_of(out)
    assert set(PROSE) <= set(page_text.split("\n"))
    assert not any(word in page_text for word in ("Log in", "tracker", "Cookie", "<"))
    assert three == "a < b, and <p> is a tag of HTML pages"
    assert counts["read"]["documents"] == 3
    assert {k: counts["steps"]["html"][k] for k in ("removed", "changed")} == {
        "removed": 1,
        "changed": 1,
    }
    assert counts["written"] == {"documents": 2, "characters": len(page_text) + len(three)}


def test_a_page_that_is_named_is_one_document(tmp_path):
    (tmp_path / "one.html").write_text(page(PROSE))  # has a blank line
    (document,) = read_documents(tmp_path / "one.html")
    assert len(document.paragraphs) == 2
    clean(tmp_path / "one.html", tmp_path / "out.jsonl")
    assert PROSE[0] in texts_of(tmp_path / "out.jsonl")[0]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("donâ€™t", "don’t"),  # UTF-8 read as Windows-1252
        ("a\x00b\x07c\ufeff", "abc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a lone \ud83d surrogate", "a lone  surrogate"),
        ("one\u2028two\r\n \nthree", "one\ntwo\nthree"),
        ("“ﬁne” ＡＢ é e\u0301 &amp; 😀", "“ﬁne” ＡＢ é e\u0301 &amp; 😀"),  # valid
    ],
)
def test_characters(tmp_path, text, cleaned):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": text}) + "\n")
    counts = clean(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert texts_of(tmp_path / "out.jsonl") == [cleaned]
    assert counts["steps"]["characters"]["changed"] == (cleaned != text)


def test_languages_are_those_that_the_library_names(tmp_path):
    texts = [*PROSE, *LANGUAGES.values()]
    languages = [langid.classify(text)[0] for text in texts]
    assert languages == ["en"] * len(PROSE) + list(LANGUAGES)
    counts = clean(texts, tmp_path / "out.jsonl", languages=["en", "fr"])
    assert texts_of(tmp_path / "out.jsonl") == [*PROSE, LANGUAGES["fr"]]
    assert counts["languages"] == {"en": 3} | dict.fromkeys(LANGUAGES, 1)
    assert counts["steps"]["language"]["removed"] == 4


def copies(generator):
    """Eight texts, an exact copy of each, and a copy with another first word."""
    words = [f"w{number}" for number in range(500)]
    texts = [" ".join(generator.choices(words, k=200)) for _ in range(8)]
    return [*texts, *texts, *(f"new {text}" for text in texts)]


def test_duplicates(tmp_path):
    texts = copies(random.Random(0))
    counts = clean(texts, tmp_path / "out.jsonl")
    assert texts_of(tmp_path / "out.jsonl") == texts[:8]
    assert counts["steps"]["duplicates"]["removed"] == 8
    assert counts["steps"]["near_duplicates"]["removed"] == 8
    halves = [
        " ".join([*text.split()[:100], *(f"{number}x{n}" for n in range(100))])
        for number, text in enumerate(texts[:8])
    ]
    for threshold, written in ((0.5, 16), (0.15, 8)):  # a third of the sequences are the same
        counts = clean(texts[:8] + halves, tmp_path / "out.jsonl", near_duplicates=threshold)
        assert counts["written"]["documents"] == written


def test_counts_add_up(tmp_path):
    texts = [*copies(random.Random(1)), *LANGUAGES.values(), page(PROSE), "\x07"]
    counts = clean(texts, tmp_path / "out.jsonl", languages=["en"])
    steps = counts["steps"].values()
    read, written = counts["read"], counts["written"]
    assert written["documents"] == read["documents"] - sum(step["removed"] for step in steps)
    assert written["characters"] == read["characters"] - sum(step["characters"] for step in steps)


def test_several_processes_write_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert_impl.pretraining.corpus.cleaning._AT_ONCE", 2000)
    texts = [*copies(random.Random(2)), *LANGUAGES.values()]
    counts = [
        clean(texts, tmp_path / f"{workers}.jsonl", languages=["en", "de"], num_workers=workers)
        for workers in (1, 2)
    ]
    assert counts[0] == counts[1]
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"languages": ("en", "xx")}, "language 'xx' is not one of ace, af, "),
        ({"near_duplicates": 0.01}, r"near_duplicates must be a number in \[0.1, 1\]"),
        (
            {"output": "out.txt"},
            "out.txt would contain JSON lines. Choose a name that ends in .jsonl",
        ),
        ({"languages": ("ru",)}, "no text remains after cleaning; .*language 3"),
    ],
)
def test_bad_input_writes_nothing(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        clean(PROSE, **{"output": tmp_path / "out.jsonl"} | arguments)
    assert list(tmp_path.iterdir()) == []


def test_command(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("\n\n".join([*PROSE, PROSE[0], LANGUAGES["de"]]))
    out = tmp_path / "out.jsonl"
    command = ["clean", str(tmp_path / "in.txt"), "--out", str(out), "--languages", "en"]
    assert main(command) == 0
    assert "wrote 3 of 5 documents, 238 of 391 characters" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["steps"]["duplicates"] == {"removed": 1, "changed": 0, "characters": 80}
    assert counts == clean(tmp_path / "in.txt", out, languages="en")
