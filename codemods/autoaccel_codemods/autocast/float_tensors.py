"""Which expressions surely are one tensor with decimals: what may be an index or a count must not be made a float."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from autoaccel.analysis.call_sites import arguments_for, may_be_left_out
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import STAR, Definition, ElementPath
from autoaccel.library_models.tensor_operations import (
    STORING,
)
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES
from autoaccel.pytorch import implicit_calls, module_containers
from autoaccel_codemods.autocast.gradient_uses import is_differentiated, takes_gradients
from autoaccel_codemods.autocast.operation_content import of_library, of_method, of_module
from autoaccel_codemods.autocast.tensor_content import NO_TENSOR_KINDS, Content, join, mixed, present

# Parts of what models of libraries return that are decimals by their documentation.
_OUTPUTS = frozenset("logits loss last_hidden_state pooler_output image_embeds text_embeds".split())


def content(script: Script, expression: ast.expr, path: ElementPath = ()) -> Content:
    """What an expression (or a part of it) surely holds; UNKNOWN when it may be something else as well."""
    found = _Reader().read(script, expression, path)
    return Content.UNKNOWN if found is Content.OPEN else found


class _Reader:
    def __init__(self) -> None:
        self._opened: dict[object, None] = {}

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
                return mixed(operands)
            case ast.BinOp(left=left, right=right):
                scaled = any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in (left, right))
                found = mixed([self.read(script, left, ()), self.read(script, right, ())])
                return Content.FLOATING if scaled and found is Content.WHOLE else found
            case ast.UnaryOp(operand=operand):
                return self.read(script, operand, path)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.read(script, value, path)
            case ast.IfExp(body=body, orelse=orelse):
                return join([self.read(script, body, path), self.read(script, orelse, path)])
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
        return join(self.read(script, each, path[1:]) for each in elements)

    def _mapping(
        self, script: Script, keys: list[ast.expr | None], values: list[ast.expr], path: ElementPath
    ) -> Content:
        if not path:
            return Content.STRUCTURE
        if any(key is None for key in keys):
            return Content.UNKNOWN
        named = [v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value == path[0]]
        return join(self.read(script, each, path[1:]) for each in named or values)

    # -- names

    def _name(self, script: Script, node: ast.Name, path: ElementPath) -> Content:
        definitions = script.definitions(node)
        if not definitions:
            return Content.UNKNOWN
        return join(self._definition(script, each, path) for each in definitions)

    def _definition(self, script: Script, definition: Definition, path: ElementPath) -> Content:
        key = (definition, path)
        if key in self._opened:
            return Content.OPEN
        self._opened[key] = None
        try:
            found = self._bound(script, definition, path)
        finally:
            del self._opened[key]
        if found is Content.UNKNOWN and not path and is_differentiated(script, definition):
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
                held = join(self._definition(script, each, path) for each in before)
                if not isinstance(target, ast.Name) or held is Content.STRUCTURE:
                    return Content.UNKNOWN
                return mixed([held, self.read(script, value, path)])
            case "assign" | "walrus" | "global" if value is not None:
                if isinstance(definition.node, ast.For | ast.AugAssign):
                    return Content.UNKNOWN
                found = self.read(script, value, (*definition.path, *path))
                if path and isinstance(value, ast.List | ast.Call | ast.Dict | ast.ListComp):
                    if self.read(script, value, definition.path) in (Content.FLOATING, Content.WHOLE):
                        return found  # a tensor holds what it holds, by whatever name
                    found = join([found, *self._stored(script, definition, path[1:])])
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
                    case ast.Subscript(ctx=ast.Load()) as part if path and _puts_into(script, part):
                        yield Content.UNKNOWN
                    case ast.Assign(value=value) | ast.NamedExpr(value=value) if value is use:  # another name of it
                        yield Content.UNKNOWN
                    case ast.Attribute(attr="append" | "appendleft" | "add") as method:
                        call = script.parent(method)
                        if isinstance(call, ast.Call) and len(call.args) == 1:
                            yield self.read(script, call.args[0], path)
                    case ast.Attribute(attr="extend" | "insert" | "update" | "setdefault" | "__setitem__"):
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
        if may_be_left_out(script, function, definition.name):
            passed.append(Content.UNKNOWN if definition.value is None else self.read(script, definition.value, path))
        return join(passed) if passed else Content.UNKNOWN

    # -- attributes

    def _attribute(self, script: Script, node: ast.Attribute, path: ElementPath) -> Content:
        if script.qualname(node) is not None and not script.is_project_name(node):
            return Content.WHOLE if script.kind(node) in NO_TENSOR_KINDS else Content.UNKNOWN
        kind = script.kind(node)
        if properties := implicit_calls.properties(script, node):
            return join(self._returned(other, each, path) for other, each in properties)
        if kind is Kind.PARAMETER:
            return Content.FLOATING
        if kind in NO_TENSOR_KINDS:
            return Content.WHOLE
        if node.attr in ("shape", "device", "dtype", "ndim", "indices", "requires_grad"):
            return Content.WHOLE
        if node.attr in VIEW_ATTRIBUTES | {"data"}:
            return present(self.read(script, node.value, path))
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
            found = join(self._binding(cls.script, each, path) for cls, each in bindings)
            plain = found in (Content.NOTHING, Content.NUMBER, Content.WHOLE)
            if plain and _is_set_elsewhere(script, node.attr):
                found = Content.UNKNOWN
            elif path and (plain or found is Content.OPEN) and _is_filled(script, node.attr):
                found = Content.UNKNOWN
            if found is Content.UNKNOWN and not path and takes_gradients(script, node):
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
        return self._definition(script, value, path)

    # -- calls

    def _call(self, script: Script, call: ast.Call, path: ElementPath) -> Content:
        qualified = script.qualname(call.func) if not script.is_project_name(call.func) else None
        if qualified is not None:
            return of_library(script, call, qualified, path, partial(self.read, script))
        kind = script.kind(call)
        if kind is Kind.NUMBER:
            return Content.NUMBER
        if kind in NO_TENSOR_KINDS:
            return Content.WHOLE
        function = call.func
        values = script.values(function)
        callees = script.callees(call) or module_containers.forwards(script, function)
        if callees and Kind.UNKNOWN not in values.kinds:
            return join(self._returned(other, each, path) for other, each in callees)
        if values and all(value.kind is Kind.LOSS_FUNCTION for value in values):
            return Content.FLOATING
        if isinstance(function, ast.Attribute) and values.kinds != {Kind.MODULE}:
            return of_method(script, call, function, path, partial(self.read, script))
        return of_module(script, function, call.args, path, partial(self.read, script))

    def _returned(self, script: Script, function: ast.FunctionDef, path: ElementPath) -> Content:
        if any(script.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
            return Content.UNKNOWN
        returned = script.in_scope(function, ast.Return)
        if not returned:
            return Content.WHOLE
        return join(Content.WHOLE if each.value is None else self.read(script, each.value, path) for each in returned)


def _all_bindings(definition: Definition) -> tuple[Definition, ...]:
    """Every binding of the same name in its scope."""
    return tuple(definition.scope.definitions.get(definition.name, (definition,)))


def _is_set_elsewhere(script: Script, name: str) -> bool:
    """Whether an attribute may hold something else than what methods assign to it: others set it, or it is added to."""
    for other in script.project.files_naming(script, name, attribute=True).all():
        for each in other.syntax_index.stored(name):
            own = isinstance(each.value, ast.Name) and each.value.id == "self"
            if not own or isinstance(other.parent(each), ast.AugAssign):
                return True
        if other.syntax_index.calls_named("setattr"):
            return True
    return False


def _is_filled(script: Script, name: str) -> bool:
    """Whether something may be put into a container that an attribute holds: by its attribute, or by another name."""
    return any(
        _may_fill(other, each)
        for other in script.project.files_naming(script, name, attribute=True).all()
        for each in other.find(ast.Attribute)
        if each.attr == name and isinstance(each.ctx, ast.Load)
    )


def _may_fill(script: Script, container: ast.expr) -> bool:
    """Whether code puts something into a container, or hands it on to where that may be done."""
    match script.parent(container):
        case ast.Call() as call:
            return bool(script.callees(call))
        case ast.keyword() | ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.Return():
            return True
        case ast.For() | ast.comprehension():
            return True
        case _:
            return _puts_into(script, container)


def _puts_into(script: Script, container: ast.expr) -> bool:
    """Whether code puts something into a container, or into one that is an element of it."""
    match script.parent(container):
        case ast.Subscript(value=value) as part if value is container:
            return not isinstance(part.ctx, ast.Load) or _puts_into(script, part)
        case ast.Attribute(attr=method) as part:
            return script.call_of(part) is not None and method in (*STORING, "__setitem__")
        case _:
            return False
