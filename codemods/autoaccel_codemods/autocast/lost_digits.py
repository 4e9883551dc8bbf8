"""What is left of rounded numbers where most of their digits cancel: `log(1 - p)`, `a² + b² - 2ab`, `E[x²] - E[x]²`.

A result in bfloat16 has eight binary digits. A difference of two close ones keeps few or none of them, which does no
harm where it is added to something, but where a logarithm, a root or a quotient makes it large, or where the difference
is all that is wanted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import starmap

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as, given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_operations import MATRIX_PRODUCTS
from autoaccel_codemods.autocast import coarse_steps, skip_reasons
from autoaccel_codemods.autocast.blockers import Problem, problem_at
from autoaccel_codemods.autocast.expanded_squares import addends, is_distance, is_variance
from autoaccel_codemods.autocast.value_origins import (
    SAME_NUMBERS,
    Place,
    is_computed,
    is_number,
    is_product,
    operand,
    operands,
    spelled,
    spelled_with,
    value_of,
)

_LOGS = frozenset("log log_ log2 log10 logit xlogy".split())
_ANGLES = frozenset("acos arccos acosh arccosh asin arcsin atanh arctanh".split())
_ROOTS = frozenset("sqrt sqrt_ rsqrt".split())
_ORDERS = frozenset("topk argmin argsort sort kthvalue".split())
_PROBABLE = frozenset("Bernoulli Geometric Binomial NegativeBinomial ContinuousBernoulli RelaxedBernoulli".split())
_SUBTRACTIONS = frozenset("sub subtract rsub".split())
# What is as small as what goes in, or one of several that go in.
_CARRYING = frozenset(
    """clamp clamp_ clamp_min clamp_min_ clip clip_ maximum relu abs where cat concat stack hstack vstack mul multiply
    div divide pow square prod masked_fill nan_to_num neg""".split()
)
_CURVES = frozenset("sigmoid expit softmax log_softmax exp tanh cos sin cosine_similarity".split())
_DOTS = MATRIX_PRODUCTS | {"linear"}
_NOT_SMALL = 0.5  # a number beside which what is added no longer matters


def in_code(
    code: Iterable[ScriptNode], file: Script, report_at: ast.AST, *, in_float32: bool = False
) -> Iterator[Problem]:
    """Reasons in code that comes under autocast, or is given its results; `report_at` stands for other files. Code that
    runs `in_float32` loses no digits but of what it is given."""
    code = tuple(code)
    search = _Search(code if in_float32 else ())
    seen = set[ast.AST]()
    for script, node in code:
        if getattr(node, "name", "") in ("__init__", "__new__"):
            continue
        for part in script.syntax_index.within_any(node, (ast.Call, ast.BinOp)):
            if part not in seen:
                seen.add(part)
                reason = search.reason(script, part)
                if reason is not None:
                    yield problem_at(script, part, reason, file, report_at)


class _Search:
    """Looks for what loses digits that a region has rounded, and not code that runs in float32."""

    def __init__(self, in_float32: tuple[ScriptNode, ...]) -> None:
        self._in_float32 = in_float32

    def reason(self, script: Script, node: ast.AST) -> str | None:
        """Why a part of the code is left in float32."""
        if is_distance(script, node):
            # a function gets float32 alone; the squares that a statement is given were made in the region
            functions = (part for part in self._in_float32 if isinstance(part[1], ast.FunctionDef))
            return None if _is_inside(functions, script, node) else skip_reasons.EXPANDED_DISTANCE
        if is_variance(script, node):
            return skip_reasons.EXPANDED_VARIANCE
        if (coarse := coarse_steps.reason(script, node)) is not None:
            return coarse
        match node:
            case ast.Call():
                return self._call(script, node)
            case ast.BinOp(op=ast.Div(), right=right) if not is_number(script, right) and self._complements(
                script, right
            ):
                return skip_reasons.QUOTIENT_OF_COMPLEMENT
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                logarithms = [*_logarithms(script, left, right), *_logarithms(script, right, left)]
                return skip_reasons.DIVERGENCE if any(map(self._is_rounded, logarithms)) else None
            case ast.BinOp(op=ast.Pow(), left=left, right=right) if value_of(script, right) in (0.5, -0.5):
                return skip_reasons.ROOT_OF_COMPLEMENT if self._complements(script, left) else None
            case _:
                return None

    def _call(self, script: Script, call: ast.Call) -> str | None:
        name = last_name(call.func)
        if name in _PROBABLE and (script.qualname(call.func) or "").startswith("torch.distributions."):
            return _of_probabilities(script, call)
        if _is_divergence(script, call):
            rounded = any(map(self._is_rounded, ((script, each) for each in given_values(call)[:2])))
            return skip_reasons.DIVERGENCE if rounded else None
        if name == "kl_divergence" and not all(starmap(self._is_computed_here, _classes(script, call))):
            return skip_reasons.DIVERGENCE
        given = operand(script, call)
        if given is None:
            return None
        if name in _LOGS and self._complements(script, operands(script, call)[-1] if name == "xlogy" else given):
            return skip_reasons.LOG_OF_COMPLEMENT
        if name == "log1p" and any(map(self._is_rounded, _negatives(script, given))):
            return skip_reasons.LOG_OF_COMPLEMENT
        if name in _ANGLES and not self._is_in_float32(script, given):
            return skip_reasons.ANGLE.format(name=name)
        exponent = value_of(script, call.args[-1]) if name == "pow" and call.args else None
        if (name in _ROOTS or exponent in (0.5, -0.5)) and self._complements(script, given):
            return skip_reasons.ROOT_OF_COMPLEMENT
        if name == "reciprocal" and self._complements(script, given):
            return skip_reasons.QUOTIENT_OF_COMPLEMENT
        if name in _ORDERS and any(
            is_product(*part) for each in self._complements(script, given) for part in addends(*each)
        ):
            return skip_reasons.EXPANDED_DISTANCE
        return None

    def _complements(self, script: Script, expression: ast.expr) -> list[Place]:
        """What of a region's results is taken from a number, in what an expression is as small as."""
        return [each for each in _taken(script, expression) if self._is_rounded(each)]

    def _is_rounded(self, place: Place) -> bool:
        """Whether a number may be a region's result, or as close to one as the result is."""
        return is_computed(*place) and not self._is_in_float32(*place)

    def _is_in_float32(self, script: Script, expression: ast.expr) -> bool:
        """Whether a number is computed in float32, and all that it is as small as."""
        return bool(self._in_float32) and all(map(self._is_computed_anew, _carried(script, expression)))

    def _is_computed_anew(self, place: Place) -> bool:
        """Whether an expression computes its value, in float32."""
        script, node = place
        if not self._is_computed_here(script, node):
            return False
        match node:
            case ast.BinOp(op=ast.Mult() | ast.Div() | ast.Pow()) | ast.UnaryOp() | ast.Constant():
                return True  # its operands are asked for as well
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return any(abs(value_of(script, each) or 1.0) < _NOT_SMALL for each in (left, right))
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                return all(self._is_direction(script, each) for each in (left, right))
            case ast.Call():
                name = last_name(node.func)
                if name in _DOTS:
                    return all(self._is_direction(script, each) for each in operands(script, node))
                return name in _CURVES | _CARRYING | SAME_NUMBERS or bool(script.callees(node))
            case _:
                return False

    def _is_computed_here(self, script: Script, node: ast.AST) -> bool:
        return _is_inside(self._in_float32, script, node)

    def _is_direction(self, script: Script, expression: ast.expr) -> bool:
        """Whether vectors are given their length in float32, or are parameters: else products of them exceed one."""
        return all(
            file.kind(node) is Kind.PARAMETER
            or (
                _is_inside(self._in_float32, file, node)
                and isinstance(node, ast.Call)
                and last_name(node.func) == "normalize"
            )
            for file, node in spelled(script, expression)
        )


