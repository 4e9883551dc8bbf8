"""Training that a framework runs is left alone, and the report says which of its settings does what a rule would."""

from __future__ import annotations

import textwrap

import pytest

from autoaccel.rewriting import engine, registry

WORKERS = "dataloader_num_workers=…, torch_compile=True"
OWN_LOOP = """
    import torch
    from torch import nn
    {imports}

    model = nn.Linear(1000, 2).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    {made}
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        {backward}
        optimizer.step()
"""


def reasons(text: str) -> dict[str, list[str]]:
    analysis = engine.analyse(textwrap.dedent(text), None, [rule for rule in registry.rules() if rule.by_default])
    found: dict[str, list[str]] = {}
    for each in analysis.skipped:
        found.setdefault(each.rule.code, []).append(each.reason)
    assert not {"AA301", "AA303", "AA401", "AA602"}.intersection(each.rule.code for each in analysis.findings)
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import lightning as L\nL.Trainer(max_epochs=3).fit(module)",
            'Lightning runs the training step: `L.Trainer(precision="bf16-mixed")` is for you to set',
        ),
        (
            'from pytorch_lightning import Trainer\nTrainer(precision="16-mixed").fit(module)',
            "Lightning runs the training step",
        ),
        (
            "from transformers import Trainer, TrainingArguments\nTrainer(model, TrainingArguments('out', bf16=True))",
            f"the Transformers Trainer runs the training step: `TrainingArguments({WORKERS})` is for you to set",
        ),
        (
            "from composer import Trainer\nTrainer(model=model).fit()",
            'Composer runs the training step: `Trainer(precision="amp_bf16")` is for you to set',
        ),
        (
            "from ignite.engine import create_supervised_trainer as made\nmade(model, optimizer, loss, scaler=True)",
            'Ignite runs the training step: `made(amp_mode="amp", non_blocking=True)` is for you to set',
        ),
        (
            "from fastai.vision.all import *\nlearn = vision_learner(dls, resnet34)\nlearn.fine_tune(1)",
            "fastai runs the training step: `.to_bf16()` of the learner is for you to set",
        ),
        (
            "import os\nos.environ['KERAS_BACKEND'] = 'torch'\nimport keras\nkeras.Sequential([]).fit(x, y)",
            'Keras runs the training step: `keras.config.set_dtype_policy("mixed_bfloat16")` is for you to set',
        ),
    ],
)
def test_a_trainer_is_told(text: str, said: str) -> None:
    assert reasons(text)["AA301"] == [said]


@pytest.mark.parametrize(
    "text",
    [
        "import keras\nkeras.Sequential([]).fit(x, y)",
        "from lightning import seed_everything\nseed_everything(1)",
        "from mine import Trainer\nTrainer(model).fit()",
        "from fastai.vision.all import *\ndef vision_learner(dls): ...\nvision_learner(dls)",
        "from mine import *\nLearner(dls)",
    ],
)
def test_nothing_to_tell(text: str) -> None:
    assert reasons(text) == {}


@pytest.mark.parametrize(
    ("imports", "made", "backward", "said"),
    [
        (
            "from accelerate import Accelerator",
            "accelerator = Accelerator()\n    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
            "accelerator.backward(loss)",
            'Accelerate runs the training step: `Accelerator(mixed_precision="bf16")` is for you to set',
        ),
        (
            "from lightning.fabric import Fabric",
            "fabric = Fabric(precision='bf16-mixed')\n    model, optimizer = fabric.setup(model, optimizer)",
            "fabric.backward(loss)",
            "Lightning runs the training step",
        ),
        (
            "import deepspeed",
            "optimizer = deepspeed.initialize(model=model, config='ds.json')[0]",
            "optimizer.backward(loss)",
            'DeepSpeed runs the training step: `"bf16": {"enabled": true}` in its configuration is for you to set',
        ),
        ("import mmengine", "", "loss.backward()", "MMEngine runs the training step"),
        ("from fastai.vision.all import *", "", "loss.backward()", "fastai runs the training step"),
    ],
)
def test_a_loop_of_its_own_under_a_framework(imports: str, made: str, backward: str, said: str) -> None:
    found = reasons(OWN_LOOP.format(imports=imports, made=made, backward=backward))
    assert found["AA301"] == [said]
    assert "steps the optimizer" in found["AA602"][0]
    assert found.get("AA303", [said]) == [said]


@pytest.mark.parametrize(
    "imports",
    ["", "from lightning import seed_everything", "from ignite.metrics import Accuracy", "import accelerated"],
)
def test_the_same_loop_without_one_is_rewritten(imports: str) -> None:
    text = textwrap.dedent(OWN_LOOP.format(imports=imports, made="", backward="loss.backward()"))
    found = {each.rule.code for each in engine.analyse(text, None, registry.rules()).findings}
    assert {"AA301", "AA602"} <= found
