"""What a dataset does when a worker process indexes it: random state, open files, its own changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.classes import class_info, external_lineage, lineage, methods, owner_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.numpy_functions import DRAWING_METHODS
from autoaccel.library_models.python_names import CONTAINER_CHANGES
from autoaccel.library_models.tensor_operations import DRAWING
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch.changing_calls import gives_new_tensor
from autoaccel.pytorch.sample_code import reachable

ITEM_METHODS = ("__getitem__", "__getitems__", "__iter__")
_GENERATORS = frozenset(
    """numpy.random.default_rng numpy.random.RandomState numpy.random.Generator random.Random
    torch.Generator torch.quasirandom.SobolEngine scipy.stats.qmc.Sobol scipy.stats.qmc.Halton
    scipy.stats.qmc.LatinHypercube scipy.stats.qmc.PoissonDisk""".split()
)
_DRAWING = frozenset(f"torch.{name}" for name in DRAWING | {"bernoulli", "multinomial", "utils.data.random_split"})
"""What draws from a generator that it is given, and does not keep it."""
_OPENERS = frozenset(
    """h5py.File lmdb.open lmdb.Environment sqlite3.connect zipfile.ZipFile tarfile.open tables.open_file
    netCDF4.Dataset cv2.VideoCapture io.open rasterio.open psycopg2.connect pymongo.MongoClient redis.Redis
    sqlalchemy.create_engine""".split()
)
_CHANGES = CONTAINER_CHANGES | {"shuffle"}
_CHEAP_CALLS = frozenset(
    "int float len bool str tuple list torch.tensor torch.as_tensor torch.from_numpy torch.is_tensor".split()
)
_CHEAP_METHODS = RESHAPING | frozenset("item long float double int bool to type astype tolist size clone copy".split())
_PURE_TRANSFORMS = frozenset(
    f"torchvision.transforms.{name}"
    for name in """Compose ToTensor PILToTensor ConvertImageDtype Normalize Resize CenterCrop Grayscale Pad ToPILImage
    FiveCrop""".split()
)
_HUB = frozenset(
    "datasets.load_dataset datasets.load_from_disk datasets.Dataset.from_dict datasets.Dataset.from_pandas".split()
)
_STREAMS = (".IterableDataset", ".ChainDataset", ".IterDataPipe")


def origins(script: Script, expression: ast.expr) -> Iterator[Value]:
    """What holds the samples of a dataset expression, behind `random_split`, `Subset` and `ConcatDataset`."""
    pending = [(script, expression)]
    seen: set[ast.AST] = set()
    found: dict[Value, None] = {}
    while pending:
        file, part = pending.pop()
        if part in seen:
            continue
        seen.add(part)
        for value in file.values(part):
            inner = _wrapped(value) if value.script is not None else []
            pending.extend((value.script, each) for each in inner if value.script is not None)
            if not inner:
                found[value] = None
    yield from sorted(found, key=_stable_order)


def _stable_order(value: Value) -> tuple[str, str, int, int]:
    """An order for values that is the same in every run."""
    node = value.node
    file = str(value.script.path) if value.script is not None else ""
    what = f"{value.kind.name} {value.name or value.how}"
    return file, what, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _wrapped(value: Value) -> list[ast.expr]:
    call = value.node
    wraps = value.name in ("torch.utils.data.Subset", "torch.utils.data.ConcatDataset")
    if not wraps or not isinstance(call, ast.Call):
        return []
    first = call.args[0] if call.args else given_as(call, "dataset") or given_as(call, "datasets")
    if first is None:
        return []
    return list(first.elts) if isinstance(first, ast.List | ast.Tuple) else [first]


def from_hub(script: Script, expression: ast.expr) -> bool:
    """Whether a dataset comes from the Hugging Face library as a table in memory or on disk, not as a stream."""
    calls = [(file, node) for file, node in reachable(script, expression) if isinstance(node, ast.Call)]
    loaded = any(file.qualname(call.func) in _HUB for file, call in calls)
    return loaded and not any(keyword.arg == "streaming" for _, call in calls for keyword in call.keywords)


def is_iterable(value: Value) -> bool:
    """Whether a dataset is a stream. Every worker would repeat it in full, or, where it divides itself among them, make
    batches of its own part: others than one process makes, and another number of them."""
    names = (value.name or "",) if value.cls is None else external_lineage(value.cls)
    return any(name.endswith(_STREAMS) for name in names)


def item_methods(cls: ClassRef) -> list[tuple[Script, ast.FunctionDef]]:
    """The methods that run per sample: `__getitem__` and what it calls on `self`."""
    known: dict[str, tuple[Script, ast.FunctionDef]] = {}
    for file, method in methods(cls):
        known.setdefault(method.name, (file, method))
    pending = [name for name in ITEM_METHODS if name in known]
    found: dict[str, tuple[Script, ast.FunctionDef]] = {}
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = known[name]
        for node in breadth_first(known[name][1]):
            if isinstance(node, ast.Attribute) and node.attr in known and node.attr != "__init__":
                pending.append(node.attr)
    return list(found.values())


def keeps_generator(cls: ClassRef) -> bool:
    """Whether samples draw from a random generator that workers would each repeat from the same state."""
    return any(True for file, method in item_methods(cls) for _ in generator_reads(file, method, cls))


def generator_reads(script: Script, function: ast.AST, cls: ClassRef | None = None) -> Iterator[ast.expr]:
    """Where a function reads a random generator that is there before it is called: an attribute of its own object, of
    which `cls` is the class, or an outer name."""
    for node in breadth_first(function):
        expressions: list[tuple[Script, ast.expr]] = []
        if isinstance(node, ast.Attribute) and cls is not None and _is_own(script, node, function):
            for base in lineage(cls):
                for binding, _ in class_info(base).attributes.get(node.attr, ()):
                    value = binding if isinstance(binding, ast.expr) else binding.value  # of the class itself
                    expressions += [(base.script, value)] if value is not None else []
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            for each in script.definitions(node):
                if each.value is not None and (each.how == "param" or not script.inside(each.scope.node, function)):
                    expressions.append((script, each.value))
        if any(_makes_generator(owner, expression) for owner, expression in expressions):
            assert isinstance(node, ast.expr)
            yield node


def _makes_generator(script: Script, expression: ast.expr) -> bool:
    made = (call for call in script.within(expression, ast.Call) if script.qualname(call.func) in _GENERATORS)
    return any(not is_drawn_where_made(script, each) for each in made) or any(
        value.name in _GENERATORS for value in script.values(expression)
    )


def is_drawn_where_made(script: Script, generator: ast.expr) -> bool:
    """Whether an expression makes a generator that only gives numbers there, and is gone:
    `np.random.RandomState(0).rand(n, 28, 28)`, `torch.randn(n, 4, generator=torch.Generator().manual_seed(0))`."""
    if not isinstance(generator, ast.Call) or script.qualname(generator.func) not in _GENERATORS:
        return False
    match script.parent(generator):
        case ast.Attribute(attr="manual_seed") as attribute:
            given_to = script.parent(script.call_of(attribute) or attribute)
        case given_to:
            pass
    match given_to:
        case ast.Attribute(attr=method) as attribute if method in DRAWING_METHODS:
            return script.call_of(attribute) is not None
        case ast.keyword(arg="generator"):
            drawing = script.parent(given_to)
            return isinstance(drawing, ast.Call) and script.qualname(drawing.func) in _DRAWING
        case _:
            return False


def leaves_something(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a call changes something that is still there after it: an attribute of its object, an outer name."""
    return any(_writes(script, node, function) for node in breadth_first(function) if not fills_new(script, node))


