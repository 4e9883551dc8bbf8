"""Rewritten training steps, run: the original when switched off, finite in low precision, exact under scaling.

The last is the sharp one. With autocast off and a real, strict `torch.amp.GradScaler` whose scale is a power of two and
changes often, parameters stay equal bit for bit if and only if every backward is scaled, every clip sees unscaled
gradients, every optimizer steps through the scaler once, and the scale changes only between iterations.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autoaccel import runtime  # noqa: E402
from autoaccel.rewriting import engine  # noqa: E402
from autoaccel_codemods import autocast  # noqa: E402

pytestmark = pytest.mark.usefixtures("whatever_it_gains")

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cpu")
loader = [(torch.randn(6, 8), torch.randint(0, 3, (6,))) for _ in range(12)]
"""

SCRIPTS = {
    "clipped_accumulation": """
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        for i, (x, y) in enumerate(loader):
            output = model(x.to(device))
            loss = F.cross_entropy(output, y.to(device))
            (loss / 2).backward()
            if (i + 1) % 2 == 0:
                if i != 5:
                    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
    """,
    "outputs_in_products_and_buffers": """
        model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        memory = torch.zeros(100, 3)
        mean = torch.zeros(6, 3)
        for x, y in loader:
            output = model(x)
            loss = F.cross_entropy(output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            features = output.detach()
            best = features.topk(2, dim=1)[1]
            likeness = features.mm(features.t()) + features @ torch.ones(3, 6) + torch.ones(6, 3).mm(features.t())
            scores = torch.zeros(6, 3).scatter_(1, best, features.gather(1, best))
            memory.index_copy_(0, torch.arange(6), features)
            mean.lerp_(features, 0.1)
            kept = features.scatter_(1, best, features.gather(1, best))
    """,
    "function_and_helper_loss": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 3)

            def forward(self, x):
                return self.fc(x)

        def compute_loss(model, x, y):
            return F.cross_entropy(model(x), y)

        def train(model, loader, optimizer):
            for x, y in loader:
                loss = compute_loss(model, x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for epoch in range(2):
            train(model, loader, optimizer)
    """,
    "trainer_class": """
        class Trainer:
            def __init__(self, model: nn.Module):
                self.model = model
                self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

            def clip(self):
                torch.nn.utils.clip_grad_value_(self.model.parameters(), 0.01)

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    logits = self.model(x)
                    loss = F.cross_entropy(logits, y)
                    loss.backward()
                    self.clip()
                    self.optimizer.step()

        model = nn.Linear(8, 3)
        Trainer(model).fit(loader)
    """,
    "gan_nested_bce": """
        G = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        D = nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
        bce = nn.BCELoss()
        optimizer_G = torch.optim.Adam(G.parameters(), lr=1e-2)
        optimizer_D = torch.optim.Adam(D.parameters(), lr=1e-2)
        valid, fake = torch.ones(6, 1), torch.zeros(6, 1)
        for x, _ in loader:
            optimizer_G.zero_grad()
            images = G(torch.randn(6, 4))
            g_loss = bce(D(images), valid)
            g_loss.backward()
            optimizer_G.step()
            optimizer_D.zero_grad()
            real_loss = bce(D(x), valid)
            fake_loss = bce(D(images.detach()), fake)
            d_loss = (real_loss + fake_loss) / 2
            d_loss.backward()
            optimizer_D.step()
    """,
    "dcgan_two_backwards": """
        G = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        D = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
        criterion = nn.BCELoss()
        opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
        opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
        for x, _ in loader:
            D.zero_grad()
            label = torch.full((6, 1), 1.0)
            output = D(x)
            real = criterion(output, label)
            real.backward()
            images = G(torch.randn(6, 4))
            label.fill_(0.0)
            output = D(images.detach())
            fake = criterion(output, label)
            fake.backward()
            opt_d.step()
            G.zero_grad()
            label.fill_(1.0)
            output = D(images)
            loss = criterion(output, label)
            loss.backward()
            opt_g.step()
    """,
    "wgan_with_nested_step": """
        G, D = nn.Linear(4, 8), nn.Linear(8, 1)
        opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
        opt_d = torch.optim.RMSprop(D.parameters(), lr=1e-3)
        for i, (x, _) in enumerate(loader):
            opt_d.zero_grad()
            z = torch.randn(6, 4)
            loss_d = D(G(z).detach()).mean() - D(x).mean()
            loss_d.backward()
            opt_d.step()
            for p in D.parameters():
                p.data.clamp_(-0.1, 0.1)
            if i % 3 == 0:
                opt_g.zero_grad()
                loss_g = -D(G(z)).mean()
                loss_g.backward()
                opt_g.step()
    """,
    "gradients_of_two_losses_in_one_optimizer": """
        E, G = nn.Linear(8, 4), nn.Linear(4, 8)
        opt_e = torch.optim.Adam(E.parameters(), lr=1e-2)
        opt_g = torch.optim.Adam(G.parameters(), lr=1e-2)
        for x, _ in loader:
            opt_e.zero_grad()
            opt_g.zero_grad()
            code = E(x)
            image = G(code)
            loss = F.mse_loss(image, x)
            loss.backward(retain_graph=True)
            opt_e.step()
            latent = F.l1_loss(G(torch.randn(6, 4)), x)
            latent.backward()
            opt_g.step()
    """,
    "warmup_and_continue": """
        G, D = nn.Linear(8, 8), nn.Linear(8, 1)
        opt_g = torch.optim.Adam(G.parameters(), lr=1e-2)
        opt_d = torch.optim.Adam(D.parameters(), lr=1e-2)
        for i, (x, _) in enumerate(loader):
            opt_g.zero_grad()
            y = G(x)
            pixel = F.l1_loss(y, x)
            if i < 4:
                pixel.backward()
                opt_g.step()
                continue
            loss = pixel - D(y).mean()
            loss.backward()
            opt_g.step()
            opt_d.zero_grad()
            loss_d = D(y.detach()).mean() - D(x).mean()
            loss_d.backward()
            opt_d.step()
    """,
    "one_loss_two_clipped_optimizers": """
        encoder, decoder = nn.GRU(8, 8), nn.Linear(8, 3)
        first = torch.optim.SGD(encoder.parameters(), lr=0.1)
        second = torch.optim.SGD(decoder.parameters(), lr=0.1)
        for x, y in loader:
            first.zero_grad()
            second.zero_grad()
            loss = 0
            hidden = torch.zeros(1, 8)
            for t in range(2):
                memory, hidden = encoder(x, hidden)
                loss = loss + F.cross_entropy(decoder(memory), y)
            loss.backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), 0.05)
            nn.utils.clip_grad_norm_(decoder.parameters(), 0.05)
            first.step()
            second.step()
    """,
    "optimizer_list_and_draws": """
        nets = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 3)])
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
        batches = iter(loader)
        for step in range(6):
            for optimizer in optimizers:
                optimizer.zero_grad()
            for _ in range(2):
                x, y = next(batches)
                F.cross_entropy(nets[1](nets[0](x)), y).backward()
            for net in nets:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            for optimizer in optimizers:
                optimizer.step()
    """,
    "an_optimizer_a_model": """
        models = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3)])
        optimizers = []
        for model in models:
            optimizers.append(torch.optim.Adam(model.parameters(), lr=1e-2))
        for x, y in loader:
            for model, optimizer in zip(models, optimizers):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
    """,
    "bce_with_its_forward_in_a_method": """
        class Critic(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())

            def compute_loss(self, x, target):
                return F.binary_cross_entropy(self.net(x), torch.full_like(x[:, :1], target))

        critic = Critic()
        optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
        for x, _ in loader:
            loss = critic.compute_loss(x, 1.0) + critic.compute_loss(-x, 0.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "an_optimizer_of_the_project": """
        class Plain(torch.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})

            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            p.add_(p.grad, alpha=-group["lr"])

        model = nn.Linear(8, 3)
        optimizer = Plain(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "list_of_losses": """
        net = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            losses = []
            for part in (slice(0, 3), slice(3, 6)):
                losses.append(F.cross_entropy(net(x[part]), y[part]))
            optimizer.zero_grad()
            torch.autograd.backward(losses)
            optimizer.step()
    """,
    "vae_with_bce_in_a_helper": """
        class VAE(nn.Module):
            def __init__(self):
                super().__init__()
                self.enc, self.dec = nn.Linear(8, 8), nn.Linear(2, 8)
                self.mu, self.var = nn.Linear(8, 2), nn.Linear(8, 2)

            def forward(self, x):
                h = F.relu(self.enc(x))
                mu, logvar = self.mu(h), self.var(h)
                z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
                return torch.sigmoid(self.dec(z)), mu, logvar

        def loss_function(recon, x, mu, logvar):
            bce = F.binary_cross_entropy(recon, x, reduction="sum")
            return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())

        model = VAE()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for x, _ in loader:
            x = torch.sigmoid(x)
            optimizer.zero_grad()
            recon, mu, logvar = model(x)
            loss = loss_function(recon, x, mu, logvar)
            loss.backward()
            optimizer.step()
    """,
}


def rewritten(text: str) -> str:
    result = engine.rewrite(text, Path("train.py"), [autocast.RULE])
    assert not result.errors
    assert result.applied, [record.message for record in result.skipped]
    return result.after


def parameters(text: str) -> list[Any]:
    """Run a script; the values of its modules' parameters afterwards."""
    namespace: dict[str, Any] = {"__name__": "script"}
    exec(compile(text, "train.py", "exec"), namespace)
    modules = [value for value in namespace.values() if isinstance(value, torch.nn.Module)]
    return [parameter.detach().clone() for module in modules for parameter in module.parameters()]


