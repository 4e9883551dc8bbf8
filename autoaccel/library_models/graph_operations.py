"""What torch, Python and other libraries do with a tensor's graph: where it ends, who keeps nothing of what is handed
over."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.library_models.python_names import LOOKING

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_COMPARISONS = "eq ne gt lt ge le isnan isinf isfinite isclose allclose equal logical_and logical_or logical_not"
_INDICES = "argmax argmin argsort nonzero multinomial bincount count_nonzero searchsorted bucketize"

ENDING_METHODS = frozenset(
    f"""{_COMPARISONS} {_INDICES} item tolist numpy detach detach_ size dim ndimension numel nelement element_size
    stride get_device data_ptr any all long int short byte bool is_contiguous is_floating_point new_zeros new_ones
    new_tensor new_empty new_full""".split()
)
"""Methods of tensors whose result carries no graph."""

COPYING_METHODS = frozenset("clone copy repeat new_zeros new_ones new_empty new_full new_tensor".split())
"""Methods whose result shares nothing with what they are called on."""

UNCHANGING_METHODS = frozenset(
    """to type type_as float double half bfloat16 cpu cuda contiguous pin_memory coalesce resolve_conj resolve_neg
    align_to align_as refine_names""".split()
)
"""Methods that give the tensor itself, with its graph, where there is nothing to be done."""
UNCHANGING_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in """as_tensor asarray atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to dropout
    nn.functional.dropout nn.functional.dropout1d nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.alpha_dropout nn.functional.feature_alpha_dropout resolve_conj resolve_neg""".split()
)

ENDING_ATTRIBUTES = frozenset("data shape dtype device ndim layout is_cuda is_sparse names itemsize nbytes".split())
MODE_ATTRIBUTES = frozenset("requires_grad grad grad_fn is_leaf".split())
"""Attributes of tensors that tell whether there is a graph."""

ENDING_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in f"""{_COMPARISONS} {_INDICES} is_tensor numel save tensor zeros_like ones_like empty_like full_like
    rand_like randn_like randint_like manual_seed from_numpy zeros ones empty full rand randn randint arange
    nn.Parameter distributed.barrier cuda.synchronize""".split()
) | {"torchvision.utils.save_image", "torchvision.utils.make_grid", "torchvision.utils.draw_bounding_boxes"}

WRITING_FUNCTIONS = frozenset({"torch.save", "pickle.dump", "pickle.dumps"})
"""Functions that write a tensor with what tells whether it requires gradients, but without the graph."""

ENDING_LIBRARIES = ("torchtext.vocab.", "torchtext.data.", "torchtext.datasets.", "nltk.")
"""Libraries about text, in which nothing carries a graph."""

ENDING_BUILTINS = LOOKING | frozenset("hash callable complex range ascii bytes open delattr".split())

SHOWING_METHODS = frozenset(
    """add_scalar add_scalars add_image add_images add_histogram add_text add_figure add_embedding set_postfix
    set_postfix_str set_description info debug warning error exception critical imshow plot scatter set_title title
    savefig write writerow save_image""".split()
)
"""Methods, of whatever object, that show what they are given."""

FORWARD_HOOKS = frozenset(
    """register_forward_hook register_forward_pre_hook register_module_forward_hook
    register_module_forward_pre_hook""".split()
)
GRADIENT_HOOKS = frozenset(
    """register_hook register_full_backward_hook register_full_backward_pre_hook register_backward_hook
    register_post_accumulate_grad_hook""".split()
)
"""Methods that make torch call a function of the script, in forward and in backward passes."""

DIFFERENTIATING = frozenset(
    """torch.autograd.grad torch.autograd.functional.jacobian torch.autograd.functional.hessian
    torch.autograd.functional.vjp torch.autograd.functional.jvp torch.autograd.functional.hvp torch.func.grad
    torch.func.grad_and_value torch.func.vjp torch.func.jacrev torch.func.hessian""".split()
)
"""Functions that differentiate what they are given."""

STARTS_CODE = (
    *("torch.multiprocessing.", "torch.distributed.rpc.", "torch.optim.", "torch.hub."),
    *("operator.setitem", "operator.iadd", "operator.iconcat", "operator.call", "operator.methodcaller"),
    *(f"itertools.{name}" for name in ("starmap", "accumulate", "takewhile", "dropwhile", "filterfalse", "groupby")),
)
"""Functions of torch and of Python that keep what they are given, or run other code with it."""

_KEEP_NOTHING = frozenset(
    """torch torchvision torchaudio numpy math os sys time json csv random statistics pprint warnings logging string
    matplotlib PIL cv2 imageio seaborn plotly sklearn scipy pandas skimage wandb tensorboardX tensorboard tqdm einops
    copy itertools operator collections typing pickle joblib tabulate prettytable rich nltk sacrebleu rouge evaluate
    torchinfo autoaccel autoaccel_runtime datetime dataclasses torchtext""".split()
)


def keeps_nothing(name: str) -> bool:
    """Whether a function of a library neither keeps what it is given nor runs code of others with it."""
    return name.partition(".")[0] in _KEEP_NOTHING


def is_without_graph(script: Script, manager: ast.expr) -> bool:
    """Whether a context manager or decorator surely switches gradients off."""
    function = manager.func if isinstance(manager, ast.Call) else manager
    name = script.qualname(function)
    if name in ("torch.no_grad", "torch.inference_mode"):
        return not (isinstance(manager, ast.Call) and (manager.args or manager.keywords))
    return name == "torch.set_grad_enabled" and isinstance(manager, ast.Call) and is_false(manager)


def is_false(call: ast.Call) -> bool:
    """Whether the one argument of a call is `False`."""
    arguments = given_values(call)
    return len(arguments) == 1 and is_constant(arguments[0], False)
