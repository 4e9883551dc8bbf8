"""The code that an expression of samples leads to: of datasets, and of what collates them or makes them of an index."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import class_info, external_lineage, lineage
from autoaccel.analysis.script import Script
from autoaccel.analysis.type_tests import asked_for_tensor
from autoaccel.dataflow.abstract_values import Kind, Values
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import fixpoint, once, once_all
from autoaccel.library_models.tensor_operations import STORING

_BY_TEXT = frozenset("getattr vars eval exec globals locals methodcaller attrgetter dir __dict__".split())
_PLAIN_BASES = frozenset(
    """torch.utils.data.Dataset torch.utils.data.IterableDataset torch.utils.data.Sampler builtins.object
    builtins.Exception builtins.list builtins.dict abc.ABC typing.NamedTuple typing.Generic""".split()
)
_SEEN = ("torch.", "numpy.", "random.", "math.", "builtins.")
_PLAIN_DECORATORS = frozenset({"dataclasses.dataclass"})
_SETTINGS = frozenset({"builtins.dict", "types.SimpleNamespace", "argparse.Namespace"})
_ON_CPU = "cpu"
_TO_HOST = frozenset("cpu numpy tolist item".split())
_OF_LIBRARIES = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.ARRAY, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.DTYPE})
_HOLDING_NOTHING = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE})
_MOVED_BY_COPY = frozenset({Kind.TENSOR, Kind.BATCH})  # a parameter stays itself, and moves with its model


@fixpoint((), ())
def reachable(script: Script, expression: ast.AST, on_device: bool = False) -> tuple[tuple[Script, ast.AST], ...]:
    """The nodes of an expression and of all that its names lead to: definitions, functions, classes of the project; of
    classes the methods that something among these may call, by their names. `on_device`: without what tensors are made
    of that are copied to the host before samples are made, `TensorDataset(x.cpu())`."""
    found: list[ScriptNode] = []
    pending: list[ScriptNode] = [(script, expression)]
    seen: set[ast.AST] = set()
    entered = {each for each in script.ancestors(expression) if isinstance(each, ast.FunctionDef)}
    named: set[str] = set()  # attributes: what may be called
    waiting: dict[str, list[ScriptNode]] = {}  # methods that nothing has named so far
    by_text = False  # or that a computed name may call
    while pending:
        file, root = pending.pop()
        if root in seen:
            continue
        seen.add(root)
        if isinstance(root, ast.FunctionDef):
            entered.add(root)
        if isinstance(root, ast.ClassDef):
            closed = not by_text and _calls_itself_only(file, root)
            for part in ast.iter_child_nodes(root):
                if closed and isinstance(part, ast.FunctionDef) and not part.name.startswith("__"):
                    waiting.setdefault(part.name, []).append((file, part))
                else:
                    pending.append((file, part))
            pending.extend(each for name in named for each in waiting.pop(name, ()))
            continue
        gone = _left_behind(file, root, on_device)
        for node in file.within(root, ast.AST):
            if node in gone:
                continue
            found.append((file, node))
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
            if not by_text and (name in _BY_TEXT or (isinstance(node, ast.Call) and _is_given_away(file, node))):
                by_text = True
                pending.extend(each for known in waiting.values() for each in known)
            if isinstance(node, ast.Attribute):
                pending.extend(_behind_attribute(file, node))
                if _may_be_of_project(file, node.value):
                    named.add(node.attr)
                    pending.extend(waiting.pop(node.attr, ()))
            elif isinstance(node, ast.Name):
                if not isinstance(file.parent(node), ast.Attribute):
                    pending.extend(_behind(file.values(node)))
                for each in file.definitions(node) if isinstance(node.ctx, ast.Load) else ():
                    function = each.scope.node
                    counted = each.how == "for" and file.kind(node) in (Kind.NUMBER, Kind.STRING)
                    if each.how in ("assign", "for", "aug") and each.value is not None and not counted:
                        pending.append((file, each.value))
                        pending.extend(_stored_in(file, each))
                    elif each.how == "param" and (function in entered or getattr(function, "name", "") == "__init__"):
                        for caller, given in arguments_for(file, function, each.name):
                            _method_among(waiting, caller.function(given), pending).append((caller, given))
    return tuple(found)


def _left_behind(file: Script, root: ast.AST, on_device: bool) -> frozenset[ast.AST]:
    """What is not handed on by an expression that is evaluated once: objects of which it reads a number or a text, as
    of a model, `model.size`; `on_device` also what tensors are computed from that it copies to the host."""
    if not isinstance(root, ast.expr) or isinstance(root, ast.Lambda):
        return frozenset()
    later = [*file.within(root, ast.Lambda), *file.within(root, ast.GeneratorExp)]
    parts = [each.value for each in file.within(root, ast.Attribute) if _is_plain_read(file, each)]
    if on_device:
        copies = (call for call in file.within(root, ast.Call) if _is_host_copy(file, call))
        parts += [call.func.value for call in copies if isinstance(call.func, ast.Attribute)]
    kept = (each for each in parts if not any(file.inside(each, function) for function in later))
    return frozenset(part for each in kept for part in ast.walk(each))


def _is_plain_read(file: Script, read: ast.Attribute) -> bool:
    """Whether an attribute of an object that has a name surely holds no tensor."""
    owner: ast.expr = read
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and file.values(read).kinds <= _HOLDING_NOTHING


def _is_host_copy(file: Script, call: ast.Call) -> bool:
    """Whether a call gives what is on the host, of a tensor: `x.cpu()`; or of anything: `x.tolist()`."""
    match call.func:
        case ast.Attribute(value=tensor, attr=method) if method in _TO_HOST and not file.callees(call):
            kinds = file.values(tensor).kinds
            return method != "cpu" or (bool(kinds) and kinds <= _MOVED_BY_COPY)
        case _:
            return False


def _is_given_away(file: Script, call: ast.Call) -> bool:
    """Whether code that is not seen is given an object of the project, of which it may call any method."""
    values = file.values(call.func)
    qualified = file.qualname(call.func)
    names = [qualified] if qualified is not None else [value.name or "" for value in values.unordered()]
    seen = bool(names) and all(each.startswith(_SEEN) for each in names)
    if seen or file.callees(call) or Kind.CLASS in values.kinds:
        return False
    owner = call.func.value if qualified is None and isinstance(call.func, ast.Attribute) else None
    if owner is not None and Kind.UNKNOWN not in file.values(owner).kinds:
        return False
    return any(value.cls is not None for each in given_values(call) for value in file.values(each))


def _may_be_of_project(file: Script, owner: ast.expr) -> bool:
    """Whether an attribute may be one of a class of the project, and no tensor's: `mask.float().to(torch.bool)`."""
    return any(value.cls is not None or value.kind not in _OF_LIBRARIES for value in file.values(owner))


