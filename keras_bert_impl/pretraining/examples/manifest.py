"""Validation of the records manifest: types and consistency of every value that is used."""

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import is_plain_name, parse_json
from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES

FORMAT_VERSION = 3
SPLITS = ("train", "held_out")
_LONGEST_ROW = 1 << 20  # tokens
_MOST = 1 << 62
_COUNTS = ("rows", "tokens", "examples", "pairs_labelled_1", "examples_in_fullest_row")


def checked_manifest(path: str, text: bytes) -> tuple[Document, list[str], list[int]]:
    """Parses a manifest; returns it, the names of its shards and their sizes in bytes."""
    try:
        value = parse_json(text, path)
        manifest = Document(value if isinstance(value, dict) else {}, path)
        version = manifest.integer("version")
        if version == FORMAT_VERSION:
            return manifest, *_checked(manifest)
    except InputError as error:
        raise InputError(f"{path} is damaged; run prepare again: {error}") from None
    raise InputError(
        f"{path} has format version {version}, this program reads {FORMAT_VERSION}; "
        "run prepare again."
    )


def _checked(manifest):
    names, sizes = [], []
    settings, tokenizer = manifest.mapping("settings"), manifest.mapping("tokenizer")
    for name in SPLITS:
        split = manifest.mapping("splits").mapping(name)
        shards = split.list_of("shards", dict)
        for shard in shards:
            names.append(shard.text("file"))
            if not is_plain_name(names[-1]):
                raise shard.error("file", "the name of a file in the folder")
            sizes.append(shard.integer("bytes", least=0, most=_MOST))
            shard.integer("rows", least=1, most=_MOST)
            shard.text("sha256")
        for count in _COUNTS:
            split.integer(count, least=0, most=_MOST)
        if split["rows"] != sum(shard["rows"] for shard in shards):
            raise split.error("rows", "the sum of the rows of its shards")
    tokenizer.text("fingerprint")
    tokenizer.integer("vocabulary_size", least=1)
    settings.text("objective", choices=tuple(RECORDS_OBJECTIVES))
    settings.integer("length", least=8, most=_LONGEST_ROW)
    settings.integer("max_examples_per_row", least=1, most=_LONGEST_ROW)
    return names, sizes
