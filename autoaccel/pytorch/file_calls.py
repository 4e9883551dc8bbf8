"""What calls do to files: a table of functions, and of methods by their names."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as, given_values
from autoaccel.dataflow.syntax_index import is_constant, last_name


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
_WRITERS: Final = {  # by the position of the path, and what it is called
    r"numpy\.(save|savez|savez_compressed)": (0, "file"),
    r"numpy\.(savetxt)|matplotlib\.pyplot\.(savefig|imsave)": (0, "fname"),
    r"torchvision\.utils\.save_image": (1, "fp"),
    r"torchvision\.io\.write_\w+|joblib\.dump": (1, "filename"),
    r"torch\.jit\.save": (1, "f"),
    r"safetensors\.(\w+\.)?save_file": (1, "filename"),
    r"torchaudio\.save": (0, "uri"),
    r"soundfile\.write|tifffile\.im(write|save)": (0, "file"),
    r"skimage\.io\.imsave": (0, "fname"),
    r"os\.(mkdir)": (0, "path"),
    r"os\.(makedirs)": (0, "name"),
    r"torch\.onnx\.export": (2, "f"),
    r"scipy\.io\.wavfile\.write": (0, "filename"),
    r"cv2\.(imwrite|VideoWriter)|logging\.FileHandler|logging\.handlers\.\w+FileHandler": (0, "filename"),
    r"imageio(\.v\d)?\.(im|mim)(save|write)": (0, "uri"),
    r"scipy\.io\.savemat": (0, "file_name"),
    r"h5py\.File": (0, "name"),
    r"tensorflow\.(\w+\.)*summary\.(FileWriter|create_file_writer)": (0, "logdir"),
    r"(torch\.utils\.tensorboard\.|tensorboardX\.)(\w+\.)*SummaryWriter": (0, "log_dir"),
}
_OTHERS: Final = re.compile(  # which are told no path, or change what is there
    r"^(numpy\.(memmap|lib\.format\.open_memmap)|shutil\.\w+|sqlite3\.connect"
    r"|os\.(remove|unlink|rename|renames|replace|rmdir|removedirs|link|symlink|truncate|system|open)"
    r"|subprocess\.(run|call|check_call|Popen)|wandb\..*|mlflow\..*|neptune\..*|comet_ml\..*|visdom\.Visdom"
    r"|.*SummaryWriter)$"
)
_METHODS: Final = {
    "save": "fp", "savefig": "fname", "save_pretrained": "save_directory", "to_csv": "path_or_buf", "to_pickle": "path",
    "to_parquet": "path", "to_json": "path_or_buf", "to_excel": "excel_writer", "tofile": "fid",
    "to_feather": "path", "to_hdf": "path_or_buf",
}  # fmt: skip
_OF_PATHS: Final = frozenset({"write_text", "write_bytes", "touch", "mkdir"})
_OTHER_METHODS: Final = frozenset({"push_to_hub", "unlink", "hardlink_to", "symlink_to"})
_MOVING_METHODS: Final = frozenset({"rename", "replace"})
_OPENERS: Final = re.compile(r"^(gzip|bz2|lzma|io|codecs|tarfile)\.open$|^zipfile\.ZipFile$")
_DIRECTORIES: Final = frozenset({"os.mkdir", "os.makedirs"})


_ASKING: Final = re.compile(
    r"^(os\.(listdir|scandir|walk|stat|access|path\.(l?exists|is(file|dir|link)|get(size|[amc]time)))|glob\.i?glob)$"
)
_READING: Final = re.compile(
    r"^(numpy\.(load|loadtxt|genfromtxt|fromfile|memmap)|torch\.(jit\.)?load|safetensors\..*(load_file|safe_open)"
    r"|PIL\.Image\.open|cv2\.imread|(imageio|skimage\.io|matplotlib|tifffile)\.(\w+\.)*(im|mim|vol)read"
    r"|torchvision\.(io\.(read|decode)_\w+|datasets\.folder\.\w+_loader)"
    r"|torchaudio\.load|soundfile\.read|librosa\.load|scipy\.io\.(loadmat|wavfile\.read)|pandas\.read_\w+|joblib\.load"
    r"|h5py\.File|zipfile\.ZipFile|tarfile\.open|(gzip|bz2|lzma|io|codecs)\.open|linecache\.getlines?|pydicom\.dcmread"
    r"|nibabel\.load|rasterio\.open|SimpleITK\.ReadImage)$"
)
_ASKING_METHODS: Final = frozenset("exists is_file is_dir stat iterdir glob rglob".split())
_FOLDERS: Final = frozenset("os.listdir os.scandir os.walk iterdir".split())
_READING_METHODS: Final = frozenset({"read_text", "read_bytes"})
_PATHS: Final = "file fname f path fp filename filepath_or_buffer name uri io".split()


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
    if name is not None and _DOWNLOADS.search(name):
        return FileCall.DOWNLOAD
    return FileCall.WRITE if _written(script, call, name, method) is not None else None


def written_path(script: Script, call: ast.Call) -> ast.expr | None:
    """The path that a call writes to; None where it does not say, or where what is there is changed."""
    name = script.qualname(call.func)
    method = call.func.attr if isinstance(call.func, ast.Attribute) and name is None else None
    place = _written(script, call, name, method)
    return place if isinstance(place, ast.expr) else None


def _written(script: Script, call: ast.Call, name: str | None, method: str | None) -> ast.expr | str | None:
    """The path that is written to, why it is not known, or None for calls that write nothing."""
    unknown = "its path is not known"
    if name is not None and not script.is_project_name(call.func):
        if name == "logging.basicConfig":
            return _argument(call, None, "filename") if any(each.arg == "filename" for each in call.keywords) else None
        if _OPENERS.match(name):
            return _opened(call, _argument(call, 0, *_PATHS), 1)
        found = next((place for names, place in _WRITERS.items() if re.fullmatch(names, name)), None)
        if found is not None:
            return _argument(call, *found) or unknown
        return unknown if _OTHERS.search(name) else None
    if isinstance(call.func, ast.Name) and call.func.id == "open" and not script.definitions(call.func):
        return _opened(call, _argument(call, 0, "file"), 1)
    if method is None or not isinstance(call.func, ast.Attribute) or script.callees(call):
        return None
    if method == "open":
        return _opened(call, call.func.value, 0)
    if method in _OF_PATHS:
        return call.func.value
    if method in _MOVING_METHODS:  # with two arguments it is that of a text
        path = call.args[0] if len(call.args) == 1 and not call.keywords else None
        return None if isinstance(path, ast.Dict | ast.Lambda) else path
    if method in _METHODS:
        return _argument(call, 0, _METHODS[method]) or unknown
    return unknown if method in _OTHER_METHODS else None


class FileContent(enum.Enum):
    """What kind of data a file holds: what reads one kind reads no other."""

    TENSORS = r"(torch|autoaccel[._]runtime)\.(jit\.)?(save|load)|safetensors\..*"
    ARRAYS = r"numpy\.(load|save\w*|memmap|lib\.format\.\w+)"
    PICTURES = r"(PIL|cv2|imageio|skimage|matplotlib|tifffile|torchvision)\..*|savefig|imsave"
    SOUND = r"(torchaudio|soundfile|librosa)\..*|scipy\.io\.wavfile\..*"
    OWN = r"(wandb|mlflow|neptune|comet_ml|visdom|tensorboardX|tensorflow)\..*|.*SummaryWriter|logging\..*"
    ANY = r"(os|shutil|subprocess)\..*|save|unlink|rename|replace|tofile|(read|write)_bytes|numpy\.fromfile"
    TEXT = r".*"

    def may_be(self, other: FileContent) -> bool:
        """Whether one file may hold both."""
        return FileContent.OWN not in (self, other) and (self is other or FileContent.ANY in (self, other))


@dataclass(frozen=True, slots=True)
class FileUse:
    """What a call asks of files, or does to them."""

    path: ast.expr | None
    """None where it is not known, or there are several."""
    content: FileContent
    of_names: bool = False
    """Whether it asks which files there are, or makes a directory."""
    lists: bool = False
    """Whether the path is a folder's, of what lies in it."""


