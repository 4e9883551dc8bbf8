"""Members that a program looks up by names which it computes, `getattr(models, args.arch)`, `models.__dict__[name]`;
and modules that it imports so, `import_module("models." + args.arch)`.

Such a member is one of all that a module has, or of those whose names are told. Names with two underscores around them,
which every module has, are not looked up like this.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from autoaccel.analysis import namespaces
from autoaccel.analysis.attribute_values import having, stored_values
from autoaccel.analysis.classes import lineage
from autoaccel.analysis.rebound_names import rebindings
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Kind, Value, Values, made, union
from autoaccel.dataflow.call_arguments import given_values, positional, unpacks
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models import library_members, library_values

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel.dataflow.definitions import Definition

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_UNCALLABLE = frozenset(
    {Kind.STRING, Kind.NUMBER, Kind.BOOL, Kind.NONE, Kind.SEQUENCE, Kind.MAPPING, Kind.DTYPE, Kind.DEVICE}
)
_EXTENDING = re.compile(r"setattr\(|__dict__|vars\(|\b(optim|models|datasets|lr_scheduler)\.\w+ *=[^=]")
_OTHER_MODULES = re.compile(r"\bsys\.modules\b|\b__path__\b|\bmeta_path\b|\bpath_hooks\b")
"""How a program gives modules names that their files do not have."""
_A_MODULE = Value(Kind.OBJECT, how="module")


def lookup(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The object and the computed name of a lookup; None for all other expressions."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, key], keywords=[]):
            pass
        case ast.Subscript(value=ast.Attribute(value=owner, attr="__dict__"), slice=key, ctx=ast.Load()):
            pass
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[owner]), slice=key, ctx=ast.Load()):
            pass
        case _:
            return None
    return None if isinstance(key, ast.Constant | ast.Slice | ast.Starred) else (owner, key)


def looked_up(script: Script, node: ast.expr) -> Values | None:
    """What a lookup may give; None for what is none."""
    found = lookup(node)
    return None if found is None else members(script, script.inference.possible(found[0]), found[1])


def members(script: Script, owners: Values, key: ast.expr) -> Values:
    """The members of some modules that a name may be meant for; `ANY` unless these are all."""
    texts = script.inference.possible(key)
    if not owners or not texts:
        return NOTHING  # as yet: it depends on itself
    names = _names_among(texts)
    if names is not None and len(names) == 1:
        owners = having(owners, *names)
    found = union(_members(script, owner, names) for owner in owners)
    return ANY if any(_is_unseen(value) for value in found.unordered()) else found


def _names_among(texts: Values) -> frozenset[str] | None:
    """The names that some values are; None where they may be any."""
    nodes = [value.node for value in texts.unordered()]
    names = [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return frozenset(names) if len(names) == len(nodes) else None


def _members(script: Script, owner: Value, names: frozenset[str] | None) -> Values:
    if owner.kind is Kind.OBJECT and owner.how == "module" and owner.script is not None:
        exported = owner.script.inference.exported
        return _all_members(owner.script) if names is None else union(map(exported, sorted(names)))
    if owner.kind is not Kind.EXTERNAL or owner.name is None or is_extended(script, owner.name):
        return ANY
    found = library_members.MEMBERS.get(owner.name, ()) if names is None else sorted(names)
    return union(library_values.named(canonical(f"{owner.name}.{name}")) for name in found) or ANY


# -- modules that are imported by computed names


def imported(script: Script, call: ast.Call) -> Values:
    """The modules that `importlib.import_module("models." + name)` may give: those of the project below the package
    with which the name surely begins. What is called by another name is not among the imports that are known."""
    start = _start_of_name(script, call)
    if start is None or "." not in start or last_name(call.func) != "import_module":
        return ANY
    if any(_OTHER_MODULES.search(text) for text in script.project.related_texts(script)):
        return ANY
    found = [each for each in script.project.related(script) if _is_called(script, each, start)]
    if len(found) > script.project.bounds.members:
        raise Incomplete("a module is chosen among more than are looked at")
    return union(made(Kind.OBJECT, each.tree, each, how="module") for each in found) or ANY


def _start_of_name(script: Script, call: ast.Call) -> str | None:
    """What the name of an imported module begins with, from its package on."""
    match call:
        case ast.Call(args=[name], keywords=[]):
            return _beginning(script, name)
        case (
            ast.Call(args=[name, package], keywords=[])
            | ast.Call(args=[name], keywords=[ast.keyword(arg="package", value=package)])
        ):
            inner = _beginning(script, name)
            if isinstance(package, ast.Constant) and isinstance(package.value, str) and inner is not None:
                return f"{package.value}{inner}" if inner[:1] == "." and inner[1:2] != "." else None
    return None


def _beginning(script: Script, text: ast.expr) -> str | None:
    """What a text begins with that is put together: `"models." + name`, `f"models.{name}"`."""
    match behind(script, text):
        case ast.Constant(value=str() as start) | ast.JoinedStr(values=[ast.Constant(value=str() as start), *_]):
            return start
        case ast.BinOp(left=left, op=ast.Add()):
            return _beginning(script, left)
        case ast.BinOp(left=ast.Constant(value=str() as template), op=ast.Mod()):
            return template.partition("%")[0]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as template), attr="format")):
            return template.partition("{")[0]
        case _:
            return None


def _is_called(script: Script, module: Script, start: str) -> bool:
    """Whether a file is what a script imports under a name that begins like this."""
    if module.path is None:
        return False
    parts = [*module.path.parent.parts, *([module.path.stem] if module.path.stem != "__init__" else [])]
    names = (".".join(parts[at:]) for at in range(len(parts)))
    found = (script.project.locate(script, name, 0) for name in names if name.startswith(start))
    return (module.path, ()) in found


@fixpoint(False, True)
def is_extended(script: Script, module: str) -> bool:
    """Whether a program may give a module of a library other members than it has:
    `models.__dict__[name] = own.__dict__[name]`."""
    try:
        if not any(_EXTENDING.search(text) for text in script.project.related_texts(script)):
            return False
        return any(_extends(other, module) for other in script.project.related(script))
    except Incomplete:
        return True


def _extends(script: Script, module: str) -> bool:
    """The same of one file."""
    stored = (each.value for each in script.find(ast.Attribute) if isinstance(each.ctx, ast.Store))
    given = (call.args[0] for call in script.syntax_index.calls_named("setattr") if call.args)
    tables = (owner for table, owner in namespaces.namespaces(script) if owner and namespaces.may_change(script, table))
    owners = (value for each in (*given, *tables) for value in script.inference.possible(each))
    return any(script.qualname(each) == module for each in stored) or any(each.name == module for each in owners)


def _is_unseen(value: Value) -> bool:
    """Whether it is not known what a member does: code out of sight may do anything."""
    return value.kind is Kind.UNKNOWN or (
        value.kind is Kind.EXTERNAL and not library_members.is_known(value.name or "")
    )


@fixpoint(NOTHING, ANY)
def _all_members(module: Script) -> Values:
    """All that a module of the project has, under whatever name; `ANY` where that is not seen."""
    names = namespaces.names(module)
    if names is None:
        return ANY
    if len(names) > module.project.bounds.members:
        raise Incomplete("a name is looked up among more than are looked at")
    found = union(file.inference.exported(name) for file, name in names)
    for name in module.project.names_rebound(module):
        if name not in module.module_scope.definitions:
            given = rebindings(module, name)
            found |= ANY if given.missing is not None else union(map(stored_values, given))
    files = {module, *(file for file, _ in names)}
    return found | {_A_MODULE} if any(each.path is None or each.path.stem == "__init__" for each in files) else found


# -- calls of what was looked up


def can_be_called_with(callee: Value, call: ast.Call) -> bool:
    """Whether a call of a member does not raise by itself: modules and texts are not callable, and what a function is
    given must fit its parameters."""
    match callee.kind:
        case Kind.OBJECT if callee.how == "module":
            return False
        case Kind.EXTERNAL if callee.name in library_members.TAKING_NOTHING:
            return unpacks(call) or not given_values(call)
        case Kind.EXTERNAL if callee.name == library_members.PARTIAL:
            return unpacks(call) or bool(call.args)
        case Kind.EXTERNAL:
            return not library_members.is_module(callee.name or "")
        case Kind.FUNCTION if isinstance(callee.node, _FUNCTIONS):
            return bool(callee.node.decorator_list) or _fits(callee.node, call, bound=bool(callee.path))
        case Kind.CLASS if callee.cls is not None:
            making = _initializer(callee.cls)
            return making is None or bool(making.decorator_list) or _fits(making, call, bound=True)
        case _:
            return callee.kind not in _UNCALLABLE


def _initializer(ref: ClassRef) -> ast.FunctionDef | None:
    """The `__init__` that surely takes what a class is called with; None where something else may."""
    for each in lineage(ref):
        own = [part for part in each.node.body if isinstance(part, ast.FunctionDef)]
        if each.node.keywords or each.node.decorator_list or any(part.name == "__new__" for part in own):
            return None
        if (making := [part for part in own if part.name == "__init__"]) or len(each.node.bases) > 1:
            return making[-1] if making else None
    return None


def _fits(function: _FUNCTIONS, call: ast.Call, *, bound: bool) -> bool:
    """Whether a function can be called like this, as far as the call shows."""
    arguments = function.args
    names = positional(function)[int(bound) :]
    named = [each.arg for each in call.keywords]
    if unpacks(call):
        return True
    if len(call.args) > len(names) and arguments.vararg is None:
        return False
    takes = {*names[len(call.args) :], *(each.arg for each in arguments.kwonlyargs)} - {
        each.arg for each in arguments.posonlyargs
    }
    if arguments.kwarg is None and not takes.issuperset(name for name in named if name is not None):
        return False
    needed = names[: len(names) - len(arguments.defaults)] if arguments.defaults else names
    if not set(needed[len(call.args) :]) <= set(named):
        return False
    defaults = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return all(default is not None or each.arg in named for each, default in defaults)


# -- functions that look up what they are asked for


@once
def of_parameter(script: Script, function: ast.AST) -> tuple[str, ast.expr, ast.Call | None] | None:
    """The parameter of which a function returns a member, the name that it computes, and the call of that member where
    it returns what this gives: `return getattr(module, self[name]["type"])(*args)`; None for all other functions."""
    if not isinstance(function, ast.FunctionDef) or not script.syntax_index.calls_named("getattr"):
        return None
    returns = script.in_scope(function, ast.Return)
    result = behind(script, returns[0].value) if len(returns) == 1 else None
    call = result if isinstance(result, ast.Call) and lookup(result) is None else None
    found = None if result is None else lookup(result if call is None else behind(script, call.func) or call.func)
    if found is None or not isinstance(found[0], ast.Name):
        return None
    (bound, *others) = script.definitions(found[0]) or (None,)
    if bound is None or others or bound.how != "param" or bound.path or bound.scope.node is not function:
        return None
    return bound.name, found[1], call


def behind(script: Script, expression: ast.expr | None) -> ast.expr | None:
    """What a name is bound to, where that is one expression."""
    if not isinstance(expression, ast.Name):
        return expression
    definitions = script.definitions(expression)
    plain = len(definitions) == 1 and definitions[0].how == "assign" and not definitions[0].path
    return definitions[0].value if plain else None


# -- what becomes of the results

_MODELS = frozenset({Kind.MODULE, Kind.LOSS_FUNCTION})
_HAVING = {
    **dict.fromkeys(("parameters", "named_parameters", "train", "eval"), _MODELS),
    **dict.fromkeys(("to", "cuda", "cpu"), _MODELS | {Kind.TENSOR, Kind.PARAMETER, Kind.BATCH}),
}
"""By attribute, the kinds that have it, of those that are told from an object of a class of the project."""


def narrowed(script: Script, definition: Definition, values: Values) -> Values:
    """What a name may have been given by a lookup among all that a module has, to go by the next lines: where
    `model.parameters()` surely comes next, all that has no parameters raises there."""
    kinds = values.kinds
    if len(kinds) < 2 or Kind.MODULE not in kinds or Kind.UNKNOWN in kinds:
        return values
    if not any(value.kind is Kind.MODULE and _is_from_lookup(value) for value in values.unordered()):
        return values
    for use in script.uses(definition):
        around = script.parent(use)
        having = _HAVING.get(around.attr) if isinstance(around, ast.Attribute) else None
        if having is not None and _surely_follows(script, definition.node, use):
            values = Values(value for value in values if value.kind in having or value.cls is not None)
    return values


def _is_from_lookup(value: Value) -> bool:
    call, file = value.node, value.script
    if not isinstance(call, ast.Call) or file is None:
        return False
    return lookup(behind(file, call.func) or call.func) is not None


def _surely_follows(script: Script, binding: ast.AST, use: ast.expr) -> bool:
    """Whether an expression is evaluated once a name was bound, unless the function ends before."""
    statement = script.statement(use)
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) or binding is statement:
        return False
    for node in script.ancestors(use):
        if node is statement:
            break
        if isinstance(node, ast.Lambda | ast.IfExp | ast.BoolOp | ast.comprehension | ast.GeneratorExp | ast.Compare):
            return False
    block = script.block(statement)
    above = [each for each in block if each is binding or script.inside(binding, each)]
    holding = above[0] if above else None
    if holding is None or isinstance(holding, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return False
    return block.index(holding) < block.index(statement)
