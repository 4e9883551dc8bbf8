"""What libraries give: kinds of the objects that torch, torchvision, numpy and the builtins construct, by qualified
name."""

from __future__ import annotations

import ast
import re
import sys
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import (
    ANY,
    BOOL,
    NONE,
    NOTHING,
    NUMBER,
    STRING,
    UNKNOWN,
    Kind,
    Value,
    Values,
    made,
)
from autoaccel.dataflow.call_arguments import given_as, given_values, unpacks
from autoaccel.dataflow.qualified_names import canonical as canonical
from autoaccel.library_models.library_members import ANY_MODEL
from autoaccel.library_models.numpy_functions import NUMBERS_DRAWN_BY

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

# Packages whose contents are listed here: their own files see them as everybody else does.
LIBRARIES = frozenset({"torch", "torchvision", "numpy"})

LOADER_CLASSES = frozenset({"torch.utils.data.DataLoader", "torchdata.stateful_dataloader.StatefulDataLoader"})

# Libraries whose objects have no models of the project among their attributes, unless it puts them there.
HOLDING_NO_MODELS = frozenset("matplotlib pylab seaborn PIL cv2 numpy math random time datetime os re json".split())

# What makes a file one that trains or loads data, so that more of the files around it is worth a look.
TRAINING_WORDS = ("backward", "oader")

# What calls none of the functions that it is given, nor hands them back: layers, losses, optimizers, and functions. Not
# what stands deeper within their modules: hooks, schedules, masks that are computed.
CALLING_NOTHING = re.compile(
    r"torch\.nn\.(modules\.\w+\.)?(?!Transformer|TripletMarginWithDistance|DataParallel)[A-Z]\w*"
    r"|torch\.nn\.(functional\.(?!triplet_margin_with_distance)|init\.|utils\.(rnn\.|clip_))\w+"
    r"|torch\.optim\.((?!lr_scheduler|swa_utils)\w+\.)?[A-Z]\w*"
    r"|numpy\.(linalg\.|random\.)?(?!vectorize|frompyfunc|fromfunction|fromiter|apply_|piecewise|mask_indices"
    r"|seterrcall)\w+"
    r"|inspect\.(is|get(?!members)|signature|cleandoc)\w*"
)

# Calls that hand back what their first argument is, as far as kinds go.
TRANSPARENT = frozenset(
    """torch.autograd.Variable torch.compile torch.jit.script copy.deepcopy copy.copy torch.nn.DataParallel
    torch.nn.parallel.DistributedDataParallel torch.nn.SyncBatchNorm.convert_sync_batchnorm torch.nn.utils.weight_norm
    torch.nn.utils.spectral_norm torch.nn.utils.parametrizations.spectral_norm
    torch.nn.utils.parametrizations.weight_norm autoaccel.runtime.prefetch autoaccel.runtime.in_memory
    autoaccel.runtime.compile autoaccel.runtime.optimizer autoaccel_runtime.prefetch autoaccel_runtime.in_memory
    autoaccel_runtime.compile autoaccel_runtime.optimizer autoaccel.runtime.channels_last
    autoaccel_runtime.channels_last autoaccel.runtime.first autoaccel_runtime.first
    torch.fx.symbolic_trace torch.nn.init.xavier_uniform_ torch.nn.init.normal_
    torch.distributed.fsdp.FullyShardedDataParallel""".split()
)

# Numbers that stay what they are when a tensor is added to them.
RUNNING_TOTALS = frozenset({"autoaccel.runtime.total", "autoaccel_runtime.total"})

# Iterables that yield the items of their first argument, one for one.
LOOP_WRAPPERS = frozenset(
    """tqdm.tqdm tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.tqdm_notebook tqdm.asyncio.tqdm tqdm.std.tqdm tqdm.rich.tqdm
    rich.progress.track itertools.islice itertools.cycle alive_progress.alive_it progressbar.progressbar
    fastprogress.progress_bar fastprogress.fastprogress.progress_bar""".split()
)

