"""The device that a prefetcher is told: where a loop moves its batches, in words that mean the same at its loader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from autoaccel.analysis import Script
from autoaccel.analysis.attributes import stored_as, stores
from autoaccel.analysis.classes import class_info, derived_classes, lineage
from autoaccel.dataflow.abstract_values import ClassRef
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import Function, last_name
from autoaccel.pytorch.batches import Target, device_of, is_repeatable
from autoaccel.pytorch.device_expressions import is_numbered, precedes
from autoaccel.pytorch.execution_order import runs_after
from autoaccel.pytorch.kept_iterators import BatchSource, KeptIterator
from autoaccel.pytorch.loader_loops import BatchTransfer, LoaderLoop
from autoaccel.pytorch.object_references import possible_classes
from autoaccel.pytorch.recursive_moves import parameter
from autoaccel_codemods.prefetch.batch_reads import BatchReads
from autoaccel_codemods.prefetch.moved_parts import asks_type


def device_for(batch: BatchReads, moves: list[BatchTransfer]) -> tuple[Target | None, str | None]:
    """The device for the loop's header, or why there is none."""
    script, loop = batch.script, batch.loop
    spelled: dict[str, Target] = {}
    for transfer in moves:
        file, target = transfer.script, device_of(transfer.script, transfer)
        passed = batch.passed(file, transfer.device) if isinstance(transfer.device, ast.Name) else None
        if passed is not None and is_repeatable(script, passed):
            file, target = script, Target(script.source(passed), True, tuple(_names(passed)))
        condition = _condition(batch, transfer)
        same = _mean_the_same(script, loop, file, target.names) and not _is_chosen_anew(loop, transfer)
        if target.text is None or not same:
            return None, "its device is only known inside the loop"
        device = transfer.device if passed is None else passed
        if (passed is not None or _happens_before(script, loop)) and not _is_set_when_made(script, device):
            return None, f"{target.text} may be another device, or none yet, where the iterator is made"
        if not all(_is_bound_at_loader(script, loop, each) for each in target.names):
            return None, f"{target.text} may be another device, or none yet, where the iterator is made"
        if not _surely(transfer):
            return None, f"it is not certain that {target.text} is a device"
        if condition is None:
            spelled[target.text] = target
        elif _is_plain(condition[1]) and all(
            _mean_the_same(script, loop, condition[0], (each,)) and _is_bound_at_loader(script, loop, each)
            for each in _names(condition[1])
        ):
            text = _choice(script, target, condition[0].source(condition[1]))
            spelled[text] = replace(target, text=text)
        else:
            return None, "its batches are moved only under a condition inside the loop"
    if len(spelled) > 1:
        return None, "its batches go to more than one device"
    return next(iter(spelled.values()), None), None


def _is_chosen_anew(loop: BatchSource, transfer: BatchTransfer) -> bool:
    """Whether a loop stores another device where it takes its own from: `args.device = "cpu"`, `cfg["device"] = …`."""
    script, device = transfer.script, transfer.device
    if not isinstance(device, ast.Attribute | ast.Subscript):
        return False
    text = script.source(device)
    extent = loop.node if isinstance(loop, LoaderLoop) else script.function(loop.node) or script.tree
    return any(
        isinstance(each.ctx, ast.Store) and script.source(each) == text for each in script.within(extent, type(device))
    )


def _happens_before(script: Script, loop: BatchSource) -> bool:
    """Whether anything happens between the iterator that a loop goes over, `bar = tqdm(loader)`, and the loop."""
    if not isinstance(loop, LoaderLoop) or not loop.through:
        return False
    block, bound = script.block(loop.node), [each.node for each in loop.through]
    first = next((index for index, each in enumerate(block) if each in bound), None)
    return first is None or any(each not in bound for each in block[first + 1 : block.index(loop.node)])


def _is_set_when_made(script: Script, device: ast.expr | None) -> bool:
    """Whether a device is no attribute that anything but a constructor stores."""
    attributes = [each for each in ast.walk(device) if isinstance(each, ast.Attribute)] if device is not None else []
    stored = (store for each in attributes for store in script.syntax_index.stored(each.attr))
    return all(getattr(script.function(each), "name", None) == "__init__" for each in stored)