def _is_inside(code: Iterable[ScriptNode], script: Script, node: ast.AST) -> bool:
    return any(script is file and script.inside(node, part) for file, part in code)


def _is_divergence(script: Script, call: ast.Call) -> bool:
    """`F.kl_div(log_p, q)`, `nn.KLDivLoss()(log_p, q)`: where p is close to q, the gradient is their difference."""
    if last_name(call.func) == "kl_div":
        return True
    return any(value.name == "torch.nn.KLDivLoss" for value in script.values(call.func).unordered())


def _classes(script: Script, call: ast.Call) -> Iterator[Place]:
    """The distributions of classes that a call is given: `Categorical(logits=output)`, which computes `log_softmax`."""
    for file, node in (place for each in given_values(call)[:2] for place in spelled(script, each)):
        if isinstance(node, ast.Call) and (file.qualname(node.func) or "").startswith("torch.distributions."):
            if last_name(node.func).endswith("Categorical"):
                yield file, node


def _logarithms(script: Script, weights: ast.expr, terms: ast.expr) -> Iterator[Place]:
    """q of `p * (log_p - q)` and `-p * q`: `log_softmax` of other logits than those of which p is the softmax."""
    weighing = {file.source(inner) for file, _, inner in _softened(script, weights, ("softmax", "exp"))}
    for file, node, inner in _softened(script, terms, ("log_softmax",)) if weighing else ():
        if weighing != {file.source(inner)}:
            yield file, node


