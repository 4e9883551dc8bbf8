"""Parameters, gradients and what optimizers keep of them, spread over the ranks by torch's own `fully_shard` (FSDP2).

Each rank holds a part of every parameter, and has whole ones only while a layer computes. `state_dict` of the model and
of its optimizers still gives whole tensors, and takes them, so checkpoints are those of one process; every rank has to
ask for them, as every rank runs every line.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, MutableMapping
from typing import Any

import torch
from torch import nn

from . import process_group


def shard(model: nn.Module, group: process_group.Group, kind: str) -> None:
    """Spread a model's parameters, in place: those of each layer of a list, and the others together.

    Args:
        model: Has the same parameters on every rank.
        kind: Of the device that it is on, such as "cuda".
    """
    # not at import: a torch may be built without, and most programs keep their parameters whole
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(kind, (group.size,))
    for each in (*_layers(model), model):
        name = type(each).__name__
        fully_shard(each, mesh=mesh, reshard_after_forward=True)
        type(each).__name__ = name  # which the model prints
    for module in model.modules():
        if module._parameters:  # noqa: SLF001
            module.register_state_dict_post_hook(_whole_values)  # type: ignore[no-untyped-call]
            module.register_load_state_dict_pre_hook(_own_parts)  # type: ignore[no-untyped-call]
    _keep_optimizers_whole()


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The elements of module lists, inner ones first, that share no parameter with what is outside of them."""
    owners: dict[nn.Parameter, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(parameter, set()).add(name)
    lists = {name: each for name, each in model.named_modules() if isinstance(each, nn.ModuleList)}
    for name in sorted(lists, key=lambda each: -each.count(".")):
        for key, layer in lists[name].named_children():
            inside = f"{name}.{key}."
            own = list(layer.parameters())
            if own and all(each.startswith(inside) for parameter in own for each in owners[parameter]):
                yield layer


def _is_part(value: Any) -> bool:
    """Whether something is a tensor that is spread over the ranks."""
    return isinstance(value, torch.Tensor) and hasattr(value, "full_tensor")


def _whole(value: Any) -> torch.Tensor:
    return value.detach().full_tensor()  # type: ignore[no-any-return]


def _part(value: torch.Tensor, of: Any) -> torch.Tensor:
    """This rank's part of a whole tensor, spread as a parameter is."""
    from torch.distributed.tensor import distribute_tensor

    whole = value.detach().to(of.device)
    return distribute_tensor(whole, of.device_mesh, of.placements, src_data_rank=None)


def _whole_values(module: nn.Module, state: MutableMapping[str, Any], prefix: str, _: Any) -> None:
    for name in module._parameters:  # noqa: SLF001
        value = state.get(prefix + name)
        if _is_part(value):
            state[prefix + name] = _whole(value)


def _own_parts(module: nn.Module, state: MutableMapping[str, Any], prefix: str, *_: Any) -> None:
    for name, parameter in module._parameters.items():  # noqa: SLF001
        value = state.get(prefix + name)
        if parameter is None or not _is_part(parameter) or not isinstance(value, torch.Tensor) or _is_part(value):
            continue
        if value.shape == parameter.shape:  # else torch says so itself
            state[prefix + name] = _part(value, parameter)


@functools.cache
def _keep_optimizers_whole() -> None:
    """Let `state_dict` of optimizers give whole tensors, and take them."""
    optimizer = torch.optim.Optimizer
    give, take = optimizer.state_dict, optimizer.load_state_dict

    @functools.wraps(give)
    def state_dict(self: torch.optim.Optimizer) -> Any:
        found = give(self)
        found["state"] = {
            number: {key: _whole(value) if _is_part(value) else value for key, value in values.items()}
            for number, values in found["state"].items()
        }
        return found

    @functools.wraps(take)
    def load_state_dict(self: torch.optim.Optimizer, state_dict: Any) -> None:
        take(self, state_dict)
        for parameter, values in self.state.items():
            for key, value in values.items() if _is_part(parameter) else ():
                if isinstance(value, torch.Tensor) and not _is_part(value) and value.shape == parameter.shape:
                    values[key] = _part(value, parameter).to(value.dtype)

    optimizer.state_dict = state_dict  # type: ignore[method-assign]
    optimizer.load_state_dict = load_state_dict  # type: ignore[method-assign]