def fills_new(script: Script, node: ast.AST) -> bool:
    """Whether a statement, or its target, stores to an attribute of the object that `__init__` makes."""
    match node:
        case ast.Assign(targets=[ast.Attribute() as target]) | ast.AnnAssign(target=ast.Attribute() as target):
            return fills_new(script, target)
        case ast.Attribute(value=ast.Name(id=owner), ctx=ast.Store()):
            function = script.function(node)
            if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or not function.args.args:
                return False
            return function.args.args[0].arg == owner and not any(map(_runs_again, script.find(ast.Call)))
        case _:
            return False


def _runs_again(call: ast.Call) -> bool:
    """`self.__init__()`"""
    match call.func:
        case ast.Attribute(attr="__init__", value=ast.Name(id="self")):
            return True
        case _:
            return False


def _writes(script: Script, node: ast.AST, method: ast.FunctionDef) -> bool:
    match node:
        case ast.Global() | ast.Nonlocal():
            return True
        case ast.Assign(targets=targets, value=value):
            return any(_outlives(script, target, method) for target in targets) and not _opens(script, value)
        case ast.AugAssign(target=target):
            return _outlives(script, target, method)
        case ast.Call(func=ast.Name(id="next"), args=[owner, *_]):
            return _is_own(script, owner, method) or (isinstance(owner, ast.Name) and _is_outer(script, owner, method))
        case ast.Call(func=ast.Attribute(attr=attr, value=owner) as called) if (
            attr in _CHANGES and not gives_new_tensor(script, called)
        ):
            return _is_own(script, owner, method) or (isinstance(owner, ast.Name) and _is_outer(script, owner, method))
        case _:
            return False


