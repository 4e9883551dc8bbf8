"""Functions of libraries that write files below Python, where no audit hook sees it."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

Tell: TypeAlias = "Callable[[Any], None]"
Change: TypeAlias = "Callable[[ModuleType], None]"

# By module: function and which argument is the file.
_FUNCTIONS = {
    "cv2": (("imwrite", 0),),
    "safetensors.flax": (("save_file", 1),),
    "safetensors.numpy": (("save_file", 1),),
    "safetensors.torch": (("save_file", 1), ("save_model", 1)),
    "soundfile": (("write", 0),),
    "torchaudio": (("save", 0),),
    "torchvision.io": (("write_file", 0), ("write_jpeg", 1), ("write_png", 1), ("write_video", 0)),
}
_MODES_THAT_READ = ("r", "rb")


def watch_torch(tell: Tell) -> None:
    """Have torch tell before it opens a file for writing."""
    torch = sys.modules.get("torch")
    native: Any = getattr(torch, "_C", None)
    if hasattr(native, "PyTorchFileWriter"):
        native.PyTorchFileWriter.__init__ = _told(native.PyTorchFileWriter.__init__, 1, tell)
    if hasattr(native, "ScriptModule"):
        native.ScriptModule.save = _told(native.ScriptModule.save, 1, tell)


def watch_imports(tell: Tell, connected: Callable[[Any, Any], None]) -> None:
    """Have libraries tell, from the moment at which they are imported; databases, once they are connected."""
    changes: dict[str, Change] = {
        name: functools.partial(_functions_tell, functions, tell) for name, functions in _FUNCTIONS.items()
    }
    changes["h5py"] = functools.partial(_modes_tell, tell)
    changes["sqlite3.dbapi2"] = functools.partial(_connections_tell, connected)
    for name in changes.keys() & sys.modules.keys():
        changes[name](sys.modules[name])
    sys.meta_path.insert(0, _Finder(changes))


class _Finder(MetaPathFinder):
    """Finds the few modules that matter as all others would, and changes them once they are there."""

    def __init__(self, changes: dict[str, Change]) -> None:
        self._changes = changes
        self._searching = False

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if self._searching or fullname not in self._changes:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):
            loader.exec_module = _changed_after(loader.exec_module, self._changes[fullname])
        return spec


def _changed_after(execute: Callable[[ModuleType], None], change: Change) -> Callable[[ModuleType], None]:
    @functools.wraps(execute)
    def execute_and_change(module: ModuleType) -> None:
        execute(module)
        change(module)

    return execute_and_change


def _functions_tell(functions: tuple[tuple[str, int], ...], tell: Tell, module: ModuleType) -> None:
    for name, position in functions:
        if hasattr(module, name):
            setattr(module, name, _told(getattr(module, name), position, tell))


def _modes_tell(tell: Tell, module: ModuleType) -> None:
    initialize = vars(module)["File"].__init__

    @functools.wraps(initialize)
    def telling(self: Any, name: Any, mode: str = "r", *arguments: Any, **named: Any) -> None:
        if mode not in _MODES_THAT_READ:
            tell(name)
        initialize(self, name, mode, *arguments, **named)

    vars(module)["File"].__init__ = telling


def _connections_tell(connected: Callable[[Any, Any], None], module: ModuleType) -> None:
    connect = vars(module)["connect"]

    @functools.wraps(connect)
    def telling(database: Any, *arguments: Any, **named: Any) -> Any:
        connection = connect(database, *arguments, **named)
        connected(connection, database)
        return connection

    vars(module)["connect"] = telling


def _told(function: Callable[..., Any], position: int, tell: Tell) -> Callable[..., Any]:
    names = ("filename", "file", "f", "uri", "name")

    @functools.wraps(function)
    def telling(*arguments: Any, **named: Any) -> Any:
        given = (
            arguments[position] if len(arguments) > position else next((named[n] for n in names if n in named), None)
        )
        if given is not None:
            tell(given)
        return function(*arguments, **named)

    return telling


class Authorizer:
    """Allows a connection to a database to read. The numbers are SQLite's own, which Python does not name.

    Creating is let through: `CREATE TABLE IF NOT EXISTS` asks even if it does nothing, and filling a table asks again.
    """

    _WRITES = frozenset({9, 10, 11, 16, 17, 18, 23, 26, 27, 28, 30})

    def __init__(self, refuse: Callable[[], NoReturn]) -> None:
        """`refuse` ends the run before anything is written."""
        self._refuse = refuse

    def __call__(self, action: int, table: str | None, *rest: str | None) -> int:
        if action in self._WRITES and "temp" not in rest and not (table or "").startswith("sqlite_"):
            self._refuse()
        return 0
