"""What operations on tensors do to their precision, by the last part of their names: functions of torch and methods.

Autocast computes products in low precision and losses in float32; everything else takes over what it is given."""

from __future__ import annotations

from autoaccel.library_models.autocast_operations import LOWER, REFUSING
from autoaccel.library_models.python_names import LOOKING
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEW_METHODS


def _of_dimensions(names: str) -> frozenset[str]:
    """`conv1d`, `conv2d` and `conv3d` of `conv`."""
    return frozenset(f"{name}{number}d" for name in names.split() for number in (1, 2, 3))


# Results that are no tensors of decimals, whatever goes in: Python values, whole numbers, masks, arrays.
WHOLE = frozenset(
    """argmax argmin argsort nonzero argwhere bincount count_nonzero multinomial randint randint_like randperm
    tril_indices triu_indices searchsorted bucketize one_hot eq ne gt lt ge le isnan isinf isfinite isclose isin
    logical_and logical_or logical_not logical_xor long int short byte bool char LongTensor IntTensor BoolTensor
    ByteTensor ShortTensor signbit get_device""".split()
)
NO_TENSOR = frozenset(
    """item tolist size dim numel nelement stride backward equal allclose element_size storage data_ptr register_hook
    requires_grad_ ndimension retain_grad is_floating_point is_contiguous is_tensor untyped_storage all any
    is_complex is_nonzero new_tensor""".split()
)
CASTS = frozenset({"float", "double", "cdouble", "cfloat"})
# Methods and functions after which the precision of what went in no longer matters.
ENDS = WHOLE | NO_TENSOR | CASTS
INFORMATION = frozenset("shape grad ndim requires_grad is_cuda grad_fn is_leaf names itemsize device indices".split())
ATTRIBUTES = INFORMATION | frozenset("data dtype layout real imag T mT H mH".split())
ALWAYS_PAIRS = frozenset("topk sort mode kthvalue cummax cummin".split())
WITH_INDICES = ALWAYS_PAIRS | {"max", "min", "median", "nanmedian"}

# Factories: those whose values are the same on every device, those that are rounded there, those that draw.
FILLING = frozenset(
    """zeros ones empty full eye zeros_like ones_like empty_like full_like tril_indices triu_indices arange
    tensor""".split()
)
ROUNDED = frozenset(
    "linspace logspace hann_window hamming_window bartlett_window blackman_window kaiser_window".split()
)
DRAWING = frozenset("rand randn randint randperm normal rand_like randn_like randint_like".split())
DRAWING_IN_PLACE = frozenset("uniform_ normal_ random_ bernoulli_ exponential_ log_normal_".split())

# Refuse operands of different precision where autocast is off.
MATRIX_PRODUCTS = frozenset("matmul mm bmm einsum addmm baddbmm mv dot tensordot addmv inner".split())
_LAYER_PRODUCTS = _of_dimensions("conv conv_transpose") | frozenset(
    """linear bilinear cdist grid_sample scaled_dot_product_attention layer_norm group_norm batch_norm instance_norm
    multi_head_attention_forward lerp""".split()
)
PRODUCTS = MATRIX_PRODUCTS | _LAYER_PRODUCTS | frozenset("vdot lerp_ chain_matmul multi_dot".split())

