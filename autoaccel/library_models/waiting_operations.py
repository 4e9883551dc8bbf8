"""Operations of torch for which the host waits for the device: it reads values, to know the shape of a result or
whether all went well.

So they cannot be captured in a CUDA graph; where it is the shape that depends on values, compiled code ends there, too.
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs)
"""

from __future__ import annotations

from autoaccel.library_models.tensor_views import VIEW_METHODS

SHAPED_BY_VALUES = frozenset(
    f"torch.{name}"
    for name in """nonzero argwhere unique unique_consecutive masked_select bincount combinations
    sparse_coo_tensor""".split()
)
SHAPED_BY_VALUES_METHODS = frozenset(
    """nonzero argwhere unique unique_consecutive masked_select bincount to_sparse to_sparse_csr to_sparse_csc
    to_sparse_coo coalesce""".split()
)

# Its error codes, singular values that are too small, or norms that tell how to go on.
_LINEAR_ALGEBRA = frozenset(
    """cholesky inv solve eig eigvals eigh eigvalsh svd svdvals matrix_rank pinv cond lstsq lu_factor ldl_factor
    tensorinv tensorsolve matrix_exp""".split()
)
_OF_TORCH = frozenset("cholesky inverse svd pinverse matrix_exp lobpcg svd_lowrank pca_lowrank".split())
CHECKED_ON_THE_HOST = (
    frozenset(f"torch.linalg.{name}" for name in _LINEAR_ALGEBRA)
    | frozenset(f"torch.{name}" for name in _OF_TORCH | {"multinomial", "equal", "allclose", "is_nonzero", "normal"})
    | {"torch.nn.functional.ctc_loss"}
)
CHECKED_ON_THE_HOST_METHODS = (_OF_TORCH | frozenset("multinomial equal allclose is_nonzero".split())) - {
    "svd_lowrank",
    "pca_lowrank",
    "lobpcg",
}

SIZED = frozenset(
    f"torch.{name}" for name in "zeros ones empty full rand randn randint randperm eye arange linspace logspace".split()
)
"""Functions all of whose arguments are numbers and shapes; a tensor among them is read."""

_VIEWED_BY_SIZES = frozenset(name for name in VIEW_METHODS if not name.endswith("_as"))  # but by another tensor

SIZED_BY_OTHERS = frozenset(f"torch.{name}" for name in _VIEWED_BY_SIZES) | frozenset(
    f"torch.{name}"
    for name in "tile topk roll nn.functional.one_hot nn.functional.pad nn.functional.interpolate".split()
)
"""Functions of a tensor, whose other arguments are numbers and shapes."""

SIZED_METHODS = _VIEWED_BY_SIZES | frozenset("repeat tile topk roll new_zeros new_ones new_empty new_full".split())
NO_SIZES = frozenset({"out", "generator", "dtype", "device", "layout"})
