"""Streams of random numbers: seeded before the script starts, shifted where the script seeds them, and where they end.

Nothing here draws a number from a stream of the script.
"""

from __future__ import annotations

import functools
import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from autoaccel.measure.observing.digests import digest_of
from autoaccel.measure.observing.hooks import replacing
from autoaccel.measure.observing.observation import Observation, Observer

Seed = Callable[..., Any]
_APART = 104_729  # between the seeds of ranks


_UNUSED = "unused"


class Randomness(Observer):
    """Every stream starts from the request's seed; if that is not 0, the seeds that the script sets move along."""

    def install(self, observation: Observation) -> None:
        shift = observation.request.seed
        # what no seed of the script's tells ranks to share is another on each of them, as it really is
        seed = shift + _APART * observation.request.rank
        random.seed(seed)
        torch.manual_seed(seed)
        numpy = _numpy()
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
            numpy.random.default_rng = _fresh(numpy, shift, seed)
        if shift:
            self._shift(shift, numpy)
        self._drawn: set[str] = set()
        self._seeded = host_streams()
        setters = [(random, "seed"), (random, "setstate")]
        if numpy is not None:
            setters += [(numpy.random, "seed"), (numpy.random, "set_state")]
        for module, name in setters:
            replacing(module, name)(self._set)

    def contribute(self) -> dict[str, Any]:
        self._look()
        unused = {name: _UNUSED for name in ("python", "numpy") if name in self._seeded and name not in self._drawn}
        return {"random": streams() | unused}

    def _set(self, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What libraries seed along with torch, and nobody draws from, is the same whatever its seed."""
        self._look()
        result = plain(*args, **kwargs)
        self._seeded = host_streams()
        return result

    def _look(self) -> None:
        now = host_streams()
        self._drawn |= {name for name, state in self._seeded.items() if now.get(name, state) != state}

    def _shift(self, shift: int, numpy: Any) -> None:
        modules: list[tuple[Any, str]] = [
            (random, "seed"),
            (torch, "manual_seed"),
            (torch.random, "manual_seed"),
            (torch.cuda, "manual_seed"),
            (torch.cuda, "manual_seed_all"),
        ]
        if numpy is not None:
            modules.append((numpy.random, "seed"))
        seeds: dict[int, Seed] = {}
        for module, name in modules:
            plain = getattr(module, name)
            seeds.setdefault(id(plain), _shifted(plain, shift))
            setattr(module, name, seeds[id(plain)])
        torch.Generator = _shifting_generator(shift)  # type: ignore[misc]


def streams() -> dict[str, str]:
    """Where each stream stands."""
    cuda: Any = torch.cuda
    devices = range(cuda.device_count()) if cuda.is_initialized() else ()
    return host_streams() | {f"cuda:{index}": digest_of(cuda.get_rng_state(index)) for index in devices}


def host_streams() -> dict[str, str]:
    """Those that no accelerator has to be asked for."""
    found: dict[str, Any] = {"python": repr(random.getstate()), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        found["numpy"] = _numpy().random.get_state()
    return {name: digest_of(state) for name, state in found.items()}


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _shifted(plain: Seed, shift: int) -> Seed:
    @functools.wraps(plain)
    def seed(*args: Any, **kwargs: Any) -> Any:
        if args:
            args = (moved(args[0], shift), *args[1:])
        elif kwargs:
            name = next(iter(kwargs))
            kwargs[name] = moved(kwargs[name], shift)
        return plain(*args, **kwargs)

    return seed


def moved(seed: Any, shift: int) -> Any:
    """Another seed of the same kind; None, which asks for a random one, stays."""
    if isinstance(seed, int):
        return (seed + shift) % 2**32
    if isinstance(seed, (str, bytes)):
        return int.from_bytes(hashlib.blake2b(f"{shift} {seed!r}".encode(), digest_size=4).digest(), "big")
    return seed


def _fresh(numpy: Any, shift: int, start: int) -> Seed:
    """`default_rng` whose seeds are shifted; generators that the script would leave to chance are made from `start`."""
    plain = numpy.random.default_rng
    unseeded = iter(range(sys.maxsize))

    @functools.wraps(plain)
    def default_rng(seed: Any = None) -> Any:
        if seed is None:
            return plain(numpy.random.SeedSequence(start % 2**32, spawn_key=(next(unseeded),)))
        return plain(moved(seed, shift) if shift and isinstance(seed, int) else seed)

    return default_rng


def _shifting_generator(shift: int) -> type[torch.Generator]:
    plain: Any = torch.Generator

    class Kind(type(plain)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, plain)

    class Generator(plain, metaclass=Kind):  # type: ignore[misc]
        """Moves seeds; is otherwise torch's."""

        def manual_seed(self, seed: int) -> torch.Generator:
            super().manual_seed(moved(seed, shift))
            return self

    return Generator


# -- a small push: how far a run strays that differs in the last digits tells how much a difference means


class Perturbation(Observer):
    """Multiplies what an optimizer trains by nearly one, once, after its first step."""

    def install(self, observation: Observation) -> None:
        self._strength = observation.request.perturbation
        # not `torch.Generator`, whose seeds are moved; and no stream of the script
        self._generator = torch._C.Generator().manual_seed(observation.request.seed)  # noqa: SLF001
        self._pushed: list[Optimizer] = []
        observation.events.after_step.append(self._push)

    @torch.no_grad()
    def _push(self, optimizer: Optimizer | None) -> None:
        if optimizer is None or any(optimizer is pushed for pushed in self._pushed):
            return
        self._pushed.append(optimizer)
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            if parameter.is_floating_point() and parameter.layout is torch.strided:
                noise = torch.randn(parameter.shape, generator=self._generator, device="cpu", dtype=torch.float32)
                # one and a rounding of float64 is one in float32
                parameter.mul_(1 + self._strength * noise.to(parameter.device, parameter.dtype))
