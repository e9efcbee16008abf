"""Downloads from Kaggle, which hosts KerasHub's presets.

Requests files one by one under known names, so neither a list of names nor an archive from the
network determines where a file is written. Uses the `kagglehub` library's settings, credentials
and cache, but not its requests: it enforces no limits.
"""

import base64
import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from keras_bert_impl.hub.contents import gather, is_complete, write_record
from keras_bert_impl.hub.transfer import TransferError, UnsafeAnswerError, limit, request
from keras_bert_impl.io.errors import InputError

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
# KerasHub preset names, with the versions in KerasHub's own table.
PRESETS = {
    preset: f"keras/{model}/keras/{preset}/{version}"
    for model, versions in _VERSIONS.items()
    for preset, version in versions.items()
}


class _UnreachableError(InputError):
    """The connection failed or broke."""


def download(handle, version=None):
    """Returns the directory with the model's files in the `kagglehub` cache.

    Args:
        handle: str. `owner/model/framework/variation`.
        version: str. Version number; None for the newest.

    Returns:
        `Path`.

    Raises:
        InputError: the model can be neither downloaded nor found in the cache; says why.
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
            with WeakFileLock(records / "lock"):
                return _download(handle, version, source, models, records)
    except _UnreachableError:
        if cached:
            return cached
        raise


def _newest_complete(models, records, version):
    """Returns the directory of `version`, or of the newest complete version; None if none is."""
    found = [int(record.name) for record in records.glob("[1-9]*") if record.name.isdigit()]
    for number in sorted(found, reverse=True):
        directory = models / str(number)
        if version in (None, str(number)) and is_complete(records / str(number), directory):
            return directory
    return None


def _download(handle, version, source, models, records):
    mounted = _mounted(handle, version, source)
    if mounted is not None:
        return mounted
    version = version or str(_newest_version(handle, source))
    directory, record = models / version, records / version
    # Files that the library marked as complete may have changed since.
    again = record.exists() and not is_complete(record, directory)
    fetch = functools.partial(_fetch, handle, version, source, models, again)
    if fetch("config.json") is None:
        raise InputError(f"{source}: Kaggle has no such model, or it has no config.json.")
    write_record(record, gather(fetch, source))
    return directory


def _mounted(handle, version, source):
    """Returns the `Path` of the model if a Kaggle or Colab notebook mounts it, else None."""
    import kagglehub
    from kagglehub.clients import ColabClient
    from kagglesdk.kaggle_env import is_in_kaggle_notebook

    if not is_in_kaggle_notebook() and ColabClient.TBE_RUNTIME_ADDR_ENV_VAR_NAME not in os.environ:
        return None
    try:
        directory = Path(kagglehub.model_download(f"{handle}/{version}" if version else handle))
    except ValueError as error:
        raise InputError(f"{source}: {error}") from error

    def fetch(name):
        path = directory / name
        return path if path.exists() else None

    gather(fetch, source)
    return directory


def _newest_version(handle, source):
    from kagglesdk.models.types.model_api_service import ApiGetModelInstanceRequest

    with _request("GetModelInstance", ApiGetModelInstanceRequest(), handle, source) as answer:
        if answer.status == 404:
            raise InputError(f"{source}: Kaggle has no such model, or it has no config.json.")
        body = answer.read(max_bytes=2**20)
    try:
        version = json.loads(body)["versionNumber"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{source}: Kaggle named no version; try later.") from error
    if type(version) is not int or not 0 < version < 10**9:
        raise InputError(f"{source}: Kaggle named no version; try later.")
    return version


def _fetch(handle, version, source, models, again, name):
    """Returns the path of a file, checked by any MD5 that Kaggle states; None if it has none."""
    path = models / version / name
    # The library marks complete files this way.
    marker = models / ".complete" / version / f"{name}.complete"
    if path.exists() and marker.exists() and not again:
        return path
    partial = path.with_name(f"{path.name}.incomplete")
    path.parent.mkdir(parents=True, exist_ok=True)
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.unlink(missing_ok=True)
    stated = _receive(partial, handle, version, source, name)
    if stated is None:
        return None
    if stated and _md5_of(partial) != stated:
        partial.unlink()
        raise InputError(
            f"{source}: {name} was downloaded with other content than Kaggle states (MD5 {stated})."
            " It was removed; try again."
        )
    os.replace(partial, path)
    marker.touch()
    return path


def _receive(partial, handle, version, source, name):
    """Downloads a file, resuming a partial download.

    Returns:
        str. The MD5 stated by Kaggle, or "" if it states none. None if there is no such file.
    """
    from huggingface_hub.utils import tqdm
    from kagglesdk.models.types.model_api_service import ApiDownloadModelInstanceVersionRequest

    content = ApiDownloadModelInstanceVersionRequest()
    content.version_number = int(version)
    content.path = name
    done = partial.stat().st_size if partial.exists() else 0
    more = {"Range": f"bytes={done}-"} if done else {}
    ask = functools.partial(_request, "DownloadModelInstanceVersion", content, handle, source)
    with ask(**more) as answer, contextlib.ExitStack() as stack:
        if answer.status == 416:  # the partial file already reaches the end
            answer = stack.enter_context(ask())
            done = 0
        if answer.status == 404:
            return None
        if done and not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            done = 0
        size = _check_size(partial.parent, answer.headers, source, name)
        file = stack.enter_context(partial.open("ab" if done else "wb"))
        total = size and done + size
        bar = stack.enter_context(
            tqdm(total=total, initial=done, unit="B", unit_scale=True, desc=name, disable=None)
        )
        for block in answer.blocks(size if size is not None else int(limit("MAX_BYTES"))):
            file.write(block)
            bar.update(len(block))
        stated = answer.headers.get("x-goog-hash", "")
        found = re.search(r"(?:^|[,\s])md5=([A-Za-z0-9+/]{22}==)", stated)
        return found[1] if found else ""


def _check_size(folder, headers, source, name):
    """Returns the number of bytes to be received, or None if unknown; checks for free space."""
    length = headers.get("Content-Length", "")
    if not re.fullmatch("[0-9]{1,18}", length):
        return None
    if int(length) > limit("MAX_BYTES"):
        raise InputError(
            f"{source}: {name} has {int(length):.3g} bytes; KERAS_BERT_HUB_MAX_BYTES is "
            f"{limit('MAX_BYTES'):.3g}."
        )
    free = shutil.disk_usage(folder).free
    if free < int(length):
        raise InputError(
            f"{folder} has {free:,} bytes free, and {name} of {source} needs {int(length):,}. Free "
            "some space or set KAGGLEHUB_CACHE to another disk."
        )
    return int(length)


def _md5_of(path):
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return base64.b64encode(digest.digest()).decode()


@contextlib.contextmanager
def _request(method, content, handle, source, **headers):
    """Sends a request to Kaggle's model service and yields the response.

    Args:
        method: str. Method of the service.
        content: `kagglesdk` request without the model's name, which is filled in here.
        handle: str. `owner/model/framework/variation`.
        source: str. Name of the model in error messages.
        **headers: additional request headers.
    """
    from kagglehub.handle import parse_model_handle
    from kagglesdk.kaggle_env import KaggleEnv, get_endpoint, get_env

    try:
        model = parse_model_handle(handle)
        content.framework = model.framework_enum()
    except ValueError as error:
        raise InputError(f"{source}: {error}") from error
    content.owner_slug, content.model_slug = model.owner, model.model
    content.instance_slug = model.variation
    environment = get_env()
    base = get_endpoint(environment) + ("" if environment == KaggleEnv.PROD else "/api")
    url = f"{base}/v1/models.ModelApiService/{method}"
    headers |= _credentials() | {"Accept-Encoding": "identity"}
    try:
        with request("POST", url, headers, json=type(content).to_dict(content)) as answer:
            _check_status(answer.status, source)
            yield answer
    except UnsafeAnswerError as error:
        raise InputError(f"{source}: {error}.") from error
    except TransferError as error:
        raise _UnreachableError(
            f"{source} is not complete in the cache, and the connection to Kaggle broke "
            f"({error}). Try again: the download goes on where it stopped."
        ) from error


def _credentials():
    """Returns a dict of the headers that identify the user."""
    from kagglehub import clients, config

    headers = {"User-Agent": clients.get_user_agent()}
    credentials = config.get_kaggle_credentials()
    if credentials is None:
        return headers
    if credentials.api_key:
        return headers | {"Authorization": f"Bearer {credentials.api_key}"}
    pair = base64.b64encode(f"{credentials.username}:{credentials.key}".encode()).decode()
    return headers | {"Authorization": f"Basic {pair}"}


def _check_status(status, source):
    if status in (401, 403):
        page = "/".join(source.removeprefix("kaggle://").split("/")[:2])
        raise InputError(
            f"{source}: Kaggle refuses it (status {status}). Accept its terms at "
            f"https://www.kaggle.com/models/{page}, then log in with `kagglehub.login()` or "
            "set KAGGLE_API_TOKEN."
        )
    if status >= 300 and status not in (404, 416):
        raise InputError(f"{source}: Kaggle answered with status {status}; try later.")


@contextlib.contextmanager
def _clear_errors(source):
    """Converts disk errors to an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{source}: cannot write to the cache: {error.strerror}. Free some space or set "
            "KAGGLEHUB_CACHE to another disk."
        ) from error
