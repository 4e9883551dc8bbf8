"""Runs a script, or a module, as `python script.py` or `python -m module` would, from its rewritten text."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from autoaccel.measure import importing
from autoaccel.measure.rewriter import Rewriter


class ProgramError(ValueError):
    """A program that cannot be started; the message is one line: what and where."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: `name` is a path or, with `is_module`, what follows `python -m`."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False


def locate(program: Program) -> Path:
    """The file of the program. Puts on `sys.path` what Python would put there. Raises `ProgramError`."""
    if not program.is_module:
        path = Path(program.name)
        if path.is_dir():
            raise ProgramError(f"{path}: is a folder; give a script")
        if not path.is_file():
            raise ProgramError(f"{path}: no such file")
        _lead(Path(os.path.realpath(path)).parent)
        return path
    _lead(Path.cwd())
    return Path(_module_spec(program.name).origin or "")


def _lead(folder: Path) -> None:
    """Put a folder first on `sys.path`, in the place of this tool's, unless `python -P` said that none shall be."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(folder)


def run(program: Program, path: Path, rewriter: Rewriter) -> int:
    """Run to the end; the exit status. What the script raises is told as Python tells it."""
    execute = prepare(program, path, rewriter)
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        error = error.with_traceback(of_the_script(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def prepare(program: Program, path: Path, rewriter: Rewriter) -> Callable[[], None]:
    """Become the program: `__main__`, `sys.argv`, the import hook. The result runs it. Raises `ProgramError`."""
    importing.install(rewriter)
    module, code = _main(program, path, rewriter)
    sys.modules["__main__"] = module
    sys.argv = [str(path.absolute()) if program.is_module else program.name, *program.arguments]
    return lambda: exec(code, module.__dict__)


def _main(program: Program, path: Path, rewriter: Rewriter) -> tuple[ModuleType, CodeType]:
    """The module `__main__` and its code. Raises `ProgramError`."""
    module = ModuleType("__main__")
    name = str(path.absolute())
    if program.is_module:
        spec = _module_spec(program.name)
        loader = spec.loader
        module.__dict__.update(__spec__=spec, __package__=spec.parent, __cached__=spec.cached)
        name = spec.origin or name
    else:
        loader = SourceFileLoader("__main__", name)
        module.__dict__.update(__cached__=None)
    module.__dict__.update(__file__=name, __loader__=loader, __builtins__=__builtins__, __annotations__={})
    try:
        code = importing.rewritten_code(name, rewriter) if rewriter.concerns(Path(name)) else None
        if code is None:
            code = compile(Path(name).read_bytes(), name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ProgramError(f"{path}:{error.lineno or 1}: cannot parse: {error.msg}") from error
    except (OSError, ValueError) as error:
        raise ProgramError(f"{path}: cannot read: {error}") from error
    return module, code


def _module_spec(name: str) -> ModuleSpec:
    """As `python -m` finds it; of a package its `__main__`. Raises `ProgramError`."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise ProgramError(f"no module named {name}: {error}") from error
    if spec is not None and spec.submodule_search_locations is not None and not name.endswith(".__main__"):
        return _module_spec(f"{name}.__main__")
    if spec is None or spec.origin is None or not spec.has_location:
        raise ProgramError(f"no module named {name}")
    return spec


def of_the_script(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this folder: those that started the script, and hooks that it came through."""
    here = str(Path(__file__).parent)
    frames: list[TracebackType] = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(here):
            frames.append(traceback)
        traceback = traceback.tb_next
    for outer, inner in zip(frames, [*frames[1:], None], strict=False):
        outer.tb_next = inner
    return frames[0] if frames else None
