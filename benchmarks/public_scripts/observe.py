"""Runs one script under observation: `observe.py RESULT OPTIONS SCRIPT [ARGUMENT…]`, options as JSON.

Seeds every generator, records each loss that goes backward and each optimizer step, and stops the script cleanly once
it has made the requested number of steps. The result is a JSON file. Needs torch alone, so that it runs in the
script's own process.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import sys
import time
import traceback
import types
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook


class Stop(SystemExit):
    """Raised inside the script when it has trained for long enough."""


def fingerprint(value: Any, digest: Any) -> None:
    """Feed a value's structure and bytes to a hash."""
    if isinstance(value, Tensor):
        tensor = value.detach().cpu()
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
        digest.update(dense.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b"")
    elif isinstance(value, dict):
        for key in value:
            digest.update(repr(key).encode())
            fingerprint(value[key], digest)
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)}".encode())
        for item in value:
            fingerprint(item, digest)
    elif isinstance(value, (bool, int, float, str, type(None))):
        digest.update(repr(value).encode())


def sha(values: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        fingerprint(value, digest)
    return digest.hexdigest()


def spell(loss: Tensor) -> str:
    """A loss without rounding: hexadecimal for one number, a hash for more."""
    return float(loss.detach()).hex() if loss.numel() == 1 else sha([loss])


class Observation:
    """What is recorded of one run."""

    def __init__(self, stop_after: int, count: str) -> None:
        self.stop_after = stop_after
        self.count = count
        self.losses: list[str] = []
        self.steps = 0
        self.optimizers: list[torch.optim.Optimizer] = []
        self.modules: list[weakref.ref[nn.Module]] = []
        self.owners: dict[int, nn.Module] = {}  # kept alive: modules that own a parameter of an optimizer, by creation

    def on_backward(self, roots: Iterable[Tensor]) -> None:
        self.losses += [spell(getattr(root, "unscaled", root)) for root in roots]

    def after_backward(self) -> None:
        if self.count == "backward" and len(self.losses) >= self.stop_after:
            raise Stop(0)

    def on_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.steps += 1
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)
            self.keep_owners(optimizer)
        if self.count == "step" and self.steps >= self.stop_after:
            raise Stop(0)

    def keep_owners(self, optimizer: torch.optim.Optimizer) -> None:
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for order, reference in enumerate(self.modules):
            module = reference()
            if module is not None and any(id(p) in trained for p in vars(module).get("_parameters", {}).values()):
                self.owners[order] = module

    def state(self) -> Iterable[Any]:
        """Parameters, buffers and optimizer states, in an order that does not depend on addresses."""
        if not self.optimizers:
            live = ((order, reference()) for order, reference in enumerate(self.modules))
            self.owners = {order: module for order, module in live if module is not None}
        for order in sorted(self.owners):
            module = self.owners[order]
            yield type(module).__name__
            yield {**vars(module).get("_parameters", {}), **vars(module).get("_buffers", {})}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                yield {key: value for key, value in group.items() if key != "params"}
                for parameter in group["params"]:
                    yield parameter
                    yield dict(optimizer.state.get(parameter, {}))


