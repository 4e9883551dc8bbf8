"""Statements between those of a step that make its inputs: they may as well be made before it.

They are made of sizes, settings and random numbers. NumPy draws on the host, where nothing else of a step draws: the
order of its numbers stays. Torch's numbers may come from the generator that dropout draws from, and tensors may be what
a step changes: these pass nothing but what clears, differentiates and updates, or clears alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autoaccel.analysis.parsed_options import is_parsed
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.numpy_functions import DRAWING_METHODS
from autoaccel.library_models.tensor_operations import DRAWING
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch.integers import integral, is_shape
from autoaccel.pytorch.tensor_kinds import is_tensor_type
from autoaccel_codemods.captured_step.shown_statements import noted, variables

_PLAIN: Final = frozenset({Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.NONE, Kind.DEVICE, Kind.DTYPE})
_OF_NUMBERS: Final = frozenset(
    {f"torch.{name}" for name in "ones zeros full empty eye arange linspace".split()}
    | {f"numpy.{name}" for name in "ones zeros full eye arange linspace prod".split()}
    | {f"numpy.random.{name}" for name in DRAWING_METHODS - {"shuffle"}}
)
_CONVERTING: Final = frozenset(
    {"numpy.array", "torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.autograd.Variable"}
)
_DRAWS_OF_TORCH: Final = frozenset(f"torch.{name}" for name in DRAWING if not name.endswith("_like"))
_METHODS: Final = RESHAPING | frozenset("astype float double long int bool half".split())
_PLACE: Final = ast.Name | ast.Attribute | ast.Constant


def is_prepared(script: Script, statement: ast.stmt, passed: Sequence[ast.stmt], made: Sequence[ast.stmt] = ()) -> bool:
    """Whether a statement makes an input of a step, and may as well do so before those of the step that it passes.

    Args:
        script: The file of all of these.
        statement: One between those of a step.
        passed: Those above it that belong to the step.
        made: Those above it that are made before the step.
    """
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value) if not isinstance(value, ast.List):  # it may be filled
            pass
        case _:
            return False
    if any(isinstance(each, ast.Try | ast.TryStar) for each in script.ancestors(statement)):
        return False  # if one of the others failed, nothing would have been drawn
    if any(script.function(each) is not script.function(statement) for each in _reads(script, statement)):
        return False  # one of the others may call that function, and find what was bound in the step before
    stored, read = variables(script, statement, ast.Store), variables(script, statement, ast.Load)
    for each in passed:
        changed = variables(script, each, ast.Store, ast.Del) | noted(script, each)
        if not read.isdisjoint(changed) or not stored.isdisjoint(changed | variables(script, each, ast.Load)):
            return False
    return _Inputs(script, passed, made).are(value)


def _reads(script: Script, statement: ast.stmt) -> Iterator[ast.Name]:
    """Where what a statement binds is read."""
    names = variables(script, statement, ast.Store)
    for each in script.syntax_index.mentions(*names):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            if any(known.node is statement for known in script.definitions(each)):
                yield each


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """What is made of sizes, settings and random numbers, whether before these statements or after them."""

    script: Script
    passed: Sequence[ast.stmt]
    made: Sequence[ast.stmt]

    def are(self, *expressions: ast.expr) -> bool:
        return all(self._is_one(each) for each in expressions)

    def _are_numbers(self, expressions: Iterable[ast.expr]) -> bool:
        """Whether what stands where a number is taken, or a shape, is one: that may be a setting, too."""
        return all(self._is_one(each, may_be_setting=True) for each in expressions)

    def _is_one(self, expression: ast.expr, *, may_be_setting: bool = False) -> bool:
        match expression:
            case ast.Constant():
                return True
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(self._is_one(each, may_be_setting=may_be_setting) for each in parts)
            case ast.BinOp(left=left, right=right):
                return all(self._is_one(each, may_be_setting=may_be_setting) for each in (left, right))
            case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self._is_one(inner, may_be_setting=may_be_setting)
            case ast.Attribute(value=ast.Name(), attr="shape"):
                return True
            case ast.Subscript(value=sizes, slice=index) if is_shape(sizes):
                return self.are(sizes, index)
            case ast.Call():
                return self._is_made(expression)
            case ast.Name() if self._is_made_before(expression):
                return True
            case ast.Name() | ast.Attribute():
                kinds = self.script.values(expression).kinds
                if (kinds and kinds <= _PLAIN) or integral(self.script, expression):
                    return True
                untouched = isinstance(expression, ast.Name) and all(map(_clears, self.passed))
                return untouched or (may_be_setting and self._is_setting(expression))
            case _:
                return False

    def _is_made(self, call: ast.Call) -> bool:
        """Whether a call tells a size, draws, or makes an array or a tensor of such things, and does nothing else."""
        given = (*call.args, *(each.value for each in call.keywords if each.arg not in ("device", "dtype")))
        match call.func:
            case ast.Attribute(value=ast.Name(), attr="size"):
                return self.are(*given)
            case ast.Name(id="len") if not self.script.definitions(call.func):
                return all(isinstance(each, ast.Name) for each in given)
        if not all(map(_is_harmless, call.keywords)):
            return False
        name = self.script.qualname(call.func) or ""
        if name in _DRAWS_OF_TORCH:
            return self._are_numbers(given) and all(map(_draws_nothing, self.passed))
        of_type = is_tensor_type(self.script, call.func)
        if name in _OF_NUMBERS or (of_type and len(given) > 1):
            return self._are_numbers(given)
        if name in _CONVERTING or of_type:
            return self.are(*given[:1]) and self._are_numbers(given[1:])
        match call.func:
            case ast.Attribute(value=ast.Call(func=factory) as made, attr="fill_"):  # a tensor that nobody else has
                sized = is_tensor_type(self.script, factory) and len(made.args) > 1
                return (sized or self.script.qualname(factory) in _OF_NUMBERS) and self.are(made, *given)
            case ast.Attribute(value=made, attr="to" | "cuda" | "type" | "type_as") if not name:
                return self.are(made) and all(isinstance(each, _PLACE) for each in given)
            case ast.Attribute(value=made, attr=attribute) if not name:
                return attribute in _METHODS and self.are(made) and self._are_numbers(given)
            case _:
                return False

    def _is_made_before(self, name: ast.Name) -> bool:
        """Whether a name holds such an input, which none of the statements that are passed reads, and may change."""
        found = self.script.definitions(name)
        read = any(name.id in variables(self.script, each, ast.Load) for each in self.passed)
        return bool(found) and not read and all(map(self._made, found))

    def _made(self, definition: Definition) -> bool:
        above = [each for each in self.made if each is definition.node]
        if definition.value is None or not above:
            return False
        before = [each for each in self.made if each.lineno < above[0].lineno]
        return _Inputs(self.script, self.passed, before).are(definition.value)

    def _is_setting(self, expression: ast.expr) -> bool:
        """Whether an expression is what the command line says, `opt.latent_dim`, which those that are passed leave
        alone."""
        match expression:
            case ast.Attribute(value=ast.Name(id=owner) as root, attr=name):
                known = self.script.definitions(root)
                return (
                    bool(known)
                    and all(map(is_parsed, known))
                    and not self.script.syntax_index.stored(name)
                    and not any(self._hands_out(owner, each) for each in self.passed)
                )
            case _:
                return False

    def _hands_out(self, owner: str, statement: ast.stmt) -> bool:
        """Whether a statement does more with a name than read an attribute of it."""
        names = (part for part in self.script.within(statement, ast.Name) if part.id == owner)
        parents = map(self.script.parent, names)
        return any(not isinstance(each, ast.Attribute) or self.script.call_of(each) is not None for each in parents)


def _is_harmless(keyword: ast.keyword) -> bool:
    match keyword:
        case ast.keyword(arg=None):
            return False
        case ast.keyword(arg="requires_grad" | "volatile", value=value):
            return is_constant(value, False)
        case ast.keyword(arg="device" | "dtype", value=value):
            return isinstance(value, _PLACE)
        case _:
            return True


def _clears(statement: ast.stmt) -> bool:
    return _does(statement, "zero_grad")


def _draws_nothing(statement: ast.stmt) -> bool:
    return _does(statement, "zero_grad", "backward", "step")


def _does(statement: ast.stmt, *methods: str) -> bool:
    """Whether a statement does no more than to call one of these methods: `optimizer.zero_grad()`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name))):
            return name in methods
        case _:
            return False