def _outlives(script: Script, target: ast.AST, method: ast.FunctionDef) -> bool:
    """Whether an assignment goes to the dataset, or to an item or attribute of something global."""
    if _is_own(script, target, method):
        return True
    if isinstance(target, ast.Name):
        return False
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name) and _is_outer(script, target, method)


def _is_outer(script: Script, name: ast.Name, method: ast.FunctionDef) -> bool:
    """Whether a name is bound outside of a function, and not by an import."""
    definitions = script.definitions(name)
    return bool(definitions) and all(
        not script.inside(each.scope.node, method) and each.how != "import" for each in definitions
    )


def _is_own(script: Script, target: ast.AST, method: ast.AST) -> bool:
    """Whether an expression is an attribute of the method's `self`, or an item of one."""
    own = owner_name(script, method)
    while isinstance(target, ast.Subscript | ast.Attribute):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            return target.value.id == own
        target = target.value
    return False


def holds_file(cls: ClassRef) -> bool:
    """Whether the dataset opens a file when it is made: workers would share its position."""
    return any(
        isinstance(node, ast.Assign)
        and _opens(file, node.value)
        and any(_is_own(file, target, method) for target in node.targets)
        for file, method in methods(cls, "__init__")
        for node in breadth_first(method)
    )


def opens(script: Script, target: ast.AST) -> bool:
    """Whether an assignment keeps a file that is opened late: `self.file = h5py.File(path)`."""
    statement = script.parent(target)
    return isinstance(statement, ast.Assign) and _opens(script, statement.value)


def _opens(script: Script, value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="open") as function) if not script.definitions(function):
            return True
        case ast.Call(func=function):
            return script.qualname(function) in _OPENERS
        case ast.Subscript(value=inner):
            return _opens(script, inner)
        case _:
            return False


def only_indexes(value: Value, around: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a sample is a few microseconds of indexing in memory, which workers make slower; `around` are the methods
    of datasets that take theirs from this one."""
    if value.name == "torch.utils.data.TensorDataset":
        return True
    if value.cls is None:
        return value.kind in (Kind.SEQUENCE, Kind.TENSOR, Kind.ARRAY)
    entered = item_methods(value.cls)
    return bool(entered) and all(_is_cheap(file, method, around) for file, method in entered if method not in around)


def _is_cheap(script: Script, method: ast.FunctionDef, around: frozenset[ast.AST]) -> bool:
    if method.name not in ("__getitem__", "__getitems__"):
        return False
    around |= {method}
    for node in breadth_first(method):
        match node:
            case ast.Subscript(value=owner, ctx=ast.Load()):
                inner = (value for value in script.values(owner) if value.kind is Kind.DATASET)
                if not all(only_indexes(value, around) for value in inner):
                    return False
            case ast.For() | ast.While() | ast.ListComp() | ast.With() | ast.Attribute(attr="iloc" | "loc"):
                return False
            case ast.Call(func=ast.Attribute(attr=attr) as function):
                if attr not in _CHEAP_METHODS and script.qualname(function) not in _CHEAP_CALLS:
                    return False
            case ast.Call(func=function):
                name = script.qualname(function) or (function.id if isinstance(function, ast.Name) else "")
                if name not in _CHEAP_CALLS and not name.endswith("Tensor"):
                    return False
    return True


def is_pure_vision(script: Script, value: Value) -> bool:
    """Whether samples are torchvision's own, through transforms that draw no random numbers."""
    if value.name is None or not value.name.startswith("torchvision.datasets.") or not isinstance(value.node, ast.Call):
        return False
    file = value.script or script
    for keyword in value.node.keywords:
        if keyword.arg == "target_transform":
            return False
    transform = given_as(value.node, "transform")
    if transform is None:
        return False
    for where, node in reachable(file, transform):
        match node:
            case ast.Call(func=function) if where.qualname(function) not in _PURE_TRANSFORMS:
                return False
            case ast.Lambda() | ast.FunctionDef():
                return False
    return True
