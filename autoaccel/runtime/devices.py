"""Which device something speaks of, and what the hardware behind it can do.

This is the runtime's one door to `torch.cuda` and its like (`module_of`): who puts another module there has another
machine, as tests do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

Device: TypeAlias = "torch.device | str | int | torch.Tensor | None"


def module_of(kind: str) -> Any:
    """What torch knows a kind of device by: `torch.cuda` for "cuda"; None where this torch has nothing of that name."""
    return getattr(torch, kind, None)


def accelerator() -> torch.device | None:
    """The accelerator, when one is built in and visible."""
    found = torch.accelerator.current_accelerator()
    return found if found is not None and available(found) else None


def resolve(device: Device = None) -> torch.device:
    """A device as scripts spell it: None is the accelerator, without one the CPU; a number counts accelerators."""
    if isinstance(device, torch.device):
        return device
    if isinstance(device, str):
        return torch.device(device)
    if device is None or isinstance(device, int):
        found = accelerator()
        if found is None:
            return torch.device("cpu")
        return found if device is None else torch.device(found.type, device)
    return device.device


def available(device: torch.device) -> bool:
    """Whether work can run there now; unknown kinds of device count as absent.

    Of CUDA devices the count is asked for, which is NVML's where there is one: after `torch.cuda.is_available()` a
    forked process cannot use CUDA (https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#poison-fork-in-multiprocessing).
    """
    if device.type == "cpu":
        return True
    module = module_of(device.type)
    if device.type == "cuda":
        return bool(module.device_count() > 0)
    return module is not None and hasattr(module, "is_available") and bool(module.is_available())


def in_use() -> torch.device:
    """Where a script works that names no device: on the accelerator if it has come so far as to use it, else the CPU.

    Asking starts nothing: what is asked of a device that a script leaves alone would take memory there, and time.
    """
    found = accelerator()
    started = None if found is None else getattr(module_of(found.type), "is_initialized", None)
    return torch.device("cpu") if found is None or (started is not None and not started()) else found


def numbered(device: torch.device) -> torch.device:
    """A device with its index: without, it is the current one of its kind."""
    if str(device) != device.type:
        return device
    return torch.device(device.type, module_of(device.type).current_device())


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated on a CUDA device."""
    return int(module_of(device.type).mem_get_info(device)[0])


def capability(device: torch.device) -> tuple[int, int]:
    """The CUDA compute capability, such as (9, 0); torch remembers it per device."""
    found: tuple[int, int] = module_of("cuda").get_device_capability(device)
    return found


def hardware_name(device: torch.device) -> str:
    """What the hardware is called, as far as torch tells: of a CPU which vector units it has."""
    if device.type == "cpu":
        return str(torch.backends.cpu.get_cpu_capability())
    asked = getattr(module_of(device.type), "get_device_name", None)
    return str(asked(device)) if asked is not None else device.type


def device_of(values: object) -> torch.device | None:
    """Where the first tensor (or the first parameter of a module) in nested values lives; None if there is none."""
    match values:
        case torch.Tensor():
            return values.device
        case torch.nn.Module():
            return module_device(values)
        case Mapping():
            return device_of(list(values.values()))
        case list() | tuple():
            return next((place for place in map(device_of, values) if place is not None), None)
        case _:
            return None


def module_device(module: torch.nn.Module) -> torch.device | None:
    """Where a module's parameters live, or its buffers if it has no parameters."""
    return next((each.device for each in itertools.chain(module.parameters(), module.buffers())), None)
