"""Finds what the batches of a loader are made from.

What is reached goes by values, and by names where values are not known; there is no bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, lineage, owner_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import fits, given_values
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.dataflow.value_parts import part
from autoaccel.pytorch import datasets
from autoaccel.pytorch.container_insertions import DATA, insertions
from autoaccel.pytorch.loader_calls import LoaderCall
from autoaccel.pytorch.loader_inputs import ALL, IMMUTABLE, TRAINING, LoaderInputs
from autoaccel.pytorch.memory_aliases import bound_to, same_memory
from autoaccel.pytorch.object_references import callables
from autoaccel.pytorch.parameter_holders import has_parameters

_PROTOCOL = """__getitem__ __getitems__ __iter__ __next__ __len__ __call__ forward""".split()
_CODE = frozenset({Kind.FUNCTION, Kind.CLASS, Kind.MODULE, Kind.PARAMETER, Kind.LOSS_FUNCTION})
_Place = tuple[Script, ast.expr, ElementPath]
"""An expression, and which part of it."""


def find_inputs(script: Script, made: LoaderCall, parts: Iterable[str] = ALL) -> LoaderInputs:
    """What the batches of a loader of `script` are made from, as far as these settings say."""
    return _Search(script, made, parts).run()


class _Search:
    """Takes the settings of a loader, what they hold, what the code of these reads, and so on until nothing is new."""

    def __init__(self, script: Script, made: LoaderCall, parts: Iterable[str]) -> None:
        self.inputs = LoaderInputs(made, parts)
        self._seen: set[tuple[ast.AST, ElementPath]] = set()
        self._values: set[Value] = set()
        self._handed: set[ast.expr] = set()  # what calls are given that are not followed
        self._functions: list[tuple[Script, ast.AST, bool]] = []
        self._running = _running(script, made.call)
        self._of_steps: list[tuple[Script, ast.expr]] = []  # containers whose elements this code calls
        self._put_in: set[ast.expr] = set()
        given = [each for part in parts if (each := made.at(script, part)) is not None]
        self._pending: list[_Place] = [(file, setting, ()) for file, setting in given]
        self._elsewhere: list[tuple[ast.AST, _Place]] = []  # what functions are given by whichever code calls them
        self._asked: set[ast.AST] = set()  # functions of which other code than that which makes batches uses results
        self._scripts = script.project.related(script)

    def run(self) -> LoaderInputs:
        while self._pending or self._functions or self._take_given() or self._take_insertions():
            while self._functions:
                self._run(*self._functions.pop())
            if self._pending:
                self._read(*self._pending.pop())
        return self.inputs

    def _enter(self, file: Script, function: ast.AST, *, surely: bool = True) -> None:
        if function not in self.inputs.code and (surely or function not in self.inputs.possible_code):
            (self.inputs.code if surely else self.inputs.possible_code)[function] = file
            self._functions.append((file, function, surely))

    def _enter_any(self, file: Script, call: ast.Call | None = None) -> None:
        """What a callable that is not known may be, as far as it can be called as it is."""
        for other, callee in callables(file):
            if callee not in self._running and (call is None or _may_take(other, callee, call)):
                self._enter(other, callee, surely=False)

    def _run(self, file: Script, function: ast.AST, surely: bool) -> None:
        """Everything that a piece of code which makes batches mentions."""
        for name in file.within(function, ast.Name):
            if isinstance(name.ctx, ast.Load):
                for each in file.definitions(name):
                    if not file.inside(each.scope.node, function) and each.how not in ("import", "def", "class"):
                        self.inputs.names[each.scope.node, name.id] = file
                self._pending.append((file, name, ()))
        own = owner_name(file, function)
        for attribute in file.within(function, ast.Attribute):
            if isinstance(attribute.ctx, ast.Load):
                self.inputs.attributes.add(attribute.attr)
                if own is not None and isinstance(attribute.value, ast.Name) and attribute.value.id == own:
                    self.inputs.own.add(attribute.attr)
                self._pending.append((file, attribute, ()))
                for value in file.values(attribute.value):
                    if value.kind in (Kind.CLASS, Kind.OBJECT) and value.cls is not None:
                        self.inputs.own.add(attribute.attr)
                    if value.how == "module" and value.node is not None and value.script is not None:
                        self.inputs.names[value.node, attribute.attr] = value.script
        for call in file.within(function, ast.Call):
            for other, callee in file.callees(call):
                self._enter(other, callee, surely=surely)
            if _calls_what_it_holds(file, call, own):
                self._enter_any(file, call)  # a transform that comes through `**options`
            self._of_steps += ((file, each) for each in _containers_of(file, call.func))
        for inner in file.within(function, ast.Lambda):
            self._enter(file, inner, surely=surely)

    def _read(self, file: Script, expression: ast.expr, path: ElementPath) -> None:
        """An expression of which a part is an input: what its values are, and what they hold.

        Where a value is not known, it is looked for in what names are bound to and functions give, lambdas above all.
        """
        if (expression, path) in self._seen:
            return
        self._seen.add((expression, path))
        values = part(file.values(expression), path)
        for value in values:
            self._hold(value)
        inside = self.inputs.may_make_batches(file, expression)
        if isinstance(expression, ast.Name) and not inside:
            self.inputs.held.update((each.scope.node, expression.id) for each in file.definitions(expression))
        if Kind.UNKNOWN not in values.kinds:
            return
        match expression:
            case ast.Lambda():
                self._enter(file, expression)
            case ast.Name(id=name):
                if not inside:
                    self._note_word(file, expression, name)
                for each in file.definitions(expression):
                    self._read_binding(file, each, path)
            case ast.Attribute(value=owner, attr=attr):
                self._read_attribute(file, owner, attr, path)
                if not inside:
                    self._note_word(file, expression, attr)
            case ast.Call():
                self._read_call(file, expression, path)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if path and isinstance(path[0], int):
                self._pending.extend((file, each, path[1:]) for each in elements[path[0] : path[0] + 1 or None])
            case ast.Starred(value=inner) | ast.NamedExpr(value=inner) | ast.Subscript(value=inner):
                self._pending.append((file, inner, ()))
            case _:
                inner_expressions = (each for each in ast.iter_child_nodes(expression) if isinstance(each, ast.expr))
                self._pending.extend((file, each, ()) for each in inner_expressions)

    def _note_word(self, file: Script, expression: ast.expr, word: str) -> None:
        """Note what an object is called whose value is not known."""
        if expression in self._handed:
            self.inputs.arguments.add((file, word))
        else:
            self.inputs.words.add(word)

    def _read_binding(self, file: Script, definition: Definition, path: ElementPath) -> None:
        """What a name was bound to."""
        if definition.value is not None and definition.how in ("assign", "walrus", "with", "aug", "global", "for"):
            self._pending.append((file, definition.value, (*definition.path, *path)))
        if definition.how == "param":
            if definition.value is not None:
                self._pending.append((file, definition.value, path))
            function = definition.scope.node
            for other, each in arguments_for(file, function, definition.name):
                place = (other, each, path)
                if (
                    function in self.inputs.code
                    and isinstance(function, ast.FunctionDef)
                    and _keeps_nothing(file, function)
                ):
                    self._elsewhere.append((function, place))
                else:
                    self._pending.append(place)

    def _take_given(self) -> bool:
        """Take what code that makes batches hands to functions that it calls. What other code hands to them, to a
        helper of two datasets, becomes part of these batches only where their results do."""
        taken = [
            (function, place)
            for function, place in self._elsewhere
            if function in self._asked or self.inputs.may_make_batches(place[0], place[1])
        ]
        self._elsewhere = [each for each in self._elsewhere if each not in taken]
        self._pending += [place for _, place in taken]
        return bool(taken)

    def _read_attribute(self, file: Script, owner: ast.expr, attr: str, path: ElementPath) -> None:
        for value in file.values(owner):
            if has_parameters(value):
                self._train(f"{file.source(owner)}.{attr}")
            for each in lineage(value.cls) if value.cls is not None else ():
                self.inputs.fields.add(attr)
                for binding, inner in class_info(each).attributes.get(attr, ()):
                    if isinstance(binding, ast.expr):
                        self._pending.append((each.script, binding, (*inner, *path)))
                    else:
                        self._read_binding(each.script, binding, path)

    def _read_call(self, file: Script, call: ast.Call, path: ElementPath = ()) -> None:
        """What a call gives may hold its arguments, where it is not the project's own code that makes it."""
        callees = file.callees(call)
        for other, callee in callees:
            if callee.name != "__init__":
                if not self.inputs.may_make_batches(file, call):
                    self._asked.add(callee)
                returned = (each.value for each in other.in_scope(callee, ast.Return) if each.value is not None)
                self._pending.extend((other, each, path) for each in returned)
        if not callees:
            arguments = given_values(call)
            self._handed.update(arguments)
            self._pending.extend((file, each, ()) for each in arguments)
            if isinstance(call.func, ast.Attribute) and file.qualname(call.func) is None:
                self._pending.append((file, call.func.value, ()))

    def _take_insertions(self) -> bool:
        """Take what is put into the inputs once they are made: a function into a list of transforms, an object, a
        model. Data make no batches of their own."""
        before = len(self._put_in)
        for file in self._scripts:
            for owner, attr, given in insertions(file):
                if given in self._put_in or not self._takes(file, owner, attr):
                    continue
                self._put_in.add(given)
                if _is_code(file, given):
                    self._pending.append((file, given, ()))
                elif Kind.UNKNOWN in file.values(given).kinds and self._calls_elements(file, owner):
                    self._enter_any(file)
        return len(self._put_in) > before

    def _takes(self, file: Script, owner: ast.expr, attr: str | None) -> bool:
        if attr is not None:
            return self.inputs.is_own(file, owner, attr) or (
                self.inputs.includes(file, owner) and self.inputs.reads(file, owner, attr)
            )
        if isinstance(owner, ast.Name) and isinstance(owner.ctx, ast.Store):
            return self.inputs.extends(file, owner)
        return self.inputs.touched(file, owner)

    def _calls_elements(self, file: Script, owner: ast.expr) -> bool:
        """Whether the code that makes batches calls what a container holds, as far as names and values tell."""
        nodes = {value.node for value in file.values(owner)} - {None}
        return any(
            last_name(each) == last_name(owner) or any(value.node in nodes for value in where.values(each))
            for where, each in self._of_steps
        )

    def _train(self, text: str) -> None:
        self.inputs.trained = min(filter(None, (self.inputs.trained, text)))

    def _hold(self, value: Value) -> None:
        """One value that is an input, and what it holds."""
        if value in self._values:
            return
        self._values.add(value)
        node, file = value.node, value.script
        if has_parameters(value):
            self._train(file.source(node) if file is not None and isinstance(node, ast.expr) else "a module")
            return
        if value.kind is Kind.FUNCTION and node is not None and file is not None:
            self._enter(file, node)
        if value.cls is not None:
            for each in lineage(value.cls):
                self.inputs.objects.add(each.node)
                methods = [part for part in each.node.body if isinstance(part, ast.FunctionDef)]
                self.inputs.methods.update(part.name for part in methods)
                if value.kind is not Kind.CLASS:
                    for part in methods:
                        if part.name in _PROTOCOL:
                            self._enter(each.script, part)
                    self._pending += _replaced_protocol(each)
        if node is None or file is None or value.kind in IMMUTABLE | {Kind.FUNCTION, Kind.CLASS}:
            return
        self.inputs.objects.add(node)
        if value.kind in TRAINING:
            self.inputs.trainers.add((node, value.kind))
        for item in (item for _, items in value.items for item in items):
            self._hold(item)
        if isinstance(node, ast.arg) and (function := file.parent(file.parent(node) or node)) is not None:
            calls = file.callers(function)  # of `*args`, `**options`
            self._pending.extend((other, each, ()) for other, call in calls for each in given_values(call))
        if value.kind in DATA:
            self._pending.extend((file, each, ()) for each in same_memory(value))
        elif value.cls is None:
            self.inputs.opaque.add(node)
            if isinstance(node, ast.Call):
                self._read_call(file, node)