_NOT_TENSORS: dict[str, str] = {
    "device": "DEVICE",
    "Generator": "OBJECT",
    "is_tensor": "BOOL",
    "manual_seed": "OBJECT",
    "load": "UNKNOWN",
    "save": "NONE",
    "no_grad": "OBJECT",
    "enable_grad": "OBJECT",
    "set_grad_enabled": "OBJECT",
    "inference_mode": "OBJECT",
    "numel": "NUMBER",
    "is_grad_enabled": "BOOL",
    "set_default_dtype": "NONE",
    "set_num_threads": "NONE",
    "set_printoptions": "NONE",
    "get_default_dtype": "DTYPE",
    "finfo": "OBJECT",
    "iinfo": "OBJECT",
    "Size": "SEQUENCE",
    "hub": "UNKNOWN",
}
_DTYPES = frozenset(
    """float16 float32 float64 bfloat16 half float double int8 int16 int32 int64 uint8 short int long bool complex64
    complex128 cfloat cdouble""".split()
)
_RESULTS = {
    **dict.fromkeys((*RUNNING_TOTALS, "autoaccel.runtime.item", "autoaccel_runtime.item"), Kind.NUMBER),
    **dict.fromkeys(("torch.cuda.device_count", "torch.cuda.current_device", "os.cpu_count"), Kind.NUMBER),
    **{f"torch.{each}.is_available": Kind.BOOL for each in ("cuda", "backends.mps", "xpu")},
    **{f"torch.cuda.{each}Tensor": Kind.TENSOR for each in "Float Long Double Int Byte Bool Half".split()},
    "torch.accelerator.current_accelerator": Kind.DEVICE,
    "argparse.ArgumentParser": Kind.OBJECT,
}
_RESULTS_OF = {
    Kind.TENSOR: (
        *("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.", "torch.nn.utils.rnn."),
        "torchvision.utils.make_grid",
    ),
    Kind.NONE: ("torchvision.utils.",),
    Kind.OBJECT: ("torch.utils.data.", "torchvision.transforms."),
    Kind.NUMBER: ("math.", "time."),
    Kind.STRING: ("os.path.",),
}
"""By the beginnings of names; the first that fits."""
_OPENERS = frozenset({"builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open"})
_CELL_KINDS = frozenset({"quoting", "dialect", None})
"""Arguments of a CSV reader by which it may make numbers of cells."""
_NUMPY_NUMBERS = frozenset(
    """float32 float64 float16 int32 int64 int8 int16 uint8 bool_ sqrt exp log sum mean std var min max prod argmax
    argmin dot size pi inf""".split()
)
SAMPLERS = re.compile(r"^torch\.utils\.data\.\w*Sampler$")
_RECURRENT = re.compile(r"^torch\.nn\.(LSTM|GRU|RNN)$")
_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.ParameterList"})


def is_loop_wrapper(name: str | None) -> bool:
    """Whether iterating this call yields the items of its first argument (progress bars and the like)."""
    return name is not None and (
        name in LOOP_WRAPPERS or (name.startswith("tqdm.") and name.rsplit(".", 1)[-1] in ("tqdm", "tqdm_notebook"))
    )


@lru_cache(maxsize=4096)
def class_kind(name: str) -> str | None:
    """The `Kind` name of instances of an external class, or of a project class that derives from it."""
    if name.startswith("torch.nn."):
        last = name.rsplit(".", 1)[-1]
        if last == "Parameter":
            return "PARAMETER"
        if name.count(".") == 2 and last[:1].isupper():
            return "LOSS_FUNCTION" if last.endswith("Loss") or last == "LogSoftmaxLoss" else "MODULE"
        return "MODULE" if last in ("DistributedDataParallel", "DataParallel") else None
    if name.startswith("torch.optim.lr_scheduler."):
        return "SCHEDULER"
    if name.startswith("torch.optim.swa_utils."):
        return "MODULE" if name.endswith("AveragedModel") else "SCHEDULER"
    if name.startswith("torch.optim.") and name.count(".") == 2 and name[12:13].isupper():
        return "OPTIMIZER"
    if name in LOADER_CLASSES:
        return "LOADER"
    if SAMPLERS.match(name):
        return "OBJECT"
    if name.startswith("torch.utils.data.") and name.rsplit(".", 1)[-1].endswith(("Dataset", "Subset")):
        return "DATASET"
    if name.startswith("torchvision.datasets.") and name.count(".") == 2:
        return "DATASET"
    if name.startswith("torchvision.models.") and name.rsplit(".", 1)[-1][:1].islower():
        return "MODULE"
    if name == f"torchvision.models.{ANY_MODEL}":
        return "MODULE"
    if name in (
        "torch.amp.GradScaler",
        "torch.cuda.amp.GradScaler",
        "autoaccel.runtime.grad_scaler",
        "autoaccel_runtime.grad_scaler",
    ):
        return "SCALER"
    if name == "torch.Tensor":
        return "TENSOR"
    if name == "torch.device":
        return "DEVICE"
    if name == "numpy.ndarray":
        return "ARRAY"
    if re.match(r"^(transformers|timm|segmentation_models_pytorch)\.", name) and re.search(
        r"(Model|For[A-Z]\w+|create_model|Unet)(\.from_pretrained|\.from_config)?$", name
    ):
        return "MODULE"
    if re.match(r"^(transformers)\.(AdamW|Adafactor)$", name):
        return "OPTIMIZER"
    return None


