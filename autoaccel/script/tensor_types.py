"""Legacy tensor types as values: `torch.FloatTensor`, and the name that stands for it on either device.

`Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor` is how scripts chose a device before `torch.device`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.rewriting.finding import Code

if TYPE_CHECKING:
    from autoaccel.script.flow import Definition
    from autoaccel.script.script import Script

_TYPE = re.compile(r"^torch\.(cuda\.)?(Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)?Tensor$")
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
    """The type that an expression names; `torch.Tensor` counts as float32 unless the script changes the default."""
    found = _TYPE.match(script.qualname(expression) or "")
    if found is None or (found[2] is None and (found[1] or changes_default(script))):
        return None
    return TensorType(f"torch.{_DTYPES[found[2]]}", bool(found[1]))


def changes_default(script: Script) -> bool:
    """Whether the file changes the default dtype or device: `torch.ones(n)` may not be float32 on the CPU then."""
    names = ("torch.set_default_dtype", "torch.set_default_tensor_type", "torch.set_default_device")
    return any(True for _ in script.calls(*names))


@dataclass(frozen=True, slots=True, eq=False)
class ChosenType:
    """`A if test else B` for the same tensor type on the GPU and on the CPU; `device` says the same choice."""

    dtype: str
    device: Code
    on_cpu: ast.expr


def chosen_type(script: Script, name: ast.expr) -> ChosenType | None:
    """The choice that a name stands for, if the test may be evaluated again where the name is used."""
    if not isinstance(name, ast.Name):
        return None
    definitions = script.definitions(name)
    if len(definitions) != 1 or not isinstance(definitions[0].value, ast.IfExp) or definitions[0].path:
        return None
    choice = definitions[0].value
    on_gpu, on_cpu = tensor_type(script, choice.body), tensor_type(script, choice.orelse)
    if on_gpu is None or on_cpu is None or not on_gpu.cuda or on_cpu.cuda or on_gpu.dtype != on_cpu.dtype:
        return None
    if not _repeatable(script, choice.test, name):
        return None
    device = _same_choice(script, choice.test, definitions[0], name)
    if device is None:
        device = Code(f"{script.quote}cuda{script.quote} if {{0}} else {script.quote}cpu{script.quote}", (choice.test,))
    return ChosenType(on_gpu.dtype, device, choice.orelse)


def _repeatable(script: Script, test: ast.expr, use: ast.AST) -> bool:
    """Whether a test has the same answer at `use`: made of names bound once, their attributes, and `is_available()`."""
    match test:
        case ast.Constant():
            return True
        case ast.Name():
            return _bound_once(script, test, use)
        case ast.Attribute(value=value, attr=attribute):
            written = any(
                each.attr == attribute and isinstance(each.ctx, ast.Store) for each in script.find(ast.Attribute)
            )
            return not written and script.qualname(test) is None and _repeatable(script, value, use)
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
    home = {each.scope.node for each in script.definitions(root)}
    if len(home) != 1:
        return False
    wanted = home.pop()
    for ancestor in script.ancestors(use):
        scope = script.flow.scopes.get(ancestor)
        if scope is None:
            continue
        if ancestor is wanted:
            return True
        if root.id in scope.definitions:
            return False
    return False


def _same_choice(script: Script, test: ast.expr, before: Definition, use: ast.Name) -> Code | None:
    """The name of a `torch.device("cuda" if test else "cpu")` that the script has made with the very same test."""
    for definitions in before.scope.definitions.values():
        if len(definitions) != 1 or definitions[0].path:
            continue
        match definitions[0].value:
            case ast.Call(
                func=function,
                args=[ast.IfExp(body=ast.Constant(value="cuda"), orelse=ast.Constant(value="cpu"), test=other)],
                keywords=[],
            ) if script.qualname(function) == "torch.device" and ast.dump(other) == ast.dump(test):
                node = definitions[0].node
                target = node.targets[0] if isinstance(node, ast.Assign) else None
                later = getattr(node, "lineno", 0) > use.lineno and script.function(use) is script.function(node)
                if isinstance(target, ast.Name) and not later and _visible(script, target, use):
                    return Code(target.id)
    return None
