"""Chooses the files to download for a model."""

import re
from collections.abc import Callable
from pathlib import Path

from keras_bert_impl.checkpoints.published import check_family, is_preset
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document, parse_config, read_json, read_text

_TOKENIZER = """
    tokenizer_config.json special_tokens_map.json added_tokens.json tokenizer.json vocab.txt
    vocab.json merges.txt bpe.codes spiece.model sentencepiece.bpe.model
""".split()
# Sentence embedding settings. The folders listed in `modules.json` contain more files.
SENTENCE_SETTINGS = "config_sentence_transformers.json"
# Possible names of the file with the encoder settings. `sentence-transformers` reads the first one
# that exists.
SENTENCE_ENCODER = tuple(
    f"sentence_{kind}_config.json"
    for kind in "bert roberta distilbert camembert albert xlm-roberta xlnet".split()
)
_PRESET = """
    metadata.json tokenizer.json preprocessor.json task.json task.weights.h5
    assets/tokenizer/vocabulary.txt assets/tokenizer/vocabulary.json assets/tokenizer/merges.txt
    assets/tokenizer/vocabulary.spm
""".split()
# Weights files of a model directory, in order of preference, each followed by its shard index.
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
INDEX = ".index.json"  # suffix of a shard index
# File or index -> suffix of the shards. The first file that exists is used.
_WEIGHTS = {
    name + end: Path(name).suffix if end else None for name in WEIGHTS for end in ("", INDEX)
}
_PRESET_WEIGHTS = {"model.weights.h5": None, "model.weights.json": ".h5"}
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


def gather(fetch: Callable[[str], Path | None], source: str) -> dict[str, Path]:
    """Downloads all files of a model in the Hugging Face or KerasHub layout."""
    files: dict[str, Path] = {}

    def get(name):
        path = fetch(name)
        if path is not None:
            files[name] = path
        return path

    folders = _list_folders(get("modules.json"), source)
    # Older sentence-transformers models keep the encoder in the first folder.
    inner = f"{folders[0]}/" if folders and folders[0] else ""
    if get(f"{inner}config.json") is None:
        raise InputError(f"{source} has no {inner}config.json, which every supported model has.")
    config = read_json(files[f"{inner}config.json"])
    check_family(config)
    for name in _PRESET if is_preset(config) else _TOKENIZER:
        get(inner + name)
    if folders:
        for name in (SENTENCE_SETTINGS, *(inner + name for name in SENTENCE_ENCODER)):
            get(name)
        for folder in filter(None, folders[1:]):
            get(f"{folder}/config.json")
            if get(f"{folder}/model.safetensors") is None:
                get(f"{folder}/pytorch_model.bin")
    weights = _PRESET_WEIGHTS if is_preset(config) else _WEIGHTS
    for name, suffix in weights.items():
        path = get(inner + name)
        if path is None:
            continue
        for shard in _list_shards(path, suffix, source) if suffix else ():
            if get(inner + shard) is None:
                raise InputError(f"{source} has no {shard}, which its {name} lists.")
        return files
    raise InputError(f"{source} has no supported weights: none of {', '.join(weights)}.")


def _list_shards(path, suffix, source):
    weight_map = read_json(path).mapping("weight_map")
    if not weight_map:
        raise InputError(f"{source}: {path.name} must have a weight_map.")
    lists = [value if isinstance(value, list) else [value] for value in weight_map.values()]
    shards = [shard for names in lists for shard in names]
    for shard in shards:
        is_plain = isinstance(shard, str) and _PLAIN.fullmatch(shard)
        if not is_plain or not shard.endswith(suffix):
            kind = f"{suffix} file" if is_plain else "plain file name"
            raise InputError(f"{source}: {path.name} lists {shown(shard)}, which is not a {kind}.")
    return sorted(set(shards))


def _list_folders(path, source):
    """Returns the folders in `modules.json`. "" is the top folder. Without `path`, returns []."""
    if path is None:
        return []
    modules = Document({"modules": parse_config(read_text(path), path)}, path)
    folders = [module.text("path", "") for module in modules.list_of("modules", dict)]
    for folder in filter(None, folders):
        if not _PLAIN.fullmatch(folder):
            raise InputError(
                f"{source}: {path.name} lists {shown(folder)}, which is not a plain name."
            )
    return folders
