"""Statements between those of a training step that only print or note numbers: they may as well do so after it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import breadth_first, walk_scope
from autoaccel.library_models.library_values import RUNNING_TOTALS
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.pytorch.gradients import is_backward, is_optimizer_step
from autoaccel.pytorch.integers import is_shape
from autoaccel.pytorch.step_effects import calls_model
from autoaccel_codemods.captured_step.measured_values import is_measured
from autoaccel_codemods.captured_step.note_methods import only_notes
from autoaccel_codemods.captured_step.problems import DeclinedError


@once
def variables(script: Script, statement: ast.stmt, *contexts: type[ast.expr_context]) -> frozenset[str]:
    """The names of variables that a statement reads, or binds, and those of attributes, with a dot before them."""
    return frozenset(variable(each) for each in mentions(script, statement) if isinstance(each.ctx, contexts))


def mentions(script: Script, node: ast.AST) -> list[ast.Name | ast.Attribute]:
    """The names and attributes within a node."""
    return [*script.within(node, ast.Name), *script.within(node, ast.Attribute)]


def variable(part: ast.Name | ast.Attribute) -> str:
    return part.id if isinstance(part, ast.Name) else f".{part.attr}"


def is_shown_later(script: Script, statement: ast.stmt, computed: set[ast.stmt]) -> bool:
    """Whether a statement prints or notes texts, numbers and what these statements have computed, and does nothing
    else: then it may as well be done after them."""
    match statement:
        case ast.If(test=test, body=body, orelse=[]):
            return _is_shown(script, test, computed) and all(is_shown_later(script, each, computed) for each in body)
        case ast.Expr(value=ast.Call(func=ast.Name(id="print") as name, args=args, keywords=keywords)):
            plain = all(each.arg is not None and isinstance(each.value, ast.Constant) for each in keywords)
            return plain and not script.definitions(name) and all(_is_shown(script, each, computed) for each in args)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=[]) as call):
            notes = _is_list(script, owner) if name == "append" else only_notes(script, call)
            return notes and all(_is_shown(script, each, computed) for each in args)
        case ast.AugAssign(target=ast.Name() as target, value=value):
            return _is_number(script, target) and _is_shown(script, value, computed)
        case _:
            return False


def _is_list(script: Script, owner: ast.expr) -> bool:
    """A list that the loop's own function made, and that none of these statements sees."""
    return isinstance(owner, ast.Name) and script.values(owner).kinds == {Kind.SEQUENCE}


def _is_number(script: Script, target: ast.Name) -> bool:
    values = script.values(target)
    return bool(values) and all(each.kind is Kind.NUMBER or each.name in RUNNING_TOTALS for each in values)


def _is_shown(script: Script, expression: ast.expr, computed: set[ast.stmt]) -> bool:
    """Whether an expression is made of numbers, texts and results, and of what converts them: the update of the
    parameters changes none of these."""
    for part in breadth_first(expression):
        match part:
            case ast.Call(func=ast.Attribute(attr="item" | "format" | "size")):
                pass
            case ast.Call(func=ast.Name(id="len" | "float" | "int" | "str" | "round") as name):
                if script.definitions(name):
                    return False
            case ast.Attribute(attr="item" | "format" | "size"):
                if not isinstance(script.parent(part), ast.Call):
                    return False
            case ast.Attribute(attr="shape"):
                pass
            case ast.Subscript(value=sizes) if is_shape(sizes):
                pass
            case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=int())):
                pass
            case ast.Name():
                builtin = script.call_of(part) is not None and part.id in BUILTINS
                plain = script.kind(part) in (Kind.NUMBER, Kind.STRING, Kind.BOOL)
                sized = _is_size(script, part)
                if not builtin and not plain and not sized and not _is_result(script, part, computed):
                    return False
            case (
                ast.Constant()
                | ast.BinOp()
                | ast.Tuple()
                | ast.UnaryOp()
                | ast.Compare()
                | ast.BoolOp()
                | ast.JoinedStr()
                | ast.FormattedValue()
                | ast.expr_context()
                | ast.operator()
                | ast.unaryop()
                | ast.cmpop()
                | ast.boolop()
            ):
                pass
            case _:
                return False
    return True


