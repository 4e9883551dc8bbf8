"""Whether objects of a class may be elements of a container, `nn.ModuleList([Block(), Block()])`, whose calls do not
say what they call."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Final

from autoaccel.analysis.classes import derived_classes, lineage, methods, owner_name
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import positional
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_operations import STORING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef

_CONTAINERS: Final = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
_KEEPING: Final = STORING | {"add_module", "register_module", "setattr", "partial", "map"}

_GIVING_THEMSELVES: Final = frozenset(
    """to cuda cpu xpu to_empty train eval float double half bfloat16 type requires_grad_ apply share_memory""".split()
)
"""Methods of modules that give the module again: `Net().to(device)`."""


def calls_element(script: Script, call: ast.Call) -> bool:
    """Whether a call runs an element of a container, or a container that runs its elements: `self.layers[0](x)`."""
    return any(
        value.kind is Kind.MODULE and value.cls is None and (value.name is None or value.name in _CONTAINERS)
        for value in script.inference.possible(call.func)
    )


@fixpoint(False, True)
def may_be_contained(ref: ClassRef) -> bool:
    """Whether an object of a class, or of one that derives from it, is kept otherwise than by a name or an attribute of
    its own: `self.head = Head()`. The class may be handed on, and made by whoever gets it."""
    script, name = ref.script, ref.node.name
    files = script.project.files_naming(script, name, attribute=False)
    deriving = derived_classes(ref)
    if files.missing is not None or deriving.missing is not None:
        return True
    for other in files:
        for mention in other.syntax_index.mentions(name, *other.import_aliases((name,))):
            around = other.parent(mention)
            if isinstance(around, ast.ClassDef) or not isinstance(mention.ctx, ast.Load):
                continue
            if isinstance(around, ast.Call) and last_name(around.func) in ("super", "isinstance", "issubclass"):
                continue
            if isinstance(around, ast.Attribute) and (around.attr == "__init__" or _makes_nothing(ref, around.attr)):
                continue
            call = other.call_of(mention)
            if call is None or not _is_alone(other, call):
                return True
    return any(may_be_contained(each) for each in deriving)


def _makes_nothing(ref: ClassRef, name: str) -> bool:
    """Whether what a class has under a name makes no object of it: a value, `Center.points`, or a method that calls
    neither the class nor another method of it."""
    found = [*methods(ref, name)]
    if not found:
        return any(name in each.script.reaching_definitions.scopes[each.node].definitions for each in lineage(ref))
    for script, method in found:
        own = owner_name(script, method)
        for mention in script.within(method, ast.Name):
            read = script.parent(mention)
            if mention.id == own and (not isinstance(read, ast.Attribute) or script.call_of(read) is not None):
                return False
    return True


def _stays_alone(script: Script, call: ast.Call, given: ast.expr) -> bool:
    """Whether an object that a call is given goes into no container: a function of the project is followed, and what is
    not known may do anything."""
    name = script.qualname(call.func)
    if name is not None and not script.is_project_name(call.func):
        return name not in _CONTAINERS and last_name(call.func) not in _KEEPING
    if isinstance(call.func, ast.Name) and not script.definitions(call.func) and hasattr(builtins, call.func.id):
        return call.func.id not in _KEEPING
    callees = script.callees(call)
    return bool(callees) and all(_is_alone_in(other, each, script, call, given) for other, each in callees)


def _is_alone_in(other: Script, function: ast.FunctionDef, script: Script, call: ast.Call, given: ast.expr) -> bool:
    """The same in a function that a call enters, of the parameter that takes the object."""
    names = [each for each in positional(function) if script.argument(call, function, each, other) is given]
    names += [
        each.arg for each in function.args.kwonlyargs if script.argument(call, function, each.arg, other) is given
    ]
    scope = other.reaching_definitions.scopes.get(function)
    if len(names) != 1 or scope is None:
        return False
    bound = scope.definitions.get(names[0], ())
    return all(_is_alone(other, use) for each in bound for use in other.uses(each))


@fixpoint(True, False)
def _is_alone(script: Script, made: ast.expr) -> bool:
    """Whether an object goes into no container where an expression gives it."""
    parent = script.parent(made)
    match parent:
        case ast.Attribute(attr=method) if method in _GIVING_THEMSELVES:
            around = script.parent(parent)
            return isinstance(around, ast.Call) and around.func is parent and _is_alone(script, around)
        case ast.Attribute():
            return True
        case ast.Call(func=function) if function is made:
            return True
        case ast.keyword():
            call = script.parent(parent)
            return isinstance(call, ast.Call) and _stays_alone(script, call, made)
        case ast.Call():
            return _stays_alone(script, parent, made)
        case ast.Expr() | ast.Compare() | ast.FormattedValue():
            return True
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return _is_kept_alone(script, target)
        case ast.Tuple(elts=values):  # `G, D = Generator(), Discriminator()`
            match script.parent(parent):
                case ast.Assign(targets=[ast.Tuple(elts=targets)]) if len(targets) == len(values):
                    whole = not any(isinstance(each, ast.Starred) for each in (*targets, *values))
                    return whole and _is_kept_alone(script, targets[values.index(made)])
            return False
        case ast.Return():
            outer = script.function(parent)
            callers = script.callers(outer) if outer is not None else None
            if callers is None or callers.missing is not None:
                return False
            return all(_is_alone(other, call) for other, call in callers)
        case _:
            return False


def _is_kept_alone(script: Script, target: ast.expr) -> bool:
    """Whether what an attribute or a name is bound to goes into no container."""
    if isinstance(target, ast.Name):
        return all(_is_alone(script, use) for each in script.definitions(target) for use in script.uses(each))
    return isinstance(target, ast.Attribute)
