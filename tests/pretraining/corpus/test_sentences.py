"""Sentence boundaries; `|` marks each boundary in the cases."""

import time

import pytest

from keras_bert_impl.pretraining.corpus.sentences import split_sentences

CASES = [
    "One sentence.| Another one.",
    "No stop at the end",
    "Is it?| Yes!| Good.",
    "Really?!| Yes.",
    "What?!?| Nothing.",
    # titles and abbreviations that never end a sentence
    "Mr. Smith met Mrs. Jones.| They talked.",
    "Dr. Lee and Prof. Kim agreed.",
    "St. Paul is in Minnesota.",
    "Gen. Grant met Capt. Ahab and Lt. Uhura.",
    "The case Roe v. Wade was decided.",
    "He saw Sen. Kennedy on the Hon. Judge's bench.",
    "Many animals, e.g. Bears, sleep.",
    "Some metals, i.e. Iron, rust.",
    "As Miller et al. Found, it works.",
    "It was shown by Miller et al.| The result holds.",
    "Compare cf. Smith for more.",
    "It was built ca. Easter.",
    # before numbers
    "See No. 5 and Nos. 6 to 8.",
    "He said no.| Then he left.",
    "Fig. 3 shows it.| See also Figs. 4 and 5.",
    "In vol. 2, pp. 3-7, ch. 9.",
    "On Jan. 5 it rained.| On Feb. 6 it did not.",
    "See Eq. 4 in Sec. 2.| Then go on.",
    # initials
    "J. R. R. Tolkien wrote it.| He was English.",
    "John F. Kennedy spoke.",
    "G.J. Voss and A.L. Wirin met.",
    "It was plan B.| The plan failed.",
    "E. Z. Million ran.",
    # acronyms with periods
    "The U.S. Congress met.| It voted.",
    "He moved to the U.S.| There he stayed.",
    "He lives in Washington, D.C.| His wife does too.",
    "She has a Ph.D. from Yale.",
    "It opens at 9 a.m. Monday.",
    "It closes at 5 p.m.| The guard leaves.",
    # company suffixes and similar
    "Acme Inc. Chairman Bob resigned.",
    "He works at Acme Inc.| The firm is old.",
    "Harry Connick Jr. Quartet played.",
    "He fell ill.| Bob saw the sun.| Bob left.",
    "On Sat. Bob went to Springfield, Ill. Bob left again.",
    "Pens, paper, etc.| Bring them all.",
    "Apples, pears etc. are fruit.",
    # numbers, versions, files, addresses
    "It costs $3.14.| That is cheap.",
    "Version 2.0.1 is out.| Version 3.0 is not.",
    "It ended in 1990.| 20 years later it began.",
    "In 1998.| In 1999 too.",
    "Open setup.py and run it.| Done.",
    "See www.example.com for more.| Or not.",
    "Look here: https://example.com/a.b?c=d.| It helps.",
    "Read it.| https://example.com has it.",
    "Write to a.b@example.com today.",
    "1. Introduction",
    "1. Open the door.| Then go in.",
    "a) First.| B) Second.",
    "iv. The fourth point",
    # ellipses
    "Well... maybe.",
    "Well...| Maybe.",
    "He waited…| Then he left.",
    "She said . . . nothing.",
    # quotes and brackets
    'He said "Stop."| Then he left.',
    '"Stop!" he said.| She did.',
    "“Why?”| “Because.”",
    "(This is one.)| This is two.",
    "It rained (see below).| We stayed.",
    "He asked 'why?'| Nobody knew.",
    "It is «done.»| Go on.",
    'They met at the "Ritz".| (It was late.)',
    "This was shown before [3].| Others disagree.",
    # names with punctuation, lowercase after it
    "I like Yahoo! and Jeopardy! a lot.",
    "It was late.| iPhone sales rose.",
    "It was approx. five metres.",
    "It rose to 1 Mbit/s.| In time it doubled.",
    "The tower is 9 m.| The other is 8 m.",
    "Mt. Everest is near Ft. Worth.",
    # smileys and dashes are not sentences
    "That is great! :-)",
    "He left. -- ",
    "He left.| - She stayed.",
    # other scripts
    "今日は晴れ。|明日は雨！|本当？",
    "「行こう。」と彼は言った。|終わり。",
    "「行こう。」|彼は出た。",
    "他说：“好。”|她笑了。",
    "Это дом.| Он большой.",
    "यह घर है।| वह बड़ा है।",
    "هل هذا بيت؟| نعم.",
    "¿Qué hora es?| ¡Es tarde!| Vamos.",
    "Österreich liegt dort.| Über allem ist Ruhe.",
    "Two  spaces.|  And a\nline end.|\nNext.",
]


@pytest.mark.parametrize("case", CASES)
def test_boundaries(case):
    assert split_sentences(case.replace("|", "")) == [part.strip() for part in case.split("|")]


def test_nothing_is_lost():
    text = " ".join(CASES).replace("|", "")
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["", " \n\t", ".", "...", "?! ?!", "a" * 1000 + "." * 1000])
def test_splits_unusual_texts(text):
    assert split_sentences(text) == ([text.strip()] if text.strip() else [])


def test_megabytes_without_an_end_take_linear_time():
    # Quadratic time would take minutes here and hit the time limit of the test command.
    for text in ("a" * 2_000_000, ". " * 500_000, '."' * 500_000, "A. " * 300_000, "(" * 500_000):
        assert len("".join(split_sentences(text))) <= len(text)


# === Growth ===

_RUNS = [".", "!", "?", "…", "。", "！", "۔", "a.", "!)", ".\"", "! ", ". ", "。 ", "。」", "(", "-", "- ",
         " ", "'", "é'", "A.", "1.", "e.g. ", "http://", "\n", "\u3000"]  # fmt: skip


@pytest.mark.parametrize("run", _RUNS)
@pytest.mark.parametrize("end", ["", " ", "x", " A"])
def test_runs_take_linear_time(run, end):
    def seconds(count):
        best = float("inf")
        for _ in range(2):
            start = time.process_time()
            split_sentences("Begin. A" + run * count + end)
            best = min(best, time.process_time() - start)
        return best

    # Ten times the text takes ten times as long, but a hundred times if it is quadratic.
    assert seconds(20_000) < 40 * seconds(2_000) + 0.05


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Really?! Yes.", ["Really?!", "Yes."]),
        ('Wait... No!!! "Go!" she said.', ["Wait...", "No!!!", '"Go!" she said.']),
        ("a.b!c... D", ["a.b!c...", "D"]),
        ("……… Then.", ["………", "Then."]),
        ("!!!!", ["!!!!"]),
        ("好！？真的。", ["好！？", "真的。"]),
    ],
)
def test_runs_of_stops_end_one_sentence(text, sentences):
    assert split_sentences(text) == sentences
