"""Low precision through what keeps a value: names, attributes, containers, wherever these are read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis import name_lookups
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import lineage
from autoaccel.analysis.name_lookups import may_be_named
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value, Values
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.autocast_operations import FLOAT32, LOWER
from autoaccel.library_models.in_place_operations import keeps_state
from autoaccel.library_models.tensor_operations import ENDS, KEEPING
from autoaccel.pytorch import implicit_calls
from autoaccel.pytorch.kept_state import is_layer_weight
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.tensor_content import Content
from autoaccel_codemods.autocast.unsafe_operations import written_by_index

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel_codemods.autocast.low_precision_flow import Low, Search, ValuePart

_RUNNING = frozenset(
    """builtins.map builtins.filter functools.partial functools.reduce itertools.starmap torch.func.functional_call
    torch.utils.checkpoint.checkpoint torch.utils.checkpoint.checkpoint_sequential
    torch.nn.parallel.data_parallel""".split()
)
_OF_OTHER_PRECISION = frozenset[str]().union(*LOWER.values(), *FLOAT32.values())
CONTAINERS = frozenset({Kind.SEQUENCE, Kind.MAPPING})
_TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER})


def bind(search: Search, low: Low, target: ast.expr) -> None:
    """What is low is assigned to a target."""
    script = low.script
    match target:
        case ast.Name():
            for definition in script.definitions(target):
                _uses(search, low, definition)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for index, element in enumerate(elements):
                if isinstance(element, ast.Starred):
                    bind(search, low._replace(part=None), element.value)
                elif low.part is None or low.part[0] != "at" or low.part[1] == index:
                    bind(search, low._replace(part=None), element)
        case ast.Attribute(value=owner, attr="data") if _is_tensor(script, owner):
            search.sink(low, skip_reasons.MADE_A_PARAMETER, early=True)
        case ast.Attribute(value=owner, attr=name):
            _attribute_set(search, low, owner, name)
        case ast.Subscript(value=container, slice=index):
            put(search, low, container, index)


def _is_tensor(script: Script, owner: ast.expr) -> bool:
    kinds = script.values(owner).kinds
    return bool(kinds & _TENSORS) or (isinstance(owner, ast.Attribute) and is_layer_weight(script, owner))


def _uses(search: Search, low: Low, definition: Definition) -> None:
    script = low.script
    if name_lookups.hands_on_names(script, definition.scope.node):
        search.sink(low, skip_reasons.HANDED_BY_LOCALS)
    for use in script.uses(definition):
        if _leaves(low, use):
            _kept(search, low, script, use, low.part)
        else:
            _note_outliving(search, low, definition, use)
            search.mark(script, use, low.part, low, auto=search.at(script, use, low), free=low.free)
    if definition.how == "global":
        targets = [each.target for each in script.find(ast.AugAssign) if isinstance(each.target, ast.Name)]
        search.kept += ((low, script, each) for each in targets if definition in script.definitions(each))
    for added in script.reaching_definitions.additions(definition):
        for each in script.definitions(added):
            if each is not definition:
                _uses_once(search, low, each)
    if isinstance(definition.scope.node, ast.Module):
        _imported(search, low, definition.name)


def _note_outliving(search: Search, low: Low, definition: Definition, use: ast.expr) -> None:
    """What a function binds or fills for those around it is there in the next call as well, and what a loop over steps
    fills in its next turn."""
    script = low.script
    function = script.function(low.node)
    outside = function is not None and (definition.how == "global" or definition.scope.node is not function)
    turns = search.loops.intersection(script.loops(use)) if script is search.script else ()
    if outside or any(script.inside(low.node, each) and not script.inside(definition.node, each) for each in turns):
        search.kept.append((low, script, use))


def _uses_once(search: Search, low: Low, definition: Definition) -> None:
    """`total += …` of what is low already."""
    script = low.script
    for use in script.uses(definition):
        search.mark(script, use, None, low, auto=search.at(script, use, low), free=low.free or _leaves(low, use))


def _imported(search: Search, low: Low, name: str) -> None:
    """Files that import a name of a module read what it holds."""
    project = low.script.project
    for other in project.related(low.script):
        for each in other.reaching_definitions.imports if other is not low.script else ():
            if project.imported(other, each.target or "", each.level) == (low.script, name):
                for use in other.uses(each):
                    _kept(search, low, other, use, low.part)


def _attribute_set(search: Search, low: Low, owner: ast.expr, name: str) -> None:
    if implicit_calls.sets(low.script, owner, name):
        search.problem(low, skip_reasons.SETTER)
    values = low.script.values(owner)
    of_tensors = bool(values) and values.kinds <= _TENSORS
    attribute_holds(search, low, [value.cls for value in values], name, of_tensors=of_tensors)


def attribute_holds(
    search: Search, low: Low, classes: list[ClassRef | None], name: str, *, of_tensors: bool = False
) -> None:
    """An attribute of one of some classes holds it: all reads of that name, of the same class where both are known; an
    attribute `of_tensors`, `parameter.data`, is none of an object of another kind."""
    for other in low.script.project.related(low.script):
        # What is read, of what, which part; and whether the owner surely is no object of a class that is not known:
        # `x.data` is a tensor's
        reads: list[tuple[ast.expr, ast.expr, ValuePart, bool]] = [
            (each, each.value, low.part, name in KEEPING)
            for each in other.find(ast.Attribute)
            if each.attr == name and isinstance(each.ctx, ast.Load)
            if other.qualname(each) is None or other.is_project_name(each)
        ]
        for call in other.syntax_index.calls_named("getattr", "vars"):
            if call.args and (len(call.args) < 2 or may_be_named(other, call.args[1], name)):
                reads.append((call, call.args[0], None, True))
        for read, owner, part, known in reads:
            owners = other.values(owner)
            if of_tensors and owners and all(_is_no_tensor(value) for value in owners):
                continue
            if _may_be_of(classes, owners, known=known):
                _kept(search, low, other, read, part)
        for target in other.syntax_index.stored(name):
            if isinstance(other.parent(target), ast.AugAssign) and _may_be_of(classes, other.values(target.value)):
                search.kept.append((low, other, target))


def _may_be_of(classes: list[ClassRef | None], owners: Values, *, known: bool = False) -> bool:
    """Whether one of some objects may be of one of some classes; one of no class is `known` to be none."""
    pairs = ((one, value.cls) for value in owners for one in classes)
    return not all(one is not None and (known if each is None else not _related(one, each)) for one, each in pairs)


def _is_no_tensor(value: Value) -> bool:
    return value.cls is not None and value.kind not in _TENSORS | {Kind.UNKNOWN, Kind.EXTERNAL, Kind.BATCH}


def _kept(search: Search, low: Low, script: Script, read: ast.expr, part: ValuePart) -> None:
    """What outlives a call is read: in the region, and by whoever calls the function outside of it."""
    search.kept.append((low, script, read))
    search.mark(script, read, part, low, auto=search.in_region(script, read), free=True)
    if read in search.reached and read not in search.region and _called_outside(search, script, read):
        if not _is_computed_anew(script, read):
            search.mark(script, read, part, low, auto=False, free=True)


def _is_computed_anew(script: Script, read: ast.expr) -> bool:
    """Whether a read finds what a model has computed in the same call of the function, outside of regions in float32:
    `self.fake = self.generator(x)` is a statement of its own above it, and nothing in between may store another one."""
    function = script.function(read)
    if not isinstance(read, ast.Attribute) or not isinstance(function, ast.FunctionDef):
        return False
    found = False
    for statement in function.body:
        stores = any(
            each.attr == read.attr and not isinstance(each.ctx, ast.Load)
            for each in script.within(statement, ast.Attribute)
        )
        calls = script.within(statement, ast.Call)
        if stores or not all(_stores_nothing(script, call) for call in calls):
            found = False
        if script.inside(read, statement):
            return found
        match statement:
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Call(func=model)) if stores:
                found = script.kind(model) is Kind.MODULE and ast.unparse(target) == ast.unparse(read)
    return False


def _stores_nothing(script: Script, call: ast.Call) -> bool:
    return script.kind(call.func) is Kind.MODULE or (script.qualname(call.func) or "").startswith("torch.")


def _called_outside(search: Search, script: Script, node: ast.AST) -> bool:
    function = script.function(node)
    if function is None:
        return False
    callers = script.callers(function)
    outside = (call for _, call in callers if call not in search.region and call not in search.reached)
    if any(outside):
        return True
    if getattr(function, "name", "") not in ("forward", "__call__"):
        return callers.missing is not None
    return not _is_of_this_call(script, function, node) and any(
        call not in search.region and call not in search.reached and _may_run_models(other, call)
        for other in script.project.related(script)
        for call in other.find(ast.Call)
    )


def _may_run_models(script: Script, call: ast.Call) -> bool:
    """Whether a call may run models that are not named: those of a container, of a table, or that it is handed."""
    values = script.values(call.func)
    if any(value.kind is Kind.MODULE and value.cls is None for value in values):
        return True
    name = called_name(script, call.func)
    if name is None:
        if script.callees(call):
            return False
        if Kind.UNKNOWN in values.kinds and not isinstance(call.func, ast.Attribute):
            return True
    elif name not in _RUNNING and (name.startswith(("torch.", "builtins.")) or not keeps_state(name)):
        return False
    return any(Kind.MODULE in script.values(each).kinds for each in given_values(call))


def _is_of_this_call(script: Script, function: ast.AST, read: ast.AST) -> bool:
    """Whether a forward pass reads only what this very call has stored: a name of its own, or an attribute that it
    always stores before."""
    if not isinstance(read, ast.Attribute) or script.kind(read) is Kind.MODULE:
        return not isinstance(read, ast.Call)
    before = []
    for statement in function.body:  # type: ignore[attr-defined]
        if script.inside(read, statement):
            break
        before.append(statement)
    targets = [target for each in before if isinstance(each, ast.Assign) for target in each.targets]
    return any(ast.unparse(each) == ast.unparse(read) for each in targets)


def put(search: Search, low: Low, container: ast.expr, index: ast.expr) -> None:
    """What is low becomes an element of a container, or is written into a tensor."""
    script = low.script
    kind = script.kind(container)
    if kind is Kind.ARRAY:
        search.sink(low, skip_reasons.HANDED_TO_NUMPY)
        return
    if kind not in CONTAINERS and written_by_index(script, index) and not is_container(script, container):
        if has_same_root(low.node, container):
            return
        search.deferred.append((low, container, skip_reasons.WRITTEN_BY_INDEX))
    elif kind not in (Kind.TENSOR, Kind.BATCH, Kind.PARAMETER):
        step = constant_key(index)
        part: ValuePart = ("at", step) if isinstance(step, str) else None
        if not store(search, low._replace(part=part), container, set()):
            search.sink(low, skip_reasons.IN_CONTAINER)


def store(search: Search, low: Low, container: ast.expr, seen: set[Definition]) -> bool:
    """What is kept in a container is met wherever it is read, under whichever name; False if that is not seen."""
    script = low.script
    match container:
        case ast.Name():
            definitions = script.definitions(container)
            found = bool(definitions)
            for definition in definitions:
                for each in definition.scope.definitions.get(definition.name, (definition,)):
                    if each in seen:
                        continue
                    seen.add(each)
                    stays = each.how == "param" and each.value is not None  # a default is the same in every call
                    for use in script.uses(each):
                        if stays or _leaves(low, use):
                            _kept(search, low, script, use, low.part)
                        else:
                            _note_outliving(search, low, each, use)
                            search.mark(script, use, low.part, low, auto=search.at(script, use, low), free=True)
                    if isinstance(each.scope.node, ast.Module):
                        _imported(search, low, each.name)
                    found &= _owner_of(search, low, each, seen)
            return found
        case ast.Attribute(attr="__dict__"):
            return False
        case ast.Attribute(value=owner, attr=name):
            _attribute_set(search, low, owner, name)
            return True
        case ast.Subscript(value=inner, slice=index):
            step = constant_key(index)
            return store(search, low._replace(part=("at", step) if isinstance(step, str) else None), inner, seen)
        case _:
            return False


def _owner_of(search: Search, low: Low, definition: Definition, seen: set[Definition]) -> bool:
    """The container that a binding makes another name of; one that is handed in is somebody else's."""
    if definition.how == "assign" and isinstance(definition.value, ast.Name | ast.Attribute | ast.Subscript):
        return store(search, low, definition.value, seen)
    return definition.how in ("assign", "aug", "for", "global", "walrus")


