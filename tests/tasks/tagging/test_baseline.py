"""The most frequent label of each word, as a baseline of taggers."""

from keras_bert_impl.tasks.tagging.baseline import compared, word_tags

TEXTS = [["Ada", "saw", "May"], ["May", "is", "here"], ["in", "May"]]
LABELS = [["B-PER", "O", "B-PER"], ["O", "O", "O"], ["O", "O"]]


def test_each_word_gets_its_most_frequent_label_and_new_words_that_of_all():
    assert word_tags(TEXTS, LABELS, [["Ada", "met", "May"]]) == [["B-PER", "O", "O"]]


def test_entities_are_compared_by_f1():
    gold = [["B-PER", "O", "B-PER"]] * 30
    comparison = compared(gold, gold, [["B-PER", "O", "O"]] * 30)
    assert comparison.scores() == {"most_frequent_tag/f1": 2 / 3}
    assert comparison.verdict() == [
        "f1 1.000, baseline most_frequent_tag 0.667: the model is better (p < 0.001, n = 30)."
    ]


def test_a_tagger_that_finds_nothing_is_told():
    gold = [["B-PER", "O", "B-PER"]] * 3
    sentences = compared(gold, [["O"] * 3] * 3, [["O"] * 3] * 3).verdict()
    assert sentences[0] == "No entity is predicted, but the examples contain 6. Train longer."
    assert "too few examples (n = 3) to tell a difference" in sentences[1]


def test_parts_of_speech_are_compared_by_words():
    gold = [["NOUN", "VERB"]] * 4
    comparison = compared(gold, gold, [["NOUN", "NOUN"]] * 4)
    assert comparison.scores() == {"most_frequent_tag/accuracy": 0.5}


def test_sentences_without_o_have_entities_if_the_data_set_has_them():
    true_labels, predicted, simple = [["PER", "PER"]] * 2, [["LOC", "PER"]] * 2, [["PER"] * 2] * 2
    comparison = compared(true_labels, predicted, simple, ["O", "PER", "LOC"])
    assert comparison.scores() == {"most_frequent_tag/f1": 1.0}
    assert comparison.outcome.score("f1") == 0.0
