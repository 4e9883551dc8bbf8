"""Which operations give a view: another tensor over the same memory, or a copy where there can be none.

The one table of them: an operation that is added here is known wherever memory, graphs, batches and precision are
followed."""

from __future__ import annotations

RESHAPING = frozenset("view reshape squeeze unsqueeze transpose permute t flatten".split())
"""The same numbers, each once, in another shape."""

VIEWS = RESHAPING | frozenset(
    """view_as reshape_as unflatten ravel swapaxes swapdims moveaxis movedim expand expand_as broadcast_to narrow select
    diagonal unfold as_strided view_as_real detach""".split()
)
"""One tensor over the memory of what it is asked for."""

PIECES = frozenset("split chunk unbind tensor_split hsplit vsplit dsplit".split())
"""A tuple of views."""

VIEW_METHODS = VIEWS | PIECES
VIEW_ATTRIBUTES = frozenset("T mT H mH real imag".split())
"""Attributes of tensors that are views, of the same graph."""

JOINING = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack"})
"""The numbers of several tensors in one, as they are."""