# Decimals, whatever goes in.
FLOATING = (
    _LAYER_PRODUCTS | (DRAWING - WHOLE) | ROUNDED | _of_dimensions("dropout avg_pool adaptive_avg_pool")
) | frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid tanh sin cos tan asin acos atan atan2 sinh cosh erf
    erfc erfinv softmax log_softmax logsumexp softmin mean std var norm nanmean bernoulli cosine_similarity
    normalize pairwise_distance dist local_response_norm relu6 gelu silu elu selu celu softplus softsign
    leaky_relu logsigmoid mish hardtanh hardswish hardsigmoid dropout alpha_dropout embedding embedding_bag
    affine_grid gumbel_softmax glu interpolate upsample log_prob entropy rsample reciprocal true_divide sinc
    quantile nanquantile float double half bfloat16 FloatTensor DoubleTensor HalfTensor""".split()
)
# What goes in, with other values or in another shape: decimals stay decimals and whole numbers whole.
_SAME = VIEW_METHODS | VIEW_ATTRIBUTES | WITH_INDICES | MATRIX_PRODUCTS | _of_dimensions("max_pool adaptive_max_pool")
KEEPING = _SAME | frozenset(
    """detach_ clone cpu cuda contiguous fold flip roll repeat repeat_interleave tile stack cat concat concatenate
    hstack vstack dstack index_select gather take take_along_dim masked_select masked_fill masked_fill_ where
    clamp clamp_ clip clamp_min clamp_max abs neg negative sign relu relu_ threshold maximum minimum amax amin sum
    nansum prod cumsum cumprod add sub mul add_ sub_ mul_ pow square tril triu diag diag_embed outer zeros_like
    ones_like empty_like pad pixel_shuffle pixel_unshuffle round floor ceil trunc data nan_to_num meshgrid rot90
    trace diff fmod remainder unique unique_consecutive Variable tensor as_tensor requires_grad_ pin_memory
    share_memory_ chain values scatter scatter_add index_add zero_ fill_ copy_ aminmax squeeze_ unsqueeze_ kron
    cross logcumsumexp renorm cov corrcoef new_zeros new_ones new_empty div_ float_power to type""".split()
)
METHODS = ENDS | FLOATING | KEEPING | frozenset("type_as numpy div divide floor_divide lerp_ index_put_".split())

# Refuse operands of different precision everywhere; they are no products.
SAME_DTYPE_NON_PRODUCTS = frozenset(
    """allclose isclose assert_close cross heaviside put_ set_ cartesian_prod meshgrid lerp chain_matmul prelu
    grid_sample""".split()
)
# In low precision where autocast is on, on the CPU or on CUDA, whatever goes in.
LOW = frozenset(name.removeprefix("linalg_") for names in LOWER.values() for name in names) | {
    "multi_head_attention_forward"
}
# In float32 wherever autocast is on, on the CPU and on CUDA.
LOSSES = frozenset(
    """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits
    cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss
    poisson_nll_loss soft_margin_loss triplet_margin_loss ctc_loss binary_cross_entropy""".split()
)
# Insist on one precision for the tensor and what is written into it.
WRITING_ROWS = frozenset(
    "scatter scatter_add scatter_reduce index_add index_copy index_put index_reduce masked_scatter".split()
)
WRITING = WRITING_ROWS | frozenset(f"{name}_" for name in WRITING_ROWS) | {"lerp_"}
STORING = frozenset("append extend insert appendleft extendleft add put push update setdefault".split())
NO_TENSOR_BUILTINS = (LOOKING | {"range", "delattr", "super", "object"}) | frozenset(
    """round input open callable hash vars dir complex bytes divmod any all exit quit exec eval chr ord bin hex oct
    compile""".split()
)
# Have no kernels for low precision, on the CPU or on CUDA, with autocast or without.
NO_LOW_PRECISION_KERNELS = frozenset(
    name.removeprefix("torch.") for names in REFUSING.values() for name in names if name.count(".") == 1
) | frozenset(
    """slogdet lstsq eig symeig lu_factor matrix_exp istft lobpcg Gamma Dirichlet Beta MultivariateNormal
    LowRankMultivariateNormal StudentT Chi2 Wishart InverseGamma FisherSnedecor rrelu nuclear_norm""".split()
)
# Need more digits of what has been computed than low precision keeps: a rounded matrix is no longer positive definite.
LINEAR_ALGEBRA = frozenset(
    """cholesky cholesky_ex cholesky_inverse cholesky_solve cond det eig eigh eigvals eigvalsh inv inv_ex inverse
    ldl_factor ldl_factor_ex ldl_solve lobpcg logdet lstsq lu lu_factor lu_factor_ex lu_solve matrix_exp matrix_power
    matrix_rank pca_lowrank pinv pinverse qr slogdet solve solve_ex solve_triangular svd svd_lowrank svdvals tensorinv
    tensorsolve triangular_solve MultivariateNormal Wishart""".split()
)
# Distributions over classes whose probabilities have to add up to 1, which rounded ones do not.
OF_PROBABILITIES = frozenset("Categorical OneHotCategorical OneHotCategoricalStraightThrough Multinomial".split())
# Cast what they compute to the precision of `out=`; others insist on the same.
CASTING_TO_OUT = frozenset(
    """add sub subtract mul multiply div divide true_divide cat concat stack exp exp2 expm1 log log2 log10 log1p sigmoid
    tanh sin cos sqrt rsqrt square reciprocal erf pow maximum minimum addcmul addcdiv atan2 hypot""".split()
)
