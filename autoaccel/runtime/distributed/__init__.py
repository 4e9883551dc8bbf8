"""The same training by any number of processes: every rank runs the script's lines on the same global batches.

Under one process every verb does nothing. The definition, what may differ and what it costs: `docs/distributed.md`.

    first_rank          `device`, `save`, `first`, `path`, `agreed`: what the first rank does for all, or first
    global_view         `distribute`: a model of which each rank computes its rows, and hands back all of them
    row_independence    whether a model may be computed by rows, tried with a few of them
    shares              which rows a rank has; their way in and out, and that of their gradients
    batch_part          what part of a batch the code that runs now computes
    random_draws        random numbers inside of a model, drawn for the global batch
    batch_norm          batch normalisation by the statistics of the global batch
    batch_means         losses and other means of all elements, of the global batch
    deferred_outputs    large outputs, of which each rank keeps its rows until those of others are asked for
    autograd_functions  functions with a backward pass of their own, and hooks: their outputs and gradients
    gradient_reduction  gradients averaged by torch's own reducer
    sharding            parameters spread over the ranks by torch's own `fully_shard`
    connections         what forks of a rank have of its connections: nothing, and workers end with their rank
    process_group       joining, meeting and leaving, and what is said when a rank is lost
"""

from .first_rank import agreed, device, first, path, save
from .global_view import distribute

__all__ = ["agreed", "device", "distribute", "first", "path", "save"]
