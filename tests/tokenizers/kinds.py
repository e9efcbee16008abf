"""A small tokenizer of every kind, written to a directory by `transformers`."""

import json
import random

import tensorflow as tf
import tokenizers
import transformers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from keras_bert_impl.tokenizers.moses.characters import SPECIAL_TOKENS as FLAUBERT
from keras_bert_impl.tokenizers.moses.words import MosesSplitter
from tests.tokenizers.sentencepiece_models import train

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ENGLISH = """It's a test of what doesn't fit: naïve cafés, 1,234.5 numbers — and “quotes”.
We'll see that they've been I'd say; aaaaaa bbbb the the the then them there theirs
  two  spaces and\ttabs\n\nlines 日本語テキスト 😀😀 über straße"""
FRENCH = """L’homme qu'elle a vu aujourd'hui, M. Dupont, n'est pas d'ici : c'est J.-C. Martin.
« Qu'est-ce que c'est ? » demanda-t-il… «\u00a0Rien\u00a0!\u00a0», répondit Mme. Léger, "oui."
Le prix est de 1\u00a0234,5\u00a0€ (soit 12 %), cf. chap. 3, p. ex. le 14/07/1789 à 10h30, etc. là
“Noël” – dit-on — à Saint-Étienne ; écrire à jean.dupont@exemple.fr ou https://exemple.fr/été?a=1,2
ŒUVRE, GARÇON, MAÏS ET AÏEUL : l'été 1998... « Il partit. » Puis rock'n'roll, l'a'b, S.N.C.F.
Il a dit "oui," puis "non." et 'jamais', `peut-être` ou ``qui sait''. n° 5, nº\u00a012, 3½ m²"""


def small_vocabulary():
    """Special tokens, words, and many kinds of characters at the start of and inside words."""
    ranges = [(0x21, 0x7F), (0xA1, 0x180), (0x300, 0x310), (0x391, 0x3CA), (0x410, 0x450)]
    ranges += [(0x5D0, 0x5EB), (0x93E, 0x940), (0x1100, 0x1113), (0x1161, 0x1176), (0x11A8, 0x11C3)]
    ranges += [(0x302E, 0x3030), (0x4E2D, 0x4E2E), (0x1D157, 0x1D166), (0x10400, 0x10450)]
    characters = [chr(code) for start, end in ranges for code in range(start, end)]
    words = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", "hello", "the", "##ab"]
    # A run of the first characters of special tokens and an empty entry must do no harm.
    return [*BERT, "", *words, *characters, *(f"##{c}" for c in characters)]


def learn_bytes(path):
    """Writes vocab.json and merges.txt of byte-level BPE."""
    learner = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learner.train_from_iterator([ENGLISH] * 3, 400, special_tokens=special, show_progress=False)
    learner.save_model(str(path))


def learn_gpt2(path):
    """Writes vocab.json and merges.txt of GPT-2; returns the tokenizer of `transformers`."""
    learner = tokenizers.ByteLevelBPETokenizer()
    learner.train_from_iterator([ENGLISH] * 3, 400, show_progress=False)
    learner.add_special_tokens(["<|endoftext|>"])
    learner.save_model(str(path))
    ids = learner.get_vocab(with_added_tokens=True)
    (path / "vocab.json").write_text(json.dumps(ids))
    return transformers.GPT2Tokenizer.from_pretrained(path)


def learn_french(path):
    """Writes vocab.json and merges.txt of a FlauBERT tokenizer that lacks some tokens."""
    learner = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = MosesSplitter(lowercase=False)(tf.constant(FRENCH.split("\n"))).strings()
    text = " ".join(word.decode() for word in words.numpy())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, end_of_word_suffix="</w>", show_progress=False
    )
    learner.train_from_iterator([text, text.lower()] * 3, trainer)
    model = json.loads(learner.to_str())["model"]
    pieces = [piece for number, piece in enumerate(sorted(model["vocab"])) if number % 9]
    ids = {piece: number for number, piece in enumerate([*FLAUBERT, *pieces])}
    (path / "vocab.json").write_text(json.dumps(ids))
    lines = "".join(f"{first} {second} 7\n" for first, second in model["merges"])
    (path / "merges.txt").write_text(lines)


def like_modernbert():
    """A tokenizer with NFC, added tokens before and after the learned ones, and runs of spaces."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["|||IP_ADDRESS|||", "<|padding|>"],
        show_progress=False,
    )
    text = f"{ENGLISH}\n    def indented(code):\n            return 'more'   # the theirs"
    tokenizer.train_from_iterator([text] * 3, trainer)
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    tokenizer.add_tokens([AddedToken("|||EMAIL_ADDRESS|||", normalized=True)])
    mask = AddedToken("[MASK]", lstrip=True, special=True)
    special = ["<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", mask]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([AddedToken(f"[unused{i}]", normalized=True) for i in range(3)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _wordpiece(path, lowercase):
    (path / "vocab.txt").write_text("".join(f"{token}\n" for token in small_vocabulary()))
    return transformers.BertTokenizer(str(path / "vocab.txt"), do_lower_case=lowercase)


def _roberta(path):
    learn_bytes(path)
    return transformers.RobertaTokenizer.from_pretrained(path)


def _modernbert(path):
    names = ("unk", "cls", "sep", "pad", "mask")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=like_modernbert(),
        **{f"{name}_token": f"[{name.upper()}]" for name in names},
    )


def _sentencepiece(path, family):
    train(path, family)
    return transformers.AutoTokenizer.from_pretrained(path)


def _flaubert(path, lowercase):
    learn_french(path)
    files = (str(path / name) for name in ("vocab.json", "merges.txt"))
    return transformers.FlaubertTokenizer(*files, do_lowercase=lowercase)


# Functions that take a directory for files and return a tokenizer of `transformers`.
KINDS = {
    "uncased WordPiece": lambda path: _wordpiece(path, True),
    "cased WordPiece": lambda path: _wordpiece(path, False),
    "RoBERTa": _roberta,
    "ModernBERT": _modernbert,
    "ALBERT": lambda path: _sentencepiece(path, "ALBERT"),
    "XLM-RoBERTa": lambda path: _sentencepiece(path, "XLM-RoBERTa"),
    "CamemBERT": lambda path: _sentencepiece(path, "CamemBERT"),
    "cased FlauBERT": lambda path: _flaubert(path, False),
    "uncased FlauBERT": lambda path: _flaubert(path, True),
}


def texts():
    """Texts and unusual strings for any tokenizer."""
    draw = random.Random(0)
    parts = [*" '\n\t,.<>[]asteLrvmd15é日😀½", "e\u0301", "<mask>", "[MASK]", "</s>", "[SEP]", "  "]
    drawn = ["".join(draw.choices(parts, k=draw.randint(1, 20))) for _ in range(200)]
    return ["", " ", ENGLISH, *ENGLISH.split("\n"), FRENCH, *FRENCH.split("\n"), *drawn, ""]


def edit(name, change):
    """Returns a function that edits the JSON value in a file of a directory."""

    def damage(path):
        value = json.loads((path / name).read_text())
        change(value)
        (path / name).write_text(json.dumps(value))

    return damage
