"""Values that leave an autocast region in low precision and meet code that takes float32 only.

NumPy has no bfloat16, modules outside a region refuse inputs in another precision than their weights, and so do writes
by index and matrix products. At such places the value is to be used as `value.float()`, which changes nothing where the
region ran in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoaccel.script import external
from autoaccel.script.effects import Effect, call_effects, is_sensitive
from autoaccel.script.flow import Definition
from autoaccel.script.hazards import INDEXED, written_by_index
from autoaccel.script.regions import Regions
from autoaccel.script.tree import breadth_first, walk_scope
from autoaccel.script.values import Kind

if TYPE_CHECKING:
    from autoaccel.script.script import Script
    from autoaccel.script.training import Problem, TrainingStep

# Methods after which precision no longer matters: other types, Python values, whole numbers.
_ENDS = frozenset(
    """item tolist argmax argmin argsort float double long int bool short byte char type eq ne gt lt ge le equal size
    dim numel stride backward any all nonzero isnan isinf isfinite allclose nelement element_size storage data_ptr
    register_hook requires_grad_ ndimension retain_grad bincount multinomial count_nonzero is_floating_point""".split()
)
_INFORMATION = frozenset("shape dtype device grad ndim requires_grad is_cuda grad_fn is_leaf names itemsize".split())
_WITH_INDICES = frozenset("max min topk sort median mode kthvalue".split())
_PRODUCTS = frozenset(
    """torch.matmul torch.mm torch.bmm torch.einsum torch.addmm torch.baddbmm torch.mv torch.dot torch.tensordot
    torch.addmv torch.inner torch.vdot torch.lerp torch.cdist
    torch.nn.functional.linear torch.nn.functional.conv1d torch.nn.functional.conv2d
    torch.nn.functional.conv3d torch.nn.functional.conv_transpose2d torch.nn.functional.grid_sample
    torch.nn.functional.bilinear""".split()
)
_PRODUCT_METHODS = frozenset("matmul mm bmm mv dot inner vdot addmm addmv baddbmm lerp".split())
_WRITING_METHODS = INDEXED | {"lerp_"}
_KEEPING = frozenset({"append", "extend", "put", "insert"})
_FULL_PRECISION_LOSSES = frozenset(
    """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits
    cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss
    poisson_nll_loss soft_margin_loss triplet_margin_loss ctc_loss gaussian_nll_loss binary_cross_entropy""".split()
)
_TENSOR_LIBRARIES = ("torch.", "torchvision.", "autoaccel", "builtins.", "torchmetrics.", "einops.", "copy.")


@dataclass(slots=True, eq=False)
class Escapes:
    """Expressions to be used as `.float()`, and problems where that is not possible."""

    single: list[ast.expr] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def find(script: Script, step: TrainingStep, found: Regions) -> Escapes:
    return _Search(script, step, found).run()


class _Search:
    def __init__(self, script: Script, step: TrainingStep, found: Regions) -> None:
        self.script = script
        self.step = step
        self.found = found
        self.inside: set[ast.AST] = set()
        for statement in found.statements(script):
            self.inside.update(breadth_first(statement))
        for region in found.regions:
            for hoist in region.hoists:
                self.inside.update(breadth_first(hoist.expression))
        self.known: dict[Definition, bool] = {}
        self.result = Escapes()
        self.taken = {id(expression) for expression in found.single}

    def run(self) -> Escapes:
        script = self.script
        homes: dict[ast.AST, None] = {}
        for region in self.found.regions:
            homes[script.function(region.place) or script.tree] = None
        for home in homes:
            for part in walk_scope(home):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and self._low_name(part):
                    self._use(part)
        attributes = {name for name in self.found.reduced if name.startswith("self.")}
        for part in script.find(ast.Attribute) if attributes else ():
            if (
                isinstance(part.ctx, ast.Load)
                and isinstance(part.value, ast.Name)
                and f"{part.value.id}.{part.attr}" in attributes
            ):
                if script.kind(part) not in (Kind.MODULE, Kind.NUMBER, Kind.OPTIMIZER):
                    self._use(part)
        return self.result

    # -- what is in low precision

    def _low_name(self, name: ast.Name) -> bool:
        return any(self._low_definition(definition) for definition in self.script.definitions(name))

    def _low_definition(self, definition: Definition) -> bool:
        known = self.known.get(definition)
        if known is None:
            self.known[definition] = False  # for definitions that go round a loop
            known = self.known[definition] = self._defines_low(definition)
        return known

    def _defines_low(self, definition: Definition) -> bool:
        if definition.value is None or definition.how not in ("assign", "aug", "walrus", "global", "for"):
            return False
        if definition.path and definition.path[-1] == 1 and _terminal(definition.value) in _WITH_INDICES:
            return False
        return self._low(definition.value)

    def _low(self, node: ast.expr) -> bool:
        match node:
            case ast.Name():
                return self._low_name(node)
            case ast.Attribute(value=value, attr=name):
                if isinstance(value, ast.Name) and value.id == "self":
                    return f"self.{name}" in self.found.reduced
                return name not in _INFORMATION and self._low(value)
            case ast.Subscript(value=value, slice=index):
                if isinstance(index, ast.Constant) and index.value == 1 and _terminal(value) in _WITH_INDICES:
                    return False
                return self._low(value)
            case ast.Call():
                return self._low_call(node)
            case ast.BinOp(left=left, right=right):
                return self._low(left) or self._low(right)
            case ast.UnaryOp(operand=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self._low(value)
            case ast.IfExp(body=body, orelse=orelse):
                return self._low(body) or self._low(orelse)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return any(self._low(each) for each in elements)
            case _:
                return False

    def _low_call(self, call: ast.Call) -> bool:
        script = self.script
        if Effect.FORWARD in call_effects(script, call) and call in self.inside:
            return script.kind(call) not in (Kind.NUMBER, Kind.NONE, Kind.BOOL, Kind.STRING)
        qualified = script.qualname(call.func)
        if qualified is not None:
            if qualified.rsplit(".", 1)[-1] in _FULL_PRECISION_LOSSES | _ENDS or not qualified.startswith("torch."):
                return False
            return any(self._low(argument) for argument in call.args)
        if isinstance(call.func, ast.Attribute) and script.kind(call.func.value) is not Kind.MODULE:
            if call.func.attr in _ENDS or call.func.attr == "numpy":
                return False
            if self._low(call.func.value):
                return True
        for value in script.values(call.func):
            if value.kind is Kind.LOSS_FUNCTION and value.name is not None and value.name.startswith("torch.nn."):
                return False
        if isinstance(call.func, ast.Name) and call.func.id in external.BUILTINS and not script.definitions(call.func):
            return call.func.id in ("sum", "max", "min", "abs") and any(self._low(argument) for argument in call.args)
        if script.kind(call) in (Kind.NUMBER, Kind.ARRAY, Kind.STRING, Kind.BOOL, Kind.NONE):
            return False
        return any(self._low(argument) for argument in call.args)

    # -- what becomes of it

    def _use(self, name: ast.expr) -> None:
        """Follow one read through its chain of methods and parts to what consumes it."""
        script = self.script
        expression = name
        while True:
            parent = script.parent(expression)
            if isinstance(parent, ast.Attribute):
                if parent.attr in _INFORMATION or parent.attr in _ENDS:
                    return
                call = script.parent(parent)
                if isinstance(call, ast.Call) and call.func is parent:
                    if parent.attr == "numpy":
                        self._single(expression)
                        return
                    if parent.attr in _PRODUCT_METHODS and call not in self.inside:
                        self._single(expression)
                        return
                    if parent.attr == "to" and any(
                        _is_dtype(script, argument)
                        for argument in (*call.args, *(each.value for each in call.keywords))
                    ):
                        return
                    expression = call
                else:
                    expression = parent
            elif isinstance(parent, ast.Subscript) and parent.value is expression:
                if (
                    isinstance(parent.slice, ast.Constant)
                    and parent.slice.value == 1
                    and _terminal(expression) in _WITH_INDICES
                ):
                    return
                expression = parent
            elif isinstance(parent, ast.Starred):
                return
            else:
                break
        self._consumed(expression, parent)

    def _consumed(self, expression: ast.expr, parent: ast.AST | None) -> None:
        script = self.script
        if isinstance(parent, ast.keyword):
            parent = script.parent(parent)
        match parent:
            case ast.Call() if parent.func is not expression:
                if script.callees(parent) and Effect.FORWARD not in call_effects(script, parent):
                    self._handed_on(parent, expression)
                elif self._refused(parent):
                    makes_arrays = (script.qualname(parent.func) or "").startswith(("numpy.", "sklearn.", "scipy."))
                    self._single(expression, foreign=not (makes_arrays or self._keeps(parent)))
            case ast.Return():
                self._returned(expression)
            case ast.Tuple() if isinstance(script.parent(parent), ast.Return) and isinstance(parent.ctx, ast.Load):
                self._returned(expression)
            case ast.Assign(targets=targets, value=value) if value is expression and expression not in self.inside:
                if any(isinstance(each, ast.Subscript) and written_by_index(script, each.slice) for each in targets):
                    self._single(expression)
            case ast.BinOp(op=ast.MatMult()) if expression not in self.inside:
                self._single(expression)
            case ast.Yield():
                self._single(expression)

    def _handed_on(self, call: ast.Call, argument: ast.expr) -> None:
        """A project function that makes arrays of its parameter gets float32; for a structure it is edited itself."""
        for other, function in self.script.callees(call):
            sites = list(array_sites(other, function, self.script, call, argument))
            if not sites:
                continue
            kind = self.script.kind(argument)
            if kind not in (Kind.SEQUENCE, Kind.MAPPING) and not self._structured(argument):
                self._single(argument)
            elif other is self.script:
                for site in sites:
                    if id(site) not in self.taken:
                        self.taken.add(id(site))
                        self.result.single.append(site)
            else:
                self.result.problems.append((argument, f"{function.name} makes arrays of a structure of tensors"))

    def _returned(self, expression: ast.expr) -> None:
        """Callers get float32, as before."""
        home = self.script.function(expression)
        if home in self.step.homes and expression not in self.inside:
            if self.script.kind(expression) not in (Kind.SEQUENCE, Kind.MAPPING):
                self._single(expression)

    def _refused(self, call: ast.Call) -> bool:
        """Whether the callee may not take what is not float32."""
        script = self.script
        qualified = script.qualname(call.func)
        if qualified is not None and not script.is_project_name(call.func):
            if qualified in _PRODUCTS:
                return call not in self.inside
            return not qualified.startswith(_TENSOR_LIBRARIES)
        if isinstance(call.func, ast.Name) and not script.definitions(call.func) and call.func.id in external.BUILTINS:
            return False
        if call in self.inside:
            return self._keeps(call)
        if Effect.FORWARD in call_effects(script, call) or is_sensitive(script, call):
            return True
        if isinstance(call.func, ast.Attribute):
            kinds = {value.kind for value in script.values(call.func.value)}
            if call.func.attr in _KEEPING:
                return True
            if call.func.attr in _WRITING_METHODS:
                return not self._low(call.func.value)
            if kinds & {Kind.TENSOR, Kind.BATCH, Kind.PARAMETER}:
                return call.func.attr in _PRODUCT_METHODS
            return (
                kinds <= {Kind.UNKNOWN, Kind.OBJECT} and call.func.attr not in _ENDS and not self._low(call.func.value)
            )
        return False

    def _keeps(self, call: ast.Call) -> bool:
        """Whether a call puts something into a collection that is handed on outside of the regions."""
        method = call.func
        if not (isinstance(method, ast.Attribute) and method.attr in _KEEPING and isinstance(method.value, ast.Name)):
            return False
        for definition in self.script.definitions(method.value):
            for use in self.script.uses(definition):
                holder = self.script.parent(use)
                if isinstance(holder, ast.Starred | ast.Call | ast.Subscript | ast.For | ast.comprehension):
                    if use not in self.inside:
                        return True
        return False

    def _structured(self, expression: ast.expr) -> bool:
        """Whether other uses treat a value as a mapping or sequence of tensors."""
        if not isinstance(expression, ast.Name):
            return False
        for definition in self.script.definitions(expression):
            for use in self.script.uses(definition):
                match self.script.parent(use):
                    case ast.Attribute(attr="items" | "values" | "keys" | "get" | "update"):
                        return True
                    case ast.Subscript(slice=ast.Constant(value=str())) | ast.For() | ast.comprehension():
                        return True
        return False

    def _single(self, expression: ast.expr, foreign: bool = False) -> None:
        if id(expression) in self.taken or any(
            expression is hoist.expression for region in self.found.regions for hoist in region.hoists
        ):
            return
        if isinstance(expression, ast.Call) and _terminal(expression) == "float":
            return
        kind = self.script.kind(expression)
        if kind in (Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.NONE, Kind.ARRAY):
            return
        if kind in (Kind.SEQUENCE, Kind.MAPPING) or _state(expression) or self._structured(expression):
            if foreign:  # code that is not seen takes what it gets; it took structures of tensors before
                return
            self.result.problems.append(
                (expression, "a structure of tensors leaves the mixed-precision region for code that needs float32")
            )
            return
        self.taken.add(id(expression))
        self.result.single.append(expression)


def _state(expression: ast.expr) -> bool:
    """Recurrent states may be tuples."""
    return isinstance(expression, ast.Name) and expression.id in ("hidden", "state", "states", "hx", "hiddens")


def _terminal(node: ast.expr) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name
        case _:
            return None


def _is_dtype(script: Script, node: ast.expr) -> bool:
    return script.kind(node) is Kind.DTYPE


def array_sites(
    other: Script, function: ast.FunctionDef, script: Script, call: ast.Call, argument: ast.expr
) -> Iterator[ast.expr]:
    """Where a project function turns what it receives for `argument` into an array, or hands it to foreign code."""
    for parameter in _parameters(function):
        if script.argument(call, function, parameter, other) is not argument:
            continue
        for part in walk_scope(function):
            if isinstance(part, ast.Name) and part.id == parameter and isinstance(part.ctx, ast.Load):
                site = _array_site(other, part)
                if site is not None:
                    yield site


def _parameters(function: ast.FunctionDef) -> Iterator[str]:
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        yield argument.arg


def _array_site(script: Script, name: ast.Name) -> ast.expr | None:
    """The expression that a chain from `name` makes an array of; None when it does not."""
    expression: ast.expr = name
    while True:
        parent = script.parent(expression)
        if isinstance(parent, ast.Attribute):
            if parent.attr == "numpy":
                return expression
            if parent.attr in _ENDS or parent.attr in _INFORMATION:
                return None
            call = script.parent(parent)
            expression = call if isinstance(call, ast.Call) and call.func is parent else parent
        elif isinstance(parent, ast.Subscript) and parent.value is expression:
            expression = parent
        else:
            break
    if isinstance(parent, ast.Call) and parent.func is not expression:
        qualified = script.qualname(parent.func)
        if (
            qualified is not None
            and not script.is_project_name(parent.func)
            and not qualified.startswith(_TENSOR_LIBRARIES)
        ):
            return expression
    return None
