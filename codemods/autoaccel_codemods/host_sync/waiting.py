"""When the host waits for the device: in a loop all the same, or on purpose."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.python_names import CLOCKS
from autoaccel.pytorch import host_reads
from autoaccel.pytorch.batches import device_of
from autoaccel.pytorch.host_writes import changed_after
from autoaccel.pytorch.loader_loops import transfers
from autoaccel_codemods.host_sync import reads
from autoaccel_codemods.host_sync.sums import Addition, Sum

_READING = frozenset({"item", "tolist", "cpu", "numpy"})
_TENSORS = (Kind.TENSOR, Kind.BATCH, Kind.PARAMETER)
_ORDERING = re.compile(
    r"(\.\s*|\b)(Event|Stream|ExternalStream|stream|set_stream|CUDAGraph|make_graphed_callables|elapsed_time|record_stream)"
    r"\s*\(|\bcuda\.graph\b"
)
_DEFINED = re.compile(r"\b(?:class|def)\s+(\w+)")
_FROM_TORCH = re.compile(r"\bfrom\s+torch[\w.]*\s+import\s+(\([^)]*\)|[^\n]*)")
_COMPILING = re.compile(r"\bjit\.script\b|\bjit import\b.*\bscript\b|\bnumba\b")
_OWN: Final = "streams, events or graphs of the script's own may rely on who waits when"
_COPIES: Final = "copies of the script's own may rely on it that the host waits here"
_MOVES: Final = frozenset({"to", "cuda", "copy_", "cpu"})


def compiled(script: Script) -> str | None:
    """Why a function's text may be compiled by something that knows numbers and tensors alone; dynamo knows more."""
    return "the script compiles functions itself" if _COMPILING.search(script.text) else None


@once
def own_ordering(script: Script) -> str | None:
    """Why the work of the device may be ordered by the host's waiting for it."""
    try:
        texts = [text for text in script.project.related_texts(script) if _ORDERING.search(text)]
        own = {name for text in texts for name in _DEFINED.findall(text)}  # `class Stream(IterableDataset)`
        own -= {name for text in texts for names in _FROM_TORCH.findall(text) for name in re.findall(r"\w+", names)}
        if any(found[1] or found[2] not in own for text in texts for found in _ORDERING.finditer(text)):
            return _OWN
        for other in script.project.with_word(script, "non_blocking"):
            if not all(_is_batch(other, call) for call in other.find(ast.Call) if _goes_on(call)):
                return _COPIES
    except Incomplete as unseen:
        return f"{_COPIES}: {unseen}"
    return None


def _goes_on(call: ast.Call) -> bool:
    """Whether the host does not wait for a copy."""
    for keyword in call.keywords:
        if keyword.arg == "non_blocking":
            return not is_constant(keyword.value, False)
    positional = [each for each in call.args if is_constant(each, True)]
    return bool(positional) and isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES


def _is_batch(script: Script, call: ast.Call) -> bool:
    """Whether a copy is that of a loader's batch to the device, whose memory nobody writes to meanwhile."""
    served = [each for each in transfers(script) if each.call is call]
    return bool(served) and all(
        device_of(script, each).accelerates and changed_after(script, each) is None for each in served
    )


def worth_it(script: Script, found: Mapping[ast.AugAssign, Sum]) -> dict[ast.AugAssign, Sum | str]:
    """The sums whose loops wait for nothing once these are kept on the device, and why the others are not."""
    outcomes: dict[ast.AugAssign, Sum | str] = dict(found)
    while True:
        kept = [each for each in outcomes.values() if not isinstance(each, str)]
        gone = {call for each in kept for addition in each.additions for call in _dropped(script, addition)}
        waits = {key: _wait(script, each, gone) for key, each in outcomes.items() if not isinstance(each, str)}
        if not any(waits.values()):
            return outcomes
        outcomes.update({key: reason for key, reason in waits.items() if reason is not None})