def _method_among(
    waiting: dict[str, list[ScriptNode]], function: ast.AST | None, otherwise: list[ScriptNode]
) -> list[ScriptNode]:
    """What waits with a method, if a function is one that waits."""
    found = waiting.get(getattr(function, "name", ""), [])
    return found if any(node is function for _, node in found) else otherwise


def _calls_itself_only(file: Script, cls: ast.ClassDef) -> bool:
    """Whether the methods of a class are called by name alone, and by no library that it derives from."""
    marks = (each.func if isinstance(each, ast.Call) else each for each in cls.decorator_list)
    plain = all(file.qualname(each) in _PLAIN_DECORATORS for each in marks)
    return plain and not cls.keywords and set(external_lineage(file.class_ref(cls))) <= _PLAIN_BASES


@once_all
def _stored_in(file: Script, definition: Definition) -> Iterator[ScriptNode]:
    """What is put into an object under this name, and under the names by which functions get it: `features.append(x)`,
    `bank["x"] = x`, `setattr(data, "x", x)`; not what comes to the host."""
    known = [(file, definition)]
    for where, bound in known:
        for use in where.uses(bound):
            node: ast.expr = use
            while isinstance(around := where.parent(node), ast.Subscript | ast.Attribute) and around.value is node:
                node = around
            call, statement = where.parent(node), where.statement(node)
            stored: Sequence[ast.expr] = ()
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "setattr" and node in call.args[:1]:
                stored = call.args[2:]
            elif isinstance(call, ast.Call) and call.func is node:
                stored = given_values(call) if isinstance(node, ast.Attribute) and node.attr in STORING else ()
            elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
                stored = [statement.value] if isinstance(statement, ast.Assign | ast.AugAssign) else ()
            for each in stored:
                elements = each.elts if isinstance(each, ast.Tuple | ast.List) else [each]
                yield from ((where, element) for element in elements if not _comes_to_host(element))
            known.extend(each for each in _received(where, node) if each not in known)


def _received(file: Script, given: ast.expr) -> Iterator[tuple[Script, Definition]]:
    """The parameters by which functions of the project get what a call gives them."""
    call = file.parent(given)
    call = file.parent(call) if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is given:
        return
    for owner, function in file.callees(call):
        for name, definitions in owner.reaching_definitions.scopes[function].definitions.items():
            if file.argument(call, function, name, owner) is given:
                yield from ((owner, each) for each in definitions if each.how == "param")


