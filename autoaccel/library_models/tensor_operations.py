"""What operations on tensors do to their precision, by the last part of their names: functions of torch and methods.

Autocast computes products in low precision and losses in float32; everything else takes over what it is given."""

from __future__ import annotations

from autoaccel.library_models.autocast_operations import LOWER
from autoaccel.library_models.python_names import LOOKING
from autoaccel.library_models.tensor_views import VIEW_ATTRIBUTES, VIEW_METHODS

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
WITH_INDICES = frozenset("max min topk sort median mode kthvalue cummax cummin nanmedian".split())
ALWAYS_PAIRS = frozenset("topk sort mode kthvalue cummax cummin".split())

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

# Decimals, whatever goes in.
FLOATING = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid tanh sin cos tan asin acos atan atan2 sinh cosh erf erfc
    erfinv softmax log_softmax logsumexp softmin mean std var norm nanmean rand rand_like randn randn_like normal
    linspace logspace bernoulli cosine_similarity normalize pairwise_distance cdist dist layer_norm group_norm
    batch_norm instance_norm local_response_norm relu6 gelu silu elu selu celu softplus softsign leaky_relu
    logsigmoid mish hardtanh hardswish hardsigmoid dropout dropout1d dropout2d dropout3d alpha_dropout linear
    bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d embedding embedding_bag
    scaled_dot_product_attention grid_sample affine_grid gumbel_softmax glu interpolate upsample avg_pool1d
    avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d log_prob entropy rsample
    reciprocal true_divide sinc quantile nanquantile float double half bfloat16 type_as_float FloatTensor
    DoubleTensor HalfTensor lerp multi_head_attention_forward""".split()
)
# What goes in, with other values or in another shape: decimals stay decimals and whole numbers whole.
KEEPING = (VIEW_METHODS | VIEW_ATTRIBUTES) | frozenset(
    """detach_ clone cpu cuda contiguous fold flip roll repeat repeat_interleave tile stack cat concat concatenate
    hstack vstack dstack index_select gather take take_along_dim masked_select masked_fill masked_fill_ where clamp
    clamp_ clip clamp_min clamp_max abs neg negative sign relu relu_ threshold maximum minimum amax amin max min sum
    nansum prod cumsum cumprod topk sort median mode kthvalue cummax cummin add sub mul add_ sub_ mul_ pow square
    tril triu diag diag_embed outer mm bmm matmul mv dot einsum addmm baddbmm addmv inner tensordot zeros_like
    ones_like empty_like pad pixel_shuffle pixel_unshuffle round floor ceil trunc data nan_to_num meshgrid rot90
    trace diff fmod remainder unique unique_consecutive Variable tensor as_tensor requires_grad_ pin_memory
    share_memory_ chain max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d values scatter
    scatter_add index_add zero_ fill_ copy_ nanmedian aminmax squeeze_ unsqueeze_ kron cross logcumsumexp renorm cov
    corrcoef new_zeros new_ones new_empty div_ float_power to type""".split()
)
METHODS = ENDS | FLOATING | KEEPING | frozenset("type_as numpy div divide floor_divide lerp_ index_put_".split())

# Refuse operands of different precision where autocast is off.
PRODUCTS = frozenset(
    """matmul mm bmm einsum addmm baddbmm mv dot tensordot addmv inner vdot lerp lerp_ cdist linear conv1d conv2d
    conv3d conv_transpose1d conv_transpose2d conv_transpose3d grid_sample bilinear chain_matmul multi_dot
    scaled_dot_product_attention layer_norm group_norm batch_norm instance_norm multi_head_attention_forward""".split()
)
# Refuse operands of different precision everywhere; they are no products.
SAME_DTYPE_NON_PRODUCTS = frozenset("allclose isclose assert_close cross heaviside put_".split())
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
    """quantile nanquantile inverse pinverse det logdet slogdet svd qr cholesky cholesky_inverse cholesky_solve lstsq
    geqrf eig symeig lu lu_factor matrix_power matrix_exp pca_lowrank svd_lowrank stft istft histogram histc polar
    view_as_complex complex triangular_solve lobpcg Gamma Dirichlet Beta MultivariateNormal LowRankMultivariateNormal
    StudentT Chi2 Wishart InverseGamma FisherSnedecor""".split()
)
