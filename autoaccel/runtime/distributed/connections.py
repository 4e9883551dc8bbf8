"""A rank's connections to the others: no fork of its keeps them open, such as a loader's workers, which end with it.

A fork has every socket of its parent. Until the last process that has one ends, the other ranks do not see that a rank
that was killed has gone. And torch's workers look whether their parent is still who it was when they looked first: of
a rank that was killed before that, they stay for ever.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import util
from typing import Final

_LOOK: Final = 0.5  # seconds between two looks at the parent


def open_sockets() -> dict[int, int]:
    """The sockets of this process: their file descriptors, with what tells one that takes the same number later."""
    with contextlib.suppress(FileNotFoundError):  # where there is no such folder, processes do not fork
        every = ((int(name), _socket(int(name))) for name in os.listdir("/dev/fd"))  # noqa: PTH208 - names are wanted
        return {each: number for each, number in every if number is not None}
    return {}


def _socket(descriptor: int) -> int | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else None


def keep_from_forks(sockets: Mapping[int, int], forget: Callable[[], None]) -> None:
    """Keep sockets to this process, and let daemonic processes that it forks, as loaders' workers are, end with it.

    Args:
        sockets: As of `open_sockets`.
        forget: What else a fork has to do.
    """

    def in_the_child() -> None:
        forget()
        _replace(sockets)

    for each in sockets:
        os.set_inheritable(each, False)  # by programs that take the place of a fork
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_the_child)
    util.register_after_fork(keep_from_forks, _end_with_its_parent)


def hang_up(sockets: Mapping[int, int]) -> None:
    """End connections, so that who waits at their other ends learns it."""
    for each, number in sockets.items():
        with contextlib.suppress(OSError):
            if _socket(each) == number:
                with socket.socket(fileno=os.dup(each)) as connection:
                    connection.getpeername()  # one that listens has none; torch aborts where that is shut down
                    connection.shutdown(socket.SHUT_RDWR)


def _replace(sockets: Mapping[int, int]) -> None:
    """Put nothing in the place of sockets: what closes one by its number then closes no other file."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for each, number in sockets.items():
        if _socket(each) == number:
            os.dup2(nowhere, each, inheritable=False)
    os.close(nowhere)


def _end_with_its_parent(_: object) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None and multiprocessing.current_process().daemon:
        threading.Thread(target=_follow, args=(parent.pid,), name="autoaccel parent", daemon=True).start()


def _follow(parent: int | None) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
