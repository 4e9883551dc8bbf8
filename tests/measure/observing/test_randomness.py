"""Seeds and streams of random numbers of observed runs."""

from __future__ import annotations

import pytest

from autoaccel.measure.verifying.tolerances import off
from tests.measure.observing.scripts import EPOCH, SETUP, Observe

DRAWS = {
    "random.random()": "",
    "np.random.rand()": "",
    "torch.rand(1).item()": "",
    "np.random.default_rng().random()": "",
    "random.random() ": "random.seed(7)",
    "np.random.rand() ": "np.random.seed(seed=7)",
    "torch.rand(1).item() ": "torch.manual_seed(7)",
    "np.random.default_rng(7).random()": "",
    "torch.rand(1, generator=torch.Generator().manual_seed(7)).item()": "",
    "torch.rand(1, generator=torch.Generator(device='cpu').manual_seed(7)).item()": "",
    "random.random()  ": "random.seed('seven')",
}

TEXT = "import random\nimport numpy as np\nimport torch\n" + "".join(
    f"{seed}\nprint({draw.strip()})\n" for draw, seed in DRAWS.items()
)


def test_every_stream_follows_the_seed(observe: Observe) -> None:
    first, again, other = observe(TEXT), observe(TEXT), observe(TEXT, seed=1)
    assert first.ending == "finished", first.failure
    assert first.printed == again.printed
    assert first.random == again.random
    assert set(first.random) == {"python", "numpy", "torch"}
    same = [draw for draw, one, two in zip(DRAWS, first.printed, other.printed, strict=True) if one == two]
    assert same == []


def test_with_seed_0_the_seeds_of_the_script_stand(observe: Observe) -> None:
    import random

    import numpy as np
    import torch

    printed = observe(TEXT).printed
    assert printed[4] == str(random.Random(7).random())
    assert printed[5] == str(np.random.RandomState(7).rand())
    assert printed[7] == str(np.random.default_rng(7).random())
    assert printed[6] == printed[8] == str(torch.rand(1, generator=torch.Generator().manual_seed(7)).item())


def test_a_shifted_generator_is_a_generator(observe: Observe) -> None:
    text = """
generator = torch.Generator()
generator.manual_seed(3)
loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator)
assert isinstance(generator, torch.Generator)
assert isinstance(torch.default_generator, torch.Generator)
a, b = torch.utils.data.random_split(data, [12, 12], generator=torch.Generator().manual_seed(0))
print(a.indices, generator.initial_seed())
"""
    one, other = observe(SETUP + text + EPOCH, seed=0), observe(SETUP + text + EPOCH, seed=2)
    assert (one.ending, other.ending) == ("finished", "finished"), other.failure
    assert one.printed[0] != other.printed[0]
    assert one.passes[0].batches != other.passes[0].batches


@pytest.mark.parametrize("draw", ["random.random()", "np.random.rand()", "torch.rand(1)"])
def test_a_number_more_shows(observe: Observe, draw: str) -> None:
    text = "import random\nimport numpy as np\nimport torch\n"
    stream = {"random": "python", "np": "numpy", "torch": "torch"}[draw.partition(".")[0]]
    plain, more = observe(text).random, observe(text + draw).random
    assert {name for name in plain if plain[name] != more[name]} == {stream}


@pytest.mark.parametrize("module", ["random", "np.random"])
def test_the_seed_of_a_stream_that_nobody_draws_from_is_no_matter(observe: Observe, module: str) -> None:
    text, draw = "import random\nimport numpy as np\n", f"{module}.random()\n"
    seeds = [f"{module}.seed({seed})\n" for seed in (3, 4)]
    one, other = (observe(text + seed).random for seed in seeds)
    assert one == other == observe(text).random
    for drawing in ("{0}{1}", "{1}{0}", "{1}{0}{0}"):  # before and behind the seed
        one, other = (observe(text + drawing.format(seed, draw)).random for seed in seeds)
        assert one != other


@pytest.mark.parametrize(("double", "rounding"), [(False, 2.0**-23), (True, 2.0**-52)])
def test_a_push_of_one_rounding_is_one(observe: Observe, double: bool, rounding: float) -> None:
    plain = observe(SETUP + EPOCH, double=double)
    pushed = observe(SETUP + EPOCH, double=double, perturbation=rounding)
    assert off(plain, [pushed]) < 1000 * rounding
    parameters = [pair for pair in zip(plain.state, pushed.state, strict=True) if pair[0].kind == "parameter"]
    assert all(one.digest != other.digest for one, other in parameters if not one.name.endswith("bias"))