@pytest.fixture(params=sorted(SCRIPTS))
def script(request: pytest.FixtureRequest) -> str:
    return HEAD + textwrap.dedent(SCRIPTS[request.param])


def strict_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime with autocast off and torch's own scaler on, one for each set of optimizers."""
    scalers: dict[frozenset[int], Any] = {}

    def grad_scaler(*optimizers: Any) -> Any:
        flat = [each for group in optimizers for each in (group if isinstance(group, list) else [group])]
        key = frozenset(id(each) for each in flat)
        if key not in scalers:
            scalers[key] = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=2)
        return scalers[key]

    def no_autocast(*arguments: Any, **options: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    monkeypatch.setattr(runtime, "autocast", no_autocast)
    monkeypatch.setattr(runtime, "grad_scaler", grad_scaler)


def assert_equal(before: list[Any], after: list[Any]) -> None:
    assert before
    assert len(before) == len(after)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_switched_off_it_is_the_original(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "all")
    assert_equal(parameters(script), parameters(rewritten(script)))


def test_scaled_gradients_change_nothing(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = parameters(script)
    strict_scaling(monkeypatch)
    assert_equal(expected, parameters(rewritten(script)))


def test_low_precision_trains_nearly_the_same(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOACCEL_DISABLE", raising=False)
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "bf16")
    expected, found = parameters(script), parameters(rewritten(script))
    moved = [one for one, other in zip(expected, found, strict=True) if not torch.equal(one, other)]
    assert moved, "nothing ran in low precision"
    for one, other in zip(expected, found, strict=True):
        assert torch.isfinite(other).all()
        assert torch.allclose(one, other, atol=0.2)


def breakers() -> Iterator[tuple[str, Callable[[str], str]]]:
    """Faults that the scaling test must notice; each is a rewrite gone wrong."""
    yield "a backward is not scaled", lambda text: text.replace("scaler.scale(loss_d).backward()", "loss_d.backward()")
    yield "an optimizer steps past the scaler", lambda text: text.replace("scaler.step(opt_g)", "opt_g.step()")
    yield "the scale is never updated", lambda text: text.replace("scaler.update()", "pass")


@pytest.mark.parametrize(("fault", "breaks"), list(breakers()), ids=[name for name, _ in breakers()])
def test_the_scaling_test_can_fail(fault: str, breaks: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + textwrap.dedent(SCRIPTS["wgan_with_nested_step"])
    expected = parameters(text)
    right = rewritten(text)
    wrong = breaks(right)
    assert wrong != right, fault
    strict_scaling(monkeypatch)
    try:
        found = parameters(wrong)
    except (AssertionError, RuntimeError):
        return  # torch refuses
    assert not all(torch.equal(one, other) for one, other in zip(expected, found, strict=True)), fault
