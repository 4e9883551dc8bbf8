"""What autocast does with each operation of torch 2.13.0, on the CPU and on CUDA.

Written by `python -m tools.autocast_operations`, which asks torch; `tests/test_autocast_operations.py` tells when torch
has moved on.
"""

from __future__ import annotations

from typing import Final

Names = frozenset[str]

# fmt: off

LOWER: Final[dict[str, Names]] = {
    "cpu": frozenset(
        """addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
        conv_transpose3d linalg_vecdot linear matmul mkldnn_rnn_layer mm prelu
        scaled_dot_product_attention""".split()
    ),
    "cuda": frozenset(
        """addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d conv_transpose3d convolution cudnn_convolution cudnn_convolution_transpose
        einsum gru_cell linalg_multi_dot linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell
        rnn_tanh_cell scaled_dot_product_attention""".split()
    ),
}
"""Operations whose operands are cast to the low precision."""

FLOAT32: Final[dict[str, Names]] = {
    "cpu": frozenset(
        """adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
        binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve
        cosine_embedding_loss cross_entropy_loss ctc_loss fake_quantize_per_tensor_affine fft_fft
        fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2
        fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf
        grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div
        l1_loss linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals
        linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq
        linalg_matrix_rank linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv
        linalg_tensorsolve lu_solve margin_ranking_loss max_pool3d max_unpool2d max_unpool3d mse_loss
        multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward nanquantile nll_loss
        nll_loss2d orgqr ormqr pinverse poisson_nll_loss polar prod qr quantile reflection_pad1d
        reflection_pad2d replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss
        soft_margin_loss stft svd trace triangular_solve triplet_margin_loss view_as_complex""".split()
    ),
    "cuda": frozenset(
        """acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity
        cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm hinge_embedding_loss huber_loss
        kl_div l1_loss layer_norm linalg_vector_norm log log10 log1p log2 log_softmax logsumexp
        margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss
        nll_loss2d norm nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt
        sinh smooth_l1_loss soft_margin_loss softmax softplus sum tan triplet_margin_loss
        upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
        upsample_nearest3d upsample_trilinear3d""".split()
    ),
}
"""Operations that compute in float32, whatever they are given."""

