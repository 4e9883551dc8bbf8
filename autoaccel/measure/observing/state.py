"""The state that training leaves: modules with what they own, optimizers, schedulers."""

from __future__ import annotations

import contextlib
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from autoaccel.measure.observing.digests import digest_of, plain, sketch
from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.observing.naming import Names
from autoaccel.measure.observing.observation import Observation, Observer
from autoaccel.measure.observing.run_record import KERNELS, Entry

OPTIMIZER = "optimizer"


class TrainedObjects(Observer):
    """Finds what is trained when it is trained for the first time, gives it names, and reads it at the end."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._modules: list[weakref.ref[nn.Module]] = []
        self._roots: dict[int, nn.Module] = {}
        self._optimizers: dict[int, Optimizer] = {}
        self._schedulers: list[LRScheduler] = []
        self._leaves: list[Tensor] = []
        self._last: dict[str, Any] = {}

    def install(self, observation: Observation) -> None:
        self._events = observation.events
        for name in ("__init__", "__setstate__"):  # the second of copies, and of what was unpickled
            replacing(nn.Module, name)(self._note)
        self._hook_schedulers()
        self._hook_leaving()
        observation.events.after_step.append(self._stepped)
        observation.events.before_backward.append(self._backward)

    def contribute(self) -> dict[str, Any]:
        return self._last or self._record()

    def _record(self) -> dict[str, Any]:
        for module in self._roots.values():
            self._names.give(module, type(module).__name__)
        for number, optimizer in enumerate(self._optimizers.values(), 1):
            self._names.give(optimizer, f"optimizer {number}")
        for number, scheduler in enumerate(self._schedulers, 1):
            self._names.give(scheduler, "scheduler" if self._names.by_kind else f"scheduler {number}")
        with torch.device("cpu"), torch.no_grad():  # whatever the script has chosen
            return {"state": tuple(self._entries()), "settings": dict(self._settings())}

    def _hook_leaving(self) -> None:
        if not dist.is_available():
            return

        def leave(begin: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            if any(hasattr(each, "full_tensor") for module in self._roots.values() for *_, each in tensors(module)):
                self._last = self._record()  # later nobody has the other ranks' parts
            begin(*args, **kwargs)

        replacing(dist, "destroy_process_group")(leave)

    def _note(self, begin: Callable[..., None], module: nn.Module, *args: Any, **kwargs: Any) -> None:
        begin(module, *args, **kwargs)
        if not torch.compiler.is_compiling():  # so that graphs need not break where they create modules
            self._modules.append(weakref.ref(module))

    def _hook_schedulers(self) -> None:
        known = self._schedulers

        def new(kind: type[LRScheduler], *_: Any, **__: Any) -> LRScheduler:
            scheduler = object.__new__(kind)
            known.append(scheduler)
            return scheduler

        # not `__init__`, which some schedulers do not pass on
        LRScheduler.__new__ = new  # type: ignore[method-assign, assignment]

    def _stepped(self, optimizer: Optimizer | None) -> None:
        if optimizer is None or id(optimizer) in self._optimizers:
            return
        self._optimizers[id(optimizer)] = optimizer
        if self._names.by_kind:
            self._names.give(optimizer, "optimizer")
        trained = {id(parameter) for parameter in _parameters(optimizer)}
        self._find(trained, sys._getframe())  # noqa: SLF001

    def _backward(self, roots: list[Tensor]) -> None:
        if self._events.optimizers:
            return
        before, self._leaves = self._leaves, list(leaves(roots))
        self._names.forget(before, but=self._leaves)  # a script may make new tensors in every step
        self._find({id(leaf) for leaf in self._leaves}, sys._getframe())  # noqa: SLF001

    def _find(self, trained: set[int], frame: FrameType | None) -> None:
        """Keep the whole modules that own what is trained, and those that the script has a name for."""
        self._names.look(frame, trained)
        live = [module for module in (reference() for reference in self._modules) if module is not None]
        self._modules = [weakref.ref(module) for module in live]
        named = {id(module) for module in live if self._names.of(module)}
        self._roots |= {id(module): module for module in roots(live, trained, named)}

    def _entries(self) -> Iterator[Entry]:
        seen: dict[int, str] = {}
        for name, module in self._named_roots():
            unsaved = {id(each) for each in _unsaved(module)}
            for kind, path, tensor in tensors(module):
                if id(tensor) not in seen:
                    seen[id(tensor)] = f"{name}.{path}"
                    yield replace(entry(f"{name}.{path}", kind, tensor), is_saved=id(tensor) not in unsaved)
        for number, leaf in enumerate(self._leaves, 1):
            if id(leaf) not in seen:
                seen[id(leaf)] = self._names.give(leaf, f"tensor {number}")
                yield entry(seen[id(leaf)], PARAMETER, leaf)
        for optimizer in self._optimizers.values():
            yield from self._of_optimizer(optimizer, seen)
        for scheduler in self._schedulers:
            for path, tensor in _tensors(_BEST, vars(scheduler).get(_BEST)):
                yield entry(f"{self._names.of(scheduler)}: {path}", OPTIMIZER, tensor)

    def _named_roots(self) -> Iterator[tuple[str, nn.Module]]:
        if not self._names.by_kind:
            yield from ((str(self._names.of(module)), module) for module in self._roots.values())
            return
        trained = [id(each) for optimizer in self._optimizers.values() for each in _parameters(optimizer)]
        place = {each: number for number, each in reversed([*enumerate(trained)])}

        def first_trained(module: nn.Module) -> float:
            return min((place.get(id(tensor), math.inf) for *_, tensor in tensors(module)), default=math.inf)

        for number, module in enumerate(sorted(self._roots.values(), key=first_trained), 1):
            yield "model" if number == 1 else f"model ({number})", self._within(module)

    def _within(self, module: nn.Module) -> nn.Module:
        """What a library's module wraps, as DataParallel and Fabric's do: another version may wrap it otherwise."""
        while not (module._parameters or module._buffers or self._is_of_script_or_layer(type(module))):  # noqa: SLF001
            children = {id(child): child for _, child in _children(module)}
            if len(children) != 1:
                break
            (module,) = children.values()
        return module

    def _is_of_script_or_layer(self, kind: type[nn.Module]) -> bool:
        home = kind.__module__
        file = getattr(sys.modules.get(home), "__file__", None)
        return home.startswith("torch.nn.modules.") or file is None or self._names.concerns(file)

    def _of_optimizer(self, optimizer: Optimizer, seen: dict[int, str]) -> Iterator[Entry]:
        name = self._names.of(optimizer)
        for number, parameter in enumerate(_parameters(optimizer), 1):
            if id(parameter) not in seen:
                seen[id(parameter)] = self._names.give(parameter, f"{name}: parameter {number}")
                yield entry(seen[id(parameter)], PARAMETER, parameter)
            for key, value in optimizer.state.get(parameter, {}).items():
                for path, tensor in _tensors(str(key), value):
                    yield entry(f"{name}: {seen[id(parameter)]} {path}", OPTIMIZER, tensor)

    def _settings(self) -> Iterator[tuple[str, str]]:
        for name, module in self._named_roots():
            yield from of_module(name, module)
        for optimizer in self._optimizers.values():
            yield from of_optimizer(str(self._names.of(optimizer)), optimizer)
        for scheduler in self._schedulers:
            yield from of_scheduler(str(self._names.of(scheduler)), scheduler)


def entry(name: str, kind: str, tensor: Tensor) -> Entry:
    """What is kept of a tensor. What cannot be read says so in its digest, which then is the same in every run."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()  # spread over the ranks, which all come here
    if is_lazy(tensor) or tensor.is_meta:
        return Entry(name, kind, dtype, (), "without data", 0.0, ())
    norm: float = math.nan
    projections: tuple[float, ...] = ()
    with contextlib.suppress(RuntimeError, NotImplementedError, TypeError, ValueError):
        norm, projections = sketch(plain(tensor))
    return Entry(name, kind, dtype, tuple(tensor.shape), digest_of(tensor), norm, projections)


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of one value of an optimizer's state, and numbers that it computes; L-BFGS keeps lists of them."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, float):
        yield path, torch.tensor(value, dtype=torch.float64)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(f"{path}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(f"{path}[{key!r}]", item)


# -- what a module consists of; scripts give attributes of their own the names of methods (`self.modules = …`): none of
# those is called


PARAMETER, BUFFER = "parameter", "buffer"

# Compiling makes modules of modules; they hold what is the script's, for a while.
_COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch.export")


def parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The module itself and all inside it, each once, with the path that leads there."""
    seen: set[int] = set()
    waiting = [("", module)]
    while waiting:
        path, inner = waiting.pop()
        if id(inner) not in seen:
            seen.add(id(inner))
            yield path, inner
            children = [(f"{path}.{name}" if path else name, each) for name, each in _children(inner)]
            waiting += reversed(children)


def tensors(module: nn.Module) -> Iterator[tuple[str, str, Tensor]]:
    """Kind, path and tensor of everything that a module and those inside it own."""
    for path, inner in parts(module):
        for kind, owned in ((PARAMETER, inner._parameters), (BUFFER, inner._buffers)):  # noqa: SLF001
            for name, tensor in owned.items():
                if isinstance(tensor, Tensor):
                    yield kind, f"{path}.{name}" if path else name, tensor


def _unsaved(module: nn.Module) -> Iterator[Any]:
    """The buffers that `state_dict` leaves out."""
    for _, inner in parts(module):
        yield from (inner._buffers.get(name) for name in inner._non_persistent_buffers_set)  # noqa: SLF001


def roots(modules: Iterable[nn.Module], trained: set[int], named: set[int]) -> Iterator[nn.Module]:
    """The outermost of some modules that have a name or own what is trained, and no tensor of which another has."""
    own = [module for module in modules if not _made_by_compiler(module)]
    inner = {id(child) for module in own for _, child in _children(module)}
    outer = [module for module in own if id(module) not in inner]
    outer.sort(key=lambda module: id(module) not in named)  # what TorchScript was made of lives on beside it
    # modules that hold one another have no outermost one: the one that was there first stands for them
    candidates = outer + own + list(modules)
    owned: set[int] = set()
    for module in candidates:
        mine = {id(tensor) for *_, tensor in tensors(module)}
        outermost = id(module) in named and id(module) not in inner
        if mine - owned and (outermost or mine & trained - owned):
            owned |= mine
            yield module


def _children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((name, child) for name, child in module._modules.items() if child is not None)  # noqa: SLF001


def _made_by_compiler(module: nn.Module) -> bool:
    return any(kind.__module__.startswith(_COMPILERS) for kind in type(module).__mro__)


# -- what is not a tensor of its own, exactly spelled: groups of optimizers, schedulers, training mode


_BEST = "best"  # of `ReduceLROnPlateau`
_DEEP = 10  # what refers to itself ends here


def of_module(name: str, module: nn.Module) -> Iterator[tuple[str, str]]:
    """Whether a module is in training mode, which modules inside it are not, and which parameters are frozen."""
    yield f"{name}.training", repr(module.training)
    for path, inner in parts(module):
        if inner.training is not module.training:
            yield f"{name}.{path}.training", repr(inner.training)
        for key, parameter in inner._parameters.items():  # noqa: SLF001
            if isinstance(parameter, Tensor) and not parameter.requires_grad:
                yield f"{name}.{path}.{key}.requires_grad".replace("..", "."), "False"


def of_optimizer(name: str, optimizer: Optimizer) -> Iterator[tuple[str, str]]:
    """What each group says, and what is counted in the state of a parameter."""
    for number, group in enumerate(optimizer.param_groups, 1):
        for key, value in group.items():
            if key not in ("params", *KERNELS):
                yield f"{name} group {number}.{key}", spelled(value)
        for index, parameter in enumerate(group["params"], 1):
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, (bool, int, str)):
                    yield f"{name} group {number} parameter {index}.{key}", spelled(value)


def of_scheduler(name: str, scheduler: LRScheduler) -> Iterator[tuple[str, str]]:
    """Its state, as far as it has come; but for a figure of the script that it keeps, which may be rounded."""
    for key, value in sorted(scheduler.__dict__.items()):
        if key not in ("optimizer", "_initial_step", _BEST) and not callable(value):
            yield f"{name}.{key}", spelled(value)


def spelled(value: Any, depth: int = 0) -> str:
    """Without rounding, without addresses, and without the names of functions: what they compute shows elsewhere."""
    if depth > _DEEP:
        return "…"
    if isinstance(value, Tensor):
        return repr(value.item()) if value.numel() == 1 else f"tensor {digest_of(value)}"
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(spelled(each, depth + 1) for each in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{spelled(key)}: {spelled(each, depth + 1)}" for key, each in value.items()) + "}"
    return (value if isinstance(value, type) else type(value)).__qualname__


# -- weights in plain tensors, of scripts that train without an optimizer


def leaves(roots: Iterable[Tensor]) -> Iterator[Tensor]:
    """The tensors that gradients are accumulated for, in an order that the graph alone decides."""
    waiting: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(leaf := getattr(node, "variable", None), Tensor):
            yield leaf
        waiting += [before for before, _ in reversed(node.next_functions) if before is not None]