def _is_bound_at_loader(script: Script, loop: BatchSource, name: ast.Name) -> bool:
    """Whether a name has the same value already where the loader is wrapped, if that is before the loop's header."""
    if isinstance(loop, KeptIterator):
        return all(_stays_from(script, loop, each, name) for each in loop.loaders)
    places = [loop.before or script.statement(each) for each in loop.loaders]
    return not loop.through or all(_is_bound_at(script, each, name) for each in places)


def _stays_from(script: Script, kept: KeptIterator, loader: ast.expr, name: ast.Name) -> bool:
    """Whether a name, and what is read of it, has its value where an iterator is made that is kept, and gets no other
    while it is."""
    place, make = script.statement(loader), script.function(loader)
    elsewhere = make is not script.function(kept.node)
    cls = _class_of_receiver(script, name, make) if elsewhere else None
    definitions = script.definitions(name)
    of_module = all(each.scope is script.module_scope for each in definitions)
    if cls is None and (not _is_bound_at(script, place, name) or (elsewhere and not of_module)):
        return False
    bound = [(script, each.node) for each in definitions] if elsewhere and of_module else []
    attribute = script.parent(name)
    if isinstance(attribute, ast.Subscript):
        return False  # items are replaced in more ways than are looked for
    if isinstance(attribute, ast.Attribute):
        stored = _plain_stores(script, attribute, cls)
        if stored is None or isinstance(script.parent(attribute), ast.Attribute | ast.Subscript):
            return False
        before = any(file is script and precedes(script, script.statement(each), place) for file, each in stored)
        if elsewhere and not before and (stored or cls is not None):
            return False
        bound += stored
    made = next(each for each in script.ancestors(loader) if isinstance(each, ast.Call))
    return not any(runs_after(*each, script, made) for each in bound)


def _class_of_receiver(script: Script, name: ast.Name, function: Function | None) -> ClassRef | None:
    """The class of whose method a name is the `self`, if a function is another method of it with the same word."""
    cls = script.parent(function) if function is not None else None
    for method in (script.function(name), function):
        if not isinstance(method, ast.FunctionDef) or script.parent(method) is not cls:
            return None
        bound = script.reaching_definitions.scopes[method].definitions.get(name.id, [])
        if [each.node for each in bound] != method.args.args[:1]:
            return None
    return script.class_ref(cls) if isinstance(cls, ast.ClassDef) else None


def _plain_stores(script: Script, attribute: ast.Attribute, cls: ClassRef | None) -> list[ScriptNode] | None:
    """Where an attribute is stored, of objects of a class or of any; None where it may be computed when it is read, or
    be changed in another way."""
    name, made = attribute.attr, (each.cls for each in script.values(attribute.value))
    classes = [cls] if cls is not None else [each for each in made if each is not None]
    files, nodes = script.project.related(script), {each.node for ref in classes for each in lineage(ref)}
    if any(_is_computed(each, name) for each in classes) or any(_may_change(each, name, nodes) for each in files):
        return None
    found = stores(cls, name) if cls is not None else (each for file in files for each in stored_as(file, name))
    receivers: list[ScriptNode] = []
    for each in found:
        if each.of_class:
            return None
        receivers.append((each.script, each.receiver or each.script.tree))
    return receivers


def _may_change(file: Script, name: str, classes: set[ast.ClassDef]) -> bool:
    """Whether a file deletes an attribute, or stores one by a computed name, in objects that may be of these classes,
    or of any where these are none."""
    if any(each.attr == name and isinstance(each.ctx, ast.Del) for each in file.find(ast.Attribute)):
        return True
    for call in file.syntax_index.calls_named("setattr", "__setattr__"):
        named = call.args[-2] if len(call.args) > 1 else None
        of = possible_classes(file, call.args[0]) if last_name(call.func) == "setattr" and call.args else None
        if not isinstance(named, ast.Constant) and (of is None or not classes or not of.isdisjoint(classes)):
            return True
    return False


def _is_computed(cls: ClassRef, attribute: str) -> bool:
    """Whether an attribute of an object may be a property or the like, of a class that derives from this one as
    well."""
    derived = derived_classes(cls)
    lines = (*lineage(cls), *derived)
    bound = (value for each in lines for value, _ in class_info(each).attributes.get(attribute, ()))
    return derived.missing is not None or any(isinstance(each, Definition) for each in bound)


