import numpy as np
import pytest
import tensorflow as tf
from tokenizers import Tokenizer as TheirTokenizer
from tokenizers import models, pre_tokenizers, processors

from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.tokenizers.windows import pack_windows, window_spans
from keras_bert_impl.utils.errors import InputError

WORDS = "who did what to whom and when was it done there".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def texts(count, most, seed=0):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(0, most))) for _ in range(count)]


def theirs(length, stride, first_length):
    """Windows of `tokenizers`, where "stride" means the overlap of two windows."""
    pieces = {piece: number for number, piece in enumerate(VOCABULARY)}
    tokenizer = TheirTokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    overlap = length - 3 - first_length - stride
    tokenizer.enable_truncation(length, stride=overlap, strategy="only_second")
    return tokenizer


@pytest.mark.parametrize("stride", [1, 3, 7])
def test_rows_equal_tokenizers(stride):
    """Questions have three tokens each: theirs has one overlap for all, ours one stride."""
    length, passages = 13, texts(40, 60)
    passages = [text for text in passages if text]  # for empty ones, theirs has one token less
    questions = [" ".join(WORDS[:3])] * len(passages)
    pairs = tf.constant(questions), tf.constant(passages)
    windows = pack_windows(TOKENIZER, pairs, length, stride, other_length=3)
    expected, numbers = [], []
    encodings = theirs(length, stride, 3).encode_batch(list(zip(questions, passages)))
    for number, encoding in enumerate(encodings):
        for row in (encoding, *encoding.overflowing):
            expected.append((row.ids, row.type_ids))
            numbers.append(number)
    np.testing.assert_array_equal(windows.texts, numbers)
    lengths = tf.reduce_sum(windows.features["padding_mask"], axis=1).numpy()
    for name, column in (("token_ids", 0), ("segment_ids", 1)):
        rows = windows.features[name].numpy()
        received = [row[:length].tolist() for row, length in zip(rows, lengths)]
        assert received == [row[column] for row in expected]


@pytest.mark.parametrize("paired", [False, True])
def test_windows_contain_every_token_at_its_position(paired):
    long = texts(30, 40)
    inputs = tf.constant(long)
    if paired:
        inputs = tf.constant(texts(30, 9)), inputs
    windows = pack_windows(TOKENIZER, inputs, 12, 4, other_length=5)
    rows = windows.features["token_ids"].numpy()
    ids = TOKENIZER.tokenize(long).to_list()
    text_positions = [set() for _ in long]
    for row, numbers in enumerate(windows.tokens().numpy()):
        text = int(windows.texts[row])
        for column in np.flatnonzero(numbers >= 0):
            assert rows[row, column] == ids[text][numbers[column]]
            text_positions[text].add(numbers[column])
    assert [len(positions) for positions in text_positions] == [len(text) for text in ids]
    assert rows.shape[1] <= 12


def test_selects_the_window_with_most_context():
    """Compares with the definition in the published script, token by token."""
    windows = pack_windows(TOKENIZER, tf.constant(texts(20, 50, seed=2)), 14, 5)
    texts_of, starts, counts = (part.numpy() for part in windows[1:3] + windows[4:5])
    has_most_context = windows.has_most_context().numpy()
    for row, numbers in enumerate(windows.tokens().numpy()):
        for column, token in enumerate(numbers):
            best, best_row = None, None
            for candidate in np.flatnonzero(texts_of == texts_of[row]):
                end = starts[candidate] + counts[candidate] - 1
                if not starts[candidate] <= token <= end:
                    continue
                score = min(token - starts[candidate], end - token) + 0.01 * counts[candidate]
                if best is None or score > best:
                    best, best_row = score, candidate
            assert has_most_context[row, column] == (token >= 0 and best_row == row)


def test_spans_may_be_adjacent_or_empty():
    lengths, room = tf.constant([0, 4, 9], tf.int64), tf.fill([3], tf.constant(4, tf.int64))
    spans = [part.numpy().tolist() for part in window_spans(lengths, room, 100)]
    assert spans == [[0, 1, 2, 2, 2], [0, 0, 0, 4, 8], [0, 4, 4, 8, 9]]


def test_nothing_but_empty_texts():
    windows = pack_windows(TOKENIZER, tf.constant(["", ""]), 8, 2)
    assert windows.features["token_ids"].numpy().tolist() == [[2, 3], [2, 3]]
    assert not windows.has_most_context().numpy().any()
    assert pack_windows(TOKENIZER, tf.constant([], tf.string), 8, 2).texts.shape == 0


def test_works_in_a_graph_of_any_batch():
    graph = tf.function(
        lambda texts: pack_windows(TOKENIZER, texts, 8, 3).features["token_ids"],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    for batch in (["who did what to whom and when was it"], ["it", "was " * 20]):
        eager = pack_windows(TOKENIZER, tf.constant(batch), 8, 3).features["token_ids"]
        np.testing.assert_array_equal(graph(tf.constant(batch)), eager)


@pytest.mark.parametrize("arguments", [(8, 3, 5), (8, 0, 2), (3, 1, 0)])
def test_rejects_windows_without_room(arguments):
    pair = tf.constant(["a"]), tf.constant(["b"])
    with pytest.raises(InputError, match="doc_stride"):
        pack_windows(TOKENIZER, pair, *arguments)
