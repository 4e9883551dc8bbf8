"""What functions and layers of libraries write to the memory that they are handed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

# Where `inplace` stands among the positional arguments, after the tensor for functions.
_FUNCTIONS = {
    **dict.fromkeys("relu relu6 selu silu mish hardswish hardsigmoid".split(), 1),
    **dict.fromkeys("elu celu leaky_relu".split(), 2),
    **dict.fromkeys("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout".split(), 3),
    **dict.fromkeys("threshold hardtanh".split(), 3),
    "rrelu": 4,
}
_LAYERS = {
    **dict.fromkeys("ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid".split(), 0),
    **dict.fromkeys("ELU CELU LeakyReLU".split(), 1),
    **dict.fromkeys("Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout".split(), 1),
    **dict.fromkeys("Threshold Hardtanh RReLU".split(), 2),
}
# Layers that may give what they were handed, so that the next one has it.
HANDING_ON = frozenset(
    """Identity Flatten Unflatten Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout""".split()
)
_COMPUTING = re.compile(
    r"torch\.nn\.(Lazy)?(Conv|BatchNorm|SyncBatchNorm|LayerNorm|RMSNorm|GroupNorm|InstanceNorm|Linear$|Bilinear|Embedding"
    r"|(Adaptive)?(Avg|Max)Pool|Upsample|Sigmoid$|Tanh$|GELU$|Softmax$|LogSoftmax$)"
)
_MUTATORS = frozenset(
    """random.shuffle numpy.random.shuffle numpy.put numpy.place numpy.copyto numpy.putmask numpy.put_along_axis
    numpy.fill_diagonal heapq.heappush heapq.heappop heapq.heapify heapq.heapreplace heapq.heappushpop
    bisect.insort bisect.insort_left bisect.insort_right builtins.setattr builtins.delattr torch.utils.swap_tensors
    operator.setitem operator.delitem builtins.next""".split()
)
IN_PLACE_METHODS = frozenset(
    f"__{name}__"
    for name in """iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ixor ior setitem
    delitem setattr delattr""".split()
)
_OPERATORS = frozenset(f"operator.{name[2:-2]}" for name in IN_PLACE_METHODS) | {"operator.iconcat"}
# Functions of NumPy by the position of `out`: behind their operands, and `axis` and `dtype` where they have these.
_OUT = {
    **dict.fromkeys(
        """abs absolute fabs positive negative sign exp exp2 expm1 log log2 log10 log1p sqrt cbrt square reciprocal
        sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg degrees radians floor
        ceil trunc rint fix conj conjugate invert logical_not isnan isinf isfinite signbit spacing""".split(),
        1,
    ),
    **dict.fromkeys(
        """add subtract multiply divide true_divide floor_divide power float_power mod fmod remainder maximum minimum
        fmax fmin arctan2 hypot logaddexp logaddexp2 copysign nextafter ldexp matmul dot outer bitwise_and bitwise_or
        bitwise_xor left_shift right_shift logical_and logical_or logical_xor equal not_equal less less_equal greater
        greater_equal heaviside gcd lcm round around max min amax amin any all argmax argmin compress""".split(),
        2,
    ),
    **dict.fromkeys("clip take choose sum prod mean std var cumsum cumprod nansum nanmean ptp".split(), 3),
}
# Libraries whose functions say by their names or arguments what they write to.
_READING = sys.stdlib_module_names | frozenset(
    """torch torchvision torchaudio torchtext torchmetrics torcheval numpy scipy sklearn pandas skimage PIL imageio
    matplotlib mpl_toolkits pylab seaborn plotly bokeh tqdm rich wandb tensorboard tensorboardX tensorboard_logger
    visdom mlflow comet_ml neptune nltk sacrebleu rouge jiwer evaluate einops psutil tabulate termcolor colorama
    loguru yaml builtins autoaccel autoaccel_runtime""".split()
)

# Others whose functions keep nothing of the script's between two calls.
_STATELESS = _READING | frozenset(
    """cv2 albumentations imgaug imagecorruptions librosa soundfile python_speech_features resampy h5py lmdb tables zarr
    netCDF4 xarray pyarrow polars dask pydicom nibabel SimpleITK itk monai torchio rasterio tifffile openslide decord av
    imageio_ffmpeg turbojpeg blosc msgpack msgpack_numpy lz4 orjson ujson simplejson six regex requests boto3 fsspec
    omegaconf hydra transformers tokenizers datasets diffusers accelerate peft sentencepiece spacy jieba gensim ftfy
    unidecode editdistance Levenshtein kornia timm torch_geometric dgl ogb rdkit networkx igraph sympy numba jax
    tensorflow pycocotools shapely trimesh open3d faiss annoy xgboost lightgbm gym gymnasium pettingzoo clip open_clip
    torchinfo torchsummary thop fvcore ptflops click absl fire pytz dateutil prettytable natsort more_itertools
    aim clearml swanlab sacred trackio dvclive""".split()
)


def gives_new_memory(layer: str) -> bool:
    """Whether what a layer gives is memory of its own: neither what it was handed nor a view of it."""
    return _COMPUTING.match(layer) is not None


def only_reads(name: str) -> bool:
    """Whether a function belongs to a library that is known to leave its arguments alone, but for those that
    `written` tells of."""
    return name.partition(".")[0] in _READING


def keeps_state(name: str) -> bool:
    """Whether a function belongs to a library of which nobody knows what it keeps between two calls."""
    return name.partition(".")[0] not in _STATELESS


def written(name: str, call: ast.Call) -> Iterator[ast.expr]:
    """What a library's function writes to: `random.shuffle(order)`, `torch.relu_(x)`, `np.add(a, b, a)`."""
    last = name.rpartition(".")[2]
    says_so = (last.endswith("_") and not last.endswith("__")) or name.endswith(".at")
    known = name in _MUTATORS or name in _OPERATORS or last in IN_PLACE_METHODS
    if says_so or known or _asks(call, _FUNCTIONS.get(last)):
        for each in call.args[:1]:
            yield each
            yield from each.elts if isinstance(each, ast.List | ast.Tuple) else ()
    if name.startswith("numpy.") and last in _OUT:
        yield from call.args[_OUT[last] :]
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "out")


def changes_input(name: str, made: ast.Call) -> bool:
    """Whether a layer of a library, as it is made, writes to what it is called with: `nn.ReLU(inplace=True)`."""
    return _asks(made, _LAYERS.get(name.rpartition(".")[2]))


def _asks(call: ast.Call, position: int | None) -> bool:
    """Whether a call may ask for a change in place, by keyword or (from a position on) without."""
    named = [each.value for each in call.keywords if each.arg == "inplace" or (each.arg or "").startswith("overwrite_")]
    given = call.args[position : position + 1] if position is not None else []
    return any(not (isinstance(each, ast.Constant) and not each.value) for each in (*named, *given))