def _comes_to_host(expression: ast.expr) -> bool:
    match expression:
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=str() as device)]):
            return device.startswith(_ON_CPU)
        case ast.Call(func=ast.Attribute(value=value, attr=method)):
            return method in _TO_HOST or _comes_to_host(value)
        case ast.Subscript(value=value):
            return _comes_to_host(value)
        case _:
            return False


def _behind(values: Values) -> Iterator[tuple[Script, ast.AST]]:
    for value in values:
        if value.kind in (Kind.FUNCTION, Kind.CLASS) and value.node is not None and value.script is not None:
            yield value.script, value.node
        elif value.cls is not None and value.kind is not Kind.MODULE:
            yield from ((each.script, each.node) for each in lineage(value.cls))


def _behind_attribute(file: Script, node: ast.Attribute) -> Iterator[tuple[Script, ast.AST]]:
    """What an attribute leads to; of an object that is not known to have it, all of its class."""
    yield from _behind(file.values(node))
    for owner in file.values(node.value):
        classes = tuple(lineage(owner.cls)) if owner.cls is not None else ()
        bindings = [
            (each.script, binding) for each in classes for binding, _ in class_info(each).attributes.get(node.attr, ())
        ]
        yield from ((where, binding) for where, binding in bindings if isinstance(binding, ast.expr))
        if classes and not bindings:
            yield from _behind(Values({owner}))


def uses_device(script: Script, expression: ast.expr) -> bool:
    """Whether samples (or what collates them) may live on, or pass through, an accelerator."""
    found = reachable(script, expression, True)
    settings = () if any(_may_read_device(node) for _, node in found) else _SETTINGS
    return any(_is_device_use(file, node) for file, node in found if not _is_among(file, node, settings))


def _may_read_device(node: ast.AST) -> bool:
    """Whether code may take a device out of settings: `cfg["device"]`, `cfg.device`, `**cfg`, `getattr(cfg, name)`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str() as key)) | ast.Attribute(attr=key):
            return key in ("device", "values", "items", "get", "pop", "setdefault")
        case ast.Subscript(slice=ast.Constant()) | ast.keyword(arg=str()):
            return False
        case ast.Name(id=name):
            return name in _BY_TEXT
        case _:
            return isinstance(node, ast.keyword | ast.Starred)


def _is_device_use(script: Script, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return script.qualname(node.func) is None
        case ast.Call(func=ast.Attribute(attr="to"), args=[device, *_]) | ast.keyword(arg="device", value=device):
            # Whoever gives the tensor is asked as well.
            return _may_be_device(script, device) and not _is_of_tensor_given(script, device)
        case ast.Call(func=function):
            name = script.qualname(function) or ""
            return name.startswith("torch.cuda.") and name.endswith("Tensor")
        case _:
            return False


def _is_among(script: Script, node: ast.AST, settings: Collection[str]) -> bool:
    """`cfg = dict(device="cuda")`: a device that is only written down."""
    call = script.parent(node) if settings and isinstance(node, ast.keyword) else None
    return isinstance(call, ast.Call) and called_name(script, call.func) in settings


def _is_of_tensor_given(script: Script, device: ast.expr) -> bool:
    """`mean.to(data.device) if torch.is_tensor(data) else mean`: where a parameter is, which surely is a tensor."""
    match device:
        case ast.Attribute(value=ast.Name() as name, attr="device"):
            bound = script.definitions(name)
        case _:
            return False
    if not bound or any(each.how != "param" or each.name == "self" for each in bound):
        return False
    for around in script.ancestors(device):
        match around:
            case ast.IfExp(test=test, body=body) if script.inside(device, body):
                pass
            case ast.If(test=test, body=block) if any(script.inside(device, each) for each in block):
                pass
            case _:
                continue
        asked = asked_for_tensor(script, test)
        if isinstance(asked, ast.Name) and asked.id == name.id:
            return True
    return False


def _may_be_device(script: Script, expression: ast.expr) -> bool:
    match expression:
        case ast.Constant(value=str() as text):
            return not text.startswith(_ON_CPU)
        case ast.Constant(value=None):
            return False
    kinds = script.values(expression).kinds
    return not kinds <= {Kind.DTYPE, Kind.NONE} and (Kind.TENSOR not in kinds or Kind.DEVICE in kinds)


@once
def keeps_gradients(script: Script, expression: ast.expr) -> bool:
    """Whether samples may require gradients, which workers cannot send."""
    for _, node in reachable(script, expression):
        match node:
            case ast.keyword(arg="requires_grad", value=ast.Constant(value=False)):
                continue
            case ast.keyword(arg="requires_grad") | ast.Attribute(attr="requires_grad_"):
                return True
            case ast.Attribute(attr="requires_grad", ctx=ast.Store()):
                return True
    return False
