"""Create tensors on their device.

`torch.zeros(n).to(device)` fills memory of the host, copies it to the device and makes the host wait for the copy.
With `device=` one kernel fills the tensor where it is used and the host goes on: one stall less at every call, which
counts in a `forward` and in a training step.

Random factories draw from the device's generator instead of the CPU's, so their findings are `equivalent`; `linspace`
and its like may differ in the last bit: `numerics`.

Left alone:
- random factories and the like of `linspace` that run once, or while an object is made: one copy less is not noticed,
  another split of the data is;
- `requires_grad=True` in the factory: the moved tensor is not a leaf, the created one would be;
- calls with a `generator=` of the CPU, and pinned buffers, which are there to be copied from;
- a cast on the way that would round differently if it came first, and one to whole numbers of what may not fit them,
  such as infinity: what these become is up to the device;
- `.cuda(gpu)` where `gpu` may be `None`: to `.cuda` that is the current GPU, to a factory the CPU;
- arithmetic between creation and move, and `linspace` of whole numbers, which the device may round differently;
- legacy types of computed data, which are copied either way;
- programs that make tensors without data, on the device "meta": moving one is an error, which may be handled;
- factories and moves that the script, or a file around it, replaces by its own.

Before:
    h0 = torch.zeros(layers, x.size(0), hidden).to(device)

After:
    h0 = torch.zeros(layers, x.size(0), hidden, device=device)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import AddArguments, Code, Edit, Finding, RemoveStatement, Replace, Skipped, Tier
from autoaccel.pytorch.device_moves import DeviceMove, device_move, may_move_creation, moved_later
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.meta_device import makes_tensors_without_data
from autoaccel.pytorch.monkeypatching import intercepted, monkeypatched_in_text
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.tensor_creation import FOLDING, Creation, creation, is_of_sizes, is_plain_variable
from autoaccel.pytorch.tensor_type_aliases import ChosenType, changes_default, chosen_type, tensor_type
from autoaccel.pytorch.whole_number_casts import undefined_cast
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA101",
    name="create-on-device",
    tier=Tier.EXACT,
    needles=(b".to(", b".cuda(", b".type_as(", b"cuda.", b"cuda import"),
    pattern="torch",
    references=(
        "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
        "https://docs.pytorch.org/docs/stable/notes/randomness.html",
    ),
    addresses=("transfer", "sync"),
    order=20,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.find(ast.Call):
        moved = device_move(script, call) if may_move_creation(script, call) else None
        for each in _chosen(script, call) if moved is None else _moved(script, moved):
            yield RULE.skip(each.node, "TorchScript compiles its source") if _is_scripted(script, call) else each


def _is_scripted(script: Script, call: ast.Call) -> bool:
    """TorchScript compiles the source of its functions; it is left as it is."""
    return any(
        script.qualname(mark) in ("torch.jit.script", "torch.jit.script_method", "torch.jit.ScriptModule")
        for outer in script.ancestors(call)
        if isinstance(outer, (ast.FunctionDef, ast.ClassDef))
        for mark in (*outer.decorator_list, *(outer.bases if isinstance(outer, ast.ClassDef) else ()))
    )


def _moved(script: Script, moved: DeviceMove) -> Iterator[Finding | Skipped]:
    """`factory(…)….to(device)`, in one expression or in two statements."""
    made, idle, problem = creation(script, moved.receiver), tuple[ast.stmt, ...](), None
    if made is None:
        later = moved_later(script, moved)
        if later is None:
            return
        made, idle, problem = later.creation, later.idle, later.problem
    if moved.device is not None and _is_host(moved.device):
        return
    if _is_there(script, made, moved):
        return
    problem = made.problem or moved.problem or problem or _unknown_precision(script, made, moved)
    problem = problem or _computed(script, made) or _undefined_cast(script, made, moved)
    problem = problem or _patched(script, made, moved) or _made_once(script, made)
    if problem is not None:
        yield RULE.skip(moved.call, problem)
    else:
        edits = _merged([*_edits(script, made, moved, idle)])
        yield RULE.finding(made.call, _message(script, made), *edits, tier=made.tier)


def _made_once(script: Script, made: Creation) -> str | None:
    """Why values that would not be the same are not worth it: they are made outside of all loops."""
    if made.tier is Tier.EXACT:
        return None
    function = script.function(made.call)
    builds = isinstance(function, ast.FunctionDef) and function.name == "__init__" and not script.loops(made.call)
    if not builds and not runs_once(script, made.call):
        return None
    drawn = "draw other values" if made.tier is Tier.EQUIVALENT else "round its last bit differently"
    return f"it is made once: there is nothing to gain, and the device may {drawn}"


def _patched(script: Script, made: Creation, moved: DeviceMove) -> str | None:
    method = moved.call.func.attr if isinstance(moved.call.func, ast.Attribute) else ""
    names = [made.name, f"torch.Tensor.{method}"]
    try:
        if makes_tensors_without_data(script):
            return 'on the device "meta" it would have no data, and to move it would be an error'
        return intercepted(script) or monkeypatched_in_text(script, names)
    except Incomplete as incomplete:
        return str(incomplete)


def _is_host(device: Code) -> bool:
    """A literal "cpu": the tensor is made there already."""
    return any(isinstance(hole, ast.Constant) and hole.value == "cpu" for hole in device.holes)


def _is_there(script: Script, made: Creation, moved: DeviceMove) -> bool:
    """Whether a tensor is made like one that is on the device already: then nothing is copied."""
    if not made.name.endswith("_like") or not made.call.args or made.has("device") or moved.device is None:
        return False
    return _is_moved(script, made.call.args[0], moved.device, set())


def _is_moved(script: Script, tensor: ast.expr, device: Code, seen: set[ast.expr]) -> bool:
    if tensor in seen:
        return True
    seen.add(tensor)
    if isinstance(tensor, ast.Name):
        definitions = script.definitions(tensor)
        made = [each.value for each in definitions if each.how == "assign" and not each.path]
        return 0 < len(made) == len(definitions) and all(
            each is not None and _is_moved(script, each, device, seen) for each in made
        )
    if not isinstance(tensor, ast.Call):
        return False
    to = device_move(script, tensor)
    if to is not None:
        return to.device is not None and _spelled(script, to.device) == _spelled(script, device)
    given = [each.value for each in tensor.keywords if each.arg == "device"]
    return any(script.source(each) == _spelled(script, device) for each in given)


def _spelled(script: Script, code: Code) -> str:
    return code.text.format(*(script.source(each) for each in code.holes))


def _message(script: Script, made: Creation) -> str:
    name = script.source(made.call.func)
    if made.name.endswith("_like"):
        place = f"`{name}` makes a tensor where its pattern is, to be copied from there if that is not the device"
        drawn = made.tier is Tier.EQUIVALENT
        return f"{place}; there it draws from the device's own random stream" if drawn else place
    match made.tier:
        case Tier.EQUIVALENT:
            return (
                f"`{name}` draws on the host and is copied; on the device it draws from the device's own random stream"
            )
        case Tier.NUMERICS:
            return f"`{name}` is computed on the host and copied; the device may round its last bit differently"
        case _:
            return f"`{name}` is filled on the host and copied to the device"


def _unknown_precision(script: Script, made: Creation, moved: DeviceMove) -> str | None:
    """A cast of data that may be float64 stays on the host: some devices have no float64 to cast from."""
    if made.name != "torch.tensor" or made.has("dtype") or not (made.casts or moved.dtype is not None):
        return None
    legacy = tensor_type(script, made.call.func)
    if legacy is not None and made.casts:
        return "it is cast to another type on the host, where its numbers are written down"
    known = legacy is not None or all(_is_literal(each) for each in made.call.args)
    if known or (_folds_move(script, made, moved) and not made.casts):
        return None
    return "a cast of data of unknown precision stays on the host"


def _undefined_cast(script: Script, made: Creation, moved: DeviceMove) -> str | None:
    """Moves cast on the host. So does a factory that is given data of another type, and none need fit what it fills."""
    if moved.dtype is None or _folds_move(script, made, moved):
        return undefined_cast(script, made)
    return undefined_cast(script, made, moved.dtype.holes[0] if moved.dtype.text == "{0}" else None)


def _computed(script: Script, made: Creation) -> str | None:
    """A legacy type that is given computed data: they are copied either way, and may be converted differently."""
    legacy = tensor_type(script, made.call.func) is not None and not is_of_sizes(script, made.call)
    literal = all(_is_literal(each) for each in made.call.args)
    return "its data are computed, and copied either way" if legacy and not literal else None


def _is_literal(data: ast.expr) -> bool:
    return all(
        isinstance(part, ast.List | ast.Tuple | ast.Constant | ast.UnaryOp | ast.unaryop | ast.expr_context)
        for part in ast.walk(data)
    )


def _folds_move(script: Script, made: Creation, moved: DeviceMove) -> bool:
    """Whether the type of `.to(device, dtype)` may be the factory's; arrays are converted in one step either way."""
    if moved.dtype is None or made.has("dtype") or made.casts or made.fills:
        return False
    array = made.name == "torch.tensor" and bool(made.call.args) and script.kind(made.call.args[0]) is Kind.ARRAY
    return made.name in FOLDING or array


