"""Downloads from Kaggle, where KerasHub keeps its presets.

Files are asked for one by one, under names that are known: neither a list of names nor an archive
from the network decides where something is written.
"""

import contextlib
import functools
from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.hub.contents import gather, is_complete, write_record

_VERSIONS = {
    "bert": {
        "bert_tiny_en_uncased": 3,
        "bert_small_en_uncased": 3,
        "bert_medium_en_uncased": 3,
        "bert_base_en_uncased": 3,
        "bert_base_en": 3,
        "bert_base_zh": 3,
        "bert_base_multi": 3,
        "bert_large_en_uncased": 3,
        "bert_large_en": 3,
        "bert_tiny_en_uncased_sst2": 5,
    },
    "roberta": {"roberta_base_en": 3, "roberta_large_en": 3},
    "albert": {
        "albert_base_en_uncased": 5,
        "albert_large_en_uncased": 3,
        "albert_extra_large_en_uncased": 3,
        "albert_extra_extra_large_en_uncased": 3,
    },
    "distil_bert": {
        "distil_bert_base_en_uncased": 3,
        "distil_bert_base_en": 3,
        "distil_bert_base_multi": 3,
    },
    "electra": {
        "electra_small_discriminator_uncased_en": 2,
        "electra_small_generator_uncased_en": 2,
        "electra_base_discriminator_uncased_en": 2,
        "electra_base_generator_uncased_en": 2,
        "electra_large_discriminator_uncased_en": 2,
        "electra_large_generator_uncased_en": 2,
    },
    "xlm_roberta": {"xlm_roberta_base_multi": 3, "xlm_roberta_large_multi": 3},
}
# KerasHub's names of its presets, with the versions that its own table has.
PRESETS = {
    preset: f"keras/{model}/keras/{preset}/{version}"
    for model, versions in _VERSIONS.items()
    for preset, version in versions.items()
}


class _UnreachableError(InputError):
    """No connection, or one that broke."""


def download(handle, version=None):
    """The directory with the model's files in the cache of Kaggle's library.

    Args:
        handle: str, `owner/model/framework/variation`.
        version: str, a number; None for the newest.

    Returns:
        `Path`.

    Raises:
        InputError: it can neither be downloaded nor found in the cache; says why.
    """
    import kagglehub.config
    from huggingface_hub import constants
    from huggingface_hub.utils import WeakFileLock

    source = f"kaggle://{handle}" + (f"/{version}" if version else "")
    cache = Path(kagglehub.config.get_cache_folder()).expanduser().absolute()
    models, records = cache / "models" / handle, cache / "keras_bert_impl" / handle
    cached = _newest_complete(models, records, version)
    if cached and (version or constants.HF_HUB_OFFLINE):
        return cached
    if constants.HF_HUB_OFFLINE:
        raise InputError(
            f"{source} is not in the cache, and HF_HUB_OFFLINE is set; unset it for the download."
        )
    try:
        with _clear_errors(source):
            records.mkdir(parents=True, exist_ok=True)
            # The library itself lets two processes write to one file.
            with WeakFileLock(records / "lock"):
                return _download(handle, version, source, records)
    except _UnreachableError:
        if cached:
            return cached
        raise


def _newest_complete(models, records, version):
    """The directory of a version, by default the newest that is complete; None without one."""
    found = [int(record.name) for record in records.glob("[1-9]*") if record.name.isdigit()]
    for number in sorted(found, reverse=True):
        directory = models / str(number)
        if version in (None, str(number)) and is_complete(records / str(number), directory):
            return directory
    return None


def _download(handle, version, source, records):
    handle = f"{handle}/{version}" if version else handle
    config = _fetch(handle, source, False, "config.json")
    if config is None:
        raise InputError(f"{source}: Kaggle has no such model, or it has no config.json.")
    directory = config.parent
    record = records / directory.name
    if version is None and directory.name.isdigit():
        handle = f"{handle}/{directory.name}"  # the same for all files, whatever comes meanwhile
    # The library would give damaged files from its cache again.
    damaged = record.exists() and not is_complete(record, directory)
    files = gather(functools.partial(_fetch, handle, source, damaged), source)
    write_record(record, files)
    return directory


def _fetch(handle, source, again, name):
    """The path of a file, which has the MD5 that Kaggle states, or None where there is none."""
    import kagglehub
    from kagglehub.exceptions import DataCorruptionError, KaggleApiHTTPError

    try:
        return Path(kagglehub.model_download(handle, path=name, force_download=again))
    except KaggleApiHTTPError as error:
        if error.response.status_code == 404:
            return None
        raise
    except DataCorruptionError as error:
        raise InputError(
            f"{source}: {name} was downloaded with other content than Kaggle states "
            f"({' '.join(str(error).split())}). It was removed; try again."
        ) from error
    except ValueError as error:
        # So it is said in the notebooks of Kaggle and of Colab, where models are mounted.
        if "is not present" in str(error):
            return None
        raise InputError(f"{source}: {error}") from error


@contextlib.contextmanager
def _clear_errors(source):
    """Turns whatever goes wrong on the way to Kaggle into one InputError."""
    from kagglehub.exceptions import BackendError, KaggleApiHTTPError

    try:
        yield
    except KaggleApiHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            page = "/".join(source.removeprefix("kaggle://").split("/")[:2])
            raise InputError(
                f"{source}: Kaggle refuses it (status {status}). Accept its terms at "
                f"https://www.kaggle.com/models/{page}, then log in with `kagglehub.login()` or "
                "set KAGGLE_API_TOKEN."
            ) from error
        raise InputError(f"{source}: Kaggle answered with status {status}; try later.") from error
    except BackendError as error:
        raise InputError(f"{source}: Kaggle answered: {error}") from error
    except OSError as error:
        if error.errno and not isinstance(error, ConnectionError):
            raise InputError(
                f"{source}: cannot write to the cache: {error.strerror}. Free some space or set "
                "KAGGLEHUB_CACHE to another disk."
            ) from error
        raise _UnreachableError(
            f"{source} is not complete in the cache, and the connection to Kaggle broke "
            f"({error}). Try again: the download goes on where it stopped."
        ) from error