def file_content(script: Script, call: ast.Call) -> FileContent:
    """What is in the files that a call reads or writes."""
    name = script.qualname(call.func) or last_name(call.func)
    if name == "open" or _OPENERS.match(name):
        handed = [*(file_content(script, each) for each in _handed_to(script, call))]
        return handed[-1] if handed else FileContent.ANY if _is_binary(call) or name != "open" else FileContent.TEXT
    return next(each for each in FileContent if re.fullmatch(each.value, name))


def _is_binary(opened: ast.Call) -> bool:
    """Whether bytes are read or written, which may be those of anything."""
    modes = [each for each in (*opened.args, *given_values(opened)) if isinstance(each, ast.Constant)]
    return any(isinstance(each.value, str) and re.fullmatch(r"[rwaxb+]*b[rwaxb+]*", each.value) for each in modes)


def _handed_to(script: Script, opened: ast.Call) -> Iterator[ast.Call]:
    """The functions of libraries that an open file is handed to: `Image.open(file)`."""
    around = script.parent(opened)
    uses: list[ast.expr] = [opened]
    if isinstance(around, ast.withitem) and isinstance(around.optional_vars, ast.Name):
        statement = script.parent(around)
        name = around.optional_vars.id
        uses = [each for each in script.within(statement, ast.Name) if each.id == name] if statement else []
    for use in uses:
        call = script.parent(use)
        if isinstance(call, ast.Call) and use in call.args and script.qualname(call.func) is not None:
            yield call


