"""Which expressions surely are one tensor with decimals: what may be an index or a count must not be made a float."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import STAR, Definition, ElementPath
from autoaccel.library_models.tensor_operations import (
    ALWAYS_PAIRS,
    FLOATING,
    KEEPING,
    LOSSES,
    NO_TENSOR,
    STORING,
    WHOLE,
    WITH_INDICES,
)
from autoaccel.library_models.tensor_views import PIECES, VIEW_ATTRIBUTES
from autoaccel.pytorch import implicit_calls, module_containers

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


class Content(enum.Enum):
    """What a value holds. `OPEN` is a definition that goes round in a circle: the others decide."""

    FLOATING = "a tensor with decimals"
    WHOLE = "whole numbers, or no tensor"
    NOTHING = "None"
    OPTIONAL = "a tensor with decimals, or None"
    NUMBER = "a Python number or text"
    STRUCTURE = "several values"
    UNKNOWN = "anything"
    OPEN = "not settled"

    __hash__ = object.__hash__  # as that of `Kind`


_NO_TENSORS = frozenset(
    {Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.DTYPE, Kind.DEVICE, Kind.OPTIMIZER, Kind.SCHEDULER}
    | {Kind.LOADER, Kind.DATASET, Kind.SCALER, Kind.FUNCTION, Kind.CLASS, Kind.LOSS_FUNCTION}
)
_TYPES = frozenset(
    """float32 float64 float16 bfloat16 float double half int8 int16 int32 int64 uint8 int long short bool dtype
    FloatTensor DoubleTensor LongTensor IntTensor BoolTensor""".split()
)
_FILLED = frozenset("zeros ones empty eye".split())
# Which of the operands have a say in the type of the result.
_MIXING: dict[str, slice] = {"where": slice(-2, None), "einsum": slice(1, None)} | dict.fromkeys(
    "add sub mul maximum minimum add_ sub_ mul_ pow max min".split(), slice(2)
)
_LIKE_FACTORIES = frozenset("zeros_like ones_like empty_like rand_like randn_like".split())
_SEQUENCES = frozenset("stack cat concat concatenate hstack vstack dstack meshgrid".split())
_PASSING = frozenset(
    f"torch.nn.{name}" for name in "Identity Dropout Flatten Unflatten PixelShuffle ReLU Threshold ZeroPad2d".split()
)
_DISCRETE = frozenset("Categorical Multinomial".split())
_CONTINUOUS = frozenset(
    """Normal Beta Gamma Dirichlet Uniform Laplace LogNormal MultivariateNormal Exponential Bernoulli Poisson Gumbel
    RelaxedOneHotCategorical OneHotCategorical Independent StudentT Cauchy Geometric""".split()
)
# Parts of what models of libraries return that are decimals by their documentation.
_OUTPUTS = frozenset("logits loss last_hidden_state pooler_output image_embeds text_embeds".split())


def content(script: Script, expression: ast.expr, path: ElementPath = ()) -> Content:
    """What an expression (or a part of it) surely holds; UNKNOWN when it may be something else as well."""
    found = _Reader({}).read(script, expression, path)
    return Content.UNKNOWN if found is Content.OPEN else found


def _join(contents: Iterable[Content]) -> Content:
    found = dict.fromkeys(each for each in contents if each is not Content.OPEN)
    if not found:
        return Content.OPEN
    if len(found) > 1 and found.keys() <= {Content.FLOATING, Content.NOTHING, Content.OPTIONAL}:
        return Content.OPTIONAL
    return next(iter(found)) if len(found) == 1 else Content.UNKNOWN


def _present(found: Content) -> Content:
    """Of what a method is called, or that is computed with: it is not None."""
    return Content.FLOATING if found is Content.OPTIONAL else found


def _mixed(contents: Iterable[Content]) -> Content:
    """Of operands: decimals win, numbers take over the type of tensors."""
    found = {_present(each) for each in contents} - {Content.OPEN}
    for each in (Content.UNKNOWN, Content.STRUCTURE):
        if each in found:
            return Content.FLOATING if Content.FLOATING in found else Content.UNKNOWN
    for each in (Content.FLOATING, Content.WHOLE, Content.NUMBER):
        if each in found:
            return each
    return Content.OPEN


class _Reader:
    def __init__(self, opened: dict[object, None]) -> None:
        self._opened = opened

    def read(self, script: Script, node: ast.expr, path: ElementPath) -> Content:
        key = (node, path)
        if key in self._opened:
            return Content.OPEN
        if len(path) > 6:  # a structure that nests itself
            return Content.UNKNOWN
        self._opened[key] = None
        try:
            return self._read(script, node, path)
        finally:
            del self._opened[key]

    def _read(self, script: Script, node: ast.expr, path: ElementPath) -> Content:
        match node:
            case ast.Constant(value=None):
                return Content.NOTHING
            case ast.Constant():
                return Content.NUMBER
            case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.JoinedStr() | ast.Lambda():
                return Content.WHOLE
            case ast.Name():
                return self._name(script, node, path)
            case ast.Attribute():
                return self._attribute(script, node, path)
            case ast.Subscript(value=value, slice=index):
                step: int | str = STAR
                if isinstance(index, ast.Constant) and isinstance(index.value, int | str):
                    step = index.value
                elif isinstance(index, ast.Slice):
                    return self.read(script, value, path)
                return self.read(script, value, (step, *path))
            case ast.Call():
                return self._call(script, node, path)
            case ast.BinOp(left=left, right=right) if any(
                value.cls is not None for each in (left, right) for value in script.values(each)
            ):
                return Content.UNKNOWN  # objects have operators of their own
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                operands = {self.read(script, left, ()), self.read(script, right, ())}
                if operands & {Content.FLOATING, Content.WHOLE}:
                    return Content.FLOATING
                return _mixed(operands)
            case ast.BinOp(left=left, right=right):
                scaled = any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in (left, right))
                found = _mixed([self.read(script, left, ()), self.read(script, right, ())])
                return Content.FLOATING if scaled and found is Content.WHOLE else found
            case ast.UnaryOp(operand=operand):
                return self.read(script, operand, path)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.read(script, value, path)
            case ast.IfExp(body=body, orelse=orelse):
                return _join([self.read(script, body, path), self.read(script, orelse, path)])
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return self._sequence(script, node, elements, path)
            case ast.Dict(keys=keys, values=values):
                return self._mapping(script, keys, values, path)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                return self.read(script, element, path[1:]) if path else Content.STRUCTURE
            case _:
                return Content.UNKNOWN

    def _sequence(self, script: Script, node: ast.expr, elements: list[ast.expr], path: ElementPath) -> Content:
        if not path:
            return Content.STRUCTURE
        step = path[0]
        if any(isinstance(each, ast.Starred) for each in elements):
            return Content.UNKNOWN
        if isinstance(step, int) and isinstance(node, ast.Tuple) and -len(elements) <= step < len(elements):
            return self.read(script, elements[step], path[1:])
        return _join(self.read(script, each, path[1:]) for each in elements)

    def _mapping(
        self, script: Script, keys: list[ast.expr | None], values: list[ast.expr], path: ElementPath
    ) -> Content:
        if not path:
            return Content.STRUCTURE
        if any(key is None for key in keys):
            return Content.UNKNOWN
        named = [v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value == path[0]]
        return _join(self.read(script, each, path[1:]) for each in named or values)

    # -- names

    def _name(self, script: Script, node: ast.Name, path: ElementPath) -> Content:
        definitions = script.definitions(node)
        if not definitions:
            return Content.UNKNOWN
        return _join(self._definition(script, each, path) for each in definitions)

    def _definition(self, script: Script, definition: Definition, path: ElementPath) -> Content:
        key = (definition, path)
        if key in self._opened:
            return Content.OPEN
        self._opened[key] = None
        try:
            found = self._bound(script, definition, path)
        finally:
            del self._opened[key]
        if found is Content.UNKNOWN and not path and _is_differentiated(script, definition):
            return Content.FLOATING
        return found

    def _bound(self, script: Script, definition: Definition, path: ElementPath) -> Content:
        value = definition.value
        match definition.how:
            case "param":
                return self._parameter(script, definition, path)
            case "aug" if isinstance(definition.node, ast.AugAssign) and value is not None:
                target = definition.node.target
                before = [each for each in _all_bindings(definition) if each is not definition]
                held = _join(self._definition(script, each, path) for each in before)
                if not isinstance(target, ast.Name) or held is Content.STRUCTURE:
                    return Content.UNKNOWN
                return _mixed([held, self.read(script, value, path)])
            case "assign" | "walrus" | "global" if value is not None:
                if isinstance(definition.node, ast.For | ast.AugAssign):
                    return Content.UNKNOWN
                found = self.read(script, value, (*definition.path, *path))
                if path and isinstance(value, ast.List | ast.Call | ast.Dict | ast.ListComp):
                    found = _join([found, *self._stored(script, definition, path[1:])])
                return found
            case "for" if value is not None:
                return self._element(script, value, (*definition.path, *path))
            case _:
                return Content.UNKNOWN

    def _stored(self, script: Script, definition: Definition, path: ElementPath) -> Iterator[Content]:
        """What is put into a container that a name holds."""
        for each in _all_bindings(definition):
            for use in script.uses(each):
                match script.parent(use):
                    case ast.Subscript(ctx=ast.Load()) as part if path:
                        method = script.parent(part)
                        if isinstance(method, ast.Attribute) and method.attr in STORING:
                            yield Content.UNKNOWN
                    case ast.Attribute(attr="append" | "appendleft" | "add") as method:
                        call = script.parent(method)
                        if isinstance(call, ast.Call) and len(call.args) == 1:
                            yield self.read(script, call.args[0], path)
                    case ast.Attribute(attr="extend" | "insert" | "update" | "setdefault"):
                        yield Content.UNKNOWN
                    case ast.Subscript(ctx=ast.Store()) as target:
                        assign = script.parent(target)
                        yield (
                            self.read(script, assign.value, path) if isinstance(assign, ast.Assign) else Content.UNKNOWN
                        )

    def _element(self, script: Script, iterated: ast.expr, path: ElementPath) -> Content:
        match iterated:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if path:
                return Content.NUMBER if path[0] == 0 else self._element(script, inner, path[1:])
            case ast.Call(func=ast.Name(id="zip"), args=arguments) if path and isinstance(path[0], int):
                if path[0] < len(arguments):
                    return self._element(script, arguments[path[0]], path[1:])
                return Content.UNKNOWN
            case _:
                return self.read(script, iterated, (STAR, *path))

    def _parameter(self, script: Script, definition: Definition, path: ElementPath) -> Content:
        if definition.path:
            return Content.UNKNOWN
        function = definition.scope.node
        if getattr(script.callers(function), "missing", None) is not None:
            return Content.UNKNOWN
        passed = [
            self.read(other, argument, path) for other, argument in arguments_for(script, function, definition.name)
        ]
        if len(passed) < len(script.callers(function)):
            passed.append(Content.UNKNOWN if definition.value is None else self.read(script, definition.value, path))
        return _join(passed) if passed else Content.UNKNOWN

    # -- attributes

    def _attribute(self, script: Script, node: ast.Attribute, path: ElementPath) -> Content:
        if script.qualname(node) is not None and not script.is_project_name(node):
            return Content.WHOLE if script.kind(node) in _NO_TENSORS else Content.UNKNOWN
        kind = script.kind(node)
        if properties := implicit_calls.properties(script, node):
            return _join(self._returned(other, each, path) for other, each in properties)
        if kind is Kind.PARAMETER:
            return Content.FLOATING
        if kind in _NO_TENSORS:
            return Content.WHOLE
        if node.attr in ("shape", "device", "dtype", "ndim", "indices", "requires_grad"):
            return Content.WHOLE
        if node.attr in VIEW_ATTRIBUTES | {"data"}:
            return _present(self.read(script, node.value, path))
        if node.attr == "values":
            return self.read(script, node.value, (0, *path))
        bindings = [
            (value.cls, binding)
            for value in script.values(node.value)
            if value.cls is not None
            for each in lineage(value.cls)
            for binding in class_info(each).attributes.get(node.attr, ())
        ]
        if bindings:
            found = _join(self._binding(cls.script, each, path) for cls, each in bindings)
            if found in (Content.NOTHING, Content.NUMBER, Content.WHOLE) and is_set_elsewhere(script, node.attr):
                found = Content.UNKNOWN
            if found is Content.UNKNOWN and not path and _takes_gradients(script, node):
                return Content.FLOATING
            return found
        owners = script.values(node.value).kinds
        if node.attr in _OUTPUTS and owners <= {Kind.UNKNOWN, Kind.TENSOR}:
            return Content.FLOATING
        return Content.UNKNOWN

    def _binding(
        self, script: Script, found: tuple[ast.expr | Definition, tuple[int | str, ...]], path: ElementPath
    ) -> Content:
        value, inner = found
        if isinstance(value, ast.expr):
            return self.read(script, value, (*inner, *path))
        return self._definition(script, value, path) if isinstance(value, Definition) else Content.UNKNOWN

    # -- calls

    def _call(self, script: Script, call: ast.Call, path: ElementPath) -> Content:
        qualified = script.qualname(call.func) if not script.is_project_name(call.func) else None
        if qualified is not None:
            return self._library(script, call, qualified, path)
        kind = script.kind(call)
        if kind is Kind.NUMBER:
            return Content.NUMBER
        if kind in _NO_TENSORS:
            return Content.WHOLE
        function = call.func
        values = script.values(function)
        callees = script.callees(call) or module_containers.forwards(script, call.func)
        if callees and Kind.UNKNOWN not in values.kinds:
            return _join(self._returned(other, each, path) for other, each in callees)
        if values and all(value.kind is Kind.LOSS_FUNCTION for value in values):
            return Content.FLOATING
        if isinstance(function, ast.Attribute):
            return self._method(script, call, function, path)
        return self._module(script, call.func, call.args, path)

    def _module(self, script: Script, function: ast.expr, arguments: list[ast.expr], path: ElementPath) -> Content:
        """A module of a library: torch's give decimals; of others only what a loss is computed from surely is."""
        values = module_containers.modules(script, function)
        names = [value.name or "" for value in values if value.kind is Kind.MODULE and value.cls is None]
        if not names or len(names) < len(values):
            return Content.UNKNOWN
        if all(name in _PASSING for name in names) and len(arguments) == 1:
            return self.read(script, arguments[0], path)
        if all(name.startswith("torch.nn.") or (name.startswith("torchvision.models.") and not path) for name in names):
            pooled = any("MaxPool" in name for name in names)
            recurrent = any(name.endswith((".LSTM", ".GRU", ".RNN", ".LSTMCell", "Attention")) for name in names)
            if recurrent and not path:
                return Content.STRUCTURE
            return Content.UNKNOWN if pooled and path else Content.FLOATING
        return Content.UNKNOWN

    def _returned(self, script: Script, function: ast.FunctionDef, path: ElementPath) -> Content:
        if any(script.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
            return Content.UNKNOWN
        returned = script.in_scope(function, ast.Return)
        if not returned:
            return Content.WHOLE
        return _join(Content.WHOLE if each.value is None else self.read(script, each.value, path) for each in returned)

    def _library(self, script: Script, call: ast.Call, qualified: str, path: ElementPath) -> Content:
        last = qualified.rsplit(".", 1)[-1]
        if not qualified.startswith(("torch.", "copy.")):
            return Content.WHOLE if script.kind(call) in _NO_TENSORS else Content.UNKNOWN
        if qualified.startswith("torch.utils."):
            return Content.UNKNOWN
        return self._operation(script, call, last, call.args, path)

    def _method(self, script: Script, call: ast.Call, function: ast.Attribute, path: ElementPath) -> Content:
        name = function.attr
        owners = script.values(function.value)
        if any(owner.kind is Kind.MODULE for owner in owners):
            if name == "forward":
                return self._module(script, function.value, call.args, path)
            if script.kind(function) is Kind.MODULE:
                return self._module(script, function, call.args, path)
            return Content.UNKNOWN
        if name == "sample" or name == "rsample":
            return self._sampled(script, function.value)
        return self._operation(script, call, name, [function.value, *call.args], path)

    def _sampled(self, script: Script, distribution: ast.expr) -> Content:
        """Draws: classes are whole numbers."""
        made: list[ast.expr | None] = [distribution]
        if isinstance(distribution, ast.Name):
            made = [each.value for each in script.definitions(distribution)]
        names = [script.qualname(each.func) or "" if isinstance(each, ast.Call) else "" for each in made]
        if names and all(name.startswith("torch.distributions.") for name in names):
            last = {name.rsplit(".", 1)[-1] for name in names}
            if last <= _CONTINUOUS:
                return Content.FLOATING
            if last <= _DISCRETE:
                return Content.WHOLE
        return Content.UNKNOWN

    def _operation(
        self, script: Script, call: ast.Call, name: str, operands: list[ast.expr], path: ElementPath
    ) -> Content:
        """A function or method of tensors; `operands` begin with the tensor (or the tensors) it works on."""
        if name in NO_TENSOR:
            return Content.WHOLE
        if name in WHOLE:
            return Content.WHOLE
        if name in FLOATING | LOSSES:
            return Content.FLOATING
        if any(each.arg == "dtype" for each in call.keywords):
            return Content.UNKNOWN
        if name in ("to", "type") and any(_names_type(script, each) for each in operands[1:]):
            return Content.UNKNOWN
        if name in _FILLED:
            return Content.FLOATING
        if not operands:
            return Content.UNKNOWN
        if name in WITH_INDICES and is_pair(script, call):
            if not path:
                return Content.STRUCTURE
            return self.read(script, operands[0], path[1:]) if path[0] == 0 else Content.WHOLE
        if name in _SEQUENCES:
            if isinstance(operands[0], ast.Tuple | ast.List):
                return _mixed(self.read(script, each, ()) for each in operands[0].elts)
            return self.read(script, operands[0], (STAR,))
        if name in PIECES:
            return self.read(script, operands[0], ()) if path else Content.STRUCTURE
        if name == "where" and len(operands) == 1:
            return Content.WHOLE
        if name in _MIXING:
            return _mixed(self.read(script, each, ()) for each in operands[_MIXING[name]])
        if name in KEEPING | _LIKE_FACTORIES:
            inner = operands[0]
            if isinstance(inner, ast.Tuple | ast.List):
                return Content.UNKNOWN
            return _present(self.read(script, inner, path if name in ("Variable", "values") else ()))
        return Content.UNKNOWN


def is_pair(script: Script, call: ast.Call) -> bool:
    """Whether `x.max(1)` gives values and indices; `torch.max(a, b)` compares two tensors."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in ALWAYS_PAIRS:
        return True
    if any(keyword.arg in ("dim", "axis") for keyword in call.keywords):
        return True
    own = call.args[1:] if script.qualname(call.func) is not None else call.args
    return bool(own) and (
        script.kind(own[0]) is Kind.NUMBER
        or (isinstance(own[0], ast.UnaryOp) and isinstance(own[0].operand, ast.Constant))
    )


def _all_bindings(definition: Definition) -> tuple[Definition, ...]:
    """Every binding of the same name in its scope."""
    return tuple(definition.scope.definitions.get(definition.name, (definition,)))


def is_set_elsewhere(script: Script, name: str) -> bool:
    """Whether an attribute may hold something else than what methods assign to it: others set it, or it is added to."""
    for other in script.project.files_naming(script, name, attribute=True).all():
        for each in other.syntax_index.stored(name):
            own = isinstance(each.value, ast.Name) and each.value.id == "self"
            if not own or isinstance(other.parent(each), ast.AugAssign):
                return True
        if other.syntax_index.calls_named("setattr"):
            return True
    return False


def _names_type(script: Script, node: ast.expr) -> bool:
    return script.kind(node) is Kind.DTYPE or (isinstance(node, ast.Attribute) and node.attr in _TYPES)


def _is_differentiated(script: Script, definition: Definition) -> bool:
    """Whether gradients of what a name holds are taken: it is run backward from, or what a loss judges."""
    return any(_takes_gradients(script, use) for use in script.uses(definition))


def _takes_gradients(script: Script, use: ast.expr) -> bool:
    if isinstance(use, ast.Attribute) and isinstance(use.value, ast.Name):
        cls = script.enclosing_class(use)
        reads = script.within(cls, ast.Attribute) if cls is not None else ()
        same = [each for each in reads if each.attr == use.attr and isinstance(each.value, ast.Name)]
        return any(_is_judged(script, each) for each in same if each.value.id == use.value.id)  # type: ignore[attr-defined]
    return _is_judged(script, use)


def _is_judged(script: Script, use: ast.expr) -> bool:
    match script.parent(use):
        case ast.Attribute(attr="backward"):
            return True
        case ast.Call(func=function, args=[first, *_]) if first is use:
            name = script.qualname(function) or ""
            if name.startswith("torch.nn.functional."):
                return name.rsplit(".", 1)[-1] in LOSSES
            values = script.values(function)
            return bool(values) and all(value.kind is Kind.LOSS_FUNCTION and value.cls is None for value in values)
        case _:
            return False
