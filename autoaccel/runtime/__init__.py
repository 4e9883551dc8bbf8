"""What rewritten scripts import: `from autoaccel import runtime as accel`.

A façade with few verbs over torch. Every decision that depends on the machine is made here, when the script runs: on
a CUDA device, on another accelerator, on a laptop, under torch 2.6 or later. Where something would not pay or not
work it does nothing, and `AUTOACCEL_DISABLE` switches any part of it off. Types never change: scripts keep their own
models, loaders and optimizers.

Only torch is needed, and nothing of the rest of the tool: `autoaccel rewrite --vendor` copies this folder beside a
script.

    amp                `autocast` and `grad_scaler`: low precision where it pays
    compile            `compile`: in place, where it pays, eager where it fails
    loading            `prefetch`, `num_workers` and `pin_memory`: batches before the loop asks for them; `seed_worker`
                       and `shard`: what workers draw, and which part of a stream is theirs
    in_memory          `in_memory`: batches of data in memory, looked up whole; `prefetch` uses it as well
    running_total      `total` and `item`: sums that are kept on the device until they are read
    distributed        `device`, `distribute`, `save`, `first`, `path`, `agreed`: the same by several processes
    best_epoch         `early_stopping`: when to end a loop over epochs, and the weights of its best epoch
    optim              `optimizer`: all parameters updated in one kernel, where that is faster
    loss_functions     `binary_cross_entropy` and `BCELoss`: torch's loss of probabilities, by vectors on a CPU
    pooling            `max_pool2d` and `MaxPool2d`: torch's, of pictures laid out pixel by pixel on a CPU
    memory_layout      `channels_last`: pictures in memory pixel by pixel, where that is faster
    backends           `matmul_precision` and `cudnn_benchmark`: settings for CUDA, where they are faster
    step_graph         `step`: a training step as one CUDA graph, where that is asked for, proven and faster
    trial              A/B trials over the script's own steps, and what later runs are told of them
    environment        what the user asked for by AUTOACCEL_*, and the log of what was decided
    devices            which device something speaks of, and what it can do
    rng_state          the states of the random generators that a program shares
    replicas           modules of which several devices get copies
    in_place_call      what stands in for a module's own call
    execution_mode     whether a call is traced, intercepted, in a backward pass, in a distributed run
    machine_decisions  what would be decided here, for `autoaccel env`
"""

from .amp.autocast import autocast
from .amp.grad_scaler import grad_scaler
from .backends.backend_setting import cudnn_benchmark, matmul_precision
from .best_epoch import early_stopping
from .compile.in_place_compile import compile  # noqa: A004 - scripts say accel.compile
from .distributed import agreed, device, distribute, first, path, save
from .in_memory.whole_batches import in_memory
from .loading.loader_settings import num_workers, pin_memory
from .loading.prefetcher import prefetch
from .loading.stream_shards import shard
from .loading.worker_seeds import seed_worker
from .loss_functions import BCELoss, binary_cross_entropy
from .machine_decisions import decisions
from .memory_layout.channels_last_call import channels_last
from .optim.fused_step import optimizer
from .pooling import MaxPool2d, max_pool2d
from .running_total import item, total
from .step_graph.step import step

__all__ = [
    "BCELoss",
    "MaxPool2d",
    "agreed",
    "autocast",
    "binary_cross_entropy",
    "channels_last",
    "compile",
    "cudnn_benchmark",
    "decisions",
    "device",
    "distribute",
    "early_stopping",
    "first",
    "grad_scaler",
    "in_memory",
    "item",
    "matmul_precision",
    "max_pool2d",
    "num_workers",
    "optimizer",
    "path",
    "pin_memory",
    "prefetch",
    "save",
    "seed_worker",
    "shard",
    "step",
    "total",
]
