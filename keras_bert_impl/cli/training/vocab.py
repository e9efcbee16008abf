"""`keras-bert vocab`: learns a WordPiece vocabulary, or extends a vocabulary of any kind."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_documents, positive_int, say
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_DIRECTORY
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.io.progress import Progress

EXAMPLE = """  keras-bert vocab corpus.txt more/ --out tokenizer --size 8000
  keras-bert vocab abstracts.txt --extend bert-base-uncased --out bert-medical"""
TENSORFLOW_ALONE = True
_SIZE, _ADDED = 30522, 1000  # tokens


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_documents(parser)
    group = parser.add_argument_group("vocabulary")
    group.add_argument(
        "--out", required=True, type=OUTPUT_DIRECTORY, metavar="DIR", help="directory to write"
    )
    group.add_argument(
        "--size", type=positive_int, metavar="N", help=f"size of the vocabulary; default: {_SIZE}"
    )
    group.add_argument("--cased", action="store_true", help="keep upper case and accents")
    group.add_argument(
        "--min-frequency",
        type=positive_int,
        metavar="N",
        help="how often a pair of tokens must occur to be merged (default: 2), or with --extend a "
        "word or pair to be added (default: 5)",
    )
    group = parser.add_argument_group("instead of a new vocabulary")
    group.add_argument(
        "--extend",
        type=MODEL,
        metavar="MODEL",
        help="write this model with more tokens, for words of the text, to pre-train it further",
    )
    group.add_argument(
        "--add",
        type=positive_int,
        metavar="N",
        help=f"largest number of tokens that --extend adds; default: {_ADDED}",
    )


def check(arguments: Namespace) -> None:
    """Refuses the options of the other way."""
    others, way = (("size", "cased"), "with") if arguments.extend else (("add",), "without")
    for name in others:
        if getattr(arguments, name):
            raise InputError(f"--{name} has no meaning {way} --extend.")


def run(arguments: Namespace) -> None:
    """Reads the text, learns the vocabulary and writes it with its settings."""
    from keras_bert_impl.pretraining import read_documents
    from keras_bert_impl.tokenizers import WordPieceTokenizer, learn_wordpiece_vocabulary

    documents = read_documents(arguments.text, arguments.format, arguments.text_field)
    if arguments.extend:
        _extend(arguments, documents)
        return
    with replace_directory(arguments.out) as temporary:  # rejects an unusable path before the work
        vocabulary = learn_wordpiece_vocabulary(
            _texts(documents),
            vocabulary_size=arguments.size or _SIZE,
            lowercase=not arguments.cased,
            min_frequency=arguments.min_frequency or 2,
        )
        WordPieceTokenizer(vocabulary, lowercase=not arguments.cased).save_pretrained(temporary)
    say(f"wrote {len(vocabulary):,} tokens to {arguments.out}")


def _extend(arguments, documents):
    from keras_bert_impl.conversion.vocabulary_augmentation import augment_vocabulary

    tokens = augment_vocabulary(
        arguments.extend,
        arguments.out,
        _texts(documents),
        arguments.add or _ADDED,
        arguments.min_frequency or 5,
    )
    some = ", ".join(tokens[:10])
    say(f"added {len(tokens):,} tokens ({some}, ...); wrote the model to {arguments.out}")


def _texts(documents):
    with Progress("reading", unit="documents") as progress:
        for count, document in enumerate(documents, start=1):
            yield from document.paragraphs
            progress.update(count)