def _calls_what_it_holds(file: Script, call: ast.Call, own: str | None) -> bool:
    """`self.transform(x)`, `step(x)` for each of some steps, where it is not known what that is."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=owner)):
            held = owner == own
        case ast.Name():
            held = bool(file.definitions(call.func))
        case _:
            held = isinstance(call.func, ast.Subscript)
    return held and Kind.UNKNOWN in file.values(call.func).kinds and file.qualname(call.func) is None


@once
def _keeps_nothing(file: Script, function: ast.FunctionDef) -> bool:
    """Whether what a function is handed is gone when it returns, but for the result."""
    kept = ast.FunctionDef | ast.Lambda | ast.Yield | ast.YieldFrom
    return (
        function.name != "__init__"
        and not function.decorator_list
        and not any(isinstance(part, kept) for part in ast.walk(function) if part is not function)
        and not datasets.leaves_something(file, function)
    )


def _may_take(file: Script, function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a function of the project can be called as a call calls what it holds."""
    method = isinstance(file.parent(function), ast.ClassDef)
    return fits(function, call, bound=method) or (
        method and bool(function.decorator_list) and fits(function, call, bound=False)
    )


@once
def _running(script: Script, call: ast.Call) -> frozenset[ast.AST]:
    """The functions that run while a loader is made, as far as their calls are seen: no sample calls these."""
    places: list[tuple[Script, ast.AST]] = [(script, call)]
    found: set[ast.AST] = set()
    for file, place in places:
        function = file.function(place)
        if function is not None and function not in found:
            found.add(function)
            places += [(file, function), *file.callers(function)]
    return frozenset(found)


