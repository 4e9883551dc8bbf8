"""Whether scripts ask for the same results in each run, and whether an option has them do so."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.determinism import is_asked_for, is_certain, is_on_demand

DETERMINISTIC = {
    "nothing": ("torch.manual_seed(0)", False),
    "algorithms": ("torch.use_deterministic_algorithms(True)", True),
    "algorithms as the user says": ("torch.use_deterministic_algorithms(args.deterministic)", True),
    "algorithms switched off": ("torch.use_deterministic_algorithms(False)", False),
    "cudnn": ("torch.backends.cudnn.deterministic = True", True),
    "cudnn by its own name": ("from torch.backends import cudnn\ncudnn.deterministic = True", True),
    "cudnn switched off": ("torch.backends.cudnn.deterministic = False", False),
    "cudnn with another": ("torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False", True),
    "cudnn that is read": ("x = torch.backends.cudnn.deterministic", False),
    "seeding is not enough": ("torch.manual_seed(0)\nrandom.seed(0)", False),
    "something else": ("args.deterministic = True", False),
    "algorithms switched off by name": ("torch.use_deterministic_algorithms(mode=False)", False),
    "algorithms by a constant that is off": ("SAME = False\ntorch.use_deterministic_algorithms(SAME)", False),
    "cudnn by a constant that is off": ("SAME = False\ntorch.backends.cudnn.deterministic = SAME", False),
    "under a constant that is off": (
        (
            "SAME = False\nif SAME:\n    torch.use_deterministic_algorithms(True)\n"
            "    torch.backends.cudnn.deterministic = True"
        ),
        False,
    ),
    "under a constant that is on": ("SAME = True\nif SAME:\n    torch.use_deterministic_algorithms(True)", True),
}
SETS = "torch.backends.cudnn.deterministic = True"
ON_DEMAND = {
    "a seed": (f"if args.seed is not None:\n    {SETS}", True),
    "an option": (f"if config.train.deterministic:\n    {SETS}", True),
    "otherwise": (f"if args.fast:\n    pass\nelse:\n    {SETS}", True),
    "as the option says": ("torch.backends.cudnn.deterministic = args.seed is not None", False),
    "always": (SETS, False),
    "in a function": (f"def seed_everything(seed):\n    {SETS}", False),
    "in a function with an argument": (f"def seed_everything(seed):\n    if seed:\n        {SETS}", False),
    "on a device": (f"if torch.cuda.is_available():\n    {SETS}", False),
    "on a device by an option": (f"if args.cuda:\n    {SETS}", False),
    "run as a program": (f"if __name__ == '__main__':\n    {SETS}", False),
    "in two places": (f"{SETS}\nif args.seed is not None:\n    {SETS}", False),
    "beside all algorithms": (f"torch.use_deterministic_algorithms(True)\nif args.seed:\n    {SETS}", False),
}
CERTAIN = {
    "algorithms": ("torch.use_deterministic_algorithms(True)", True),
    "in a function": (f"def seed_everything(seed):\n    {SETS}", True),
    "with another": ("torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False", True),
    "as the option says": ("torch.use_deterministic_algorithms(args.deterministic)", False),
    "if the option says so": (f"if args.deterministic:\n    {SETS}", False),
    "in two places": (f"{SETS}\nif args.seed is not None:\n    {SETS}", True),
    "by a choice": ("args.same and torch.use_deterministic_algorithms(True)", False),
}


@pytest.mark.parametrize("case", DETERMINISTIC)
def test_asked_for(case: str) -> None:
    text, expected = DETERMINISTIC[case]
    assert is_asked_for(load(f"import torch\n{text}\n")) is expected


@pytest.mark.parametrize("case", ON_DEMAND)
def test_on_demand(case: str) -> None:
    text, expected = ON_DEMAND[case]
    script = load(f"import torch\n{text}\n")
    assert is_asked_for(script)
    assert is_on_demand(script) is expected


@pytest.mark.parametrize("case", CERTAIN)
def test_certain(case: str) -> None:
    text, expected = CERTAIN[case]
    script = load(f"import torch\n{text}\n")
    assert is_asked_for(script)
    assert is_certain(script) is expected
