"""Which tensors from outside a step reads, and which it writes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .training_state import memory_of


class WriteRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the operations of a step.

    A graph reads from addresses: what the step has read must stay alive (`held`). And a step that is made twice to
    compare the two must change nothing that is not put back in between (`problem`).
    """

    def __init__(self, changing: Iterable[torch.Tensor], arguments: Iterable[torch.Tensor]) -> None:
        """`changing` are the tensors that the step may write to."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.held: list[torch.Tensor] = []
        self.problem = ""
        self._changing = {memory_of(each) for each in changing}
        self._arguments = {memory_of(each) for each in arguments}
        self._made: set[int] = set()
        self._outside: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for tensor in _tensors((args, kwargs)):
            self._note_read(tensor)
        result = func(*args, **kwargs)
        for tensor in _written(func, args, kwargs):
            memory = memory_of(tensor)
            if memory not in self._made and memory not in self._changing:
                self.problem = "it changes tensors that are neither its model's nor its optimizer's"
        if _waits(func, args, kwargs, result):
            self.problem = "it reads values on the host"
        self._made.update({memory_of(each) for each in _tensors(result)} - self._outside - self._arguments)
        return result

    def _note_read(self, tensor: torch.Tensor) -> None:
        memory = memory_of(tensor)
        if memory not in self._made and memory not in self._arguments and memory not in self._outside:
            self._outside.add(memory)
            self.held.append(tensor.detach())


_READING: Final = frozenset(
    f"aten::{name}" for name in "_local_scalar_dense equal is_nonzero masked_select nonzero unique _unique2".split()
)
_MASKS: Final = (torch.bool, torch.uint8)


def _waits(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
    """Whether the host waits for the device in an operation: it reads a value, or copies between the two."""
    name = func._schema.name  # noqa: SLF001
    by_mask = name.startswith("aten::index") and any(each.dtype in _MASKS for each in _tensors(args[1:2]))
    if name in _READING or by_mask:
        return True
    homes = {each.device.type for each in _tensors((args, kwargs, result)) if each.dim()}
    return len(homes) > 1


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that an operation writes to, by its schema."""
    arguments = func._schema.arguments  # noqa: SLF001
    given = {**dict(zip((each.name for each in arguments), args, strict=False)), **kwargs}
    marked = (each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write)
    return [tensor for name in marked for tensor in _tensors(given.get(name))]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