def has_same_root(one: ast.expr, other: ast.expr) -> bool:
    """Whether two tensors are parts of the same one, or follow from it alone and in its precision: `x.min()` and `x`,
    not `x.softmax(1)`, which autocast computes in float32."""
    return _root(one) is not None and _root(one) == _root(other)


def _root(node: ast.expr) -> str | None:
    """The name of a chain of methods and parts: `features` of `features.gather(1, best)`."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name not in ENDS | _OF_OTHER_PRECISION:
                node = value
            case ast.Subscript(value=value) | ast.Attribute(value=value):
                node = value
            case _:
                return None


def constant_key(index: ast.expr) -> int | str | None:
    """The part that a subscript or a key surely names."""
    match index:
        case ast.Constant(value=int() | str() as value):
            return value
        case _:
            return None


def is_container(script: Script, node: ast.expr) -> bool:
    """Whether something surely is a list, dict or set."""
    if script.kind(node) in CONTAINERS:
        return True
    if content(script, node) is Content.STRUCTURE:
        return True
    if isinstance(node, ast.Name):
        made = [each.value for each in script.definitions(node)]
        return bool(made) and all(
            isinstance(each, ast.Call)
            and (
                (script.qualname(each.func) or "").startswith("collections.")
                or (isinstance(each.func, ast.Name) and each.func.id in ("dict", "list", "set"))
            )
            for each in made
        )
    return False


def _leaves(low: Low, use: ast.expr) -> bool:
    """Whether a function reads what another one, or the module, has bound: it does so whoever calls it."""
    return low.script.function(use) is not low.script.function(low.node)


def _related(first: ClassRef, second: ClassRef) -> bool:
    """Whether two classes share instances: one derives from the other."""
    return any(
        above.node is each.node for each, other in ((first, second), (second, first)) for above in lineage(other)
    )
