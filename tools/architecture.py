#!/usr/bin/env python
"""Reads the imports of the package and draws its subpackages: `docs/architecture.svg`.

    python tools/architecture.py [--out FILE]

A subpackage is a module or a folder directly below `keras_bert_impl`, or below
`keras_bert_impl/tasks`. Subpackages are drawn on floors: each imports only from subpackages on the floors
below it. An import is not drawn if a longer path leads to the same subpackage.
"""

import argparse
import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "keras_bert_impl"

Graph = dict[str, set[str]]  # name -> names that it imports


def module_imports(root: Path = ROOT) -> Graph:
    """Returns the import graph of the package, including imports inside functions.

    The lazily loaded names of a package (`_HOMES`) count as its imports.

    Args:
        root: the folder that holds the package.
    """
    files = {_name(path, root): path for path in (root / PACKAGE).rglob("*.py")}
    return {name: _imports_of(name, path, files) for name, path in files.items()}


def _name(path, root):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports_of(name, path, files):
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in files else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            homes = [home.value for home in node.value.values]
            found.update(h if h.startswith(f"{PACKAGE}.") else f"{name}.{h}" for h in homes)
    return (found & files.keys()) - {name}


def public_names(root: Path = ROOT) -> set[tuple[str, str]]:
    """Returns (module without the package, name) of all that an `__init__.py` exports."""
    found = set()
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
                found |= {(_short(home), key), (_short(name), key)}
    return found


def imported_names(room: str, root: Path = ROOT) -> set[tuple[str, str]]:
    """Returns (module without the package, name) of all that a module or folder imports of ours."""
    place = root.joinpath(PACKAGE, *room.split("."))
    paths = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return {
        (_short(node.module), alias.name)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
    }


def _short(module):
    return module.removeprefix(PACKAGE).removeprefix(".")


def subpackage_of(module: str) -> str:
    """Returns the subpackage of a module, such as `"models"` or `"tasks.tagging"`."""
    parts = module.split(".")[1:]
    depth = 2 if parts[:1] == ["tasks"] else 1
    return ".".join(parts[:depth]) or "public names"


def subpackage_imports(imports: Graph) -> Graph:
    """Returns the imports of subpackages, from those of modules."""
    subpackages: Graph = {subpackage_of(module): set() for module in imports}
    for module, others in imports.items():
        subpackages[subpackage_of(module)] |= {subpackage_of(other) for other in others}
    return {subpackage: others - {subpackage} for subpackage, others in subpackages.items()}


def without_public_names(subpackages: Graph) -> Graph:
    """Returns the subpackages without the two modules that only re-export names of others."""
    hidden = {"public names", "tasks"}
    return {
        subpackage: others - hidden
        for subpackage, others in subpackages.items()
        if subpackage not in hidden
    }


def circles(graph: Graph) -> list[list[str]]:
    """Returns cycles as groups of nodes that reach each other; none if imports go one way."""
    reached = {node: _reached(node, graph) for node in graph}
    groups = {
        tuple(sorted(other for other in reached[node] if node in reached[other]))
        for node in graph
        if node in reached[node]
    }
    return sorted(map(list, groups))


def _reached(start, graph):
    found, waiting = set(), list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph[node]
    return found


def floors(graph: Graph) -> list[list[str]]:
    """Returns the nodes of an acyclic graph by height: each imports only lower ones."""
    heights = {}

    def height(node):
        if node not in heights:
            heights[node] = 1 + max(map(height, graph[node]), default=-1)
        return heights[node]

    for node in graph:
        height(node)
    return [sorted(n for n in graph if heights[n] == h) for h in range(max(heights.values()) + 1)]


def draw(graph: Graph, path: Path) -> None:
    """Draws the subpackages on their floors, with lines for imports without a longer path."""
    import matplotlib.pyplot as plt

    levels = floors(graph)
    figure, axes = plt.subplots(figsize=(13, 1.1 * len(levels)))
    where = {}
    for height, subpackages in enumerate(levels):
        for number, subpackage in enumerate(subpackages):
            where[subpackage] = ((number + 0.5) / len(subpackages), height)
    for subpackage, others in graph.items():
        for other in others - set().union(*(_reached(between, graph) for between in others)):
            (x, y), (to_x, to_y) = where[subpackage], where[other]
            axes.plot([x, to_x], [y, to_y], color="#8a8a8a", linewidth=0.8, zorder=1)
    for subpackage, (x, y) in where.items():
        box = {"boxstyle": "round,pad=0.35", "facecolor": "#eef3fb", "edgecolor": "#4a6fa5"}
        axes.text(x, y, subpackage, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
    axes.axis("off")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "architecture.svg")
    arguments = parser.parse_args()
    subpackages = subpackage_imports(module_imports())
    draw(without_public_names(subpackages), arguments.out)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
