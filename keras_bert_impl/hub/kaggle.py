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
from pathlib import Path

from keras_bert_impl.hub import cache
from keras_bert_impl.hub.contents import gather
from keras_bert_impl.hub.transfer import TransferError, UnsafeAnswerError, limit, request
from keras_bert_impl.io.errors import InputError

# KerasHub model -> its presets, without the model's name.
_PRESETS = {
    "bert": "tiny_en_uncased small_en_uncased medium_en_uncased base_en_uncased base_en base_zh"
    " base_multi large_en_uncased large_en tiny_en_uncased_sst2",
    "roberta": "base_en large_en",
    "albert": "base_en_uncased large_en_uncased extra_large_en_uncased"
    " extra_extra_large_en_uncased",
    "distil_bert": "base_en_uncased base_en base_multi",
    "electra": "small_discriminator_uncased_en small_generator_uncased_en"
    " base_discriminator_uncased_en base_generator_uncased_en large_discriminator_uncased_en"
    " large_generator_uncased_en",
    "xlm_roberta": "base_multi large_multi",
}
# The versions in KerasHub's own table: of a model or a preset; 3 for all others.
_VERSIONS = {"electra": 2, "bert_tiny_en_uncased_sst2": 5, "albert_base_en_uncased": 5}
# KerasHub preset names -> names on Kaggle.
PRESETS = {
    preset: f"keras/{model}/keras/{preset}/{_VERSIONS.get(preset, _VERSIONS.get(model, 3))}"
    for model, names in _PRESETS.items()
    for preset in (f"{model}_{name}" for name in names.split())
}


class _UnreachableError(InputError):
    """The connection failed or broke."""


def download(handle: str, version: str | None = None) -> Path:
    """Returns the cached directory of a model, downloading files if needed."""
    import kagglehub.config
    from huggingface_hub import constants
    from huggingface_hub.utils import WeakFileLock

    source = f"kaggle://{handle}" + (f"/{version}" if version else "")
    root = Path(kagglehub.config.get_cache_folder()).expanduser().absolute()
    models, records = root / "models" / handle, root / "keras_bert_impl" / handle
    cached = _newest_complete(models, records, version)
    if cached and (version or constants.HF_HUB_OFFLINE):
        return cached
    if constants.HF_HUB_OFFLINE:
        raise InputError(
            f"{source} is not in the cache, and HF_HUB_OFFLINE is set; unset it for the download."
        )
    try:
        with cache.disk_errors(source, root, "KAGGLEHUB_CACHE"):
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
        if version in (None, str(number)) and cache.is_complete(records / str(number), directory):
            return directory
    return None


def _download(handle, version, source, models, records):
    mounted = _mounted(handle, version, source)
    if mounted is not None:
        return mounted
    version = version or str(_newest_version(handle, source))
    directory, record = models / version, records / version
    # Files that the library marked as complete may have changed since.
    again = record.exists() and not cache.is_complete(record, directory)
    fetch = functools.partial(_fetch, handle, version, source, models, again)
    if fetch("config.json") is None:
        raise InputError(f"{source}: Kaggle has no such model, or it has no config.json.")
    cache.write_record(record, gather(fetch, source))
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
    gather(functools.partial(cache.existing, directory), source)
    return directory


def _newest_version(handle, source):
    from kagglesdk.models.types.model_api_service import ApiGetModelInstanceRequest

    with _request("GetModelInstance", ApiGetModelInstanceRequest(), handle, source) as answer:
        if answer.status == 404:
            raise InputError(f"{source}: Kaggle has no such model, or it has no config.json.")
        body = answer.read(max_bytes=2**20)
    version = None
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        version = json.loads(body)["versionNumber"]
    if type(version) is not int or not 0 < version < 10**9:
        raise InputError(f"{source}: Kaggle did not state the newest version; try again later.")
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
            f"{source}: the MD5 of the downloaded {name} is not Kaggle's, {stated}. The file was "
            "removed; try again."
        )
    os.replace(partial, path)
    marker.touch()
    return path


def _receive(partial, handle, version, source, name):
    """Downloads a file, resuming a partial download."""
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
        length = answer.headers.get("Content-Length", "")
        size = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        if size is not None:
            cache.check_size(partial.parent, source, name, size, 0, "KAGGLEHUB_CACHE")
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


def _md5_of(path):
    return base64.b64encode(cache.digest_of(path, hashlib.md5(usedforsecurity=False))).decode()


@contextlib.contextmanager
def _request(method, content, handle, source, **headers):
    """Sends a request to a method of Kaggle's model service and yields the response."""
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
            f"({error}). Try again: the download resumes where it stopped."
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
            f"{source}: Kaggle denies access (status {status}). Accept the model's terms at "
            f"https://www.kaggle.com/models/{page}, then log in with `kagglehub.login()` or "
            "set KAGGLE_API_TOKEN."
        )
    if status >= 300 and status not in (404, 416):
        raise InputError(f"{source}: Kaggle responded with status {status}; try again later.")
