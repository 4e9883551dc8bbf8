"""What an expression may evaluate to, as far as the project's own files tell."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from autoaccel.analysis import computed_members, type_tests
from autoaccel.analysis.attribute_values import members, stored_values
from autoaccel.analysis.call_values import call_values
from autoaccel.analysis.container_stores import as_mapping, with_stores
from autoaccel.analysis.iteration_wrappers import iterables
from autoaccel.analysis.parameter_values import annotated_values, parameter_values
from autoaccel.analysis.rebound_names import rebindings, rebound_names
from autoaccel.dataflow.abstract_values import (
    ANY,
    BOOL,
    NONE,
    NOTHING,
    NUMBER,
    STRING,
    UNKNOWN,
    Kind,
    Value,
    Values,
    any_item,
    arithmetic,
    made,
    merged,
    shallow,
    union,
)
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.value_parts import element, part, subscript
from autoaccel.library_models import library_values
from autoaccel.library_models.python_names import BUILTINS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_DISPATCHING = frozenset({"functools.singledispatch", "functools.singledispatchmethod"})
_MAKING_CONTAINERS = (
    ast.List | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp | ast.Call | ast.BinOp | ast.Subscript
)
_REPLACED_BY_SUMS = frozenset({Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.SEQUENCE})


class Inference:
    """Evaluates expressions of one script to sets of values; memoised, with a guard for definitions that go round in
    circles."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.queries = script.project.queries

    # -- entry points

    def ask(self, key: Hashable, compute: Callable[[], Values]) -> Values:
        """Values that are found only once, in full where they depend on themselves."""
        return self.queries.ask(key, partial(self._computed, compute), NOTHING, ANY)

    def _computed(self, compute: Callable[[], Values]) -> Values:
        found = compute()
        for value in found.unordered():
            if value.items or value.path:
                found = shallow(merged(found), self.script.project.bounds.nesting, self.queries.cut)
                # Equal sets are one: elements of elements would else be compared along every way to them.
                return self.queries.sets.setdefault(found, found)  # type: ignore[no-any-return]
        return found

    def possible(self, expression: ast.expr) -> Values:
        """All values that an expression may have, asked from within an evaluation: empty while a value goes round in a
        circle. From outside, `Script.values` gives `ANY` in place of nothing."""
        known = self.queries.known.get(expression)
        return self.ask(expression, partial(self._evaluate, expression)) if known is None else known

    # -- expressions

    def _evaluate(self, node: ast.expr) -> Values:
        found = self._value_of(node)
        if not isinstance(node, _MAKING_CONTAINERS):
            return found
        whole = found.unordered()  # only what the node itself makes is asked about
        return Values(with_stores(self.script, node, each) if each.node is node else each for each in whole)

    def _value_of(self, node: ast.expr) -> Values:
        match node:
            case ast.Constant(value=value):
                return Values({_constant(value, node)})
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                qualified = self.script.qualname(node)
                if qualified is not None and not self.script.is_project_name(node):
                    return library_values.named(qualified)
                if qualified is not None and (found := self.script.in_folder(node)) is not None:
                    return _bound_by_import(*found)
                return members(self.script, node.value, node.attr, node)
            case ast.Call():
                return call_values(self.script, node)
            case ast.Subscript():
                if (looked_up := computed_members.looked_up(self.script, node)) is not None:
                    return looked_up
                owners = Values(map(as_mapping, self.possible(node.value).unordered()))
                return subscript(owners, node, self.script)
            case ast.IfExp(test=test, orelse=orelse) if type_tests.is_no_tensor(self.script, test):
                return self.possible(orelse)
            case ast.IfExp(body=body, orelse=orelse):
                return self.possible(body) | self.possible(orelse)
            case ast.BoolOp(values=values):
                return union(self.possible(value) for value in values)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.possible(value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return Values({self._sequence(node, elements)})
            case ast.Dict(keys=keys, values=values):
                items = [each for pair in zip(keys, values, strict=True) for each in self._entries(*pair)]
                return made(Kind.MAPPING, node, self.script, items=tuple(items))
            case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.SetComp(elt=value):
                return made(Kind.SEQUENCE, node, self.script, items=((None, self.possible(value)),))
            case ast.DictComp(value=value):
                return made(Kind.MAPPING, node, self.script, items=((None, self.possible(value)),))
            case ast.BinOp(left=left, right=right):
                return arithmetic(self.possible(left), self.possible(right), node, self.script)
            case ast.UnaryOp(op=ast.Not()):
                return Values({BOOL})
            case ast.UnaryOp(operand=operand):
                return arithmetic(self.possible(operand), Values({NUMBER}), node, self.script)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                kinds = (self.possible(left) | self.possible(right)).kinds
                if Kind.TENSOR in kinds or Kind.BATCH in kinds:
                    return made(Kind.TENSOR, node, self.script)
                elementwise = not isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn)
                if elementwise and Kind.ARRAY in kinds and Kind.UNKNOWN not in kinds:
                    return made(Kind.ARRAY, node, self.script, how="arithmetic")
                return ANY if Kind.UNKNOWN in kinds else Values({BOOL})
            case ast.Compare():
                return Values({BOOL})
            case ast.JoinedStr():
                return Values({STRING})
            case _:
                return ANY

    def _entries(self, key: ast.expr | None, value: ast.expr) -> Iterable[tuple[int | str | None, Values]]:
        """What a part of a dict's display adds to it: `key: value`, or `**value`."""
        given = self.possible(value)
        if key is not None:
            told = key.value if isinstance(key, ast.Constant) else None
            return [(told if isinstance(told, int | str) else None, given)]
        match [*given]:
            case [Value(kind=Kind.MAPPING, items=items)] if items:
                return items
            case several:
                return [(None, union(any_item(each) or ANY for each in several))]

    def _sequence(self, node: ast.expr, elements: list[ast.expr]) -> Value:
        if any(isinstance(each, ast.Starred) for each in elements):
            merged = union(
                self.possible(each.value) if isinstance(each, ast.Starred) else self.possible(each) for each in elements
            )
            return Value(Kind.SEQUENCE, node, self.script, items=((None, merged),))
        items: list[tuple[int | str | None, Values]] = [
            (index, self.possible(each)) for index, each in enumerate(elements)
        ]
        return Value(Kind.SEQUENCE, node, self.script, items=tuple(items))

    # -- names

    def _name(self, node: ast.Name) -> Values:
        definitions = self.script.definitions(node)
        if definitions or self.script.project.star_import(self.script, node.id) is not None:
            return type_tests.narrowed(self.script, node, self._bound_to(node.id, definitions))
        return made(Kind.EXTERNAL, name=f"builtins.{node.id}") if node.id in BUILTINS else ANY

    def exported(self, name: str) -> Values:
        """The value of a module-level name, seen from another file."""
        return self._bound_to(name, self.script.module_scope.definitions.get(name, ()))

    def _bound_to(self, name: str, definitions: Sequence[Definition]) -> Values:
        if not definitions:
            starred = self.script.project.star_import(self.script, name)
            return ANY if starred is None else starred[0].inference.exported(starred[1])
        found = union(self.definition(each) for each in definitions) | self._rebound(name, definitions)
        return library_values.without_checkpoint_reads(found | self._replaced(name, definitions))

    def _replaced(self, name: str, definitions: Iterable[Definition]) -> Values:
        """What a star import below puts in the place of a name of this module."""
        if name not in self.script.replaced_names or any(each.scope.parent for each in definitions):
            return NOTHING
        starred = self.script.project.star_import(self.script, name)
        return ANY if starred is None else starred[0].inference.exported(starred[1])

    def _rebound(self, name: str, definitions: Iterable[Definition]) -> Values:
        """What other files may put in the place of a name of this module: `engine.log = my_log`."""
        if name not in rebound_names(self.script) or any(each.scope.parent for each in definitions):
            return NOTHING
        defined = all(each.how in ("def", "class") for each in definitions)
        bound = rebindings(self.script, name)
        stores = [each for each in bound if defined or each.how != "namespace"]
        found = union(stored_values(each) for each in stores)
        return found if bound.missing is None else found | ANY

    def definition(self, definition: Definition) -> Values:
        """The values that one binding gives its name."""
        match definition.how:
            case "import":
                return self.ask(definition, partial(self._imported, definition))
            case "def":
                if self._dispatches(definition.node):
                    return ANY  # which of the functions that are registered with it depends on the argument
                return Values({Value(Kind.FUNCTION, definition.node, self.script)})
            case "class":
                assert isinstance(definition.node, ast.ClassDef)
                return made(Kind.CLASS, definition.node, self.script, cls=self.script.class_ref(definition.node))
            case "param":
                return self.ask(definition.node, partial(parameter_values, self.script, definition))
            case "aug":
                return self.ask(definition, partial(self._augmented, definition))
            case "for" if definition.value is not None:
                return self._element(definition)
            case "assign" | "walrus" | "global" if definition.value is not None:
                annotated = annotated_values(self.script, getattr(definition.node, "annotation", None))
                if annotated:
                    return annotated
                if isinstance(definition.node, ast.AugAssign):
                    return self.ask(definition, partial(self._augmented, definition))
                if isinstance(definition.node, ast.For):
                    return self._element(definition)
                if (whole := definition.whole) is not None:  # `a, b = x, y`
                    found = self.possible(whole)
                else:
                    found = part(self.possible(definition.value), definition.path)
                return computed_members.narrowed(self.script, definition, found)
            case "with" if definition.value is not None:
                return part(self.possible(definition.value), definition.path)
            case _:
                return ANY

    def _element(self, definition: Definition) -> Values:
        """What a loop gives a name."""
        assert definition.value is not None, "a loop has an iterable"
        iterated = iterables(self.possible(definition.value))
        return part(element(iterated, definition.node, self.script), definition.path)

    def _dispatches(self, function: ast.AST) -> bool:
        decorators = getattr(function, "decorator_list", ())
        return any(self.script.qualname(each) in _DISPATCHING for each in decorators)

    def _augmented(self, definition: Definition) -> Values:
        """`x += y`: a tensor, an array or a list stays what it is; numbers become what the sum is."""
        assert isinstance(definition.node, ast.AugAssign)
        added = self.possible(definition.node.value)
        target = definition.node.target
        if not isinstance(target, ast.Name):
            return added
        before = union(self.definition(each) for each in self.script.reaching_definitions.before_addition(target))
        stays = library_values.RUNNING_TOTALS if isinstance(definition.node.op, ast.Add) else ()
        changed = Values(each for each in before if each.kind in _REPLACED_BY_SUMS and each.name not in stays)
        kept = before.without(changed)
        return kept | arithmetic(changed, added, target, self.script) if changed else kept

    def _imported(self, definition: Definition) -> Values:
        target = definition.target or ""
        found = self.script.project.imported(self.script, target, definition.level)
        if found is not None:
            return _bound_by_import(*found)
        known = self.script.project.library_name(self.script, target, definition.level)
        if definition.level and not known:
            return ANY
        return made(Kind.EXTERNAL, name=library_values.canonical(known or target))


def _bound_by_import(script: Script, name: str | None) -> Values:
    """A module, or what it has under a name."""
    if name is None:
        return made(Kind.OBJECT, script.tree, script, how="module")
    return script.inference.exported(name)


def _constant(value: object, node: ast.expr) -> Value:
    match value:
        case bool():
            return BOOL
        case int() | float() | complex():
            return NUMBER
        case str() | bytes():
            return Value(Kind.STRING, node)
        case None:
            return NONE
        case _:
            return UNKNOWN
