"""Functions that are called at the start of every process that a script starts through `multiprocessing`."""

from __future__ import annotations

import multiprocessing.spawn
from collections.abc import Callable
from typing import Any

from autoaccel.measure.observing.hooks import replacing


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