REFUSING: Final[dict[str, Names]] = {
    "cpu": frozenset(
        """torch.complex torch.det torch.fft.hfft2 torch.fft.hfftn torch.fft.ihfft2 torch.fft.ihfftn
        torch.histogram torch.histogramdd torch.linalg.det torch.linalg.ldl_factor
        torch.linalg.ldl_factor_ex torch.linalg.ldl_solve torch.linalg.lu torch.linalg.lu_factor
        torch.linalg.lu_factor_ex torch.linalg.lu_solve torch.linalg.matrix_norm
        torch.linalg.matrix_power torch.linalg.norm torch.linalg.pinv torch.linalg.slogdet
        torch.linalg.solve_ex torch.linalg.solve_triangular torch.linalg.vander torch.logdet torch.lu
        torch.lu_unpack torch.matrix_power torch.nn.functional.pdist torch.pca_lowrank
        torch.sparse.sampled_addmm torch.special.airy_ai torch.special.bessel_j0 torch.special.bessel_j1
        torch.special.bessel_y0 torch.special.bessel_y1 torch.special.chebyshev_polynomial_t
        torch.special.chebyshev_polynomial_u torch.special.chebyshev_polynomial_v
        torch.special.chebyshev_polynomial_w torch.special.erfcx torch.special.hermite_polynomial_h
        torch.special.hermite_polynomial_he torch.special.i1 torch.special.i1e
        torch.special.laguerre_polynomial_l torch.special.legendre_polynomial_p torch.special.log_ndtr
        torch.special.modified_bessel_i0 torch.special.modified_bessel_i1
        torch.special.modified_bessel_k0 torch.special.modified_bessel_k1 torch.special.ndtri
        torch.special.scaled_modified_bessel_k0 torch.special.scaled_modified_bessel_k1
        torch.special.shifted_chebyshev_polynomial_t torch.special.shifted_chebyshev_polynomial_u
        torch.special.shifted_chebyshev_polynomial_v torch.special.shifted_chebyshev_polynomial_w
        torch.special.spherical_bessel_j0 torch.special.zeta torch.svd_lowrank""".split()
    ),
    "cuda": frozenset(
        """torch.angle torch.cholesky torch.cholesky_inverse torch.cholesky_solve torch.complex torch.det
        torch.fft.fft torch.fft.fft2 torch.fft.fftn torch.fft.hfft torch.fft.hfft2 torch.fft.hfftn
        torch.fft.ifft torch.fft.ifft2 torch.fft.ifftn torch.fft.ihfft torch.fft.ihfft2 torch.fft.ihfftn
        torch.fft.irfft torch.fft.irfft2 torch.fft.irfftn torch.fft.rfft torch.fft.rfft2 torch.fft.rfftn
        torch.geqrf torch.histc torch.igamma torch.igammac torch.inverse torch.linalg.cholesky
        torch.linalg.cholesky_ex torch.linalg.cond torch.linalg.det torch.linalg.eig torch.linalg.eigh
        torch.linalg.eigvals torch.linalg.eigvalsh torch.linalg.householder_product torch.linalg.inv
        torch.linalg.inv_ex torch.linalg.ldl_factor torch.linalg.ldl_factor_ex torch.linalg.ldl_solve
        torch.linalg.lstsq torch.linalg.lu torch.linalg.lu_factor torch.linalg.lu_factor_ex
        torch.linalg.lu_solve torch.linalg.matrix_power torch.linalg.matrix_rank torch.linalg.pinv
        torch.linalg.qr torch.linalg.slogdet torch.linalg.solve torch.linalg.solve_ex
        torch.linalg.solve_triangular torch.linalg.svd torch.linalg.svdvals torch.linalg.tensorinv
        torch.linalg.tensorsolve torch.linalg.vander torch.logdet torch.lu torch.lu_solve
        torch.lu_unpack torch.matrix_power torch.nanquantile torch.nn.functional.ctc_loss
        torch.nn.functional.embedding_bag torch.orgqr torch.ormqr torch.pca_lowrank torch.pinverse
        torch.polar torch.qr torch.quantile torch.sparse.sampled_addmm torch.special.airy_ai
        torch.special.bessel_j0 torch.special.bessel_j1 torch.special.bessel_y0 torch.special.bessel_y1
        torch.special.chebyshev_polynomial_t torch.special.chebyshev_polynomial_u
        torch.special.chebyshev_polynomial_v torch.special.chebyshev_polynomial_w torch.special.erfcx
        torch.special.gammainc torch.special.gammaincc torch.special.hermite_polynomial_h
        torch.special.hermite_polynomial_he torch.special.i1 torch.special.i1e
        torch.special.laguerre_polynomial_l torch.special.legendre_polynomial_p torch.special.log_ndtr
        torch.special.modified_bessel_i0 torch.special.modified_bessel_i1
        torch.special.modified_bessel_k0 torch.special.modified_bessel_k1 torch.special.ndtri
        torch.special.scaled_modified_bessel_k0 torch.special.scaled_modified_bessel_k1
        torch.special.shifted_chebyshev_polynomial_t torch.special.shifted_chebyshev_polynomial_u
        torch.special.shifted_chebyshev_polynomial_v torch.special.shifted_chebyshev_polynomial_w
        torch.special.spherical_bessel_j0 torch.special.zeta torch.stft torch.svd torch.svd_lowrank
        torch.triangular_solve torch.view_as_complex""".split()
    ),
}
"""Functions that raise in a region when they are given low precision."""

REFUSING_METHODS: Final[dict[str, Names]] = {
    "cpu": frozenset(
        """det histogram logdet lu matrix_power to_sparse""".split()
    ),
    "cuda": frozenset(
        """angle cholesky cholesky_inverse cholesky_solve det geqrf histc igamma igammac inverse logdet lu
        lu_solve matrix_power nanquantile orgqr ormqr pinverse qr quantile stft svd triangular_solve""".split()
    ),
}
"""Methods of tensors that do."""

SAME_DTYPE: Final[dict[str, Names]] = {
    "cpu": frozenset(
        """addmv allclose batch_norm bilinear cartesian_prod cross dot embedding_bag group_norm heaviside
        index_add index_put index_reduce inner instance_norm isclose layer_norm lerp masked_scatter
        meshgrid multi_dot mv native_batch_norm native_group_norm native_layer_norm put scatter
        scatter_add scatter_reduce tensordot vdot""".split()
    ),
    "cuda": frozenset(
        """allclose batch_norm grid_sampler_2d grid_sampler_3d heaviside index_add index_copy index_reduce
        lerp masked_scatter native_batch_norm native_group_norm put scatter scatter_reduce""".split()
    ),
}
"""Operations that raise in a region when their operands differ in precision."""