def _wait(script: Script, found: Sum, gone: set[ast.Call]) -> str | None:
    """Why the loops of a sum would wait for the device in every iteration all the same."""
    names = (*reads.all_reads(script, found), *reads.other_changes(script, found))
    for loop in dict.fromkeys(script.loops(each.statement)[0] for each in found.additions):
        for name in names:
            if _is_each_time(script, name, loop):
                return f"`{found.name}` is read in every iteration, in line {name.lineno}"
        for node in script.syntax_index.within_any(loop, host_reads.READING):
            asked = None if node in gone else host_reads.read_by(script, node)
            if asked is not None and _is_each_time(script, asked, loop):
                return f"the loop waits for the device in line {asked.lineno} all the same"
        for call in script.within(loop, ast.Call):
            if call in gone or not _is_each_time(script, call, loop):
                continue
            if script.qualname(call.func) in CLOCKS:
                return f"the loop is timed, in line {call.lineno}"
            if isinstance(call.func, ast.Attribute) and call.func.attr in _READING and not _is_host(script, call):
                return f"the loop waits for the device in line {call.lineno} all the same"
            if (reading := _reading_function(script, call)) is not None:
                return f"the loop waits for the device in line {call.lineno} all the same, in `{reading.name}`"
    return None


def _reading_function(script: Script, call: ast.Call) -> ast.FunctionDef | None:
    """The function of the project, if it is known, in which a call surely reads a tensor on the host."""
    pending = [script.callees(call)]
    seen: set[ast.FunctionDef] = set()
    for callees in pending:  # grows while it is walked
        if len(callees) != 1 or callees[0][1] in seen:
            continue
        ((other, function),) = callees
        seen.add(function)
        if any(other.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
            continue
        left = min(
            (each.end_lineno or each.lineno for each in other.in_scope(function, ast.Return)), default=sys.maxsize
        )
        for inner in other.in_scope(function, ast.Call):
            if inner.lineno > left or not _is_each_time(other, inner, function):
                continue
            if isinstance(inner.func, ast.Attribute) and inner.func.attr in _READING:
                if other.kind(inner.func.value) in _TENSORS:
                    return function
            pending.append(other.callees(inner))
    return None


def _dropped(script: Script, addition: Addition) -> set[ast.Call]:
    """`.item()` and the `.cpu()` before it, or `float()`."""
    return {*script.within(addition.item, ast.Call)}.difference(script.within(addition.tensor, ast.Call))


def _is_host(script: Script, call: ast.Call) -> bool:
    """Whether a value is on the host already, or is left on the device, as `accel.item` does."""
    assert isinstance(call.func, ast.Attribute)
    return script.kind(call.func.value) in (Kind.NUMBER, Kind.ARRAY) or script.runtime_name(call.func) == "item"


def _is_each_time(script: Script, node: ast.AST, loop: ast.AST) -> bool:
    """Whether code runs in each iteration of a loop: under no condition, in no function."""
    child = node
    for ancestor in script.ancestors(node):
        if ancestor is loop:
            return child in _repeated(loop)
        match ancestor:
            case ast.If(test=test, body=[*body]) if child in body and _asks_for_tensor(script, test):
                pass
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test:
                return False
            case ast.BoolOp(values=[first, *_]) if child is not first and not _is_unset_at_first(script, ancestor):
                return False
            case ast.ExceptHandler() | ast.match_case() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return False
        child = ancestor
    return False


def _is_unset_at_first(script: Script, tests: ast.BoolOp) -> bool:
    """`best is None or …` of a condition that sets it: from the second iteration on the rest is asked as well."""
    match tests, script.parent(tests):
        case (
            ast.BoolOp(op=ast.Or(), values=[ast.Compare(left=ast.Name(id=name), ops=[ast.Is()]), _]),
            ast.If(test=test, body=body),
        ) if test is tests:
            stored = (part for each in body for part in ast.walk(each) if isinstance(part, ast.Name))
            return any(each.id == name and isinstance(each.ctx, ast.Store) for each in stored)
        case _:
            return False


def _asks_for_tensor(script: Script, test: ast.expr) -> bool:
    """`torch.is_tensor(x)`, and the like, of what is one."""
    match test:
        case ast.Call(args=[asked]) if script.qualname(test.func) == "torch.is_tensor":
            return script.kind(asked) in _TENSORS
        case ast.Call(func=ast.Name(id="isinstance"), args=[asked, kind]) if script.qualname(kind) == "torch.Tensor":
            return script.kind(asked) in _TENSORS
        case _:
            return False


def _repeated(loop: ast.AST) -> Iterator[ast.AST]:
    yield from getattr(loop, "body", ())
    if isinstance(loop, ast.While):
        yield loop.test
