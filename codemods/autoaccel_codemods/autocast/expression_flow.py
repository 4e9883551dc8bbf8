"""Low precision through expressions: operators, attributes, methods of tensors, parts of what holds several."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.tensor_operations import (
    ENDS,
    INFORMATION,
    METHODS,
    NO_LOW_PRECISION_KERNELS,
    PRODUCTS,
    SAME_DTYPE_NON_PRODUCTS,
    STORING,
    WITH_INDICES,
    WRITING,
)
from autoaccel_codemods.autocast import call_flow, skip_reasons, storage_flow
from autoaccel_codemods.autocast.coarse_steps import is_rank
from autoaccel_codemods.autocast.operation_content import is_pair
from autoaccel_codemods.autocast.storage_flow import CONTAINERS
from autoaccel_codemods.autocast.unsafe_operations import insists, is_float32, tested, written_by_index

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel_codemods.autocast.low_precision_flow import Low, Search, ValuePart

_SIZES = frozenset({"nbytes", "itemsize"})
ITERATED = frozenset("items values keys get pop popleft popitem copy".split())


def follow(search: Search, low: Low) -> None:
    """One step on: what is made of a value where it stands, or where it goes from there."""
    script, node = low.script, low.node
    parent = script.parent(node)
    if low.auto and node in search.region and parent not in search.region:  # hoisted out of a statement that stays out
        low = low._replace(auto=False)
    if isinstance(parent, ast.keyword):
        outer = script.parent(parent)
        if isinstance(outer, ast.Call):
            call_flow.argument(search, low, outer)
        return
    match parent:
        case ast.Attribute():
            _attribute(search, low, parent)
        case ast.Subscript(value=value) if value is node:
            _subscript(search, low, parent)
        case ast.Call(func=function) if function is node:
            search.pass_on(low, parent)
        case ast.Call():
            call_flow.argument(search, low, parent)
        case ast.Starred():
            search.pass_on(low, parent)
        case ast.Tuple() | ast.List() | ast.Dict():
            _element(search, low, parent)
        case ast.BinOp():
            _operand(search, low, parent)
        case ast.UnaryOp(op=operator):
            if not isinstance(operator, ast.Not):
                search.pass_on(low, parent)
        case ast.IfExp(test=test):
            if test is not node:
                search.pass_on(low, parent, low.part)
        case ast.BoolOp() | ast.NamedExpr() | ast.Await() | ast.Set():
            search.pass_on(low, parent, low.part if not isinstance(parent, ast.Set) else None)
            if isinstance(parent, ast.NamedExpr):
                storage_flow.bind(search, low, parent.target)
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
            search.pass_on(low, parent)
        case ast.comprehension(iter=iterated, target=target):
            if iterated is node:
                _iterate(search, low, target)
        case ast.For(iter=iterated, target=target) | ast.AsyncFor(iter=iterated, target=target):
            if iterated is node:
                _iterate(search, low, target)
        case ast.Assign(targets=targets):
            for target in targets:
                storage_flow.bind(search, low, target)
        case ast.AnnAssign(target=target):
            storage_flow.bind(search, low, target)
        case ast.AugAssign():
            _added(search, low, parent)
        case ast.Return():
            call_flow.returned(search, low)
        case ast.Lambda():
            search.pass_on(low, parent)
        case ast.arguments():  # a default: each call may use it
            search.fed_by_others(script, script.parent(parent), low)  # type: ignore[arg-type]
        case ast.Compare(left=left, comparators=others):
            if any(each is not node and is_rank(script, node, each) for each in (left, *others)):
                search.problem(low, skip_reasons.TIES)
            if any(script.kind(each) is Kind.ARRAY for each in (left, *others)):
                search.sink(low, skip_reasons.NUMPY_COMPUTES)
        case ast.Yield() | ast.YieldFrom() | ast.MatchValue() | ast.Match():
            search.sink(low, skip_reasons.NOT_FOLLOWED)
        case ast.withitem(optional_vars=ast.expr() as target):
            storage_flow.bind(search, low, target)
        case _:  # tests, comparisons, messages, indices, statements of their own
            pass


def _element(search: Search, low: Low, parent: ast.Tuple | ast.List | ast.Dict) -> None:
    """An element of what is written out: at a place of its own, unless what is starred moves it."""
    match parent:
        case ast.Dict(keys=keys, values=values):
            if low.node in values:
                key = keys[values.index(low.node)]
                named = isinstance(key, ast.Constant) and isinstance(key.value, int | str)
                search.pass_on(low, parent, ("at", key.value) if named else None)  # type: ignore[union-attr]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            before = elements[: elements.index(low.node)]
            fixed = not any(isinstance(each, ast.Starred) for each in (*before, low.node))
            search.pass_on(low, parent, ("at", len(before)) if fixed else None)


def _operand(search: Search, low: Low, parent: ast.BinOp) -> None:
    if isinstance(parent.op, ast.MatMult) and not low.auto:
        search.sink(low, skip_reasons.PRODUCT_OUTSIDE)
        search.pass_on(low, parent)
        return
    other = parent.right if parent.left is low.node else parent.left
    if Kind.ARRAY in low.script.values(other).kinds:
        search.sink(low, skip_reasons.NUMPY_COMPUTES)
    if low.script.kind(other) is Kind.NUMBER and any(map(_is_imaginary, breadth_first(other))):
        search.sink(low, skip_reasons.NO_KERNEL.format(name="complex"))
        return
    if isinstance(parent.op, ast.Add | ast.Sub):
        statement = low.script.statement(parent)
        names = low.script.within(other, ast.Name) if isinstance(statement, ast.Assign) else ()
        kept = [each for each in names if search.left_by_last_turn(low.script, statement, each)]
        search.running += ((low, each) for each in kept)
    if not isinstance(parent.op, ast.Mod) or low.script.kind(parent.left) is not Kind.STRING:
        search.pass_on(low, parent)


def _is_imaginary(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, complex)


def _added(search: Search, low: Low, parent: ast.AugAssign) -> None:
    """`total += out`, `out @= weights`."""
    if Kind.ARRAY in low.script.values(parent.target).kinds:
        search.sink(low, skip_reasons.NUMPY_COMPUTES)
    if isinstance(parent.op, ast.MatMult) and not low.auto:
        search.sink(low, skip_reasons.PRODUCT_OUTSIDE)
    if isinstance(parent.op, ast.Add | ast.Sub):
        if not isinstance(parent.target, ast.Name):
            search.added.append((low, parent.target))
        elif search.left_by_last_turn(low.script, parent, parent.target):
            search.running.append((low, parent.target))
    storage_flow.bind(search, low, parent.target)


def _attribute(search: Search, low: Low, parent: ast.Attribute) -> None:
    script = low.script
    if not isinstance(parent.ctx, ast.Load):
        return
    if parent.attr in INFORMATION or parent.attr == "nbytes":
        if parent.attr in _SIZES and search.is_of_step(low):
            search.sink(low, skip_reasons.TYPE_SHOWN)
        return
    call = script.parent(parent)
    if parent.attr in ("numpy", "__array__"):
        search.sink(low, skip_reasons.HANDED_TO_NUMPY)
        return
    if not (isinstance(call, ast.Call) and call.func is parent):
        if parent.attr == "dtype":  # what is made or cast after it is low as well
            _typed(search, low, parent)
        else:
            search.pass_on(low, parent)
        return
    name = parent.attr
    if search.callees(script, call) or script.kind(parent) is Kind.MODULE:
        search.pass_on(low, call)
        return
    if (name == "element_size" or (name == "type" and not given_values(call))) and search.is_of_step(low):
        search.sink(low, skip_reasons.TYPE_SHOWN)
        return
    if name in WRITING:
        _written(search, low, low.node, call.args[-1] if call.args else None)
    if name in NO_LOW_PRECISION_KERNELS:
        call_flow.given_refusing(search, low, call, name)
        return
    if (reason := call_flow.refused(low, call, name)) is not None:
        search.sink(low, reason)
        return
    if name in SAME_DTYPE_NON_PRODUCTS and not low.auto:
        search.sink(low, skip_reasons.ONE_PRECISION.format(name=name))
    if name in ENDS:
        return
    types = _types(script, call) if name in ("to", "type", "view") else []
    if types and name == "view":
        search.problem(low, skip_reasons.BITS)
        return
    if types:
        if not any("half" in each or "float16" in each for each in types):
            return
    if low.auto and _goes_to_host(call, name) and not _becomes_an_array(script, call):
        search.sink(low, skip_reasons.TO_HOST)
        return
    if name in PRODUCTS and not low.auto:
        search.sink(low, skip_reasons.PRODUCT_OUTSIDE)
    if name in STORING or (name.endswith("_") and isinstance(script.parent(call), ast.Expr)):
        return
    part: ValuePart = low.part
    if name in WITH_INDICES and is_pair(script, call):
        part = ("at", 0)
    elif name == "items":
        part = ("each", 1)
    elif name in ITERATED | METHODS:
        part = None
    search.pass_on(low, call, part)


def _typed(search: Search, low: Low, dtype: ast.expr) -> None:
    """`torch.zeros(n, dtype=out.dtype)`, `x.to(out.dtype)`, `print(out.dtype)`, `assert out.dtype == torch.float`."""
    if _is_shown(low.script, dtype):
        search.sink(low, skip_reasons.TYPE_SHOWN)
        return
    test = tested(low.script.statement(dtype))
    if test is not None and low.script.inside(dtype, test) and insists(low.script, test):
        search.sink(low, skip_reasons.INSISTS)
        return
    if search.is_of_step(low) and _is_asked(low.script, dtype):
        search.sink(low, skip_reasons.TYPE_SHOWN)
        return
    parent = low.script.parent(dtype)
    if isinstance(parent, ast.keyword):
        parent = low.script.parent(parent)
    if isinstance(parent, ast.Call) and parent.func is not dtype:
        search.pass_on(low, parent)
    elif isinstance(parent, ast.Assign):
        search.pass_on(low, dtype)


def _is_asked(script: Script, dtype: ast.expr) -> bool:
    """Whether a type is compared with float32, or asked for its limits, by itself or under a name; or shown so."""
    match script.parent(dtype):
        case ast.Compare() as comparison:
            return is_float32(script, comparison)
        case ast.Call(func=function) if script.qualname(function) == "torch.finfo":
            return True
        case ast.Assign(targets=[ast.Name() as name]):
            named = (use for each in script.definitions(name) for use in script.uses(each))
            return any(_is_shown(script, use) or _is_asked(script, use) for use in named)
        case _:
            return False


def _is_shown(script: Script, dtype: ast.expr) -> bool:
    """Whether a type is printed or becomes a text: by itself, in a text, for each of several."""
    for around in script.ancestors(dtype):
        match around:
            case ast.ListComp() | ast.GeneratorExp() | ast.List() | ast.Tuple():
                pass
            case ast.FormattedValue():
                return True
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
                return True
            case ast.Call(func=ast.Name(id="print" | "str" | "repr") as function):
                return not script.definitions(function)
            case ast.Call(func=ast.Attribute(attr="format" | "debug" | "info" | "warning" | "error")):
                return True
            case _:
                return False
    return False


def _subscript(search: Search, low: Low, parent: ast.Subscript) -> None:
    script = low.script
    if isinstance(parent.ctx, ast.Store):
        statement = script.parent(parent)
        value = statement.value if isinstance(statement, ast.Assign | ast.AugAssign) else None
        if script.kind(low.node) not in CONTAINERS and written_by_index(script, parent.slice):
            if not isinstance(statement, ast.AugAssign):
                _written(search, low, low.node, value)
        return
    step = storage_flow.constant_key(parent.slice)
    other_part = low.part is not None and low.part[0] == "at" and step is not None and step != low.part[1]
    if not other_part:
        search.pass_on(low, parent)


def _written(search: Search, low: Low, target: ast.expr, value: ast.expr | None) -> None:
    """Something is written by index into what is low: in the same precision only if it is made of it."""
    script = low.script
    if isinstance(value, ast.Constant | ast.UnaryOp) or (value is not None and script.kind(value) is Kind.NUMBER):
        return
    if value is not None and storage_flow.has_same_root(value, target):
        return
    search.problem(low, skip_reasons.WRITTEN_BY_INDEX)


def _iterate(search: Search, low: Low, target: ast.expr) -> None:
    match low.part, target:
        case ("each", int() as index), ast.Tuple(elts=elements) if index < len(elements):
            target = elements[index]
    storage_flow.bind(search, low._replace(part=None), target)


def _types(script: Script, call: ast.Call) -> list[str]:
    """The types that `x.to(…)` and `x.type(…)` name."""
    arguments = given_values(call)
    return [ast.unparse(each).lower() for each in arguments if script.kind(each) is Kind.DTYPE]


def _goes_to_host(call: ast.Call, name: str) -> bool:
    """`x.cpu()`, `x.to("cpu")`: autocast of another device does nothing for what is computed there."""
    if name == "cpu":
        return True
    given = [each.args[0] if isinstance(each, ast.Call) and each.args else each for each in given_values(call)]
    return name == "to" and any(getattr(each, "value", None) == "cpu" for each in given)


def _becomes_an_array(script: Script, copied: ast.AST) -> bool:
    """Whether what is copied to the host is made an array or numbers of at once: `x.cpu().detach().numpy()`."""
    while isinstance(attribute := script.parent(copied), ast.Attribute):
        if attribute.attr in ("numpy", "item", "tolist"):
            return True
        around = script.parent(attribute)
        copied = around if isinstance(around, ast.Call) and around.func is attribute else attribute
    return False