def file_read(script: Script, call: ast.Call) -> FileUse | None:
    """What a call reads of files; None if nothing, as of functions of the project, which are in sight."""
    name = script.qualname(call.func)
    if name is not None and script.is_project_name(call.func):
        return None
    path = _argument(call, 0, *_PATHS)
    if name is not None:
        if _ASKING.match(name):
            return FileUse(path, FileContent.ANY, of_names=True, lists=name in _FOLDERS)
        reads = _READING.match(name) and not (_OPENERS.match(name) and _opened(call, path, 1) is not None)
        return FileUse(path, file_content(script, call)) if reads else None
    if isinstance(call.func, ast.Name):
        opens = call.func.id == "open" and not script.definitions(call.func) and _opened(call, path, 1) is None
        return FileUse(path, file_content(script, call)) if opens else None
    if not isinstance(call.func, ast.Attribute) or script.callees(call):
        return None
    method, owner = call.func.attr, call.func.value
    if method in _ASKING_METHODS:
        return FileUse(owner, FileContent.ANY, of_names=True, lists=method in _FOLDERS)
    if method in _READING_METHODS or (method == "open" and _opened(call, owner, 0) is None):
        return FileUse(owner, file_content(script, call))
    return None


def file_written(script: Script, call: ast.Call) -> tuple[FileUse, ...]:
    """What a call does to files; nothing for functions of the project, which are in sight."""
    name = script.qualname(call.func) or ""
    kind = FileCall.SAVE if script.runtime_name(call.func) == "save" else file_call(script, call)
    if kind is FileCall.DOWNLOAD and _DOWNLOADS.search(name):
        return (FileUse(_argument(call, 1, "filename", "dst", "out", "output"), FileContent.ANY),)
    if kind is None or kind is FileCall.DOWNLOAD:
        return ()
    content = file_content(script, call)
    if kind is FileCall.SAVE:
        return (FileUse(_argument(call, 1, "f", "path"), content),)
    if kind is FileCall.DIRECTORY:
        path = (
            call.func.value if isinstance(call.func, ast.Attribute) and not name else _argument(call, 0, "name", "path")
        )
        return (FileUse(path, content, of_names=True),)
    moves = name.startswith(("os.", "shutil.")) and name != "os.system"
    paths = [*call.args] if moves else [written_path(script, call)]
    if not name and isinstance(call.func, ast.Attribute) and call.func.attr in _MOVING_METHODS:
        paths.append(call.func.value)
    return tuple(FileUse(path, content) for path in paths)


def _argument(call: ast.Call, position: int | None, *names: str) -> ast.expr | None:
    """What a call is given by position or by one of several names, where that can be seen."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return None
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((given for name in names if (given := given_as(call, name)) is not None), None)


def _opened(call: ast.Call, place: ast.expr | None, position: int) -> ast.expr | str | None:
    """What an `open` writes to: nothing, its path, or what is there already."""
    mode = _argument(call, position, "mode")
    if mode is None and len(call.args) <= position and not any(each.arg is None for each in call.keywords):
        return None
    text = mode.value if isinstance(mode, ast.Constant) else None
    if not isinstance(text, str) or "+" in text:
        return "it may change what is there"
    return (place or "its path is not known") if set(text.partition(":")[0]) & set("wax") else None
