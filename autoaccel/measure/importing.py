"""An import hook: modules of the project are compiled from their rewritten text; no file changes.

The same hook is set up in processes that the script starts through `multiprocessing`, whatever the start method.
"""

from __future__ import annotations

import functools
import multiprocessing.spawn
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from autoaccel.measure.positions import compile_as_original
from autoaccel.measure.rewriter import Rewriter


class RewritingLoader(SourceFileLoader):
    """Loads one module from its rewritten text. What is not changed is loaded as ever, from its bytecode."""

    def __init__(self, fullname: str, path: str, rewriter: Rewriter) -> None:
        super().__init__(fullname, path)
        self.rewriter = rewriter

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return rewritten_code(path, self.rewriter) or super().get_code(fullname)


class Finder(MetaPathFinder):
    """Gives modules of the project their loader; says nothing about others."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if not self.rewriter.concerns(Path(spec.origin)):
            return None
        spec.loader = RewritingLoader(fullname, spec.origin, self.rewriter)
        return spec


def rewritten_code(path: str, rewriter: Rewriter) -> CodeType | None:
    """The code of a file whose text the rewriter changes; None for one that stays as it is."""
    changed = rewriter.rewritten(Path(path))
    return None if changed is None else compile_as_original(*changed, path)


def install(rewriter: Rewriter) -> None:
    """Rewrite what is imported from now on, in this process and in those that it starts by `multiprocessing`."""
    before = next((at for at, finder in enumerate(sys.meta_path) if finder is PathFinder), len(sys.meta_path))
    sys.meta_path.insert(before, Finder(rewriter))
    # Looked up in its module whenever a process is prepared.
    prepare = _with_hook(multiprocessing.spawn.get_preparation_data, rewriter)
    vars(multiprocessing.spawn)["get_preparation_data"] = prepare


class _Hook:
    """Sets up the hook where it is unpickled: in a new process, before the main module is imported there."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter

    def __reduce__(self) -> tuple[Callable[[Rewriter], None], tuple[Rewriter]]:
        return _install_in_child, (self.rewriter,)


def _with_hook(prepare: Callable[[str], dict[str, Any]], rewriter: Rewriter) -> Callable[[str], dict[str, Any]]:
    @functools.wraps(prepare)
    def prepared(name: str) -> dict[str, Any]:
        # A key of its own, which the new process unpickles and otherwise ignores.
        return {"autoaccel": _Hook(rewriter), **prepare(name)}

    return prepared


def _install_in_child(rewriter: Rewriter) -> None:
    install(rewriter)
    # The main module of a new process is not imported, it is run by its path.
    plain = vars(runpy)["_get_code_from_file"]

    @functools.wraps(plain)
    def code_from_file(*arguments: Any) -> Any:
        path = arguments[-1]
        code = rewritten_code(path, rewriter) if rewriter.concerns(Path(path)) else None
        found = plain(*arguments)
        if code is None:
            return found
        return (code, *found[1:]) if isinstance(found, tuple) else code

    vars(runpy)["_get_code_from_file"] = code_from_file
