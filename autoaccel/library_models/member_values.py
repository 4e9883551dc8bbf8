"""What attributes and methods of objects give that libraries made: tensors, batches, arrays, models, loaders, texts.

None where these tables do not tell, and the attribute itself must be asked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import ANY, NONE, NUMBER, STRING, Kind, Value, Values, any_part, made
from autoaccel.dataflow.call_arguments import given_as, unpacks
from autoaccel.dataflow.definitions import STAR
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.library_models.library_values import named
from autoaccel.library_models.numpy_functions import DRAWING_METHODS, GENERATORS
from autoaccel.library_models.tensor_operations import WITH_INDICES
from autoaccel.library_models.tensor_views import PIECES, VIEW_ATTRIBUTES, VIEWS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_RETURNS_SELF = frozenset(
    """to cuda cpu xpu float double half bfloat16 train eval apply requires_grad_ share_memory type zero_
    to_empty""".split()
)
_NUMBER_METHODS = frozenset("item numel size dim nelement".split())
_DRAWN = DRAWING_METHODS - {"bytes", "choice", "choices", "permutation", "permuted", "sample", "shuffle"}
_STRING_METHODS = frozenset("format join lower upper strip replace read decode".split())
# Methods of models that iterate what they hold.
_ELEMENTS = {
    **dict.fromkeys(("parameters", "named_parameters", "buffers"), Kind.PARAMETER),
    **dict.fromkeys(("modules", "children"), Kind.MODULE),
}
_NAMED_MODULES = frozenset({"named_modules", "named_children"})
_MODULES = made(Kind.MODULE)
_NAMED = made(Kind.SEQUENCE, items=((0, Values({STRING})), (1, _MODULES)))


def attribute(owner: Value, name: str, node: ast.expr, script: Script) -> Values:
    """What `owner.name` is, no method called; `ANY` where nothing tells."""
    match owner.kind:
        case Kind.BATCH if name in VIEW_ATTRIBUTES | {"data"}:
            return Values({owner._replace(how=owner.how or "view")})
        case Kind.TENSOR | Kind.BATCH | Kind.PARAMETER if name in VIEW_ATTRIBUTES | {"data", "grad"}:
            return made(Kind.TENSOR, node, script)
        case Kind.TENSOR | Kind.BATCH | Kind.PARAMETER | Kind.ARRAY if name == "shape":
            return made(Kind.SEQUENCE, node, script, items=((None, Values({NUMBER})),))
        case Kind.TENSOR | Kind.BATCH | Kind.PARAMETER | Kind.ARRAY if name == "ndim":
            return Values({NUMBER})
        case Kind.LOADER if name == "dataset":
            return made(Kind.DATASET, owner.node, owner.script)
        case Kind.EXTERNAL if owner.name is not None:
            return named(canonical(f"{owner.name}.{name}"))
        case Kind.MODULE if name == "module":
            return Values({owner})
        case Kind.ARRAY if name == "T":
            return made(Kind.ARRAY, node, script, how="view")
    if name == "device" or name.endswith("_device"):
        return made(Kind.DEVICE, node, script)
    return made(Kind.DTYPE, node, script) if name == "dtype" else ANY


def method(owner: Value, name: str, node: ast.Call, script: Script) -> Values | None:
    """What `owner.name(…)` gives; None where nothing tells."""
    match owner.kind:
        case Kind.MODULE | Kind.LOSS_FUNCTION if name in _RETURNS_SELF:
            return Values({owner})
        case Kind.MODULE | Kind.LOSS_FUNCTION if name in _ELEMENTS:
            return made(Kind.ITERATOR, node, script, items=((None, made(_ELEMENTS[name])),))
        case Kind.MODULE if name in _NAMED_MODULES:
            return made(Kind.ITERATOR, node, script, items=((None, _NAMED),))
        case Kind.MODULE if name in ("items", "values") and owner.name == "torch.nn.ModuleDict":
            return made(Kind.ITERATOR, node, script, items=((None, _NAMED if name == "items" else _MODULES),))
        case Kind.TENSOR | Kind.BATCH | Kind.PARAMETER if name == "size" and not node.args and not node.keywords:
            return made(Kind.SEQUENCE, node, script, items=((None, Values({NUMBER})),))
        case Kind.BATCH:
            return _of_batch(owner, name, node, script)
        case Kind.TENSOR | Kind.PARAMETER:
            return _of_tensor(name, node, script)
        case Kind.ARRAY if name == "tolist":
            return made(Kind.SEQUENCE, node, script)  # of what its elements are
        case Kind.ARRAY:
            return Values({NUMBER}) if name == "item" else made(Kind.ARRAY, node, script, how=name)
        case Kind.OBJECT if owner.name in GENERATORS and name in _DRAWN:
            return Values({NUMBER}) | made(Kind.ARRAY, node, script, how=name)  # without a size, or with one
        case Kind.OBJECT if (owner.name, name) == ("argparse.ArgumentParser", "parse_args"):
            given = unpacks(node) or len(node.args) > 1 or given_as(node, "namespace") is not None
            return ANY if given else made(Kind.OBJECT, node, script, name="argparse.Namespace")
        case Kind.STRING:
            return Values({STRING}) if name in _STRING_METHODS else ANY
        case Kind.UNKNOWN if name in ("numpy", "to_numpy"):
            return made(Kind.ARRAY, node, script, how="view")
        case Kind.LOADER if name == "__iter__":
            return made(Kind.ITERATOR, node, script, how="iter", items=((None, Values({owner})),))
        case _:
            return None


def _of_batch(owner: Value, name: str, node: ast.Call, script: Script) -> Values:
    if name in ("to", "cuda", "xpu") or (name == "type" and node.args and _is_cuda_type(script, node.args[0])):
        return made(Kind.TENSOR, node, script, how="moved")
    element = Values({any_part(owner)})
    items: dict[str, Values] = {
        "keys": Values({STRING}),
        "values": element,
        "items": made(Kind.SEQUENCE, node, script, items=((0, Values({STRING})), (1, element))),
    }
    if name in items:
        return made(Kind.SEQUENCE, node, script, items=((None, items[name]),))
    if name in VIEWS or name == "contiguous":
        return Values({owner._replace(how=owner.how or "view")})
    if name in _NUMBER_METHODS:
        return Values({NUMBER})
    if name == "numpy":
        return made(Kind.ARRAY, node, script, how="view")
    if name == "tolist":
        return made(Kind.SEQUENCE, node, script, items=((None, Values({NUMBER})),))
    if name == "pop" and node.args and isinstance(node.args[0], ast.Constant):
        key = node.args[0].value
        return Values({owner._replace(path=(*owner.path, key if isinstance(key, int | str) else STAR))})
    return Values({owner._replace(how="copy")})


def _is_cuda_type(script: Script, alias: ast.expr) -> bool:
    """Whether `x.type(alias)` may move: `torch.cuda.FloatTensor`, its string, or a name that is one of them on some
    machines."""
    return any(
        (value.name or "").startswith("torch.cuda.")
        or (isinstance(value.node, ast.Constant) and str(value.node.value).startswith("torch.cuda."))
        for value in script.inference.possible(alias)
    )


def _of_tensor(name: str, node: ast.Call, script: Script) -> Values:
    if name in _NUMBER_METHODS:
        return Values({NUMBER})
    if name == "numpy":
        return made(Kind.ARRAY, node, script, how="view")
    if name == "tolist":
        return made(Kind.SEQUENCE, node, script, items=((None, Values({NUMBER})),))
    if name in ("backward", "register_hook", "retain_grad"):
        return Values({NONE})
    return made(Kind.TENSOR, node, script, how=None if name in WITH_INDICES | PIECES else name)