def _containers_of(file: Script, function: ast.expr) -> Iterator[ast.expr]:
    """The container of which an element is called: `for step in self.steps: x = step(x)`, `self.steps[0](x)`."""
    match function:
        case ast.Subscript(value=owner):
            yield owner
        case ast.Name():
            for each in file.definitions(function):
                if each.how == "for" and each.value is not None:
                    yield from given_values(each.value) if isinstance(each.value, ast.Call) else (each.value,)


def _is_code(file: Script, expression: ast.expr) -> bool:
    """Whether an expression is, or may be, a function, an object of the project, a model; a lambda under any name."""
    places = [(file, expression)]
    for where, each in places:
        values = where.values(each)
        if isinstance(each, ast.Lambda) or any(value.cls is not None or value.kind in _CODE for value in values):
            return True
        if isinstance(each, ast.Attribute) and any(map(has_parameters, where.values(each.value))):
            return True
        if isinstance(each, ast.Name) and Kind.UNKNOWN in values.kinds:
            places.extend(place for place in bound_to(where, where.definitions(each)) if place not in places)
    return False


def _replaced_protocol(cls: ClassRef) -> Iterator[_Place]:
    """What is put in the place of a method that makes batches: `Rows.__getitem__ = cached`."""
    for file in cls.script.project.related(cls.script):
        for name in _PROTOCOL:
            for target in file.syntax_index.stored(name):
                statement = file.parent(target)
                if isinstance(statement, ast.Assign) and any(
                    value.cls is not None and value.cls.node is cls.node for value in file.values(target.value)
                ):
                    yield file, statement.value, ()
