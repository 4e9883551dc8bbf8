"""Which files are parsed for a rule's sake: those with an opportunity surely are, most others are not."""

from __future__ import annotations

import pytest

from autoaccel.rewriting import registry

CONCERNED = {
    "a training step": ("AA301", "loss.backward()"),
    "on two lines": ("AA301", "(loss\n .backward())"),
    "another name for it": ("AA301", "from torch.autograd import backward as go\ngo(loss)"),
    "by an object of a library": ("AA301", "accelerator.backward(loss)\nself.manual_backward(loss)"),
    "a framework's trainer": ("AA301", "import lightning as L\nL.Trainer()"),
    "a framework's trainer under another name": ("AA301", "from transformers import TrainingArguments as A\nA()"),
    "a framework's function": ("AA301", "import deepspeed\ndeepspeed.initialize()"),
    "a program that evaluates": ("AA301", "model.eval()\nfor x in loader: model(x)"),
    "evaluation mode": ("AA501", "model.eval()"),
    "evaluation by its argument": ("AA501", "model.train(False)  # eval"),
    "called so": ("AA501", "def test(model): ..."),
    "called so among others": ("AA501", "def run_validation_1(model): ..."),
    "after training elsewhere": ("AA501", "train(model)\nprint(model(test_x))"),
    "after training by a method": ("AA501", "agent.learn()\nprint(agent.net(test_x))"),
    "what was trained before": ("AA501", "model = torch.load(path)\nprint(model(x))"),
}
NOT_CONCERNED = {
    "words on compatibility": ("AA301", "# for backward compatibility\nimport torch"),
    "a model": ("AA301", "import torch\nfrom transformers import BertModel"),
    "a model that is said to be evaluated": ("AA501", "import torch\n# for the evaluation\nmodel = from_pretrained(x)"),
    "a check": ("AA501", "import torch\nvalidate_inputs(x)"),
}


@pytest.mark.parametrize(("code", "text"), CONCERNED.values(), ids=CONCERNED)
def test_it_is_parsed(code: str, text: str) -> None:
    (rule,) = (each for each in registry.rules() if each.code == code)
    assert rule.concerns(text)
    assert rule.concerns(text.encode())


@pytest.mark.parametrize(("code", "text"), NOT_CONCERNED.values(), ids=NOT_CONCERNED)
def test_it_is_not_parsed(code: str, text: str) -> None:
    (rule,) = (each for each in registry.rules() if each.code == code)
    assert not rule.concerns(text)
    assert not rule.concerns(text.encode())