def install(observation: Observation) -> None:
    """Hook backward, loss scaling, optimizer steps and module creation."""
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def observed_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        observation.on_backward([tensors] if isinstance(tensors, Tensor) else list(tensors))
        backward(tensors, *args, **kwargs)
        observation.after_backward()

    torch.autograd.backward = observed_backward
    scale = torch.amp.GradScaler.scale

    @functools.wraps(scale)
    def observed_scale(self: Any, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        if isinstance(outputs, Tensor) and scaled is not outputs:
            scaled.unscaled = outputs
        return scaled

    torch.amp.GradScaler.scale = observed_scale  # type: ignore[method-assign]
    create = nn.Module.__init__

    @functools.wraps(create)
    def observed_create(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        observation.modules.append(weakref.ref(self))

    nn.Module.__init__ = observed_create  # type: ignore[method-assign]
    register_optimizer_step_post_hook(lambda optimizer, *_: observation.on_step(optimizer))


def scalar_index() -> None:
    """`loss.data[0]`: before torch 0.4 a loss had one dimension."""
    getitem = Tensor.__getitem__

    def indexed(self: Tensor, index: Any) -> Tensor:
        return self if self.dim() == 0 and isinstance(index, int) and index == 0 else getitem(self, index)

    Tensor.__getitem__ = indexed  # type: ignore[method-assign, assignment]


def element_vectors() -> None:
    """`target[c]`: before torch 0.4 an element of a vector was a vector of one; includes `scalar-index`."""
    scalar_index()
    getitem = Tensor.__getitem__

    def indexed(self: Tensor, index: Any) -> Tensor:
        element = getitem(self, index)
        return element.reshape(1) if self.dim() == 1 and type(index) is int else element

    Tensor.__getitem__ = indexed  # type: ignore[method-assign, assignment]


def iterator_next() -> None:
    """`iterator.next()`: the spelling of Python 2, which loaders kept until torch 1.13."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    _BaseDataLoaderIter.next = _BaseDataLoaderIter.__next__  # type: ignore[attr-defined]


def antialias() -> None:
    """`PIL.Image.ANTIALIAS`, removed in Pillow 10."""
    from PIL import Image

    Image.ANTIALIAS = Image.Resampling.LANCZOS  # type: ignore[attr-defined]


def empty_shuffle() -> None:
    """A shuffling loader over an empty dataset, allowed until torch 1.2."""
    from torch.utils.data import RandomSampler

    create = RandomSampler.__init__

    def lenient(self: Any, source: Any, *args: Any, **kwargs: Any) -> None:
        create(self, source if len(source) else [None], *args, **kwargs)
        self.data_source = source

    RandomSampler.__init__ = lenient  # type: ignore[method-assign, assignment]


def device_number() -> None:
    """A device given as a number, which means an accelerator, is the CPU here."""
    for kind in (Tensor, nn.Module):
        move = kind.to

        def moved(self: Any, *args: Any, move: Any = move, **kwargs: Any) -> Any:
            return move(self, *("cpu" if type(value) is int else value for value in args), **kwargs)

        kind.to = moved  # type: ignore[method-assign]


# What today's libraries dropped and an older script needs, and what stands for hardware that is not there;
# applied to the original and to the rewritten script alike.
SHIMS: dict[str, Callable[[], None]] = {
    "scalar-index": scalar_index,
    "element-vectors": element_vectors,
    "iterator-next": iterator_next,
    "antialias": antialias,
    "empty-shuffle": empty_shuffle,
    "device-number": device_number,
}


def settle(seed: int) -> None:
    """One thread, deterministic kernels, every generator seeded."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(seed)


def execute(script: Path, arguments: list[str]) -> None:
    """What `python script.py arguments` does, in this process."""
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.parent)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(script), __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(compile(script.read_bytes(), str(script), "exec"), module.__dict__)


def main(result: Path, options: dict[str, Any], script: Path, arguments: list[str]) -> None:
    observation = Observation(options["stop_after"], options["count"])
    for shim in options["shims"]:
        SHIMS[shim]()
    install(observation)
    settle(options.get("seed", 0))
    start, status, error = time.perf_counter(), "finished", ""
    try:
        execute(script, arguments)
    except Stop:
        status = "stopped"
    except SystemExit as leave:
        if leave.code not in (None, 0):
            status, error = "failed", f"exit status {leave.code}"
    except BaseException as problem:
        status, error = "failed", f"{type(problem).__name__}: {problem}"
        traceback.print_exc()
    seconds = time.perf_counter() - start
    record = {
        "status": status,
        "error": error,
        "losses": observation.losses,
        "steps": observation.steps,
        "optimizers": len(observation.optimizers),
        "state": sha(observation.state()),
        "random": sha([torch.get_rng_state(), repr(random.getstate())]),
        "seconds": round(seconds, 2),
    }
    result.write_text(json.dumps(record), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if status != "failed" else 1)  # loader workers and plots of a stopped script are not waited for


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3]).resolve(), sys.argv[4:])