def _is_size(script: Script, name: ast.Name) -> bool:
    """`images.size(0)`, `images.shape[0]`, `len(images)`: no step changes it."""
    if script.kind(name) not in (Kind.TENSOR, Kind.BATCH):
        return False
    match script.parent(name):
        case ast.Attribute(attr="size" | "shape"):
            return True
        case ast.Call(func=ast.Name(id="len")):
            return True
        case _:
            return False


def _is_result(script: Script, name: ast.Name, computed: set[ast.stmt]) -> bool:
    """Whether a name holds what an operation of the step has made: a tensor of its own, which no update changes."""
    found = script.definitions(name)
    if not found or any(each.node not in computed for each in found):
        return False
    return all(_makes(script, each.value) for each in found) or is_measured(script, name)


def _makes(script: Script, value: ast.expr | None, *, deeper: bool = True) -> bool:
    match value:
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(attr="mean" | "sum")):
            return True
        case ast.Call(func=function):
            made = (script.qualname(function) or "").startswith("torch.nn.functional.")
            return made or script.kind(function) is Kind.LOSS_FUNCTION or (deeper and _computes(script, value))
        case _:
            return False


def _computes(script: Script, call: ast.Call) -> bool:
    """Whether what is called is in sight, and returns results of operations itself."""
    callees = script.callees(call)
    bodies = [(other, each) for other, each in callees if isinstance(each, ast.FunctionDef)]
    returned = [(other, part) for other, each in bodies for part in walk_scope(each) if isinstance(part, ast.Return)]
    return (
        len(bodies) == len(callees)
        and bool(returned)
        and all(_makes(at, each.value, deeper=False) for at, each in returned)
    )


def refuse_changed(script: Script, statements: Sequence[ast.stmt], shown: Sequence[ast.stmt]) -> None:
    """What is shown after the step must not have been bound anew in it since, and what is noted must not be seen by
    the rest of the step: neither by its statements nor by other code that they run."""
    for display in shown:
        rest = [each for each in statements if each.lineno > display.lineno]
        changed = noted(script, display)
        if seen := changed & {name for each in rest for name in variables(script, each, ast.Load)}:
            raise DeclinedError(f"line {display.lineno} changes `{min(seen).lstrip('.')}`, which the step reads")
        parts = [part for each in rest for part in breadth_first(each)]
        if any(isinstance(each, ast.Call) and _may_see(script, each) for each in parts):
            raise DeclinedError(f"line {display.lineno} prints or counts before other code runs, which may see it")
        if changed and any(_reads_container(script, each) for each in parts):
            raise DeclinedError(f"line {display.lineno} notes something, and the step reads what may hold it")
        read = {part.id for part in script.within(display, ast.Name)}
        if any(read & variables(script, each, ast.Store, ast.Del) for each in rest):
            raise DeclinedError(f"line {display.lineno} shows what the step changes afterwards")


def _may_see(script: Script, call: ast.Call) -> bool:
    """Whether a call runs code of the project, or changes a tensor in place."""
    if is_backward(script, call) or is_optimizer_step(script, call):
        return False
    if script.callees(call) or calls_model(script, call):
        return True
    match call.func:
        case ast.Attribute(attr=name) as function:
            in_place = name.endswith("_") and not name.startswith("__") and name != "unscale_"
            return in_place and script.qualname(function) is None
        case _:
            return False


def _reads_container(script: Script, part: ast.AST) -> bool:
    """`len(self.history)`, `history["train"]`: a list may have several names."""
    match part:
        case ast.Call(func=ast.Name(id=name)):
            return name in BUILTINS
        case ast.Subscript(
            value=ast.Attribute(value=owner, attr="shape")
            | ast.Call(func=ast.Attribute(value=owner, attr="size"))
            | owner
        ):
            return script.kind(owner) not in (Kind.TENSOR, Kind.BATCH)
        case _:
            return False


@once
def noted(script: Script, statement: ast.stmt) -> frozenset[str]:
    """The names of what a statement that is made after the step changes; those of attributes with a dot before them."""
    names = variables(script, statement, ast.Store)
    for part in script.within(statement, ast.Expr):
        match part:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
                names |= {*map(variable, mentions(script, owner))} - {"self"}
    return names