_KNOWN_PACKAGES = LIBRARIES | sys.stdlib_module_names


def is_known_class(name: str) -> bool:
    """Whether a class belongs to a library that is known in full, so that what the tables do not list is no model,
    dataset or optimizer."""
    return name.split(".")[0] in _KNOWN_PACKAGES


_ANNOTATIONS = {
    **dict.fromkeys(("int", "float", "builtins.int", "builtins.float"), "NUMBER"),
    **dict.fromkeys(("str", "builtins.str"), "STRING"),
    **dict.fromkeys(("bool", "builtins.bool"), "BOOL"),
    **dict.fromkeys(("Optimizer", "torch.optim.Optimizer"), "OPTIMIZER"),
    **dict.fromkeys(("Module", "torch.nn.Module"), "MODULE"),
    "Tensor": "TENSOR",
    "DataLoader": "LOADER",
}


@lru_cache(maxsize=4096)
def annotated(name: str) -> Values:
    """Values of something annotated with an external name; empty when the annotation says nothing."""
    if canonical(name) in _ANNOTATIONS:
        return Values({Value(Kind[_ANNOTATIONS[canonical(name)]])})
    kind = class_kind(canonical(name))
    return Values({Value(Kind[kind], name=canonical(name))}) if kind else NOTHING


@lru_cache(maxsize=4096)
def named(name: str) -> Values:
    """The value of an imported external name that is not called."""
    if name.startswith("torch.") and name[6:] in _DTYPES:
        return Values({Value(Kind.DTYPE, name=name)})
    if name in ("numpy.pi", "numpy.inf", "math.pi", "numpy.nan", "math.inf"):
        return Values({Value(Kind.NUMBER, name=name)})
    return Values({Value(Kind.EXTERNAL, name=name)})


def without_checkpoint_reads(values: Values) -> Values:
    """A checkpoint read back into a name is what the name held before: `model = torch.load(path)`; so is a model that
    is a part of one, `model = checkpoint["model"]`."""
    if len(values) < 2:
        return values
    read = {value for value in values.unordered() if value.kind is Kind.UNKNOWN and value.how in ("read", "read part")}
    known = values.without(read) if read else values
    if any(value.how == "read part" for value in read) and known.kinds != {Kind.MODULE}:
        return values
    return known if known and UNKNOWN not in known else values


def used_as(name: str, methods: set[str], *, called: bool, iterated: bool) -> Kind | None:
    """The kind that the methods used on a value prove; a telling name counts as half of the proof, never as all of
    it."""
    lowered = name.lower()
    if {"zero_grad", "step"} <= methods or ("step" in methods and "optim" in lowered):
        return Kind.OPTIMIZER
    if called and methods & {"train", "eval", "parameters", "state_dict", "load_state_dict", "zero_grad"}:
        return Kind.MODULE
    if iterated and (methods & {"dataset", "batch_size", "sampler"} or "loader" in lowered):
        return Kind.LOADER
    return None


def called(name: str, node: ast.Call, script: Script) -> Values:
    """What calling an external name returns."""
    value = partial(made, node=node, script=script, name=name)
    constructed = class_kind(name)
    if constructed is not None and constructed != "TENSOR":
        return value(Kind[constructed])
    if name == "torch.load":
        return value(Kind.MODULE) if _is_called_later(script, node) else value(Kind.UNKNOWN, how="read")
    if name == "torch.utils.data.random_split":
        parts = made(Kind.DATASET, node, script, name="torch.utils.data.Subset")
        return made(Kind.SEQUENCE, node, script, items=((None, parts),))
    if name == "csv.reader" and len(node.args) == 1 and _CELL_KINDS.isdisjoint(each.arg for each in node.keywords):
        return made(Kind.ITERATOR, items=((None, made(Kind.SEQUENCE, items=((None, Values({STRING})),))),))
    if name in _OPENERS and _opens_text(name, node):
        return made(Kind.ITERATOR, items=((None, Values({STRING})),))
    if name == "torch.nn.utils.rnn.pad_packed_sequence":
        tensor = value(Kind.TENSOR)
        return made(Kind.SEQUENCE, node, script, items=((0, tensor), (1, tensor)))
    if name.startswith("builtins."):
        return _builtin(name[9:])
    kind = _array_kind(name, node, script) if name.startswith("numpy.") else _kind_of_call(name)
    return ANY if kind is None else value(kind)