def _softened(
    script: Script, expression: ast.expr, names: tuple[str, ...]
) -> Iterator[tuple[Script, ast.expr, ast.expr]]:
    """The calls among the addends and factors of an expression that make distributions of classes, and of what."""
    for file, node in spelled_with(script, expression, _operands):
        if isinstance(node, ast.Call) and last_name(node.func) in names and (given := operand(file, node)) is not None:
            if last_name(node.func) == "exp":
                yield from _softened(file, given, ("log_softmax",))
            else:
                yield file, node, given


def _operands(script: Script, node: ast.expr) -> Iterator[Place]:
    match node:
        case ast.BinOp(left=left, right=right):
            yield from ((script, left), (script, right))
        case ast.UnaryOp(operand=inner):
            yield script, inner


def _of_probabilities(script: Script, call: ast.Call) -> str | None:
    """`Bernoulli(p)`, which computes the logarithm of 1 - p, unless it only draws."""
    drawn = script.parent(call)
    if isinstance(drawn, ast.Attribute) and drawn.attr == "sample":
        return None
    given = given_as(call, "probs") or next(iter(call.args), None)
    return skip_reasons.LOG_OF_COMPLEMENT if given is not None and is_computed(script, given) else None


def _carried(script: Script, expression: ast.expr) -> Iterator[Place]:
    """The expressions that one is as small as: its factors, its parts, what a small number is added to."""
    return spelled_with(script, expression, _as_small)


def _as_small(script: Script, node: ast.expr) -> list[Place]:
    inner: list[ast.expr] = []
    match node:
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            inner = [left, right]
        case ast.BinOp(op=ast.Pow(), left=left) | ast.UnaryOp(operand=left):
            inner = [left]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            sides = (left, right), (right, left)
            inner = [one for one, other in sides if abs(value_of(script, other) or 0.0) < _NOT_SMALL]
        case ast.BinOp(op=ast.Sub(), left=ast.BinOp() as left, right=right) if is_number(script, right):
            inner = [left]
        case ast.Call() if last_name(node.func) in _CARRYING:
            inner = operands(script, node)
    return [(script, each) for each in inner]


def _taken(script: Script, expression: ast.expr) -> Iterator[Place]:
    """p of `1 - p`, `torch.sub(1, p)`, `-p + 1` and `(p - 1).abs()`, wherever it is in an expression."""
    for file, node in _carried(script, expression):
        match node:
            case ast.BinOp(op=ast.Sub(), left=left, right=right):
                yield from _beside_number(file, left, right)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                for one, other in ((left, right), (right, left)):
                    if (value_of(file, one) or 0.0) >= _NOT_SMALL:
                        yield from _negatives(file, other)
            case ast.Call() if last_name(node.func) in _SUBTRACTIONS and len(given := operands(file, node)) > 1:
                yield from _beside_number(file, *given[:2])


def _beside_number(script: Script, first: ast.expr, second: ast.expr) -> Iterator[Place]:
    """Of a difference, the side beside a number; of `p - 1e-3` none."""
    for one, other in ((first, second), (second, first)):
        value = value_of(script, one)
        if (value is None and (one is first and is_number(script, one))) or abs(value or 0.0) >= _NOT_SMALL:
            yield script, other
    if _is_ones(script, first):
        yield script, second


def _is_ones(script: Script, expression: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in ("ones_like", "ones")
        for _, node in spelled(script, expression)
    )


def _negatives(script: Script, expression: ast.expr) -> Iterator[Place]:
    """p of `-p`, `-p + 1e-7`, `-2 * p`, `p.neg()`."""
    pending, seen = [(script, expression)], set[ast.AST]()
    while pending:
        for file, node in spelled(*pending.pop()):
            if node in seen:
                continue
            seen.add(node)
            match node:
                case ast.UnaryOp(op=ast.USub(), operand=inner):
                    yield file, inner
                case ast.BinOp(op=ast.Mult(), left=left, right=right):
                    for one, other in ((left, right), (right, left)):
                        if (value_of(file, one) or 0.0) < 0:
                            yield file, other
                    pending += [(file, left), (file, right)]
                case ast.BinOp(op=ast.Div() | ast.Pow(), left=left):
                    pending.append((file, left))
                case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                    pending += [(file, one) for one, other in ((left, right), (right, left)) if is_number(file, other)]
                case ast.Call() if last_name(node.func) == "neg":
                    yield from ((file, each) for each in operands(file, node))
                case ast.Call() if last_name(node.func) in _CARRYING:
                    pending += [(file, each) for each in operands(file, node)]
