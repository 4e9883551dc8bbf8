"""The process that observed runs are forked from: to import torch takes longer than to train a small script.

It imports torch and nothing of the script, and no thread of its own runs. A fork becomes what a process is that was
just started; where it cannot, it is replaced by one.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import socket
import sys
import time
import warnings
import weakref
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

MOST = 1 << 20  # bytes of a request: its environment, for the most part
_OBSERVING = ("coverage", "files_written", "guarding", "loaders", "naming", "output", "randomness", "state", "training")


class _Fork(NamedTuple):
    process: int
    status: int
    """Where its exit status is to be written."""


def serve(channel: int, mark: str) -> list[str] | None:
    """Fork whenever it is asked for; None once nobody is left to ask. In a fork: the arguments of its run.

    `mark` is the environment variable that tells runs apart.
    """
    from autoaccel.measure.observing.starting import age_before

    now = time.monotonic()
    began = now - age_before(now)
    sys.dont_write_bytecode = True
    # Asks the driver's library and not the driver: what was initialised before a fork is of no use after it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch")
        with contextlib.suppress(ImportError):  # another torch: its optimizers do without
            importlib.import_module("torch._dynamo")
        age = time.monotonic() - began
        for name in _OBSERVING:
            importlib.import_module(f"autoaccel.measure.observing.{name}")
    gc.collect()
    gc.freeze()  # no fork looks through all of it, not even where it ends
    os.close(os.pidfd_open(os.getpid()))  # where that is not allowed it ends here, and runs are started
    asked = socket.socket(fileno=channel)
    waiting = selectors.DefaultSelector()
    waiting.register(asked, selectors.EVENT_READ)
    asked.send(str(age).encode())
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                _tell(key.data)
                waiting.unregister(key.fd)
                os.close(key.fd)
                continue
            text, files, _, _ = socket.recv_fds(asked, MOST, 8)
            if not text:
                return None
            status, *files = files
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of threads: those of numerical libraries survive a fork
                process = os.fork()
            if process == 0:
                others = [each for each in waiting.get_map().values() if each.data is not None]
                waiting.close()
                asked.close()
                for other in (status, *(file for each in others for file in (each.fd, each.data.status))):
                    os.close(other)
                return _become(mark, files, **json.loads(text))
            for file in files:
                os.close(file)
            waiting.register(os.pidfd_open(process), selectors.EVENT_READ, _Fork(process, status))
            asked.send(str(process).encode())


def _tell(fork: _Fork) -> None:
    _, status = os.waitpid(fork.process, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(fork.status, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(fork.status)


def _become(
    mark: str, files: list[int], command: list[str], environment: Mapping[str, str], folder: str, beside: str
) -> list[str]:
    """Be as a process that was started by `command`, with these three standard streams, and pipes; its arguments.

    `beside` is the folder that the script imports from first.
    """
    _rename(mark, environment[mark])
    os.setsid()
    leave_to_the_server()
    for stream in range(3):
        os.dup2(files[stream], stream)
        os.close(files[stream])
    pipes = files[3:]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path and os.path.abspath(path) not in sys.path]
    command = [*command, *map(str, pipes)]
    if _is_of_no_use(sys.modules["torch"]) or _hides_modules(beside, sys.modules):
        for pipe in pipes:
            os.set_inheritable(pipe, True)
        os.execvpe(command[0], command, dict(environment))
    return command[1:]


def leave_to_the_server() -> None:
    """What was made before the fork is not the fork's to clear up: for torch's libraries of operators alone, that took
    longer than all else that a short run does."""
    for finalizer in [*getattr(weakref.finalize, "_registry", ())]:
        finalizer.atexit = False


def _rename(mark: str, name: str) -> None:
    """Change a variable in the memory that /proc shows as a process's environment. All names are of one length."""
    find = ctypes.CDLL(None).getenv
    find.restype = ctypes.c_void_p
    found = find(mark.encode())
    if found is not None and len(ctypes.string_at(found)) == len(name):
        ctypes.memmove(found, name.encode(), len(name))


def _is_of_no_use(torch: Any) -> bool:
    """Whether something asked for a GPU before the fork."""
    return any(getattr(getattr(torch, kind, None), "_is_in_bad_fork", bool)() for kind in ("cuda", "xpu", "mps"))


def _hides_modules(beside: str, imported: Collection[str]) -> bool:
    """Whether a file of the project has the name of a module that was imported before the project was there."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(beside)}  # noqa: PTH208 - names alone
    except OSError:
        return True
    return not names.isdisjoint(imported)
