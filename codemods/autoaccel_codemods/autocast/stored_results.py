"""Ratios of what a model gives now to what it gave before, outside the region: `exp(log_prob - old_log_prob)`.

Such a ratio, of PPO and its kin, says how far the model has moved since; it is 1 where it has not. Of two precisions it
would say so of a model that stands still, and is clipped by a bound that is not much larger than what rounding does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as, given_values, unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.step_effects import may_run_model
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.blockers import Problem, problem_at

_EXPONENTIALS = frozenset("exp exp_ exp2 exp2_ expm1 expm1_".split())
_CLIPS = frozenset("clamp clamp_ clip clip_".split())
# What leaves a difference, or a ratio, one of the same two sides.
_KEEPING = frozenset(
    """sum mean clamp_min clamp_max float double to type cpu cuda contiguous clone nan_to_num masked_fill where minimum
    maximum mul div neg""".split()
).union(_CLIPS, VIEW_METHODS)
_BY_NAME: dict[type[ast.operator], frozenset[str]] = {
    ast.Sub: frozenset({"sub", "subtract"}),
    ast.Div: frozenset({"div", "divide", "true_divide"}),
}
_KEPT = frozenset({"for", "with", "import", "global"})  # other bindings may be of anything
_CONSTANT = frozenset({Kind.NUMBER, Kind.BOOL, Kind.NONE, Kind.PARAMETER, Kind.STRING})


_Place = tuple[Script, ast.expr]
_BEFORE = -1  # outside all regions, in float32
_Places = frozenset[int]
"""Where a value may come from: regions by their number, and `_BEFORE`."""


def in_regions(regions: list[list[ast.AST]], rest: Iterable[ast.AST], file: Script, at: ast.AST) -> Iterator[Problem]:
    """Ratios in the code of regions, and in what is done to their results; `at` stands for code of other files."""
    origins: _OriginFinder | None = None
    code = reachable_code(file, [*(node for region in regions for node in region), *rest])
    calls = {call: script for script, node in code for call in script.within(node, ast.Call)}
    for call, script in calls.items():
        for left, right in _compared(script, call):
            origins = origins or _OriginFinder(file, regions)
            if origins.differ(left, right):
                reason = skip_reasons.STORED_RATIO.format(text=right[0].source(right[1]))
                yield problem_at(script, call, reason, file, at)
                break


def _compared(script: Script, call: ast.Call) -> Iterator[tuple[_Place, _Place]]:
    """The two sides of every ratio that a call makes, or keeps near 1."""
    operand = _first_operand(script, call)
    if operand is None:
        return
    if last_name(call.func) in _EXPONENTIALS:
        yield from _pairs(script, operand, ast.Sub)
    elif last_name(call.func) in _CLIPS and _is_around_one(script, call):
        yield from _pairs(script, operand, ast.Div)


def _first_operand(script: Script, call: ast.Call) -> ast.expr | None:
    """What an operation of torch is done to: x of `torch.exp(x)`, `x.exp()` and `torch.clamp(input=x, min=0)`."""
    qualified = script.qualname(call.func)
    if qualified is None:
        return call.func.value if isinstance(call.func, ast.Attribute) else None
    if not qualified.startswith("torch."):
        return None
    return call.args[0] if call.args else given_as(call, "input")


def _is_around_one(script: Script, call: ast.Call) -> bool:
    """`clamp(1 - eps, 1 + eps)`, `clamp(0.8, 1.2)`."""
    shift = 0 if script.qualname(call.func) is None else 1
    bounds = list(call.args[shift:])
    low = bounds[0] if bounds else given_as(call, "min")
    high = bounds[1] if len(bounds) > 1 else given_as(call, "max")
    match low, high:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub()), _:
            return True
        case _, ast.BinOp(left=ast.Constant(value=1), op=ast.Add()):
            return True
        case ast.Constant(value=int() | float() as least), ast.Constant(value=int() | float() as most):
            return least < 1 < most
        case _:
            return False


def _pairs(script: Script, expression: ast.expr, between: type[ast.operator]) -> Iterator[tuple[_Place, _Place]]:
    """The differences, or quotients, that an expression is made of: also by name, scaled, summed, clamped."""
    names = _BY_NAME[between]
    pending, seen = [(script, expression)], set[ast.AST]()
    while pending:
        file, part = pending.pop()
        if part in seen:
            continue
        seen.add(part)
        inner: list[ast.expr] = []
        match part:
            case ast.BinOp(left=left, op=op, right=right):
                if isinstance(op, between):
                    yield (file, left), (file, right)
                elif between is ast.Sub and isinstance(op, ast.Add):  # -old + new
                    for negative, other in ((left, right), (right, left)):
                        if isinstance(negative, ast.UnaryOp) and isinstance(negative.op, ast.USub):
                            yield (file, other), (file, negative.operand)
                inner = [left, right]
            case ast.UnaryOp(operand=inside) | ast.Subscript(value=inside):
                inner = [inside]
            case ast.Call() if last_name(part.func) in names | _KEEPING:
                inner = given_values(part)
                if isinstance(part.func, ast.Attribute) and file.qualname(part.func) is None:
                    inner.insert(0, part.func.value)
                if last_name(part.func) in names and len(inner) > 1:
                    yield (file, inner[0]), (file, inner[1])
            case ast.Name():
                for definition in file.definitions(part):
                    if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.op, between):
                        yield (file, part), (file, definition.node.value)
                    pending += [(other, value) for other, value, _ in _given(file, definition)]
        pending += [(file, each) for each in inner]


class _OriginFinder:
    """In which region, if in any, the values of a step are made."""

    def __init__(self, script: Script, regions: list[list[ast.AST]]) -> None:
        self.anywhere = frozenset([_BEFORE, *range(len(regions))])
        self.regions: dict[ast.Call, _Places] = {}
        for number, nodes in enumerate(regions):
            for file, node in reachable_code(script, nodes):
                for call in file.within(node, ast.Call):
                    self.regions[call] = self.regions.get(call, frozenset()) | {number}

    def differ(self, left: _Place, right: _Place) -> bool:
        """Whether one side may be made in a region, and the other elsewhere: before, or in another region, which may
        run at another time and in another precision."""
        first, second = self._origins(*left), self._origins(*right)
        one = self._places(places for each, places in first.items() if each not in second)
        other = self._places(places for each, places in second.items() if each not in first)
        return bool(one and other) and len(one | other) > 1

    def _places(self, origins: Iterable[_Places]) -> _Places:
        """Where a value is made that has these origins: what a region computes of stored inputs is made in it."""
        known = list(origins)
        if self.anywhere in known:
            return self.anywhere
        found = frozenset[int]().union(*known)
        return (found - {_BEFORE}) or found

    def _origins(self, script: Script, expression: ast.expr) -> dict[object, _Places]:
        """Where a value is made, by what it is computed from: calls that run models, what is handed over or kept, and
        each part of those by itself."""
        found: dict[object, _Places] = {}
        pending: list[tuple[Script, ast.expr, object]] = [(script, expression, None)]
        seen = set[tuple[ast.AST, object]]()
        while pending:
            file, part, owner = pending.pop()
            if (part, owner) in seen or isinstance(part, ast.Constant) or file.kind(part) in _CONSTANT:
                continue
            seen.add((part, owner))
            match part:
                case ast.Name():
                    for definition in file.definitions(part):
                        given = _given(file, definition)
                        pending += [(other, value, owner or key) for other, value, key in given]
                        if not given:
                            kept = definition.how in _KEPT
                            places = frozenset({_BEFORE}) if kept else self.anywhere
                            found[owner or definition] = found.get(owner or definition, frozenset()) | places
                case ast.Call() if may_run_model(file, part):
                    places = self.regions.get(part, frozenset({_BEFORE}))
                    found[owner or part] = found.get(owner or part, frozenset()) | places
                case _ if (operands := _operands(file, part)) is not None:
                    pending += [(file, each, owner) for each in operands]
                case _:
                    key = owner or file.source(part)
                    found[key] = found.get(key, frozenset()) | {_BEFORE}
        return found


def _operands(script: Script, expression: ast.expr) -> list[ast.expr] | None:
    """What a value is computed from, by an expression that runs no model; None of what is kept somewhere."""
    match expression:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            return [value]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Call(func=ast.Attribute(value=value)) if script.qualname(expression.func) is None:
            return [*given_values(expression), value]
        case ast.Call():
            return given_values(expression)
        case ast.Attribute(value=value) if not _is_kept(script, expression):
            return [value]
        case _:
            return None


def _is_kept(script: Script, attribute: ast.Attribute) -> bool:
    """Whether an attribute is of an object of the project's, not of a tensor or of what a call has given: `x.T`."""
    owner = attribute.value
    return isinstance(owner, ast.Name) and (
        owner.id == "self" or any(value.cls is not None for value in script.values(owner))
    )


def _given(script: Script, definition: Definition) -> list[tuple[Script, ast.expr, object]]:
    """What a name is given, each with the definition if that takes a part of it that is not told from the others;
    nothing where that is not in sight."""
    if definition.how == "assign" and definition.value is not None:
        whole = definition.whole
        return [(script, definition.value, definition) if whole is None else (script, whole, None)]
    function = definition.scope.node
    if definition.how != "param" or definition.path or not isinstance(function, ast.FunctionDef):
        return []
    calls = script.callers(function)
    found: list[tuple[Script, ast.expr, object]] = []
    for other, call in calls:
        given = other.argument(call, function, definition.name, script)
        if given is not None:
            found.append((other, given, None))
        elif definition.value is None or unpacks(call):
            return []
        else:
            found.append((script, definition.value, None))
    return found if calls.missing is None else []
