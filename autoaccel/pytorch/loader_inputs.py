"""What the batches of a loader are made from, and what the program does to it while they are loaded.

Workers hold a copy of the dataset, and whoever fetches ahead fetches before the step that comes first. Both are right
only where nothing that makes samples, their order or their collation is trained, requires gradients or is changed by
the loop. What is reached goes by values, and by names where values are not known; there is no bound.
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
from autoaccel.pytorch.memory_aliases import VIEWING, bound_to, held_as, same_memory, unfollowed
from autoaccel.pytorch.object_references import callables
from autoaccel.pytorch.parameter_holders import has_parameters

IN_WORKERS = ("dataset", "collate_fn", "worker_init_fn")
ALL = (*IN_WORKERS, "sampler", "batch_sampler", "generator")
PARTS = frozenset(ALL)
_WHOLE: ElementPath = ()
_PROTOCOL = """__getitem__ __getitems__ __iter__ __next__ __len__ __call__ forward""".split()
_MEMORY = frozenset({Kind.TENSOR, Kind.ARRAY})
_IMMUTABLE = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE})
_CODE = frozenset({Kind.FUNCTION, Kind.CLASS, Kind.MODULE, Kind.PARAMETER, Kind.LOSS_FUNCTION})
_OF_TENSORS = frozenset("data grad T shape weight bias".split())


class LoaderInputs:
    """The code that makes the batches of one loader, and the objects and names that it reads."""

    def __init__(self, script: Script, made: LoaderCall, parts: Iterable[str] = ALL) -> None:
        self.code: dict[ast.AST, Script] = {}
        """Functions and lambdas that run when a batch is made."""
        self.possible_code: dict[ast.AST, Script] = {}
        """Those that may, where it is not known what this code calls; they may run at other times just as well."""
        self.objects: set[ast.AST] = {made.call}
        """What made the objects that this code reads, and the classes of those that are instances."""
        self.methods: set[str] = set()
        """The methods of these classes."""
        self.opaque: set[ast.AST] = {made.call}
        """Those of them whose own code is not seen."""
        self.names: dict[tuple[ast.AST, str], Script] = {}
        """Names of outer scopes that this code reads, by scope."""
        self.held: set[tuple[ast.AST, str]] = set()
        """Names under which objects were handed over, by scope."""
        self.words = {part for part in parts if part in made.settings}
        """What objects whose values are not known are called where they are handed over."""
        self.arguments: set[tuple[Script, str]] = set()
        """The same for what goes into objects out of sight, by file."""
        self.fields: set[str] = set()
        """The attributes of the project's objects that hold values which are not known."""
        self.attributes: set[str] = set()
        """The attributes that this code reads, of whatever object."""
        self.own: set[str] = set()
        """Those that it reads of the project's classes and objects: in methods, of their own object."""
        self.trained: str | None = None
        """Source text of something trained that this code reads."""
        self._seen: set[tuple[ast.AST, ElementPath]] = set()
        self._values: set[Value] = set()
        self._handed: set[ast.expr] = set()
        self._functions: list[tuple[Script, ast.AST, bool]] = []
        self._running = _running(script, made.call)
        self._of_steps: list[tuple[Script, ast.expr]] = []
        self._put_in: set[ast.expr] = set()
        given = [each for part in parts if (each := made.at(script, part)) is not None]
        self._pending = [(file, setting, _WHOLE) for file, setting in given]
        self._elsewhere: list[tuple[ast.AST, tuple[Script, ast.expr, ElementPath]]] = []
        self._asked: set[ast.AST] = set()  # functions of which other code than that which makes batches uses results
        related = script.project.related(script)
        while self._pending or self._functions or self._take_given() or self._take_insertions(related):
            while self._functions:
                self._run(*self._functions.pop())
            if self._pending:
                self._read(*self._pending.pop())

    # -- what is reached

    def _enter(self, file: Script, function: ast.AST, *, surely: bool = True) -> None:
        if function not in self.code and (surely or function not in self.possible_code):
            (self.code if surely else self.possible_code)[function] = file
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
                        self.names[each.scope.node, name.id] = file
                self._pending.append((file, name, ()))
        own = owner_name(file, function)
        for attribute in file.within(function, ast.Attribute):
            if isinstance(attribute.ctx, ast.Load):
                self.attributes.add(attribute.attr)
                if own is not None and isinstance(attribute.value, ast.Name) and attribute.value.id == own:
                    self.own.add(attribute.attr)
                self._pending.append((file, attribute, ()))
                for value in file.values(attribute.value):
                    if value.kind in (Kind.CLASS, Kind.OBJECT) and value.cls is not None:
                        self.own.add(attribute.attr)
                    if value.how == "module" and value.node is not None and value.script is not None:
                        self.names[value.node, attribute.attr] = value.script
        for call in file.within(function, ast.Call):
            for other, callee in file.callees(call):
                self._enter(other, callee, surely=surely)
            if _calls_what_it_holds(file, call, own):
                self._enter_any(file, call)  # a transform that comes through `**options`
            self._of_steps += ((file, each) for each in _containers_of(file, call.func))
        for inner in file.within(function, ast.Lambda):
            self._enter(file, inner, surely=surely)

    def _read(self, file: Script, expression: ast.expr, path: ElementPath = ()) -> None:
        """An expression of which a part is an input: what its values are, and what they hold.

        Where a value is not known, it is looked for in what names are bound to and functions give, lambdas above all.
        """
        if (expression, path) in self._seen:
            return
        self._seen.add((expression, path))
        values = part(file.values(expression), path)
        for value in values:
            self._hold_once(value)
        inside = self.may_make_batches(file, expression)
        if isinstance(expression, ast.Name) and not inside:
            self.held.update((each.scope.node, expression.id) for each in file.definitions(expression))
        if Kind.UNKNOWN not in values.kinds:
            return
        match expression:
            case ast.Lambda():
                self._enter(file, expression)
            case ast.Name(id=name):
                if not inside:
                    self._call(file, expression, name)
                for each in file.definitions(expression):
                    self._bound(file, each, path)
            case ast.Attribute(value=owner, attr=attr):
                self._attribute(file, owner, attr, path)
                if not inside:
                    self._call(file, expression, attr)
            case ast.Call():
                self._called(file, expression, path)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if path and isinstance(path[0], int):
                self._pending.extend((file, each, path[1:]) for each in elements[path[0] : path[0] + 1 or None])
            case ast.Starred(value=inner) | ast.NamedExpr(value=inner) | ast.Subscript(value=inner):
                self._pending.append((file, inner, ()))
            case _:
                inner_expressions = (each for each in ast.iter_child_nodes(expression) if isinstance(each, ast.expr))
                self._pending.extend((file, each, ()) for each in inner_expressions)

    def _call(self, file: Script, expression: ast.expr, word: str) -> None:
        """Note what an object is called whose value is not known."""
        if expression in self._handed:
            self.arguments.add((file, word))
        else:
            self.words.add(word)

    def _bound(self, file: Script, definition: Definition, path: ElementPath) -> None:
        """What a name was bound to."""
        if definition.value is not None and definition.how in ("assign", "walrus", "with", "aug", "global", "for"):
            self._pending.append((file, definition.value, (*definition.path, *path)))
        if definition.how == "param":
            if definition.value is not None:
                self._pending.append((file, definition.value, path))
            function = definition.scope.node
            for other, each in arguments_for(file, function, definition.name):
                place = (other, each, path)
                if function in self.code and isinstance(function, ast.FunctionDef) and _keeps_nothing(file, function):
                    self._elsewhere.append((function, place))
                else:
                    self._pending.append(place)

    def _take_given(self) -> bool:
        """Take what code that makes batches hands to functions that it calls. What other code hands to them, to a
        helper of two datasets, becomes part of these batches only where their results do."""
        taken = [
            (function, place)
            for function, place in self._elsewhere
            if function in self._asked or self.may_make_batches(place[0], place[1])
        ]
        self._elsewhere = [each for each in self._elsewhere if each not in taken]
        self._pending += [place for _, place in taken]
        return bool(taken)

    def _attribute(self, file: Script, owner: ast.expr, attr: str, path: ElementPath) -> None:
        for value in file.values(owner):
            if has_parameters(value):
                self._train(f"{file.source(owner)}.{attr}")
            for each in lineage(value.cls) if value.cls is not None else ():
                self.fields.add(attr)
                for binding, inner in class_info(each).attributes.get(attr, ()):
                    if isinstance(binding, ast.expr):
                        self._pending.append((each.script, binding, (*inner, *path)))
                    else:
                        self._bound(each.script, binding, path)

    def _called(self, file: Script, call: ast.Call, path: ElementPath = ()) -> None:
        """What a call gives may hold its arguments, where it is not the project's own code that makes it."""
        callees = file.callees(call)
        for other, callee in callees:
            if callee.name != "__init__":
                if not self.may_make_batches(file, call):
                    self._asked.add(callee)
                returned = (each.value for each in other.in_scope(callee, ast.Return) if each.value is not None)
                self._pending.extend((other, each, path) for each in returned)
        if not callees:
            arguments = given_values(call)
            self._handed.update(arguments)
            self._pending.extend((file, each, ()) for each in arguments)
            if isinstance(call.func, ast.Attribute) and file.qualname(call.func) is None:
                self._pending.append((file, call.func.value, ()))

    def _take_insertions(self, scripts: tuple[Script, ...]) -> bool:
        """Take what is put into the inputs once they are made: a function into a list of transforms, an object, a
        model. Data make no batches of their own."""
        before = len(self._put_in)
        for file in scripts:
            for owner, attr, given in insertions(file):
                if given in self._put_in or not self._takes(file, owner, attr):
                    continue
                self._put_in.add(given)
                if _is_code(file, given):
                    self._pending.append((file, given, _WHOLE))
                elif Kind.UNKNOWN in file.values(given).kinds and self._calls_elements(file, owner):
                    self._enter_any(file)
        return len(self._put_in) > before

    def _takes(self, file: Script, owner: ast.expr, attr: str | None) -> bool:
        if attr is not None:
            return self.is_own(file, owner, attr) or (self.includes(file, owner) and self.reads(file, owner, attr))
        if isinstance(owner, ast.Name) and isinstance(owner.ctx, ast.Store):
            return self.extends(file, owner)
        return self.touched(file, owner)

    def _calls_elements(self, file: Script, owner: ast.expr) -> bool:
        """Whether the code that makes batches calls what a container holds, as far as names and values tell."""
        nodes = {value.node for value in file.values(owner)} - {None}
        return any(
            last_name(each) == last_name(owner) or any(value.node in nodes for value in where.values(each))
            for where, each in self._of_steps
        )

    def _train(self, text: str) -> None:
        self.trained = min(filter(None, (self.trained, text)))

    def _hold(self, value: Value) -> None:
        """One value that is an input, and what it holds."""
        node, file = value.node, value.script
        if has_parameters(value):
            self._train(file.source(node) if file is not None and isinstance(node, ast.expr) else "a module")
            return
        if value.kind is Kind.FUNCTION and node is not None and file is not None:
            self._enter(file, node)
        if value.cls is not None:
            for each in lineage(value.cls):
                self.objects.add(each.node)
                methods = [part for part in each.node.body if isinstance(part, ast.FunctionDef)]
                self.methods.update(part.name for part in methods)
                if value.kind is not Kind.CLASS:
                    for part in methods:
                        if part.name in _PROTOCOL:
                            self._enter(each.script, part)
                    self._pending += _replaced_protocol(each)
        if node is None or file is None or value.kind in _IMMUTABLE | {Kind.FUNCTION, Kind.CLASS}:
            return
        self.objects.add(node)
        for item in (item for _, items in value.items for item in items):
            self._hold_once(item)
        if value.kind in DATA:
            self._pending.extend((file, each, ()) for each in same_memory(value))
        elif value.cls is None:
            self.opaque.add(node)
            if isinstance(node, ast.Call):
                self._called(file, node)

    def _hold_once(self, value: Value) -> None:
        if value not in self._values:
            self._values.add(value)
            self._hold(value)

    def makes_batches(self, file: Script, node: ast.AST) -> bool:
        """Whether a place is part of the code that makes batches."""
        function = file.function(node)
        while function is not None and function not in self.code:
            function = file.function(function)
        return function is not None

    def may_make_batches(self, file: Script, node: ast.AST) -> bool:
        """Whether a place is part of the code that makes batches, or may be."""
        function = file.function(node)
        return function in self.possible_code or self.makes_batches(file, node)

    # -- what the code does

    def storing(self) -> Iterator[str]:
        """The functions that store something beyond themselves, whether a sample reads it or not."""
        for function, file in (self.code | self.possible_code).items():
            if isinstance(function, ast.FunctionDef) and datasets.leaves_something(file, function):
                yield function.name

    # -- whether something is one of them

    def includes(self, file: Script, expression: ast.expr) -> bool:
        """Whether an expression may be one of the objects that batches are made from."""
        if not isinstance(expression, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            return False
        values = file.values(expression)
        if any(self._is_object(value) for value in values):
            return True
        unknown = Kind.UNKNOWN in values.kinds
        match expression:
            case ast.Attribute(value=owner, attr=attr) if attr in PARTS:
                loaders = [value for value in file.values(owner) if value.kind is Kind.LOADER]
                known = [value for value in loaders if isinstance(value.node, ast.Call)]
                if known and len(known) == len(loaders):
                    return attr in self.words and any(value.node in self.objects for value in known)
                return attr in self.words and (unknown or bool(loaders))  # of a loader that is told by its use
            case ast.Attribute(attr=attr):
                return unknown and attr not in _OF_TENSORS and (attr in self.fields or self._is_called(file, attr))
            case ast.Name(id=name):
                found = {(each.scope.node, name) for each in file.definitions(expression)}
                return not found.isdisjoint(self.held | self.names.keys()) or (unknown and self._is_called(file, name))
            case _:
                return False

    def _is_called(self, file: Script, word: str) -> bool:
        return word in self.words or (file, word) in self.arguments

    def _is_object(self, value: Value) -> bool:
        """Whether a value is one of the objects, and none that is made for every batch."""
        if value.node not in self.objects or value.kind in (Kind.LOADER, Kind.BATCH):
            return False
        return value.script is None or not self.makes_batches(value.script, value.node)

    def extends(self, file: Script, target: ast.Name) -> bool:
        """Whether `x += …` changes one of them in place, or binds a name that they are read under."""
        added_to = file.reaching_definitions.before_additions(file.reaching_definitions.before_addition(target))
        definitions = added_to or [
            each for own in file.definitions(target) for each in own.scope.definitions.get(target.id, ()) or (own,)
        ]
        values = [value for each in definitions for value in file.inference.definition(each)]
        if all(value.kind in _IMMUTABLE for value in values):
            return False  # bound anew, which is found by its name
        scopes = {(each.scope.node, target.id) for each in definitions}
        if not scopes.isdisjoint(self.held | self.names.keys()) or any(self._is_object(value) for value in values):
            return True
        memory = [value for value in values if value.kind in _MEMORY]
        if any(value.script and self.touched(value.script, each) for value in memory for each in same_memory(value)):
            return True
        in_place = any(value.kind is Kind.UNKNOWN or value.kind in _MEMORY for value in values)
        statement = file.parent(target)
        lists = isinstance(statement, ast.AugAssign) and _is_list(statement.value)
        return in_place and any(
            self.touched(where, each)
            for where, each in bound_to(file, definitions)
            if not (
                lists and isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Slice)
            )  # a list of its own
        )

    def reads(self, file: Script, owner: ast.expr, attr: str) -> bool:
        """Whether batches may depend on this attribute of one of them."""
        values = file.values(owner)
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", None)
        hidden = any(value.node in self.opaque for value in values) or (
            name is not None and self._is_called(file, name) and Kind.UNKNOWN in values.kinds
        )
        memory = attr in ("data", "T") and any(value.cls is None for value in values)  # of a tensor
        return hidden or memory or attr in self.attributes or attr in self.methods or attr.startswith("__")

    def touched(self, file: Script, expression: ast.expr) -> bool:
        """Whether a change of this object is one of what batches are made from: `sampler.weights` of a sampler that
        reads its weights, or a view of them under another name."""
        pending = [(file, expression)]
        for where, each in pending:
            if self._is_touched(where, each):
                return True
            views = (value for value in where.values(each) if value.kind in _MEMORY)
            found = [(value.script, owner) for value in views if value.script for owner in same_memory(value)]
            found += [
                (where, part)
                for part in unfollowed(where, each)
                if isinstance(part, ast.Call) or where.values(part).kinds & _MEMORY
            ]
            pending.extend(place for place in found if place not in pending)
        return False

    def _is_touched(self, file: Script, expression: ast.expr) -> bool:
        """The same for an object as it is written here, or as what a name was bound to is written there."""
        places: list[tuple[Script, ast.expr, str | None]] = [(file, expression, None)]
        for where, each, attr in places:
            if self.includes(where, each):
                if attr is None or self.reads(where, each, attr):
                    return True
                continue
            found: list[tuple[Script, ast.expr, str | None]] = []
            match each:
                case ast.Attribute(value=inner, attr=name):
                    if self.is_own(where, inner, name):
                        return True
                    found = [(where, inner, name)]
                    if Kind.UNKNOWN in where.values(each).kinds:
                        found += [(other, value, attr) for other, value in held_as(where, inner, name)]
                case ast.Subscript(value=inner):
                    found = [(where, inner, attr)]
                case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in VIEWING:
                    found = [(where, inner, attr)]
                case ast.Call(func=ast.Name(id="vars"), args=[inner]):
                    found = [(where, inner, "__dict__")]
                case ast.Name() if Kind.UNKNOWN in where.values(each).kinds:
                    found = [(other, value, attr) for other, value in bound_to(where, where.definitions(each))]
            places.extend(place for place in found if place not in places)
        return False

    def is_own(self, file: Script, owner: ast.expr, attr: str) -> bool:
        """Whether an attribute of who knows what may be one that this code reads of its own object."""
        if any(value.how == "module" and (value.node, attr) in self.names for value in file.values(owner)):
            return True  # `data.GAIN = 2`
        functions = any(value.node in self.code for value in file.values(owner))  # `scale.factor = 2`
        if functions and (attr in self.attributes or attr.startswith("__")):
            return True
        if attr not in self.own or attr in _OF_TENSORS:
            return False
        return Kind.UNKNOWN in file.values(owner).kinds or (file.qualname(owner) or "").startswith("__main__.")


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


def _replaced_protocol(cls: ClassRef) -> Iterator[tuple[Script, ast.expr, ElementPath]]:
    """What is put in the place of a method that makes batches: `Rows.__getitem__ = cached`."""
    for file in cls.script.project.related(cls.script):
        for name in _PROTOCOL:
            for target in file.syntax_index.stored(name):
                statement = file.parent(target)
                if isinstance(statement, ast.Assign) and any(
                    value.cls is not None and value.cls.node is cls.node for value in file.values(target.value)
                ):
                    yield file, statement.value, _WHOLE


def _is_list(expression: ast.expr) -> bool:
    """`[0] * 3`, `[a, b]`, a list comprehension."""
    if isinstance(expression, ast.BinOp):
        return _is_list(expression.left) or _is_list(expression.right)
    return isinstance(expression, ast.List | ast.ListComp)
