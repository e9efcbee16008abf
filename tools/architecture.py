#!/usr/bin/env python
"""Reads the imports of the package and draws its groups: `docs/pictures/architecture-*.svg`.

    python tools/architecture.py

A subpackage is a module or a folder directly below `keras_bert_impl`, or below
`keras_bert_impl/tasks`. Groups of subpackages are drawn in rows. A row imports only from lower
rows.
"""

import ast
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "docs"))

import diagrams  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "keras_bert_impl"

Graph = dict[str, set[str]]  # module -> names of the modules that it imports

# Rows of groups from top to bottom: group -> subpackages.
ROWS = [
    {"Commands": "cli"},
    {"Runs and reports": "finetuning scikit_learn reports runs"},
    {
        "Tasks": "tasks.text_classification tasks.tagging tasks.question_answering "
        "tasks.multiple_choice tasks.embedding tasks.language_modeling tasks.base tasks.registry"
    },
    {"Pre-training": "pretraining", "Labeled data": "data", "Export and serving": "serving"},
    {"Training": "training"},
    {"Models": "models layers"},
    {"Text and files": "tokenizers checkpoints utils"},
]


def module_imports(root: Path = ROOT) -> Graph:
    """Returns the import graph of the package, including imports inside functions.

    The lazily loaded names of a package (`_HOMES`) count as its imports.

    Args:
        root: the folder that contains the package.
    """
    files = {_name(path, root): path for path in (root / PACKAGE).rglob("*.py")}
    return {name: _read_imports(name, path, files) for name, path in files.items()}


def _name(path, root):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read_imports(name, path, files):
    imports = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                imports.add(full if full in files else node.module)
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            homes = [home.value for home in node.value.values]
            imports.update(h if h.startswith(f"{PACKAGE}.") else f"{name}.{h}" for h in homes)
    return (imports & files.keys()) - {name}


def public_names(root: Path = ROOT) -> set[tuple[str, str]]:
    """Returns (module without the package, name) for all exports of an `__init__.py`."""
    names = set()
    for path in (root / PACKAGE).rglob("__init__.py"):
        name = _name(path, root)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                homes = [(alias.name, node.module) for alias in node.names]
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
                homes = [(k.value, v.value) for k, v in zip(node.value.keys, node.value.values)]
            else:
                continue
            for key, home in homes:
                home = home if home.startswith(f"{PACKAGE}.") else f"{name}.{home}"
                names |= {(_strip_package(home), key), (_strip_package(name), key)}
    return names


def imported_names(room: str, root: Path = ROOT) -> set[tuple[str, str]]:
    """Returns (module without the package, name) for each import from this package."""
    place = root.joinpath(PACKAGE, *room.split("."))
    paths = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return {
        (_strip_package(node.module), alias.name)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
    }


def _strip_package(module):
    return module.removeprefix(PACKAGE).removeprefix(".")


def subpackage_of(module: str) -> str:
    """Returns the subpackage of a module, such as `"models"` or `"tasks.tagging"`."""
    parts = module.split(".")[1:]
    depth = 2 if parts[:1] == ["tasks"] else 1
    return ".".join(parts[:depth]) or "public names"


def subpackage_imports(imports: Graph) -> Graph:
    """Returns the imports of subpackages, computed from the imports of modules."""
    subpackages: Graph = {subpackage_of(module): set() for module in imports}
    for module, targets in imports.items():
        subpackages[subpackage_of(module)] |= {subpackage_of(target) for target in targets}
    return {subpackage: targets - {subpackage} for subpackage, targets in subpackages.items()}


def without_public_names(subpackages: Graph) -> Graph:
    """Returns the subpackages, except for the two modules that only re-export names."""
    hidden = {"public names", "tasks"}
    return {
        subpackage: targets - hidden
        for subpackage, targets in subpackages.items()
        if subpackage not in hidden
    }


def circles(graph: Graph) -> list[list[str]]:
    """Returns the import cycles, as groups of nodes that can reach each other."""
    reached = {node: _find_reached(node, graph) for node in graph}
    groups = {
        tuple(sorted(member for member in reached[node] if node in reached[member]))
        for node in graph
        if node in reached[node]
    }
    return sorted(map(list, groups))


def _find_reached(start, graph):
    reached, waiting = set(), list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += graph[node]
    return reached


def floors(graph: Graph) -> list[list[str]]:
    """Returns the nodes of an acyclic graph, grouped by height. A node imports only lower nodes."""
    heights = {}

    def height(node):
        if node not in heights:
            heights[node] = 1 + max(map(height, graph[node]), default=-1)
        return heights[node]

    for node in graph:
        height(node)
    return [sorted(n for n in graph if heights[n] == h) for h in range(max(heights.values()) + 1)]


def wrong_way(graph: Graph) -> list[str]:
    """Returns a group's imports from its own row or a higher row."""
    rows = {
        name: (height, group)
        for height, row in enumerate(reversed(ROWS))
        for group, names in row.items()
        for name in names.split()
    }
    return [
        f"{name} imports {target}"
        for name, targets in sorted(graph.items())
        for target in sorted(targets)
        if name in rows
        and target in rows
        and rows[name][1] != rows[target][1]
        and rows[target][0] >= rows[name][0]
    ]


def pictures() -> dict[str, str]:
    """Returns the SVG pictures, keyed by file name in `docs/pictures`."""
    return {
        f"architecture-{scheme}.svg": diagrams.layers(ROWS, palette)
        for scheme, palette in diagrams.PALETTES.items()
    }


if __name__ == "__main__":
    for file_name, svg in pictures().items():
        (ROOT / "docs" / "pictures" / file_name).write_text(svg, encoding="utf-8")