def _edits(script: Script, made: Creation, moved: DeviceMove, idle: tuple[ast.stmt, ...]) -> Iterator[Edit]:
    assert moved.device is not None
    arguments: list[tuple[str, Code]] = []
    cast = made.cast_of_factory() if made.name in FOLDING and not made.has("dtype") else None
    folded = _folds_move(script, made, moved)
    if cast is not None:
        kind, imports = cast.dtype(script, made.call.func)
        arguments.append(("dtype", kind))
        yield from imports
        yield Replace(cast.call, Code("{0}", (made.call,)))
    elif folded and moved.dtype is not None:
        arguments.append(("dtype", moved.dtype))
    yield from _with_arguments(script, made, [*arguments, ("device", moved.device)])
    if moved.dtype is not None and not folded:
        idle = tuple(each for each in idle if each is not script.statement(moved.call))
    for variable in made.variables:
        if script.statement(variable) not in idle:
            yield Replace(variable, Code("{0}", (variable.args[0],)))
    if moved.dtype is not None and not folded:
        dtype = moved.dtype.text.format("{1}")
        yield Replace(moved.call, Code(f"{{0}}.to({dtype})", (moved.receiver, *moved.dtype.holes)))
    else:
        if script.statement(moved.call) not in idle:
            yield Replace(moved.call, Code("{0}", (moved.receiver,)))
    yield from (RemoveStatement(each) for each in idle)


