"""What people ask of a tool that speeds training up, and this one leaves alone on purpose: for which reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that is no rule, and will be none.

    `reason` says why in a sentence or two, `instead` what helps those who want it.
    """

    name: str
    reason: str
    instead: str


REFUSALS = (
    Refusal(
        "batch-size",
        "Another batch size is another training: the noise of the gradients, the number of updates and batch "
        "statistics change, and the learning rate that fitted no longer does.",
        "Change it yourself, with the learning rate: `autoaccel tune --batch` shows throughput and loss per sample.",
    ),
    Refusal(
        "model-parallel",
        "Spreading one model's layers over devices is for models that fit on none of them; of those that fit it makes "
        "training slower, for devices wait for one another.",
        "`fully_shard` of torch.distributed.fsdp spreads parameters and optimizer state instead.",
    ),
    Refusal(
        "pillow-simd",
        "The library that decodes pictures is the machine's and its owner's, not the script's.",
        "Install Pillow-SIMD, or decode with torchvision.io. `autoaccel doctor` shows what decodes, `autoaccel bench` "
        "whether loading binds at all.",
    ),
    Refusal(
        "pruning",
        "Kernels for dense matrices multiply zeros like any other number: a pruned model trains no faster, and what is "
        "trained is another model.",
        "Prune what was trained (torch.nn.utils.prune), for a runtime that has sparse kernels.",
    ),
    Refusal(
        "quantization",
        "Whole numbers of eight bits are for inference; quantization-aware training only simulates them, which takes "
        "longer and trains something else.",
        "Quantize what was trained (torchao). For training, `autocast` (AA301) is the precision that may be lowered.",
    ),
    Refusal(
        "swappiness",
        "Swapping, like other settings of the kernel, is the machine's: no script can be rewritten for it.",
        "Give training enough memory: fewer workers, smaller caches. `autoaccel doctor` tells whether it lacks any.",
    ),
)


def refusal(word: str) -> Refusal | None:
    """What is refused under this name; None if nothing is."""
    wanted = word.lower().replace("_", "-")
    return next((each for each in REFUSALS if each.name == wanted), None)
