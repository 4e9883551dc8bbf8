"""What calls do to files: a table of functions, and of methods by their names."""

from __future__ import annotations

import ast
import enum
import re
from typing import TYPE_CHECKING, Final

from autoaccel.dataflow.syntax_index import is_constant

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


class FileCall(enum.Enum):
    """What is done."""

    SAVE = "torch.save"
    DIRECTORY = "makes a directory"
    DOWNLOAD = "downloads what is not there yet"
    WRITE = "writes"


_DOWNLOADS: Final = re.compile(
    r"^(urllib\.request\.urlretrieve|torch\.hub\.download_url_to_file|torchvision\.datasets\.utils\.download_\w+"
    r"|nltk\.download|gdown\.download|wget\.download|huggingface_hub\.\w+_download)$"
)
_WRITERS: Final = re.compile(
    r"^(numpy\.(save\w*|memmap)|torchvision\.utils\.save_image|torchvision\.io\.write_\w+|cv2\.(imwrite|VideoWriter)"
    r"|imageio(\.v\d)?\.(im|mim)(save|write)|scipy\.io\.savemat|matplotlib\.pyplot\.(savefig|imsave)|joblib\.dump"
    r"|h5py\.File|shutil\.\w+|os\.(remove|unlink|rename|replace|rmdir|removedirs|symlink|system)"
    r"|subprocess\.(run|call|check_call|Popen)|sqlite3\.connect|torch\.onnx\.export|torch\.jit\.save"
    r"|logging\.(handlers\.\w+|FileHandler)|wandb\..*|mlflow\..*|neptune\..*|comet_ml\..*|visdom\.Visdom|.*SummaryWriter)$"
)
_METHODS: Final = frozenset(
    """save savefig save_pretrained push_to_hub to_csv to_pickle to_parquet to_json to_excel tofile write_text
    write_bytes touch unlink""".split()
)
_DIRECTORIES: Final = frozenset({"os.mkdir", "os.makedirs"})


def file_call(script: Script, call: ast.Call) -> FileCall | None:
    """What a call does to files; None if nothing, as of functions of the project, which are in sight."""
    name = script.qualname(call.func)
    if name == "torch.save":
        return FileCall.SAVE
    method = call.func.attr if isinstance(call.func, ast.Attribute) and name is None else None
    if name in _DIRECTORIES or (method == "mkdir" and not script.callees(call)):
        return FileCall.DIRECTORY
    if any(each.arg == "download" and not is_constant(each.value, False) for each in call.keywords):
        return FileCall.DOWNLOAD
    if name is not None:
        if _DOWNLOADS.search(name):
            return FileCall.DOWNLOAD
        writes = _configures_file(call) if name == "logging.basicConfig" else _WRITERS.search(name) is not None
        return FileCall.WRITE if writes and not script.is_project_name(call.func) else None
    if isinstance(call.func, ast.Name) and call.func.id == "open" and not script.definitions(call.func):
        return FileCall.WRITE if _is_for_writing(call, 1) else None
    if method == "open":
        return FileCall.WRITE if _is_for_writing(call, 0) else None
    return FileCall.WRITE if method in _METHODS and not script.callees(call) else None


def _configures_file(call: ast.Call) -> bool:
    return any(each.arg in ("filename", None) for each in call.keywords)


def _is_for_writing(call: ast.Call, position: int) -> bool:
    """Whether the mode of an `open` lets it write, or is not known."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return True
    given = [each.value for each in call.keywords if each.arg in ("mode", None)] or call.args[position : position + 1]
    modes = [each.value if isinstance(each, ast.Constant) else None for each in given]
    return any(not isinstance(mode, str) or bool(set(mode) & set("wax+")) for mode in modes)
