"""Legacy tensor types as values: `torch.FloatTensor`, and the name that stands for it on either device.

`Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor` is how scripts chose a device before `torch.device`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.attributes import may_be_stored
from autoaccel.analysis.script import Script
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once, once_all
from autoaccel.edits import AddImport, Code, InsertAfter

_TYPE = re.compile(r"^torch\.(cuda\.)?(Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)?Tensor$")
_DEFAULTS = re.compile(r"\bset_default_(dtype|tensor_type|device)\b")
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "long", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", None: "float32",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TensorType:
    """A legacy tensor type: the qualified dtype of what it makes, and whether that lives on the GPU."""

    dtype: str
    cuda: bool


def tensor_type(script: Script, expression: ast.expr) -> TensorType | None:
    """The type that an expression names, None where it names none or that is not known.

    `torch.Tensor` counts as float32 unless the project changes the default.
    """
    found = _TYPE.match(script.qualname(expression) or "")
    if found is None or (found[2] is None and (found[1] or changes_default(script))):
        return None
    return TensorType(f"torch.{_DTYPES[found[2]]}", bool(found[1]))


@once
def changes_default(script: Script) -> bool:
    """Whether the project mentions the default dtype or device: `torch.ones(n)` may not be float32 on the CPU then."""
    return any(map(_DEFAULTS.search, script.project.related_texts(script)))


@dataclass(frozen=True, slots=True, eq=False)
class ChosenType:
    """`A if test else B` for the same tensor type on the GPU and on the CPU; `device` says the same choice.

    `naming` is what a finding that uses `device` must bring along: the statement that gives the choice a name.
    """

    dtype: str
    device: Code
    on_cpu: ast.expr
    test: ast.expr
    naming: tuple[InsertAfter | AddImport, ...] = ()


@once
def chosen_type(script: Script, name: ast.expr) -> ChosenType | None:
    """The choice that a name stands for, if the test may be evaluated again where the name is used; None otherwise."""
    if not isinstance(name, ast.Name):
        return None
    definitions = script.definitions(name)
    choice = _choice(script, definitions)
    if choice is None:
        return None
    test, body, orelse = choice
    on_gpu, on_cpu = tensor_type(script, body), tensor_type(script, orelse)
    if on_gpu is None or on_cpu is None or not on_gpu.cuda or on_cpu.cuda or on_gpu.dtype != on_cpu.dtype:
        return None
    if not _repeatable(script, test, name):
        return None
    anchor = _last_choice(script, test, definitions[0], _statement(script, definitions))
    same = _same_choice(script, test, anchor, definitions[0], name)
    if same is not None:
        return ChosenType(on_gpu.dtype, same, orelse, test)
    device, naming = _named_choice(script, test, definitions[0])
    return ChosenType(on_gpu.dtype, device, orelse, test, naming)


def _named_choice(
    script: Script, test: ast.expr, definition: Definition
) -> tuple[Code, tuple[InsertAfter | AddImport, ...]]:
    """`device`, bound below the first type that is chosen by this test; the choice itself where that name is taken."""
    quote = script.quote
    choice = f"{quote}cuda{quote} if {{0}} else {quote}cpu{quote}"
    if "device" in script.used_names:
        return Code(choice, (test,)), ()
    first = min(_chosen_by(script, test, definition), key=lambda statement: statement.lineno)
    last = _last_choice(script, test, definition, first)
    outer = script.parent(last)
    if isinstance(last, ast.If) and isinstance(outer, ast.If) and outer.orelse == [last]:  # nothing goes after an elif
        return Code(choice, (test,)), ()
    function, imports = script.spell("torch.device")
    tested = script.source(test).replace("{", "{{").replace("}", "}}")
    statement = Code(f"device = {function}({choice.format(tested)})")
    return Code("device"), (InsertAfter(last, statement), *imports)


@once_all
def _chosen_by(script: Script, test: ast.expr, definition: Definition) -> Iterator[ast.stmt]:
    """The statements beside a definition that choose a type by the same test."""
    own = _statement(script, (definition,))
    for definitions in definition.scope.definitions.values():
        choice = _choice(script, tuple(definitions))
        if choice is None or ast.dump(choice[0]) != ast.dump(test):
            continue
        statement = _statement(script, tuple(definitions))
        on_gpu = tensor_type(script, choice[1])
        if on_gpu is not None and on_gpu.cuda and script.block(statement) is script.block(own):
            yield statement
    yield own


def _last_choice(script: Script, test: ast.expr, definition: Definition, first: ast.stmt) -> ast.stmt:
    """The last of the choices by the same test that follow one another from `first` on."""
    choices = {*_chosen_by(script, test, definition)}
    block = script.block(first)
    last = first
    for statement in block[block.index(first) + 1 :]:
        if statement not in choices:
            break
        last = statement
    return last


def _statement(script: Script, definitions: tuple[Definition, ...]) -> ast.stmt:
    """The assignment that binds a chosen type, or the `if` whose branches do."""
    node = definitions[0].node
    assert isinstance(node, ast.stmt)
    parent = script.parent(node)
    value = definitions[0].value
    return parent if isinstance(parent, ast.If) and not isinstance(value, ast.IfExp) else node


def _choice(script: Script, definitions: tuple[Definition, ...]) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """Test and both values of `T = a if test else b`, or of an `if` statement that binds T in either branch."""
    values = [each.value for each in definitions if each.how == "assign" and not each.path and each.value is not None]
    if len(values) != len(definitions):
        return None
    match values:
        case [ast.IfExp(test=test, body=body, orelse=orelse)]:
            return test, body, orelse
        case [_, _]:
            pass
        case _:
            return None
    branches = script.parent(definitions[0].node)
    if not isinstance(branches, ast.If):
        return None
    by_block = {
        name: value
        for name, block in (("body", branches.body), ("orelse", branches.orelse))
        for each, value in zip(definitions, values, strict=True)
        if each.node in block
    }
    return (branches.test, by_block["body"], by_block["orelse"]) if len(by_block) == 2 else None


def _repeatable(script: Script, test: ast.expr, use: ast.AST) -> bool:
    """Whether a test has the same answer at `use`: made of names bound once, their attributes, and `is_available()`."""
    match test:
        case ast.Constant():
            return True
        case ast.Name():
            return _bound_once(script, test, use)
        case ast.Attribute(value=value, attr=attribute):
            return (
                not may_be_stored(script, attribute)
                and script.qualname(test) is None
                and _repeatable(script, value, use)
            )
        case ast.Call(func=function, args=[], keywords=[]):
            return script.qualname(function) == "torch.cuda.is_available" and _visible(script, function, use)
        case ast.BoolOp(values=values):
            return all(_repeatable(script, value, use) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _repeatable(script, operand, use)
        case _:
            return False


def _bound_once(script: Script, name: ast.Name, use: ast.AST) -> bool:
    definitions = script.definitions(name)
    if len(definitions) != 1 or len(definitions[0].scope.definitions.get(name.id, ())) != 1:
        return False
    return _visible(script, name, use)


def _visible(script: Script, expression: ast.expr, use: ast.AST) -> bool:
    """Whether the root name of an expression means the same at `use`: no function between the two binds it anew."""
    root = expression
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    bound_in = {each.scope.node for each in script.definitions(root)}
    if len(bound_in) != 1:
        return False
    wanted = bound_in.pop()
    for ancestor in script.ancestors(use):
        scope = script.reaching_definitions.scopes.get(ancestor)
        if scope is None:
            continue
        if ancestor is wanted:
            return True
        if root.id in scope.definitions:
            return False
    return False


def _same_choice(script: Script, test: ast.expr, anchor: ast.stmt, before: Definition, use: ast.Name) -> Code | None:
    """The name of a `torch.device("cuda" if test else "cpu")` that the script has made by then with the same test."""
    wanted = ast.dump(_meaning(script, test))
    for definitions in before.scope.definitions.values():
        match [each.node for each in definitions]:
            case [
                ast.Assign(
                    targets=[ast.Name() as target],
                    value=ast.Call(
                        func=function,
                        args=[ast.IfExp(body=ast.Constant(value="cuda"), orelse=ast.Constant(value="cpu"), test=other)],
                        keywords=[],
                    ) as made,
                )
            ] if (
                script.qualname(function) == "torch.device"
                and _repeatable(script, other, use)
                and ast.dump(_meaning(script, other)) == wanted
            ):
                if _made_by_then(script, made, anchor, use) and _visible(script, target, use):
                    return Code(target.id)
    return None


def _meaning(script: Script, test: ast.expr) -> ast.expr:
    """A test without the names that it was given: `cuda = True if torch.cuda.is_available() else False`."""
    for _ in range(4):
        match test:
            case ast.IfExp(test=inner, body=ast.Constant(value=True), orelse=ast.Constant(value=False)):
                test = inner
            case ast.Name():
                definitions = script.definitions(test)
                if len(definitions) != 1 or definitions[0].value is None or definitions[0].how != "assign":
                    return test
                if definitions[0].path:
                    return test
                test = definitions[0].value
            case _:
                return test
    return test


def _made_by_then(script: Script, made: ast.expr, before: ast.stmt, use: ast.Name) -> bool:
    """Whether a statement has run wherever `use` is reached: it stands before the one that `use` leans on, or right
    below."""
    statement = script.statement(made)
    block = script.block(before)
    if script.block(statement) is not block:
        return False
    if block.index(statement) <= block.index(before) + 1:
        return True
    return statement.lineno < use.lineno and script.function(use) is script.function(statement)
