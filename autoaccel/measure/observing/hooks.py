"""Puts functions of the observation around functions of torch and Python."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

_Around = TypeVar("_Around", bound=Callable[..., Any])


def around(owner: Any, name: str) -> Callable[[_Around], _Around]:
    """Call the decorated function instead of `owner.name`, which becomes its first argument.

    In processes that are forked from this one all is as it was.
    """
    plain = getattr(owner, name)
    home = os.getpid()

    def put(function: _Around) -> _Around:
        @untraced
        @functools.wraps(plain)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() != home:
                return plain(*args, **kwargs)
            return function(plain, *args, **kwargs)

        setattr(owner, name, hooked)
        return function

    return put


def replacing(owner: Any, name: str) -> Callable[[_Around], _Around]:
    """The same in forks as well, and inside of what is compiled: for what the runtime rehearses, and Python's own."""
    plain = getattr(owner, name)

    def put(function: _Around) -> _Around:
        @functools.wraps(plain)
        def replaced(*args: Any, **kwargs: Any) -> Any:
            return function(plain, *args, **kwargs)

        setattr(owner, name, replaced)
        return function

    return put


def untraced(function: _Around) -> _Around:
    """Keep torch.compile out of a function, which graphs that call it then break around.

    `torch.compiler.disable` does so for any function, but takes seconds to import.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001
    with contextlib.suppress(ImportError, AttributeError, TypeError):  # another torch: it is traced, to no harm
        from torch._C._dynamo import eval_frame

        skip: Any = eval_frame._FrameAction.SKIP  # noqa: SLF001
        strategy = eval_frame._FrameExecStrategy(skip, skip)  # noqa: SLF001
        eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function