def _with_arguments(script: Script, made: Creation, arguments: list[tuple[str, Code]]) -> Iterator[Edit]:
    """The factory with these keywords; a legacy type becomes a dtype."""
    legacy = tensor_type(script, made.call.func)
    if legacy is not None:
        function, imports = script.spell(made.name, made.call.func)
        dtype, more = script.spell(legacy.dtype, made.call.func)
        yield from (*imports, *more)
        yield Replace(made.call.func, Code(function))
        arguments = [("dtype", Code(dtype)), *arguments]
    yield AddArguments(made.call, tuple(arguments))


def _call(function: str, arguments: list[tuple[str, Code]]) -> Code:
    """A call with these arguments; positional ones have no name."""
    texts = [f"{name}={{{index}}}" if name else f"{{{index}}}" for index, (name, _) in enumerate(arguments)]
    return _filled(f"{function}({', '.join(texts)})", [code for _, code in arguments])


def _filled(text: str, parts: list[Code]) -> Code:
    """A text whose holes are filled with other code; the holes of that are numbered through."""
    holes: list[ast.expr] = []
    texts: list[str] = []
    for part in parts:
        texts.append(part.text.format(*(f"{{{len(holes) + index}}}" for index in range(len(part.holes)))))
        holes.extend(part.holes)
    return Code(text.format(*texts), tuple(holes))


