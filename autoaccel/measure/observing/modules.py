"""What a module consists of. Scripts give attributes of their own the names of methods (`self.modules = …`): none of
those is called here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor, nn

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


def roots(modules: Iterable[nn.Module], trained: set[int], named: set[int]) -> Iterator[nn.Module]:
    """The outermost of some modules that have a name or own what is trained, and no tensor of which another has."""
    own = [module for module in modules if not _made_by_compiler(module)]
    inner = {id(child) for module in own for _, child in _children(module)}
    # modules that hold one another have no outermost one: the one that was there first stands for them
    candidates = [module for module in own if id(module) not in inner] + own + list(modules)
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
