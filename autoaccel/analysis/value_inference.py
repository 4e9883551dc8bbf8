"""What an expression may evaluate to, as far as the project's own files tell.

Kinds come from constructors, from annotations, from the arguments at call sites, from what functions return, and
where none of these speak from use (`x.zero_grad()` with `x.step()` makes an optimizer).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from autoaccel.analysis import attributes
from autoaccel.analysis.attributes import Stored
from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, derived_classes, instance_kind, is_lent, lineage
from autoaccel.analysis.name_lookups import named_member
from autoaccel.analysis.rebound_names import rebindings, rebound_names
from autoaccel.dataflow.abstract_values import (
    ANY,
    BOOL,
    BOUND,
    NONE,
    NOTHING,
    NUMBER,
    STRING,
    UNKNOWN,
    ClassRef,
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
from autoaccel.dataflow.definitions import STAR, Definition
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.value_parts import container_method, element, part, subscript
from autoaccel.library_models import library_values, member_values
from autoaccel.library_models.python_names import BUILTINS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_DISPATCHING = frozenset({"functools.singledispatch", "functools.singledispatchmethod"})
_REPLACED_BY_SUMS = frozenset({Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.SEQUENCE})
_AROUND = {"builtins.enumerate": "enumerate", "builtins.iter": "iter"}  # by name: how what they make is iterated


class Inference:
    """Evaluates expressions of one script to sets of values; memoised, with a guard for definitions that go round in
    circles."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.queries = script.project.queries

    # -- entry points

    def _ask(self, key: Hashable, compute: Callable[[], Values]) -> Values:
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
        return self._ask(expression, partial(self._evaluate, expression)) if known is None else known

    # -- expressions

    def _evaluate(self, node: ast.expr) -> Values:
        match node:
            case ast.Constant(value=value):
                return Values({_constant(value, node)})
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return subscript(self.possible(node.value), node, self.script)
            case ast.IfExp(body=body, orelse=orelse):
                return self.possible(body) | self.possible(orelse)
            case ast.BoolOp(values=values):
                return union(self.possible(value) for value in values)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.possible(value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return Values({self._sequence(node, elements)})
            case ast.Dict(keys=keys, values=values):
                items = tuple(
                    (
                        key.value if isinstance(key, ast.Constant) and isinstance(key.value, int | str) else None,
                        self.possible(value),
                    )
                    for key, value in zip(keys, values, strict=True)
                )
                return made(Kind.MAPPING, node, self.script, items=items)
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

    def _sequence(self, node: ast.expr, elements: list[ast.expr]) -> Value:
        if any(isinstance(each, ast.Starred) for each in elements):
            merged = union(
                self.possible(each.value) if isinstance(each, ast.Starred) else self.possible(each) for each in elements
            )
            return Value(Kind.SEQUENCE, node, self.script, items=((None, merged),))
        items: list[tuple[int | str | None, Values]] = [
            (index, self.possible(each)) for index, each in enumerate(elements)
        ]
        appended = self._appended(node) if isinstance(node, ast.List) and len(elements) < 2 else NOTHING
        if appended:
            return Value(Kind.SEQUENCE, node, self.script, items=((None, union([*(v for _, v in items), appended])),))
        return Value(Kind.SEQUENCE, node, self.script, items=tuple(items))

    def _appended(self, node: ast.expr) -> Values:
        """What `xs.append(…)` adds to a list that starts (nearly) empty."""
        target = self.script.syntax_index.bound_name(node)
        if target is None:
            return NOTHING
        found: Values = NOTHING
        for definition in self.script.definitions(target):
            for use in self.script.uses(definition):
                attribute = self.script.parent(use)
                call = self.script.parent(attribute) if isinstance(attribute, ast.Attribute) else None
                if (
                    isinstance(call, ast.Call)
                    and isinstance(attribute, ast.Attribute)
                    and attribute.attr == "append"
                    and call.args
                ):
                    found |= self.possible(call.args[0])
        return found

    # -- names

    def _name(self, node: ast.Name) -> Values:
        definitions = self.script.definitions(node)
        if definitions or self.script.project.star_import(self.script, node.id) is not None:
            return self._bound_to(node.id, definitions)
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
        found = union(each.script.inference._stored(each) for each in stores)
        return found if bound.missing is None else found | ANY

    def definition(self, definition: Definition) -> Values:
        """The values that one binding gives its name."""
        match definition.how:
            case "import":
                return self._ask(definition, partial(self._imported, definition))
            case "def":
                if self._dispatches(definition.node):
                    return ANY  # which of the functions that are registered with it depends on the argument
                return Values({Value(Kind.FUNCTION, definition.node, self.script)})
            case "class":
                assert isinstance(definition.node, ast.ClassDef)
                return made(Kind.CLASS, definition.node, self.script, cls=self.script.class_ref(definition.node))
            case "param":
                return self._ask(definition.node, partial(self._parameter, definition))
            case "aug":
                return self._ask(definition, partial(self._augmented, definition))
            case "for" if definition.value is not None:
                return part(element(self.possible(definition.value), definition.node, self.script), definition.path)
            case "assign" | "walrus" | "global" if definition.value is not None:
                annotated = self._annotation(getattr(definition.node, "annotation", None))
                if annotated:
                    return annotated
                if isinstance(definition.node, ast.AugAssign):
                    return self._ask(definition, partial(self._augmented, definition))
                if isinstance(definition.node, ast.For):
                    return part(element(self.possible(definition.value), definition.node, self.script), definition.path)
                return part(self.possible(definition.value), definition.path)
            case "with" if definition.value is not None:
                return part(self.possible(definition.value), definition.path)
            case _:
                return ANY

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
            script, name = found
            if name is None:
                return made(Kind.OBJECT, script.tree, script, how="module")
            return script.inference.exported(name)
        known = self.script.project.library_name(self.script, target, definition.level)
        if definition.level and not known:
            return ANY
        return made(Kind.EXTERNAL, name=library_values.canonical(known or target))

    def _parameter(self, definition: Definition) -> Values:
        argument = definition.node
        function = definition.scope.node
        assert isinstance(argument, ast.arg)
        if definition.path == (STAR,):
            return Values(
                {Value(Kind.SEQUENCE if _is_vararg(function, argument) else Kind.MAPPING, argument, self.script)}
            )
        annotated = self._annotation(argument.annotation)
        if annotated:
            return self._passed(function, argument, annotated)
        own = self._receiver(function, argument)
        if own is not None:
            return own
        passed = arguments_for(self.script, function, argument.arg)
        mapped = self._mapped(function, argument)
        given = [mapped, *(each.inference.possible(value) for each, value in passed)]
        found = union(given)
        if not found:
            if len(given) > 1:
                return NOTHING  # as yet: it is passed what depends on itself
            return self._by_use(definition) or (
                self.possible(definition.value) if definition.value is not None else ANY
            )
        if definition.value is not None and not all(value.kind is Kind.UNKNOWN for value in found):
            found |= Values(value for value in self.possible(definition.value) if value.kind is not Kind.UNKNOWN)
        if not mapped and self.script.callers(function).missing is not None:
            found |= ANY
        if Kind.UNKNOWN in found.kinds:
            used = self._by_use(definition)
            if used and not any(value.kind not in (Kind.UNKNOWN, Kind.NONE) for value in found):
                return used
        return found

    def _mapped(self, function: ast.AST, argument: ast.arg) -> Values:
        """What `map(lambda t: …, xs)` passes to its lambda."""
        match self.script.parent(function):
            case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(args=parameters) as first, *iterables]) as call:
                if first is function and argument in parameters.args[: len(iterables)]:
                    return element(self.possible(iterables[parameters.args.index(argument)]), call, self.script)
        return NOTHING

    def _passed(self, function: ast.AST, argument: ast.arg, annotated: Values) -> Values:
        """What call sites pass for an annotated parameter: it says which loader or model, where the annotation says
        only that it is one."""
        kinds = annotated.kinds
        if not kinds <= {Kind.DATASET, Kind.LOADER, Kind.MODULE, Kind.OPTIMIZER}:
            return annotated
        if self.script.callers(function).missing is not None:
            return annotated
        passed = arguments_for(self.script, function, argument.arg)
        given = [script.inference.possible(each) for script, each in passed]
        return union(given) if given and all(each.kinds <= kinds for each in given) else annotated

    def _receiver(self, function: ast.AST, argument: ast.arg) -> Values | None:
        """`self` in a method is an instance of its class."""
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        cls = self.script.parent(function)
        if not isinstance(cls, ast.ClassDef) or not function.args.args or function.args.args[0] is not argument:
            return None
        names = {decorator.id for decorator in function.decorator_list if isinstance(decorator, ast.Name)}
        if "staticmethod" in names:
            return None
        ref = self.script.class_ref(cls)
        if "classmethod" in names:
            return self._instances(ref, made=False)
        found = self._instances(ref)
        return found | ANY if is_lent(ref, function.name) else found

    def _instances(self, ref: ClassRef, *, made: bool = True) -> Values:
        """The objects of a class and of those that derive from it, or (not `made`) these classes."""
        derived = derived_classes(ref)
        found = Values(
            Value(instance_kind(each) if made else Kind.CLASS, each.node, each.script, cls=each)
            for each in (ref, *derived)
        )
        return found if derived.missing is None else found | ANY

    def _annotation(self, annotation: ast.expr | None) -> Values:
        if annotation is None:
            return NOTHING
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return NOTHING
            if isinstance(annotation, ast.BinOp):
                annotation = annotation.left
            return library_values.annotated(ast.unparse(annotation).rsplit(".", 1)[-1])
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            return self._annotation(annotation.left) or self._annotation(annotation.right)
        if isinstance(annotation, ast.Subscript):
            base = self.script.qualname(annotation.value)
            if base in ("typing.Optional", "typing.Annotated"):
                inner = annotation.slice
                return self._annotation(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
            return self._annotation(annotation.value)
        name = self.script.qualname(annotation)
        if name is None and isinstance(annotation, ast.Name) and not self.script.definitions(annotation):
            name = f"builtins.{annotation.id}"
        if name is not None:
            return library_values.annotated(name)
        for value in self.possible(annotation):
            if value.cls is not None and value.kind is Kind.CLASS:
                return self._instances(value.cls)
        return NOTHING

    def _by_use(self, definition: Definition) -> Values:
        """What the uses of a parameter with unknown arguments prove."""
        kind = self._used_as(definition.name, self.script.uses(definition))
        return made(kind, definition.node, self.script) if kind is not None else NOTHING

    def _attribute_by_use(self, ref: ClassRef, name: str) -> Values:
        """The same for `self.name`, over all methods of the class."""
        attributes = self.script.within(ref.node, ast.Attribute)
        reads = [each for each in attributes if each.attr == name and isinstance(each.value, ast.Name)]
        kind = self._used_as(name, reads)
        if kind is None:
            return NOTHING
        first = next(iter(self.script.syntax_index.by_depth(reads)), None)
        return made(kind, first, self.script)

    def _used_as(self, name: str, uses: Iterable[ast.expr]) -> Kind | None:
        methods: set[str] = set()
        called = iterated = False
        for use in uses:
            match self.script.parent(use):
                case ast.Attribute(attr=method):
                    methods.add(method)
                case ast.Call(func=function) if function is use:
                    called = True
                case ast.For(iter=source) if source is use:
                    iterated = True
                case ast.Call(func=function) if library_values.is_loop_wrapper(self.script.qualname(function)):
                    iterated = True
                case _:
                    pass
        return library_values.used_as(name, methods, called=called, iterated=iterated)

    # -- attributes

    def _attribute(self, node: ast.Attribute) -> Values:
        qualified = self.script.qualname(node)
        if qualified is not None and not self.script.is_project_name(node):
            return library_values.named(qualified)
        return self._of_members(node.value, node.attr, node)

    def _of_members(self, owner: ast.expr, name: str, node: ast.expr) -> Values:
        found: Values = NOTHING
        for each in self.possible(owner):
            found |= self._member(each, name, node)
        return found

    def _member(self, owner: Value, name: str, node: ast.expr) -> Values:
        if owner.kind is Kind.OBJECT and owner.how == "module" and owner.script is not None:
            return owner.script.inference.exported(name)
        if owner.cls is not None:
            member = self.attribute_of(owner.cls, name, instance=owner.kind is not Kind.CLASS)
            if member is not None:
                return member
        return member_values.attribute(owner, name, node, self.script)

    def attribute_of(self, ref: ClassRef, name: str, *, instance: bool = True) -> Values | None:
        """`self.name` of a project class: everything that its methods, its bases and its class body assign to it; None
        where they assign nothing."""
        return ref.script.inference._own_attribute(ref, name, instance)

    @fixpoint(NOTHING, ANY)
    def _own_attribute(self, ref: ClassRef, name: str, instance: bool) -> Values | None:
        info = class_info(ref)
        body = [value for value, _ in info.attributes.get(name, ()) if isinstance(value, Definition)]
        method = any(each.how == "def" for each in body)
        # Options that are put into a namespace may take the place of methods; nobody gives them twice.
        stores = [each for each in attributes.stores(ref, name) if method or each.how != "namespace"]
        if not body and not stores:
            several = len(info.bases) > 1
            for base in [*lineage(ref)][1:] if several else info.bases:
                if several and not base.script.inference._has_own(base, name):
                    continue
                inherited = self.attribute_of(base, name, instance=instance)
                if inherited is not None:
                    return inherited
            return None
        added = [each for each in stores if each.how == "add"]
        found = union(self.definition(each) for each in body)
        if instance:
            found = _bound(found)
        for each in stores:
            if each not in added:
                stored = each.script.inference._stored(each)
                if instance and any(value.kind is Kind.FUNCTION for value in stored):
                    of_class = each.of_class
                    stored = stored if of_class is False else _bound(stored) if of_class else _bound(stored) | ANY
                found |= stored
        for each in added:
            assert each.value is not None
            found |= arithmetic(found, each.script.inference._stored(each), each.value, each.script)
        if found and all(value.kind in (Kind.UNKNOWN, Kind.NONE) for value in found):
            found = self._attribute_by_use(ref, name) or found
        return found

    def _has_own(self, ref: ClassRef, name: str) -> bool:
        """Whether a class itself, and not a base of it, has an attribute."""
        bound = class_info(ref).attributes.get(name, ())
        return any(isinstance(value, Definition) for value, _ in bound) or any(attributes.stores(ref, name))

    def _stored(self, stored: Stored) -> Values:
        if stored.value is None:
            return ANY
        value = self.possible(stored.value)
        return part(element(value, stored.value, self.script) if stored.how == "for" else value, stored.path)

    # -- parts

    # -- calls

    def _call(self, node: ast.Call) -> Values:
        function = node.func
        if isinstance(function, ast.Attribute) and not self._is_qualified(function):
            method = self._method_call(node, function)
            if method is not None:
                return method
        found: Values = NOTHING
        for callee in self.possible(function):
            found |= self._result(callee, node)
        return found

    def _is_qualified(self, function: ast.Attribute) -> bool:
        return self.script.qualname(function) is not None

    def _result(self, callee: Value, node: ast.Call) -> Values:
        match callee.kind:
            case Kind.EXTERNAL if callee.name is not None:
                return self._external_call(callee.name, node)
            case Kind.CLASS if callee.cls is not None:
                kind = instance_kind(callee.cls)
                return made(kind, node, self.script, cls=callee.cls)
            case Kind.FUNCTION if callee.script is not None and callee.node is not None:
                return callee.script.inference.returned(callee.node)
            case Kind.MODULE:
                return self._forward(callee, node)
            case Kind.LOSS_FUNCTION:
                return made(Kind.TENSOR, node, self.script)
            case Kind.OBJECT | Kind.DATASET | Kind.SCHEDULER if callee.cls is not None:
                member = self.attribute_of(callee.cls, "__call__")
                return ANY if member is None else union(self._result(value, node) for value in member)
            case _:
                return ANY

    def _forward(self, module: Value, node: ast.Call) -> Values:
        forward = None if module.cls is None else self.attribute_of(module.cls, "forward")
        if forward is not None:
            return union(
                value.script.inference.returned(value.node)
                if value.kind is Kind.FUNCTION and value.script is not None and value.node is not None
                else ANY
                for value in forward
            )
        if module.name is not None:
            return library_values.forwarded(module.name, node, self.script)
        return ANY

    def returned(self, function: ast.AST) -> Values:
        """What a project function returns, whoever calls it."""
        if isinstance(function, ast.Lambda):
            return self.possible(function.body)
        if not isinstance(function, ast.FunctionDef):
            return ANY
        return self._ask(function, partial(self._returned, function))

    def _returned(self, function: ast.FunctionDef) -> Values:
        found: Values = NOTHING
        script = self.script
        if any(script.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
            return made(Kind.ITERATOR, function, script, how="generator")
        returned = [part.value for part in script.in_scope(function, ast.Return) if part.value is not None]
        for value in returned:
            found |= self.possible(value)
        annotated = self._annotation(function.returns)
        if annotated and all(value.kind is Kind.UNKNOWN for value in found):
            return annotated
        if not found and not returned:
            return Values({NONE})
        return found

    def _method_call(self, node: ast.Call, function: ast.Attribute) -> Values | None:
        """`value.method(…)`: None when the receiver says nothing special and the callee itself must be asked."""
        found: Values = NOTHING
        for owner in self.possible(function.value):
            result = self._method(owner, function.attr, node)
            if result is None:
                result = NOTHING
                for callee in self._member(owner, function.attr, function):
                    result |= self._result(callee, node)
            found |= result
        return found

    def _method(self, owner: Value, name: str, node: ast.Call) -> Values | None:
        if owner.kind in (Kind.MODULE, Kind.LOSS_FUNCTION):
            own = None if owner.cls is None else self.attribute_of(owner.cls, name)
            if own is not None and any(value.kind is Kind.FUNCTION for value in own):
                return None
            if name == "forward":
                return self._forward(owner, node)
        if owner.kind in (Kind.SEQUENCE, Kind.MAPPING, Kind.ITERATOR):
            return container_method(owner, name, node, self.script)
        return member_values.method(owner, name, node, self.script)

    # -- external functions

    def _external_call(self, name: str, node: ast.Call) -> Values:
        arguments = node.args
        first = arguments[0] if arguments and not isinstance(arguments[0], ast.Starred) else None
        if name in library_values.TRANSPARENT and first is not None:
            return self.possible(first)
        if name == "builtins.getattr" and (member := named_member(node)) is not None:
            read = self._of_members(*member, node)
            return read | self.possible(arguments[2]) if len(arguments) > 2 else read
        if name in _AROUND and first is not None:
            return made(Kind.ITERATOR, node, self.script, how=_AROUND[name], items=((None, self.possible(first)),))
        if name == "builtins.zip":
            items = tuple((index, self.possible(each)) for index, each in enumerate(arguments))
            return made(Kind.ITERATOR, node, self.script, how="zip", items=items)
        if library_values.is_loop_wrapper(name):
            given = (keyword.value for keyword in node.keywords if keyword.arg == "iterable")
            wrapped = first if first is not None else next(given, None)
            if wrapped is None:
                return ANY
            return made(Kind.ITERATOR, node, self.script, how="pass", items=((None, self.possible(wrapped)),))
        if name == "builtins.next" and first is not None:
            iterated = (
                any_item(value) if value.how in ("iter", "pass") else Values({value}) for value in self.possible(first)
            )
            return union(element(each, node, self.script) for each in iterated)
        if name in ("builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed"):
            elements = element(self.possible(first), node, self.script) if first is not None else NOTHING
            return made(Kind.SEQUENCE, node, self.script, items=((None, elements),) if elements else ())
        if name == "builtins.map" and len(arguments) == 2:
            return made(Kind.ITERATOR, node, self.script)
        if name == "builtins.sum" and first is not None:
            return element(self.possible(first), node, self.script)
        if name == "builtins.super":
            return self._super(node)
        if name == "builtins.dict":
            keywords = tuple((each.arg, self.possible(each.value)) for each in node.keywords if each.arg is not None)
            return made(Kind.MAPPING, node, self.script, items=keywords)
        return library_values.called(name, node, self.script)

    def _super(self, node: ast.Call) -> Values:
        cls = self.script.syntax_index.enclosing_class(node)
        if cls is None:
            return ANY
        ref = self.script.class_ref(cls)
        derived = derived_classes(ref)
        followed: dict[ClassRef, None] = {}
        for each in (ref, *derived):
            line = [*lineage(each)]
            nodes = [above.node for above in line]
            after = line[nodes.index(cls) + 1 :] if cls in nodes else []
            # What comes next for one that derives from several may be no base of this class.
            alone = not after or [above.node for above in lineage(after[0])] == [above.node for above in after]
            followed |= dict.fromkeys(after[:1] if alone else after)
        if not followed:
            return ANY
        found = Values(Value(instance_kind(base), base.node, base.script, cls=base) for base in followed)
        return found if derived.missing is None else found | ANY


def _bound(values: Values) -> Values:
    """These values as an instance has them whose class has them: functions are methods."""
    if all(value.kind is not Kind.FUNCTION for value in values):
        return values
    return Values(value._replace(path=BOUND) if value.kind is Kind.FUNCTION else value for value in values)


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


def _is_vararg(function: ast.AST, argument: ast.arg) -> bool:
    arguments = getattr(function, "args", None)
    return isinstance(arguments, ast.arguments) and arguments.vararg is argument
