"""Who may import whom: each layer only what stands below it, and no modules in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    ("defects", "notebooks", "patterns", "sources", "summaries"),
    ("discovery", "edits"),
    ("dataflow",),
    ("library_models",),
    ("analysis",),
    ("pytorch",),
    ("config", "rewriting"),
    ("autoaccel_codemods",),
    ("jobs", "reports", "measure"),
    ("cli", "codemod", "flake8", "servers"),
    ("__main__",),
)
BESIDE = ("runtime",)
"""What rewritten scripts import, which imports nothing else."""


@cache
def imports() -> dict[str, dict[str, bool]]:
    """By module: the modules that it imports, and whether it does so while it is imported itself."""
    names = modules()
    return {name: dict(_imported(name, path, names)) for name, path in names.items()}


def modules() -> dict[str, Path]:
    """All modules, and where they are."""
    paths = [*(ROOT / "autoaccel").rglob("*.py"), *(ROOT / "codemods" / "autoaccel_codemods").rglob("*.py")]
    return {_name(path): path for path in paths}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT / "codemods" if "codemods" in path.parts else ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, names: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [*ast.walk(tree)]
    typing = [node for node in nodes if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"]
    unseen = {part for node in typing for part in ast.walk(node)}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    within = {part for node in functions for part in ast.walk(node)}
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: dict[str, bool] = {}
    for node in nodes:
        if node in unseen or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join((*above, *([node.module] if node.module else [])))
            targets = [
                f"{module}.{alias.name}" if f"{module}.{alias.name}" in names else module for alias in node.names
            ]
        for target in targets:
            if target in names and target != name:
                found[target] = found.get(target, False) or node not in within
    yield from found.items()


def room(module: str) -> str:
    """The package or module of the first level that a module belongs to."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "autoaccel" else first


def rank(module: str) -> int | None:
    return next((number for number, rooms in enumerate(LAYERS) if room(module) in rooms), None)


def test_every_module_has_a_rank() -> None:
    assert {room(module) for module in imports() if rank(module) is None} == {*BESIDE, ""}


@pytest.mark.parametrize("layer", [each for rooms in LAYERS for each in rooms])
def test_a_layer_imports_what_stands_below_it(layer: str) -> None:
    assert any(room(module) == layer for module in imports())
    upward = [
        f"{module} -> {target}"
        for module, targets in imports().items()
        for target in targets
        if room(module) == layer and (below := rank(target)) is not None and below > (rank(module) or 0)
    ]
    assert upward == []


def test_the_runtime_imports_nothing_else() -> None:
    outward = [
        f"{module} -> {target}"
        for module, targets in imports().items()
        for target in targets
        if room(module) in BESIDE and room(target) not in (*BESIDE, "")
    ]
    assert outward == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    finished: set[str] = set()
    circles: list[str] = []

    def visit(module: str, way: tuple[str, ...]) -> None:
        if module in way:
            circles.append(" -> ".join((*way[way.index(module) :], module)))
        elif module not in finished:
            for target, at_once in imports()[module].items():
                if at_once and not target.startswith(f"{module}."):
                    visit(target, (*way, module))
            finished.add(module)

    for module in imports():
        visit(module, ())
    assert circles == []
