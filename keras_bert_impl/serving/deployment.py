"""Files for Docker, Docker Compose and Kubernetes."""

import json
import os
import re
from pathlib import Path

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.version import pinned_requirement

_FILES = Path(__file__).with_name("deploy")
_FOLDER, _NAME = "/path/to/models/tickets", "tickets"  # placeholders in the files
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # Kubernetes: a DNS label


def write_deployment(folder: str | Path, name: str, directory: str | Path) -> Path:
    """Writes files that run `keras-bert serve`, or TensorFlow Serving, in containers.

    TensorFlow Serving needs the configuration files of `keras-bert export`. If `folder` does not
    contain these files, only the files for `keras-bert serve` are written.

    Args:
        folder: directory that `keras-bert export` wrote, or a SavedModel. The container mounts this
            directory.
        name: name of the service, and name of the model in URLs. Kubernetes allows only lowercase
            letters, digits and hyphens, and a letter as the first character.
        directory: new or empty directory for the files.
    """
    if not _LABEL.fullmatch(name):
        raise InputError(
            "the name of a service must be lowercase letters, digits and hyphens, starting with a "
            f"letter. Received: {name!r}. Pass a different name, such as --name reviews."
        )
    directory = local_path(directory)
    if directory.is_dir() and any(directory.iterdir()):
        raise InputError(f"{directory} contains files. Choose a new directory.")
    source = str(local_path(folder).absolute())
    is_export = os.path.isfile(f"{source}/batching_parameters.txt")
    with replace_directory(directory) as temporary:
        for file in _FILES.rglob("*"):
            if file.is_dir() or not (is_export or file.parent == _FILES):
                continue
            # The path is in double quotes in YAML, and Compose expands variables.
            quoted = json.dumps(source, ensure_ascii=False)[1:-1].replace("$", "$$")
            place_of_model = quoted if file.suffix == ".yaml" else source
            parts = file.read_text(encoding="utf-8").split(_FOLDER)
            text = place_of_model.join(part.replace(_NAME, name) for part in parts)
            place = temporary / file.relative_to(_FILES)
            place.parent.mkdir(exist_ok=True)
            place.write_text(text, encoding="utf-8")
        requirement = pinned_requirement("serve,serving")
        (temporary / "requirements.txt").write_text(f"{requirement}\n", encoding="utf-8")
    return directory
