"""Pages of the API reference, one per package. Each public name is documented once.

Reads the source with `ast` instead of importing it, so the site can be built without TensorFlow.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = "keras_bert_impl"
# Package -> introduction of its page. A name in two packages is documented on the first page.
PACKAGES = {
    f"{TOP}.tasks": (
        "Models that take raw strings, readers of labeled data, and runs. Every model also has the "
        f"methods of [`TaskModel`][{TOP}.tasks.base.task_model.TaskModel], such as `fit`, `predict`, "
        "`from_pretrained`, `save_pretrained` and `export`."
    ),
    f"{TOP}.pretraining": "From a corpus to records, and from records to a trained encoder.",
    f"{TOP}.tokenizers": "Tokenizers that run in the TensorFlow graph.",
    f"{TOP}.layers": "Keras layers of the encoder and its heads, on any Keras backend.",
    f"{TOP}.training": "The training step, optimizers, schedules and strategies.",
    f"{TOP}.training.tuning": "Trained weights and learning rates.",
    f"{TOP}.serving": "Export of models to formats that run without this package.",
    f"{TOP}.checkpoints.interop": "Weights and configurations of other libraries, as dicts and arrays.",
    f"{TOP}.finetuning": "Sets of fine-tuning runs that answer a question.",
    f"{TOP}.reports.plots": "Figures as PNG files. Needs the extra `plots`.",
    f"{TOP}.reports": "Self-contained pages about runs and models.",
    f"{TOP}.reports.attribution": "Attribution of the output of a model to the words of a text.",
    f"{TOP}.checkpoints.hub": "From the name of a model to a local directory.",
    TOP: "Core classes and functions. Each can be imported from `keras_bert_impl`.",
}

# Methods that all task models share are documented once, on the page of their base class.
_OPTIONS = {
    f"{TOP}.tasks.base.task_model.TaskModel": "\n    options:\n      inherited_members: true"
}


def public_names(package: str) -> dict[str, str]:
    """Returns a dict from public names to the dotted names of their definitions."""
    definitions = {}
    for node in _parse_module(package).body:
        if isinstance(node, ast.Assign) and _list_targets(node) == ["_HOMES"]:
            homes = ast.literal_eval(node.value)
            places = {
                n: h if h.startswith(f"{TOP}.") else f"{package}.{h}" for n, h in homes.items()
            }
            definitions = {name: f"{place}.{name}" for name, place in places.items()}
            break
        elif isinstance(node, ast.FunctionDef) and node.name[0] != "_":
            definitions[node.name] = f"{package}.{node.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            definitions |= {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {
        name: _find_definition(*definitions[name].rsplit(".", 1)) for name in sorted(definitions)
    }


def page_of(package: str) -> str:
    """Returns the path of a package's page, relative to the pages."""
    return f"reference/{package.removeprefix(f'{TOP}.')}.md"


def pages() -> dict[str, str]:
    """Returns a dict from page paths to their Markdown."""
    documented: set[str] = set()
    result = {}
    for package, description in PACKAGES.items():
        names = public_names(package)
        targets = [target for target in names.values() if target not in documented]
        documented.update(targets)
        rows = [f"| [`{n}`][{target}] | {summary(target)} |" for n, target in names.items()]
        parts = [
            f"# `{package}`",
            description,
            "\n".join(["| name | what it is |", "|---|---|", *rows]),
            *(f"::: {target}{_OPTIONS.get(target, '')}" for target in targets),
        ]
        result[page_of(package)] = "\n\n".join(parts) + "\n"
    return result


def summary(target: str) -> str:
    """Returns the first line of the docstring of a definition, for a cell of a table."""
    module, name = target.rsplit(".", 1)
    for node in _parse_module(module).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            first = (ast.get_docstring(node) or "").split("\n\n")[0]
            return " ".join(first.split()).replace("|", "\\|")
    return "A constant."


def _find_definition(module: str, name: str) -> str:
    """Returns the dotted name of the definition of a name, also if `module` re-exports it."""
    for node in _parse_module(module).body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _find_definition(node.module or "", name)
    homes = [
        node
        for node in _parse_module(module).body
        if isinstance(node, ast.Assign) and _list_targets(node) == ["_HOMES"]
    ]
    return public_names(module)[name] if homes else f"{module}.{name}"


def _list_targets(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _parse_module(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
