"""A step as one CUDA graph: static arguments that are filled by copying, and copies of what a replay hands out.

A replay reads and writes the memory that the capture did. So arguments are copied to where they were then, results are
copied out, and gradients stay the tensors that the graph writes to: whoever put others in their place gets the values
back into those. Where several optimizers step, a backward pass may add to gradients of the step before that are cleared
only then, as those of a discriminator behind which a generator is trained: the graph finds these where the capture did.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from ..optim.fused_step import count_versions
from .training_state import GRADIENT, TrainingState, memory_of

_PLAIN: Final = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)


_LEAVES: Final = frozenset({torch.Tensor, *_PLAIN})


class UnfitError(RuntimeError):
    """What a step takes or hands out is not for a graph."""


def signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, list[torch.Tensor]]:
    """What decides whether a graph is one for these arguments, and the tensors among them. Raises `UnfitError`."""
    structure: Any = len(args)
    leaves: Sequence[Any] = args
    if kwargs or not all(type(each) in _LEAVES for each in args):
        leaves, shape = pytree.tree_flatten((args, kwargs))
        structure = str(shape)
    tensors: list[torch.Tensor] = []
    found: list[Hashable] = []
    for leaf in leaves:
        if type(leaf) is torch.Tensor and leaf.layout is torch.strided and not leaf.requires_grad:
            tensors.append(leaf)
            found.append((leaf.shape, leaf.stride(), leaf.dtype, leaf.device))
        elif isinstance(leaf, _PLAIN):
            found.append((type(leaf), leaf))
        else:
            raise UnfitError(f"an argument is a {type(leaf).__name__}, or needs a gradient")
    return (structure, *found), tensors


class CapturedGraph:
    """One captured step. Nothing is computed by capturing it."""

    def __init__(self, module: Any, stream: Any, state: TrainingState) -> None:
        self._stream = stream
        self._module = module
        self._graph: Any = module.CUDAGraph()
        self._state = state
        self._static: list[torch.Tensor] = []
        self._results: list[Any] = []
        self._structure: Any = None
        self._had_gradient = [each is not None for each in state.gradients()]
        self._gradients: list[torch.Tensor | None] = []
        self._finds_its_own = False  # a step begins with the gradients that the last one left
        self._added_to: list[tuple[torch.Tensor, torch.Tensor]] = []  # parameters, and what was their gradient then
        self._changed: list[torch.Tensor] = []

    def capture(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Capture the function with arguments like these. Whatever it raises, the gradients are as they were."""
        before = self._state.gradients()
        versions = [None if each is None else each._version for each in before]  # noqa: SLF001
        leaves, structure = pytree.tree_flatten((args, kwargs))
        static = [each.clone() if isinstance(each, torch.Tensor) else each for each in leaves]
        self._static = [each for each in static if isinstance(each, torch.Tensor)]
        args, kwargs = pytree.tree_unflatten(static, structure)
        try:
            # thread_local: other threads go on pinning memory. A capture that fails leaves its stream the current one.
            with (
                _capturable(self._state.optimizers),
                self._module.stream(self._stream),
                self._module.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"),
            ):
                result = function(*args, **kwargs)
            self._gradients = self._state.gradients()
            self._finds_its_own = [each is not None for each in self._gradients] == self._had_gradient
            self._added_to = [
                (parameter, found)
                for parameter, found, version, left in zip(
                    self._state.parameters, before, versions, self._gradients, strict=True
                )
                if found is not None and found is not left and found._version != version  # noqa: SLF001
            ]
            self._changed = [*self._state.parameters, *(each for each in self._gradients if each is not None)]
            self._keep(result)
        finally:
            self._state.set_gradients(before)

    def _keep(self, result: Any) -> None:
        leaves, self._structure = pytree.tree_flatten(result)
        held = (*self._state.tensors(), *self._static, *self._gradients)
        lasting = {memory_of(each) for each in held if each is not None}
        for leaf in leaves:
            if not isinstance(leaf, (torch.Tensor, *_PLAIN)):
                raise UnfitError(f"a result is a {type(leaf).__name__}")
            if isinstance(leaf, torch.Tensor) and memory_of(leaf) in lasting:
                raise UnfitError("a result is no tensor of its own")
        self._results = [each.detach() if isinstance(each, torch.Tensor) else each for each in leaves]

    def replay(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Make the step with these arguments."""
        with torch.no_grad():
            for static, tensor in zip(self._static, tensors, strict=True):
                static.copy_(tensor)
            self._graph.replay()
            results = [each.clone() if isinstance(each, torch.Tensor) else each for each in self._results]
        if not self._has_its_gradients():
            self._state.set_gradients(self._gradients)
        count_versions(self._changed)
        return pytree.tree_unflatten(results, self._structure)

    def adopt_gradients(self) -> bool:
        """Let the graph's gradients have the values of those that are there, as after a step that was not the graph's;
        False where it was captured with others.

        A step that does not clear gradients adds to those that it finds.
        """
        if not (self._finds_its_own and self._has_its_gradients()):
            known = zip(self._state.parameters, self._had_gradient, self._gradients, strict=True)
            if any((parameter.grad is not None) is not had for parameter, had, _ in known):
                return False
            with torch.no_grad():
                for parameter, gradient in zip(self._state.parameters, self._gradients, strict=True):
                    now = parameter.grad
                    if now is not None and gradient is not None and now is not gradient:
                        gradient.copy_(now)
                        parameter.grad = gradient
        if self._added_to:
            parameters, found = zip(*self._added_to, strict=True)
            with torch.no_grad():
                torch._foreach_copy_(found, list(map(GRADIENT, parameters)))
        return True

    def _has_its_gradients(self) -> bool:
        """Whether the parameters have the graph's own gradients: mostly they do."""
        return all(map(operator.is_, self._state.gradients(), self._gradients))


@contextlib.contextmanager
def _capturable(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[None]:
    """Let fused optimizers be captured: the flag chooses no other kernel there, it is only asked for."""
    groups = [group for each in optimizers for group in each.param_groups if group.get("capturable") is False]
    for group in groups:
        group["capturable"] = True
    try:
        yield
    finally:
        for group in groups:
            group["capturable"] = False