def _is_bound_at(script: Script, place: ast.stmt, name: ast.Name) -> bool:
    definitions = script.definitions(name)
    scope = script.function(place)
    for each in definitions:
        if each.scope is script.module_scope and scope is not None:
            continue
        around = scope is not None and scope is not each.scope.node and script.inside(scope, each.scope.node)
        if around and each.how == "param" and len(each.scope.definitions[each.name]) == 1:
            continue  # of the function around, once and for all
        if each.scope.node is not (scope or script.tree):
            return False
        if each.how != "param" and (
            len(definitions) > 1 or each.node is place or not precedes(script, script.statement(each.node), place)
        ):
            return False
    return bool(definitions)


def _choice(script: Script, target: Target, test: str) -> str:
    """The device where `test` holds, else the CPU; a type alias may have made the very same choice already."""
    device = target.text or ""
    if target.test is not None and script.source(target.test) == test:
        return device
    return f"{f'({device})' if ' if ' in device else device} if {test} else {script.quote}cpu{script.quote}"


def _surely(transfer: BatchTransfer) -> bool:
    script, device = transfer.script, transfer.device
    if device is None or transfer.method == "cuda" or script.is_device(device):
        return True
    return is_numbered(script, device)


def _condition(batch: BatchReads, transfer: BatchTransfer) -> tuple[Script, ast.expr] | None:
    """The test, and its file, under which a move is made; the constant None where there is more than a single simple
    one."""
    walks = parameter(transfer.script, transfer) is not None  # its tests tell types apart
    calls = [] if walks else [(transfer.script, transfer.call)]
    found = [
        (file, test) for file, call in (*calls, *batch.returning_moved(transfer)) for test in _tests(batch, file, call)
    ]
    if not found:
        return None
    return found[0] if len(found) == 1 else (transfer.script, ast.Constant(None))


def _tests(batch: BatchReads, script: Script, call: ast.Call) -> Iterator[ast.expr]:
    """The tests under which a call is made, in its function or within the loop; the constant None for others."""
    child: ast.AST = call
    for ancestor in script.ancestors(call):
        if batch.is_around(script, ancestor):
            break
        match ancestor:
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test:
                negated = (child in ancestor.orelse) if isinstance(ancestor, ast.If) else child is ancestor.orelse
                if not (asks_type(test) or (isinstance(ancestor, ast.IfExp) and isinstance(test, ast.Call))):
                    yield ast.Constant(None) if negated else test
            case ast.Try() | ast.While() | ast.Match():
                yield ast.Constant(None)
        child = ancestor


def _is_plain(test: ast.expr) -> bool:
    match test:
        case ast.Name():
            return True
        case ast.Attribute(value=value):
            return _is_plain(value)
        case ast.UnaryOp(op=ast.Not(), operand=value):
            return _is_plain(value)
        case ast.Compare(left=value, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return _is_plain(value)
        case ast.Call(func=function, args=[], keywords=[]):
            return ast.unparse(function) in ("torch.cuda.is_available", "torch.cuda.device_count")
        case ast.Compare(left=ast.Call() as value, comparators=[ast.Constant(value=int())]):
            return _is_plain(value)
        case _:
            return False


def _names(expression: ast.expr) -> Iterator[ast.Name]:
    return (node for node in ast.walk(expression) if isinstance(node, ast.Name))


def _mean_the_same(script: Script, loop: BatchSource, file: Script, names: tuple[ast.Name, ...]) -> bool:
    """Whether these names of a file mean the same in the loop's header as where the batch is moved."""
    return all(
        _means_the_same(script, loop, file, name, definition) for name in names for definition in file.definitions(name)
    )


def _means_the_same(script: Script, loop: BatchSource, file: Script, name: ast.Name, definition: Definition) -> bool:
    if isinstance(loop, LoaderLoop) and script.inside(definition.node, loop.node):
        return False
    scope, function = script.function(loop.node), file.function(name)
    here = definition.scope is script.module_scope or function is scope
    if file is script and (here or script.inside(loop.node, definition.scope.node)):
        return (
            definition.scope is not script.module_scope
            or scope is None
            or name.id not in script.reaching_definitions.scopes[scope].definitions
        )
    # `self` of another method of the same class, or of one that derives from it
    outer, inner = script.enclosing_class(loop.node), file.enclosing_class(name)
    receivers = [each.args.args[0].arg for each in (scope, function) if each is not None and each.args.args]
    if outer is None or inner is None or receivers != [name.id, name.id]:
        return False
    above_outer, above_inner = lineage(script.class_ref(outer)), lineage(file.class_ref(inner))
    return inner in {each.node for each in above_outer} or outer in {each.node for each in above_inner}