def _merged(edits: list[Edit]) -> list[Edit]:
    """Replacements written into the replacement that has their place as a hole: a hole is the file's own expression."""
    replaced = {edit.node: edit.code for edit in edits if isinstance(edit, Replace)}
    held = {hole for code in replaced.values() for hole in code.holes}

    def complete(code: Code) -> Code:
        return _filled(
            code.text,
            [complete(replaced[hole]) if hole in replaced else Code("{0}", (hole,)) for hole in code.holes],
        )

    return [
        Replace(edit.node, complete(edit.code)) if isinstance(edit, Replace) else edit
        for edit in edits
        if not (isinstance(edit, Replace) and edit.node in held)
    ]


def _chosen(script: Script, call: ast.Call) -> Iterator[Finding]:
    """`Tensor(n, 1).fill_(1.0)` and `Tensor(np.ones(shape))` where `Tensor` is the type of either device."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="fill_"), args=[value], keywords=[]):
            pass
        case ast.Call(args=[ast.Call() as array], keywords=[]):
            yield from _chosen_array(script, call, array)
            return
        case _:
            return
    chosen = chosen_type(script, made.func)
    if chosen is None or made.keywords or changes_default(script):
        return
    if len(made.args) == 1 and (isinstance(made.args[0], ast.Starred) or not integral(script, made.args[0])):
        return
    shape = [("", Code("*{0}" if isinstance(each, ast.Starred) else "{0}", (_inner(each),))) for each in made.args]
    name = _named_fill(value)
    factory, imports = script.spell(f"torch.{name or 'full'}", chosen.on_cpu)
    if name is None:
        sizes = _call("", shape)
        if len(shape) == 1:
            sizes = Code(f"{sizes.text[:-1]},)", sizes.holes)
        shape = [("", sizes), ("", Code("{0}", (value,)))]
    dtype = _dtype_unless_default(script, chosen, None if name else value)
    yield _replacing(
        script, call, _call(factory, [*shape, *dtype, ("device", chosen.device)]), (*chosen.naming, *imports), made
    )


def _chosen_array(script: Script, call: ast.Call, array: ast.Call) -> Iterator[Finding]:
    name = script.qualname(array.func)
    if name not in ("numpy.ones", "numpy.zeros") or len(array.args) != 1 or array.keywords:
        return
    chosen = chosen_type(script, call.func)
    if chosen is None or chosen.dtype != "torch.float32" or changes_default(script):
        return
    factory, imports = script.spell(f"torch.{name.removeprefix('numpy.')}", chosen.on_cpu)
    arguments = [("", Code("{0}", (array.args[0],))), ("device", chosen.device)]
    yield _replacing(script, call, _call(factory, arguments), (*chosen.naming, *imports), call)


def _inner(expression: ast.expr) -> ast.expr:
    return expression.value if isinstance(expression, ast.Starred) else expression


def _named_fill(value: ast.expr) -> str | None:
    """The factory that is named after a value; `-0.0` is no literal, and no zero."""
    number = value.value if isinstance(value, ast.Constant) else None
    if not isinstance(number, int | float) or isinstance(number, bool):
        return None
    return "zeros" if number == 0 else "ones" if number == 1 else None


def _dtype_unless_default(script: Script, chosen: ChosenType, value: ast.expr | None) -> list[tuple[str, Code]]:
    """The type of a factory; `torch.full`, unlike the others, derives its own from the `value`."""
    derived = value is not None and not (isinstance(value, ast.Constant) and isinstance(value.value, float))
    if chosen.dtype == "torch.float32" and not derived:
        return []
    return [("dtype", Code(script.spell(chosen.dtype, chosen.on_cpu)[0]))]


def _replacing(script: Script, call: ast.Call, code: Code, others: tuple[Edit, ...], made: ast.Call) -> Finding:
    """Put `code` for the call, or for the `Variable` around it when that adds nothing."""
    parent = script.parent(call)
    if isinstance(parent, ast.Call) and parent.args == [call] and is_plain_variable(script, parent):
        call = parent
    message = (
        f"`{script.source(made.func)}` chooses a device by its type; the factory fills the tensor there in one step"
    )
    return RULE.finding(call, message, *others, Replace(call, code))
