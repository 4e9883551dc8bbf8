"""What functions of NumPy and methods of its arrays do with memory."""

from __future__ import annotations

# Functions whose result never shares memory with an argument; a positional argument beyond the number may be `out`.
_CONSTRUCTORS = """array vstack hstack dstack column_stack row_stack block zeros ones full empty eye
    identity arange linspace logspace geomspace zeros_like ones_like full_like empty_like copy tile
    repeat pad append insert delete where sort argsort tril triu load loadtxt genfromtxt fromfile
    fromiter bincount digitize argwhere unique searchsorted interp convolve cross kron""".split()
_OF_ONE = """abs absolute exp log log1p log2 log10 expm1 sqrt square sin cos tan tanh sign floor ceil
    logical_not isnan isfinite round cumsum cumprod""".split()
_OF_TWO = """outer matmul maximum minimum power add subtract multiply divide mod logical_and logical_or take""".split()
MOST_ARGUMENTS = {
    **{f"numpy.{name}": 99 for name in _CONSTRUCTORS},
    "numpy.stack": 2,
    "numpy.concatenate": 2,
    "numpy.load": 1,
}
MOST_OPERANDS = {
    **{f"numpy.{name}": 1 for name in _OF_ONE},
    **{f"numpy.{name}": 2 for name in _OF_TWO},
    "numpy.clip": 3,
}
FRESH_METHODS = frozenset({"cumsum", "cumprod", "clip", "round", "repeat", "argsort", "take", "dot"})
REDUCTIONS = frozenset({"sum", "mean", "std", "var", "min", "max", "argmax", "argmin", "prod", "any", "all"})
SAME_MEMORY = frozenset({"reshape", "transpose", "squeeze", "swapaxes", "flatten", "ravel"})
READ_ONLY = frozenset({"numpy.memmap", "numpy.frombuffer", "numpy.broadcast_to", "numpy.load"})
ARRAY_METHODS = FRESH_METHODS | REDUCTIONS | SAME_MEMORY | {"astype", "copy", "view", "arithmetic", "nonzero", "numpy"}
SHAPED_DRAWS = frozenset(
    f"numpy.random.{name}" for name in ("rand", "randn", "random", "random_sample", "standard_normal", "permutation")
)
NUMBERS_DRAWN_BY = {
    **dict.fromkeys(("chisquare", "exponential", "geometric", "poisson", "standard_gamma"), 1),
    **dict.fromkeys(("beta", "binomial", "gamma", "laplace", "lognormal", "normal", "randint", "uniform"), 2),
    "triangular": 3,
}
"""How many numbers say what is drawn: of these alone, without a size, a number is."""
GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState"})
DRAWING_METHODS = frozenset(
    """beta binomial bytes chisquare choice choices dirichlet exponential f gamma gauss geometric getrandbits gumbel
    integers laplace lognormvariate lognormal multinomial multivariate_normal normal normalvariate permutation permuted
    poisson rand randint randn random random_integers random_sample randrange ranf sample shuffle standard_cauchy
    standard_exponential standard_gamma standard_normal standard_t triangular uniform vonmises weibull zipf""".split()
)
"""What a generator of NumPy or of `random` draws by: numbers, which are no generators."""
