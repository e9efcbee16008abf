"""Records of translations: pairs of sentences, positions that restart, and language ids."""

import json

import pytest

from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples.records import read_manifest
from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset
from keras_bert_impl.pretraining.run import pretrain
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.helpers import CONFIG, settings_of

LANGUAGES = ("en", "de", "fr")
NUMBERS = 300


@pytest.fixture(scope="module")
def tokenizer():
    """Each token names a language and a sentence: `b17` is in German, in document 17."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return WordPieceTokenizer([*special, *(f"{x}{n}" for x in "abc" for n in range(NUMBERS))])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Document n has the token `a<n>` 2 to 5 times, then `b<n>`, then `c<n>`."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    with open(path, "w") as file:
        for number in range(NUMBERS):
            for place, name in enumerate("abc"):
                file.write(f"{name}{number} " * (2 + (number + place) % 4) + "\n")
            file.write("\n")
    return path


@pytest.fixture(scope="module")
def directory(corpus, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("translations")
    settings = {"objective": "tlm", "languages": LANGUAGES, "held_out": 0.2, "num_workers": 1}
    for _ in range(2):  # a second call with the same settings replaces the records
        prepare(corpus, folder / "records", tokenizer, length=24, **settings)
    return folder / "records"


def sentences(directory, **arguments):
    """Yields the token ids, position ids and segment ids of each example, before masking."""
    for features, labels, weights in pretraining_dataset(directory, 16, **arguments).take(4):
        rows = {name: value.numpy() for name, value in features.items()}
        used = weights["masked_lm"].numpy() == 1
        for row, token_ids in enumerate(rows["token_ids"]):
            places = rows["masked_positions"][row][used[row]]
            token_ids[places] = labels["masked_lm"].numpy()[row][used[row]]
            for example in range(1, rows["example_ids"][row].max() + 1):
                mine = rows["example_ids"][row] == example
                yield (
                    token_ids[mine],
                    rows["position_ids"][row][mine],
                    rows["segment_ids"][row][mine],
                )


def test_pairs_are_translations_of_two_languages(directory, tokenizer):
    orders = set()
    for token_ids, positions, segments in sentences(directory):
        names = [tokenizer.vocabulary[token] for token in token_ids]
        end = names.index("[SEP]")
        first, second = names[1:end], names[end + 1 : -1]
        assert names[0] == "[CLS]" and names[-1] == "[SEP]"
        assert len(set(first)) == len(set(second)) == 1  # no other language or document
        assert first[0][1:] == second[0][1:]  # the same document
        assert positions.tolist() == [*range(len(first) + 2), *range(len(second) + 1)]
        source, target = "abc".index(first[0][0]), "abc".index(second[0][0])
        assert segments.tolist() == [source] * (len(first) + 2) + [target] * (len(second) + 1)
        orders.add((source, target))
    assert orders == {
        (source, target) for source in range(3) for target in range(3) if source != target
    }


def test_a_model_with_one_segment_gets_zeros(directory):
    for _, positions, segments in sentences(directory, language_ids=False):
        assert not segments.any() and (positions == 0).sum() == 2


@pytest.mark.parametrize("num_segments", [1, 2, 3])
def test_pretraining(num_segments, directory, tmp_path):
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps(CONFIG | {"type_vocab_size": num_segments}))
    if num_segments == 2:
        with pytest.raises(InputError, match="3 languages, but the model has embeddings of 2"):
            pretrain(directory, tmp_path / "run", **settings_of(shape))
        return
    pretrainer = pretrain(directory, tmp_path / "run", **settings_of(shape))
    assert pretrainer.encoder.config.num_segments == num_segments
    assert read_manifest(directory)["settings"]["languages"] == list(LANGUAGES)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"languages": ("en", "de")}, "corpus.txt:1: expected 2 lines, .* but there are 3"),
        ({"languages": ()}, "the objective tlm requires languages"),
        ({"languages": ("en", "en")}, "the objective tlm requires languages"),
        ({"objective": "mlm"}, "no other objective accepts them"),
    ],
)
def test_invalid_settings(changed, message, corpus, tokenizer, tmp_path):
    settings = {"objective": "tlm", "languages": LANGUAGES, "num_workers": 1} | changed
    with pytest.raises(InputError, match=message):
        prepare(corpus, tmp_path / "records", tokenizer, **settings)
    assert not (tmp_path / "records").exists()