def _opens_text(name: str, node: ast.Call) -> bool:
    """Whether a file is opened for its lines of text: those that are compressed are not, by default."""
    mode = node.args[1] if len(node.args) > 1 else given_as(node, "mode")
    plain = name in ("builtins.open", "io.open")
    match mode:
        case None:
            return plain and all(each.arg is not None for each in node.keywords)
        case ast.Constant(value=str() as text):
            return "b" not in text if plain else "t" in text
        case _:
            return False


@lru_cache(maxsize=4096)
def _kind_of_call(name: str) -> Kind | None:
    """What a function gives, to go by its name; None where that may be anything."""
    if name in _RESULTS:
        return _RESULTS[name]
    if name.startswith("torch.") and name.count(".") == 1:
        last = name[6:]
        return None if last in _DTYPES else Kind[_NOT_TENSORS.get(last, "TENSOR")]
    return next((kind for kind, beginnings in _RESULTS_OF.items() if name.startswith(beginnings)), None)


def _array_kind(name: str, node: ast.Call, script: Script) -> Kind | None:
    """The same for NumPy, where the arguments decide between arrays and numbers."""
    last = name.rsplit(".", 1)[-1]
    if name.startswith("numpy.random."):
        if not node.args and not node.keywords:
            return Kind.NUMBER
        given = given_values(node)
        sized = unpacks(node) or any(each.arg == "size" for each in node.keywords)
        if not sized and len(given) <= NUMBERS_DRAWN_BY.get(last, 0):
            return Kind.NUMBER if all(script.kind(each) is Kind.NUMBER for each in given) else None  # or an array
    if last in ("seed", "save", "savez", "default_rng", "RandomState", "isnan", "allclose", "isscalar"):
        return Kind.OBJECT
    is_number = last in _NUMPY_NUMBERS and not any(keyword.arg in ("axis", "keepdims") for keyword in node.keywords)
    return None if is_number else Kind.ARRAY


def _is_called_later(script: Script, node: ast.AST) -> bool:
    """Whether what a checkpoint held is bound to a name that is called: then it was a whole model."""
    match script.parent(node):
        case ast.Assign(targets=[ast.Name() as target, *_]):
            scopes = (each.scope.definitions for each in script.definitions(target))
            uses = (use for known in scopes for each in known.get(target.id, ()) for use in script.uses(each))
            return any(script.call_of(use) is not None for use in uses)
        case _:
            return False


def _builtin(name: str) -> Values:
    match name:
        case "int" | "float" | "len" | "ord":
            return Values({NUMBER})
        case "str" | "repr" | "input" | "chr" | "format":
            return Values({STRING})
        case "bool" | "isinstance" | "hasattr" | "any" | "all" | "callable":
            return Values({BOOL})
        case "range":
            return made(Kind.SEQUENCE, items=((None, Values({NUMBER})),))
        case "print" | "exit" | "quit":
            return Values({NONE})
        case _:
            return ANY


def forwarded(name: str, node: ast.Call, script: Script) -> Values:
    """What calling an instance of an external module returns."""
    tensor = made(Kind.TENSOR, node, script)
    pair = made(Kind.SEQUENCE, node, script, items=((0, tensor), (1, tensor)))
    if _RECURRENT.match(name) or name == "torch.nn.MultiheadAttention":
        state = pair if name == "torch.nn.LSTM" else tensor
        return made(Kind.SEQUENCE, node, script, items=((0, tensor), (1, state)))
    if name == "torch.nn.LSTMCell":
        return pair
    if name.startswith(("transformers.", "torchvision.models.detection.", "torchvision.models.segmentation.")):
        return ANY
    if name.endswith(ANY_MODEL):
        return ANY  # some give pairs while they train
    return ANY if name in _CONTAINERS else tensor
