"""Vectorise binary cross-entropy.

On a CPU torch calls two logarithms of the C library for each element of `F.binary_cross_entropy`, one element after the
other; for pictures, that is half of the time that a step of a variational autoencoder takes. The runtime computes it by
torch's vectorised logarithms, two to three and a half times as fast. The last digits of the loss differ by rounding;
its gradients come from torch's own kernel, bit for bit. On other devices, and for few elements, it is torch's own
function.

Left alone:
- losses that nothing shows to be of many elements: what a discriminator or a classifier says of each sample. Shown they
  are by a shape (`x.view(-1, 784)`), by a target that is what the model was given, or in a function that sums up what
  it is given (`reduction="sum"`);
- programs that export, script, trace, quantize or count the operations of models, or intercept calls of torch;
- `F.binary_cross_entropy` and `nn.BCELoss` where something else takes their place.

Before:
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")

After:
    BCE = accel.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.pytorch import replaced_functions
from autoaccel.rewriting.rule import Rule, UnderDeterminism

RULE = Rule(
    code="AA306",
    name="binary-cross-entropy",
    tier=Tier.EQUIVALENT,
    needles=(b"binary_cross_entropy", b"BCELoss"),
    pattern="torch",
    references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy.html",),
    addresses=("compute",),
    under_determinism=UnderDeterminism.REPEATED,
    order=67,
)

_FUNCTION = "torch.nn.functional.binary_cross_entropy"
_MODULE = "torch.nn.BCELoss"
_MANY = 256
"""Elements of a sample from which it is no longer what a classifier says."""


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for call in replaced_functions.calls(script, _FUNCTION, _MODULE):
        is_function = script.qualname(call.func) == _FUNCTION
        losses = [call] if is_function else [*_losses(script, call)]
        if not any(_is_of_many(script, each) for each in losses):
            continue
        if (reason := replaced_functions.problem(script, (_FUNCTION, _MODULE))) is not None:
            yield RULE.skip(call, reason)
            continue
        name = "binary_cross_entropy" if is_function else "BCELoss"
        yield RULE.finding(
            call,
            f"`{script.source(call.func)}` computes one logarithm after the other on a CPU",
            Replace(call.func, Code(f"{script.accel}.{name}")),
            *script.import_runtime,
        )


def _losses(script: Script, made: ast.Call) -> Iterator[ast.Call]:
    """The calls of a loss function that is an object."""
    for call in script.find(ast.Call):
        values = script.values(call.func)
        if any(value.kind is Kind.LOSS_FUNCTION and value.node is made for value in values):
            yield call


def _is_summed(call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    match given.get("reduction"), given.get("size_average"):
        case (ast.Constant(value="sum"), _) | (_, ast.Constant(value=False)):
            return True
        case _:
            return False


def _is_of_many(script: Script, loss: ast.Call) -> bool:
    """Whether the text shows that a loss is of many numbers for each sample: by a shape, since a model is to give what
    it was given, or since a function sums up what it is given, as those of variational autoencoders do."""
    given = {keyword.arg: keyword.value for keyword in loss.keywords}
    operands = [*loss.args[:2], *(given[name] for name in ("input", "target") if name in given)]
    if len(operands) < 2:
        return False
    if any(_is_wide(call) for operand in operands for call in ast.walk(operand) if isinstance(call, ast.Call)):
        return True
    output, target = operands
    wanted = _root(target)
    if isinstance(function := script.function(loss), ast.FunctionDef) and _is_summed(loss):
        parameters = {each.arg for each in function.args.args}
        if {_root(output), wanted} <= parameters:
            return True
    return wanted is not None and any(
        any(_root(argument) == wanted for argument in call.args[:1]) for call in _made_by(script, output)
    )


def _is_wide(call: ast.Call) -> bool:
    """`x.view(-1, 784)`, `x.reshape(batch_size, 28 * 28)`."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in ("view", "reshape")):
        return False
    return any(
        isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value >= _MANY
        for argument in call.args
        for each in ast.walk(argument)
    ) or any(isinstance(argument, ast.BinOp) for argument in call.args)


def _root(expression: ast.expr) -> str | None:
    """`x` of `x.view(-1).float()`."""
    while True:
        match expression:
            case ast.Call(func=ast.Attribute(value=expression)) | ast.Attribute(value=expression):
                continue
            case ast.Name(id=name):
                return name
            case _:
                return None


def _made_by(script: Script, output: ast.expr) -> Iterator[ast.Call]:
    """The calls that give an output: itself, or those that its name is assigned from in its function."""
    if isinstance(output, ast.Call) and _root(output) is None:
        yield output
    name = _root(output)
    for assignment in script.in_scope(script.function(output) or script.tree, ast.Assign):
        targets = [each for target in assignment.targets for each in ast.walk(target)]
        if isinstance(assignment.value, ast.Call) and any(
            isinstance(each, ast.Name) and each.id == name for each in targets
        ):
            yield assignment.value
