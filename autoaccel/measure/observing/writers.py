"""Functions of libraries that write files below Python, where no audit hook sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

from autoaccel.measure.observing.hooks import replacing

Tell: TypeAlias = "Callable[[Any], None]"
ModuleChange: TypeAlias = "Callable[[ModuleType], None]"

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
_ITS_NAMES = ("filename", "file", "f", "uri", "name")
_MODES_THAT_READ = ("r", "rb")


def watch_torch(tell: Tell) -> None:
    """Have torch tell before it opens a file for writing."""
    native: Any = getattr(sys.modules.get("torch"), "_C", None)
    _tells(getattr(native, "PyTorchFileWriter", None), "__init__", 1, tell)
    _tells(getattr(native, "ScriptModule", None), "save", 1, tell)
    for owner in (sys.modules.get("torch"), getattr(sys.modules.get("torch"), "UntypedStorage", None)):
        if hasattr(owner, "from_file"):

            @replacing(owner, "from_file")
            def mapped(plain: Callable[..., Any], filename: Any, shared: Any = None, *given: Any, **named: Any) -> Any:
                if shared:  # else what is written stays in memory
                    tell(filename)
                return plain(filename, shared, *given, **named)


def watch_imports(tell: Tell, connected: Callable[[Any, Any], None]) -> None:
    """Have libraries tell, from the moment at which they are imported; databases, once they are connected."""

    def functions(module: ModuleType) -> None:
        for name, position in _FUNCTIONS[module.__name__]:
            _tells(module, name, position, tell)

    def h5py(module: ModuleType) -> None:
        @replacing(vars(module)["File"], "__init__")
        def initialize(
            plain: Callable[..., None], file: Any, name: Any, mode: str = "r", *arguments: Any, **named: Any
        ) -> None:
            if mode not in _MODES_THAT_READ:
                tell(name)
            plain(file, name, mode, *arguments, **named)

    def sqlite3(module: ModuleType) -> None:
        @replacing(module, "connect")
        def connect(plain: Callable[..., Any], database: Any, *arguments: Any, **named: Any) -> Any:
            connection = plain(database, *arguments, **named)
            connected(connection, database)
            return connection

    changes: dict[str, ModuleChange] = {**dict.fromkeys(_FUNCTIONS, functions), "h5py": h5py, "sqlite3.dbapi2": sqlite3}
    for name in changes.keys() & sys.modules.keys():
        changes[name](sys.modules[name])

    @replacing(SourceFileLoader, "exec_module")
    def execute(plain: Callable[..., None], loader: SourceFileLoader, module: ModuleType) -> None:
        plain(loader, module)
        if module.__name__ in changes:
            changes[module.__name__](module)


def _tells(owner: Any, name: str, position: int, tell: Tell) -> None:
    """Have a function, if there is one, tell of the file that is its argument at a position, or has a usual name."""
    if not hasattr(owner, name):
        return

    @replacing(owner, name)
    def telling(plain: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        given = [*arguments[position : position + 1], *(named[each] for each in _ITS_NAMES if each in named)]
        if given and given[0] is not None:
            tell(given[0])
        return plain(*arguments, **named)


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
