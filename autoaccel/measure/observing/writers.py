"""Functions of libraries that write files below Python, where no audit hook sees it."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias

Tell: TypeAlias = "Callable[[Any], None]"

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


def watch_imports(tell: Tell) -> None:
    """Have libraries tell, from the moment at which they are imported."""
    sys.meta_path.insert(0, _Finder(tell))


class _Finder(MetaPathFinder):
    """Finds the few modules that matter as all others would, and changes them once they are there."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._searching = False

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if self._searching or (fullname not in _FUNCTIONS and fullname != "h5py"):
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):
            loader.exec_module = self._changed_after(loader.exec_module, fullname)
        return spec

    def _changed_after(self, execute: Callable[[ModuleType], None], name: str) -> Callable[[ModuleType], None]:
        @functools.wraps(execute)
        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            for function, position in _FUNCTIONS.get(name, ()):
                if hasattr(module, function):
                    setattr(module, function, _told(getattr(module, function), position, self._tell))
            if name == "h5py" and hasattr(module, "File"):
                module.File.__init__ = _told_of_mode(module.File.__init__, self._tell)

        return execute_and_change


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


def _told_of_mode(initialize: Callable[..., None], tell: Tell) -> Callable[..., None]:
    @functools.wraps(initialize)
    def telling(self: Any, name: Any, mode: str = "r", *arguments: Any, **named: Any) -> None:
        if mode not in _MODES_THAT_READ:
            tell(name)
        initialize(self, name, mode, *arguments, **named)

    return telling
