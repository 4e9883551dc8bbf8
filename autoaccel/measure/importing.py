"""An import hook: modules of the project are compiled from their rewritten text; no file changes.

The same hook is set up in processes that the script starts through `multiprocessing`, whatever the start method.
"""

from __future__ import annotations

import multiprocessing.spawn
import os
import runpy
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.positions import compile_as_original
from autoaccel.measure.rewriter import Rewriter


def rewritten_code(path: str, rewriter: Rewriter) -> CodeType | None:
    """The code of a file whose text the rewriter changes; None for one that stays as it is."""
    changed = rewriter.rewritten(Path(path))
    return None if changed is None else compile_as_original(*changed, path)


def install(rewriter: Rewriter) -> None:
    """Rewrite what is imported from now on, in this process and in those that it starts by `multiprocessing`.

    Whoever finds a module, this one class loads it: finders of editable installs and scripts that load a file by its
    path are no exception. What is not changed is loaded as ever, from its bytecode.
    """

    @replacing(SourceFileLoader, "get_code")
    def get_code(plain: Callable[..., CodeType | None], loader: SourceFileLoader, fullname: str) -> CodeType | None:
        path = str(loader.get_filename(fullname))
        # who compiles in a way of its own would be left out
        is_plain = type(loader).source_to_code is SourceFileLoader.source_to_code
        is_kept = rewriter.kept_in_imports is not None and os.path.realpath(path) == str(rewriter.kept_in_imports)
        is_changed = is_plain and not is_kept and rewriter.concerns(Path(path))
        code = rewritten_code(path, rewriter) if is_changed else None
        return code or plain(loader, fullname)

    call_in_new_processes("autoaccel", _install_in_child, rewriter)


def _install_in_child(rewriter: Rewriter) -> None:
    install(rewriter)

    # The main module of a new process is not imported, it is run by its path.
    @replacing(runpy, "_get_code_from_file")
    def code_from_file(plain: Callable[..., Any], *arguments: Any) -> Any:
        path = arguments[-1]
        code = rewritten_code(path, rewriter) if rewriter.concerns(Path(path)) else None
        found = plain(*arguments)
        if code is None:
            return found
        return (code, *found[1:]) if isinstance(found, tuple) else code


# -- functions that are called at the start of every process that a script starts through `multiprocessing`


class _Call:
    """Calls a function where it is unpickled: in the new process, before the main module is imported there."""

    def __init__(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return self._function, self._arguments


def call_in_new_processes(key: str, function: Callable[..., None], *arguments: Any) -> None:
    """Have a function called in processes that do not begin as copies of this one.

    Args:
        key: Anything that nobody else uses: the new process unpickles the entry of that name and otherwise ignores it.
        function: Of a module that can be imported there.
        arguments: What it is called with; they are pickled.
    """

    @replacing(multiprocessing.spawn, "get_preparation_data")
    def prepared(prepare: Callable[..., dict[str, Any]], name: str) -> dict[str, Any]:
        return {key: _Call(function, arguments), **prepare(name)}
