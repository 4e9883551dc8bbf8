"""Small trainings that use the runtime's verbs by hand, to be run by one process and by several.

Each returns what it has observed: losses, metrics, and the sums of what was learned.
"""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as scripts say it
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from autoaccel import runtime as accel

Log = list[float]
MODELS: list[nn.Module] = []  # of the training that runs
SHARDS = [False]  # whether they spread their parameters
TRAININGS: dict[str, Callable[[], Log]] = {}


def training(function: Callable[[], Log]) -> Callable[[], Log]:
    TRAININGS[function.__name__] = function
    return function


def distributed(model: nn.Module) -> Any:
    MODELS.append(model)
    return accel.distribute(model, shard=SHARDS[0])


def images(rows: int = 43, batch: int = 8) -> DataLoader[Any]:
    """The last batch is uneven: 3 rows."""
    return DataLoader(TensorDataset(torch.randn(rows, 3, 6, 6), torch.randint(0, 5, (rows,))), batch, shuffle=True)


def learned(*models: nn.Module) -> Log:
    return [value.double().abs().sum().item() for model in models for value in model.state_dict().values()]


def step(optimizer: torch.optim.Optimizer, *losses: Any) -> None:
    optimizer.zero_grad()
    for loss in losses:
        loss.backward()
    optimizer.step()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(288, 5)
        self.embed = nn.Linear(288, 16)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.drop(F.relu(self.norm(self.conv(x))).flatten(1))
        return self.out(x), self.embed(x)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv(x)).flatten(1)


@training
def everything() -> Log:
    """A loss over all pairs, L2, batch norm, dropout, accumulation, clipping, schedule, evaluation, early stopping."""
    torch.manual_seed(1)
    data = images()
    model = distributed(Net())
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.7)
    log, best = [], 1e9
    for _ in range(3):
        model.train()
        correct = 0
        for number, (x, y) in enumerate(data):
            out, embedded = model(x)
            z = F.normalize(embedded)
            same = (y[:, None] == y[None]).to(z.dtype)
            loss = F.cross_entropy(out, y) + 0.1 * F.binary_cross_entropy_with_logits(z @ z.t() * 5, same)
            loss = loss + 1e-3 * sum(each.pow(2).sum() for each in model.parameters())
            (loss / 2).backward()
            if number % 2:
                log.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
            correct += int((out.argmax(1) == y).sum().item())
            log.append(loss.item())
        model.eval()
        with torch.no_grad():
            value = sum(F.cross_entropy(model(x)[0], y, reduction="sum").item() for x, y in data) / 43
        log += [value, float(correct), optimizer.param_groups[0]["lr"]]
        best = min(best, value)
        if value > best * 1.02:
            break
    return log + learned(model)


@training
def summed_loss() -> Log:
    """A sum over samples, AdamW, a layer that the loss never reaches: its gradient stays None.

    `eps` keeps Adam from dividing rounding errors by rounding errors, of which a bias before a batch norm has no more.
    """
    torch.manual_seed(2)
    data = images()
    model = distributed(Net())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, eps=1e-3, weight_decay=0.1)
    log = []
    for x, y in data:
        loss = F.cross_entropy(model(x)[0], y, reduction="sum")
        step(optimizer, loss)
        log.append(loss.item())
    assert model.unused.weight.grad is None and model.embed.weight.grad is None
    return log + learned(model)


def _gan() -> tuple[Any, Any, Any, Any]:
    generator: Any = nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 108), nn.Unflatten(1, (3, 6, 6))
    )
    critic = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.LeakyReLU(0.2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 1)
    )
    distributed(generator)
    distributed(critic)
    return generator, critic, torch.optim.SGD(generator.parameters(), 0.05), torch.optim.SGD(critic.parameters(), 0.05)


@training
def gan() -> Log:
    """Two chained models; two forward passes before one backward pass."""
    torch.manual_seed(3)
    data = images()
    generator, critic, step_g, step_c = _gan()
    score, log = F.binary_cross_entropy_with_logits, []
    for x, _ in data:
        one, zero = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        fake = generator(torch.randn(len(x), 6))
        loss = score(critic(x), one) + score(critic(fake.detach()), zero)
        step(step_c, loss)
        fooled = score(critic(fake), one)
        step(step_g, fooled)
        log += [loss.item(), fooled.item()]
    return log + learned(generator, critic)


@training
def gan_in_parts() -> Log:
    """Two forward passes, then two backward passes: plain DistributedDataParallel leaves the second unreduced."""
    torch.manual_seed(4)
    data = images()
    generator, critic, step_g, step_c = _gan()
    score, log = F.binary_cross_entropy_with_logits, []
    for x, _ in data:
        one, zero = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        fake = generator(torch.randn(len(x), 6))
        real, made = score(critic(x), one), score(critic(fake.detach()), zero)
        step(step_c, real, made)
        for each in critic.parameters():
            each.requires_grad_(False)
        step(step_g, score(critic(fake), one))
        for each in critic.parameters():
            each.requires_grad_(True)
        log += [real.item(), made.item()]
    return log + learned(generator, critic)


@training
def gradient_penalty() -> Log:
    """Gradients of inputs, and gradients of these."""
    torch.manual_seed(5)
    data = images()
    critic = distributed(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(critic.parameters(), 0.05)
    log = []
    for x, _ in data:
        x = x.clone().requires_grad_()
        score = critic(x)
        (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        loss = score.mean() + (slope.flatten(1).norm(2, 1) - 1).pow(2).mean()
        step(optimizer, loss)
        log += [loss.item(), x.grad.abs().sum().item()]
    return log + learned(critic)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(10)
        self.mix = nn.Linear(10, 10)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.drop(self.mix(self.norm(x)))
        return x + mixed


class Tied(nn.Module):
    """Layers in a list, one parameter in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 10)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.out = nn.Linear(10, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        out: torch.Tensor = self.out(x)
        return out


@training
def layers() -> Log:
    """What is printed and counted, accumulation, clipping, a schedule, the best state taken back in the end."""
    torch.manual_seed(13)
    tokens = torch.randint(0, 11, (21, 6))
    model = distributed(Tied())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2, eps=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    log = [float(len(str(model))), float(sum(each.numel() for each in model.parameters()))]
    best, kept = math.inf, model.state_dict()
    for _ in range(3):
        model.train()
        for part in torch.split(torch.randperm(len(tokens)), 8):
            for half in torch.split(part, 4):
                loss: Any = F.cross_entropy(model(tokens[half, :-1]).flatten(0, 1), tokens[half, 1:].flatten()) / 2
                loss.backward()
                log.append(loss.item())
            log.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
        model.eval()
        with torch.no_grad():
            value = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).item()
        if value < best:
            best, kept = value, {key: each.clone() for key, each in model.state_dict().items()}
        log.append(value)
    model.load_state_dict(kept)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    log.append(model(tokens[:, :-1]).mean().item())
    return log + learned(model)


class Noisy(nn.Module):
    """Draws in many ways, some of the batch, some not, one along another dimension, all of it once more backward."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(108, 12)
        self.position = nn.Parameter(torch.randn(4, 6))
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.2, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.decode = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor, scale: float = 1.0, *, names: list[str] | None = None) -> dict[str, Any]:
        mean, spread = self.encode(x.flatten(1)).chunk(2, 1)
        z = mean + torch.randn_like(spread) * spread * scale
        z = z + torch.rand(len(x), 6) + torch.empty(len(x), 6).normal_() + torch.normal(mean.detach(), 1.0)
        tokens = z[:, None] + self.drop(self.position)
        tokens = F.dropout(tokens.transpose(0, 1), 0.1, self.training).transpose(0, 1)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        tokens = checkpoint(self._block, tokens, use_reentrant=False)
        kind = F.gumbel_softmax(tokens.mean(1), hard=True)
        out = self.decode(F.alpha_dropout(tokens.flatten(1), 0.1, self.training))
        assert names is None or len(names) == len(x)
        penalty = self.position.pow(2).sum()
        return {
            "out": out,
            "flat": tokens.flatten(0, 1),
            "by time": tokens.transpose(0, 1),
            "kind": kind,
            "l2": penalty,
        }

    def _block(self, tokens: torch.Tensor) -> torch.Tensor:
        return F.dropout1d(tokens.tanh(), 0.1, self.training) + torch.bernoulli(torch.full_like(tokens, 0.5))


@training
def draws() -> Log:
    """Random numbers of all kinds inside of the model, in step with those outside."""
    torch.manual_seed(6)
    data = images()
    model = distributed(Noisy())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    log = []
    for x, y in data:
        out = model(x, 0.5, names=[str(each) for each in y.tolist()])
        loss = F.cross_entropy(out["out"], y) + out["flat"].pow(2).mean() + out["by time"][1].abs().mean()
        loss = loss + 0.1 * out["l2"] + (out["kind"] * torch.randn(len(x), 6)).sum()
        step(optimizer, loss)
        log += [loss.item(), torch.rand(()).item()]
    return log + learned(model)


class Centred(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(0))


@training
def centred() -> Log:
    """A model that looks at the batch's mean."""
    torch.manual_seed(10)
    model = distributed(Centred(108, 5))
    return [F.cross_entropy(model(x.flatten(1)), y).item() for x, y in images()]


@training
def not_by_rows() -> Log:
    """What hangs on the whole batch is computed by every rank: the batch's mean, a batch along the second dimension,
    dropout inside of `nn.LSTM`, another method than forward."""
    torch.manual_seed(7)
    data = images()

    centred, recurrent, model = (
        distributed(each) for each in (Centred(108, 5), nn.LSTM(18, 5, num_layers=2, dropout=0.3), Net())
    )
    optimizer = torch.optim.SGD([*centred.parameters(), *recurrent.parameters(), *model.parameters()], 0.1)
    log = []
    for x, y in data:
        steps = x.reshape(len(x), 6, 18).transpose(0, 1)
        out = centred(x.flatten(1)) + recurrent(steps)[0][-1] + model.encode(x)[:, :5]
        loss = F.cross_entropy(out, y)
        step(optimizer, loss)
        log.append(loss.item())
    return log + learned(centred, recurrent, model)


class Padded(nn.Module):
    """Pads its outputs to the longest row."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.drop = nn.Dropout(0.2)
        self.norm = nn.BatchNorm1d(6)
        self.recur = nn.GRU(6, 5, batch_first=True)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.drop(self.embed(tokens)).transpose(1, 2)).transpose(1, 2)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        padded: torch.Tensor = nn.utils.rnn.pad_packed_sequence(self.recur(packed)[0], batch_first=True)[0]
        return padded


@training
def lengths() -> Log:
    """Outputs whose shape hangs on what is in a batch, which shows in the second batch: all is put back then."""
    torch.manual_seed(14)
    model = distributed(Padded())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    log = []
    for longest in ([6] * 8, [6, 6, 5, 5, 4, 4, 3, 3], [2, 2, 3, 3, 4, 4, 5, 6]):
        out = model(torch.randint(0, 11, (8, 6)), torch.tensor(longest))
        loss = (out * torch.randn(out.shape)).sum()
        step(optimizer, loss)
        log += [loss.item(), *out.shape]
    return log + learned(model)


@training
def sorted_lengths() -> Log:
    """The same in a batch that is sorted, which the first rows do not show."""
    torch.manual_seed(15)
    model = distributed(Padded())
    out = model(torch.randint(0, 11, (16, 6)), torch.tensor([6] * 7 + [5] * 5 + [3] * 4))
    return [*out.shape, out.sum().item()]


@training
def frozen_then_not() -> Log:
    """Layers that begin to learn later, an average of the weights, and batches of fewer rows than there are ranks."""
    torch.manual_seed(8)
    data = images(batch=3)  # the last one has one row
    model = distributed(nn.Sequential(nn.Flatten(), nn.Linear(108, 8), nn.ReLU(), nn.Linear(8, 5)))
    average = copy.deepcopy(model)
    model[1].requires_grad_(False)
    log = []
    for _ in range(2):
        optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], 0.1)
        for x, y in data:
            loss = F.cross_entropy(model(x), y)
            step(optimizer, loss)
            with torch.no_grad():
                for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
                    mine.lerp_(theirs, 0.1)
                log += [loss.item(), F.cross_entropy(average(x), y).item()]
        model[1].requires_grad_(True)
        with torch.no_grad():
            log.append(model(torch.ones(0, 108)).sum().item())  # of no rows at all
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    again: Any = torch.load(stored, weights_only=False)
    assert type(again) is nn.Sequential and list(again.state_dict()) == ["1.weight", "1.bias", "3.weight", "3.bias"]
    return [*log, *again(torch.ones(3, 108)).flatten().tolist(), *learned(model, average)]


class WithLoss(nn.Module):
    """Gives its loss, as language models do: tokens that are left out, class weights, a penalty that is a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 10)
        self.recur = nn.GRU(10, 10, batch_first=True)
        self.out = nn.Linear(10, 11)
        self.scale = nn.Parameter(torch.ones(4))
        self.weight = torch.linspace(0.5, 1.5, 11)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> tuple[torch.Tensor, Any]:
        hidden, _ = self.recur(self.embed(tokens))
        logits = self.out(hidden)
        if targets is None:
            return logits, None
        flat, wanted = logits.flatten(0, 1), targets.flatten()
        loss = F.cross_entropy(flat, wanted, weight=self.weight, ignore_index=-1, label_smoothing=0.1)
        loss = (
            loss
            + nn.functional.nll_loss(flat.log_softmax(1), wanted.clamp(0))
            + F.mse_loss(hidden, hidden.detach() * 0.5)
        )
        chosen = F.one_hot(wanted.clamp(0), 11).to(flat.dtype)
        loss = loss + F.binary_cross_entropy_with_logits(flat, chosen) + F.cross_entropy(flat, chosen)
        return logits, loss + 0.01 * hidden.pow(2).mean() + torch.mean(self.scale.pow(2))


@training
def loss_inside() -> Log:
    """Losses that the model computes itself, of shares that differ in size and in what counts."""
    torch.manual_seed(16)
    tokens = torch.randint(0, 11, (23, 7))
    targets = torch.where(torch.rand(23, 6) < torch.linspace(0, 0.9, 23)[:, None], -1, tokens[:, 1:])
    model = distributed(WithLoss())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    log = []
    for part in torch.split(torch.randperm(23), 8):
        logits, loss = model(tokens[part, :-1], targets[part])
        step(optimizer, loss)
        log += [loss.item(), logits.abs().sum().item()]
    model.eval()
    with torch.no_grad():
        log += [model(tokens[:, :-1], targets)[1].item(), model(tokens[:, :-1])[0].sum().item()]
    return log + learned(model)


class MeanOfSome(nn.Module):
    """A mean that only those have whose rows have something in them, and one of a single row."""

    def __init__(self, by_row: bool) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.by_row = by_row

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.out(x)
        if self.by_row:
            return out, torch.stack([each.mean() for each in out])
        marked = x[:, 0] > 0
        return out, out[marked].mean() if marked.any() else out.sum() * 0


@training
def means_of_some() -> Log:
    """Models that are computed whole: their ranks come to different numbers of means."""
    torch.manual_seed(17)
    models = distributed(MeanOfSome(by_row=False)), distributed(MeanOfSome(by_row=True))
    x = torch.randn(8, 4)
    x[:, 0] = torch.tensor([-1, -1, -1, -1, -1, -1, -1, 1])
    log = []
    for model in models:
        out, penalty = model(x)
        (out.pow(2).mean() + penalty.mean()).backward()
        log += [out.sum().item(), penalty.sum().item(), *(each.grad.sum().item() for each in model.parameters())]
    return log


@training
def alike_losses() -> Log:
    """Float32: mean losses of a model that has learned nothing are nearly those of any rows."""
    torch.manual_seed(18)
    model = distributed(nn.Sequential(nn.Linear(4, 3), AlikeLoss()).float())
    with torch.no_grad():
        return [model(torch.randn(24, 4).float() * 1e-3).item()]


class AlikeLoss(nn.Module):
    """A mean that is not called one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp().sum() / x.numel()


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 3


scaled: Callable[[torch.Tensor], Any] = _Scaled.apply
"""A function with a backward pass of its own."""


@training
def uses_of_outputs() -> Log:
    """What scripts do with the outputs of a model: losses by rows, shapes, metrics, changes in place, gradients."""
    torch.manual_seed(19)
    model = distributed(nn.Sequential(nn.Embedding(9, 6), nn.Tanh(), nn.Linear(6, 9)))
    teacher = distributed(nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    log: Log = []

    def words(logits: torch.Tensor, y: torch.Tensor) -> Any:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1)) + F.nll_loss(
            F.log_softmax(logits, dim=-1).transpose(1, 2), y, reduction="sum"
        )

    def shifted(logits: torch.Tensor, y: torch.Tensor) -> Any:
        rows, steps, kinds = logits.shape
        assert logits.shape == (len(logits), *y.shape[1:], 9) and logits.is_floating_point()
        flat = logits[..., :-1, :].contiguous().view(rows * (steps - 1), kinds)
        weight = torch.linspace(1, 2, 9)
        return F.cross_entropy(flat, y[:, 1:].reshape(-1), weight=weight, ignore_index=3)

    def measured(logits: torch.Tensor, y: torch.Tensor) -> Any:
        values, kinds = logits.max(dim=2)
        log.extend([values.sum().item(), float((kinds == y).sum()), logits.detach().softmax(2)[1, 2, 3].item()])
        log.extend([logits.argmax(-1).sum().item(), logits.topk(3)[1].sum().item(), logits.topk(2, 1)[0].sum().item()])
        return F.mse_loss(logits, teacher(y).detach()) + F.binary_cross_entropy(
            logits.sigmoid(), torch.full_like(logits, 0.2)
        )

    def some(logits: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.no_grad():
            log.append(logits[1:].std().item())
        flat, turned = logits.flatten(), logits.permute(1, 0, 2)
        return F.l1_loss(flat, torch.zeros_like(flat)) + turned[0].square().sum() + sum(each.sum() for each in logits)

    def changed(logits: torch.Tensor, y: torch.Tensor) -> Any:
        last = logits[:, -1]
        logits.mul_(2)
        tripled: Any = _Scaled.apply(logits)  # type: ignore[no-untyped-call]
        return F.smooth_l1_loss(last, torch.ones_like(last)) + F.huber_loss(tripled, logits.detach(), reduction="sum")

    def own_backward(logits: torch.Tensor, y: torch.Tensor) -> Any:
        return scaled(logits).square().mean() + F.cross_entropy(logits.permute(0, 2, 1), y, reduction="none").max()

    def slopes(logits: torch.Tensor, y: torch.Tensor) -> Any:
        part = logits[:, 1:]
        loss: Any = F.cross_entropy(logits.flatten(0, 1), y.flatten()) + F.mse_loss(part, torch.ones_like(part))
        loss = loss + logits.cos().mean()
        slope, early = torch.autograd.grad(loss, (logits, part), retain_graph=True, allow_unused=True)
        log.extend([slope.abs().sum().item(), slope[1, 1, 1].item(), early.abs().sum().item()])
        (again,) = torch.autograd.grad(loss, logits, create_graph=True)
        return loss + again.pow(2).sum()

    def watched(logits: torch.Tensor, y: torch.Tensor) -> Any:
        hooked: Any = logits
        hooked.register_hook(lambda gradient: log.append(gradient.abs().sum().item()))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    def saved(logits: torch.Tensor, y: torch.Tensor) -> Any:
        stored = io.BytesIO()
        torch.save({"out": [logits]}, stored)
        stored.seek(0)
        log.append(torch.load(stored)["out"][0].sum().item())
        with accel.first():
            log.append(copy.deepcopy(logits.detach()).sum().item())
        log.extend([float(logits.numpy(force=True).sum()), *logits.detach().flatten().tolist()[:3]])
        return logits.mean() + model(logits.argmax(-1)).exp().mean()

    def kept(logits: torch.Tensor, y: torch.Tensor) -> Any:
        with accel.first():
            log.append(logits.detach().sum().item())
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    for loss_of in (words, shifted, measured, some, changed, own_backward, slopes, watched, saved, kept):
        x = torch.randint(0, 9, (7, 5))
        loss = loss_of(model(x), x.roll(1, 0))
        step(optimizer, loss)
        log.append(loss.item())
    with torch.inference_mode():
        out = model(x)
        log += [F.cross_entropy(out.flatten(0, 1), x.flatten()).item(), out.sum().item()]
    return log + learned(model)


class _Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0].clamp(min=-0.01)


class _ClippedByVjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def vjp(ctx: Any, *gradients: Any) -> Any:
        return gradients[0].clamp(min=-0.008) * 2


class Corner(nn.Module):
    """Forward passes that were computed wrongly once, by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.a, self.b, self.drop, self.kind = nn.Linear(4, 4), nn.Linear(4, 3), nn.Dropout(0.3), kind
        self.aux = False
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)

    def block(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.drop(self.a(x)).tanh()
        return hidden

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        match self.kind:
            case "checkpoint":
                return F.cross_entropy(self.b(checkpoint(self.block, x, use_reentrant=False)), y)
            case "weights":
                weighted: Any = F.mse_loss
                wanted = x[:, :3].detach()
                return weighted(self.a(x)[:, :3], wanted, weight=wanted.abs() if self.aux else torch.ones_like(wanted))
            case "later":
                hidden = self.a(x)
                return hidden.cos(), hidden.pow(2).mean() if self.aux else hidden.new_zeros(())
            case "clipped":
                hidden = _ClippedByVjp.apply(_Clipped.apply(self.a(x)))  # type: ignore[no-untyped-call]
                if hidden.requires_grad:
                    hidden.register_hook(lambda gradient: gradient.clamp(max=0.01))
                return hidden.cos()
            case "zeros":
                return self.a(x).cos(), self.b(x.tanh()).add(1).pow(2).mean(0).sum()
            case _:
                return self.a(x)[:, : 1 if self.kind == "distribution over rows" else 4].cos()


@training
def corners() -> Log:
    """Dropout computed again, means that come later, layers of zeros, targets that are distributions over rows."""
    torch.manual_seed(20)
    log: Log = []
    for kind in ("checkpoint", "weights", "later", "zeros", "distribution over rows", "copied", "clipped"):
        model = distributed(Corner(kind))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for number in range(4):
            x, y = torch.randn(7, 4), torch.randint(0, 3, (7,))
            model.aux = number > 1
            out: Any = model(x, y)
            if isinstance(out, tuple):
                loss: Any = out[0].mean() + out[1]
            elif kind == "distribution over rows":
                loss = F.cross_entropy(out.view(-1), torch.rand(7).softmax(0))
            elif kind == "clipped":
                loss = out.square().mean()
            elif kind == "copied":
                copied = out[:, :3].reshape(-1)
                out.data.mul_(2)
                loss = copied.square().mean() + F.mse_loss(out, torch.ones_like(out))
            else:
                loss = out
            step(optimizer, loss)
            log.append(loss.item())
        log += learned(model)
    return log


def shares_of_one_process(parts: int) -> Iterator[float]:
    """The training of `two_shares`, by one process that computes each share of a batch by itself."""
    torch.manual_seed(9)
    data = images()
    model: Any = nn.Sequential(nn.Flatten(), nn.Linear(108, 16), nn.Tanh(), nn.Linear(16, 5)).float()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for x, y in data:
        out = torch.cat([model(part) for part in x.float().tensor_split(parts)])
        loss = F.cross_entropy(out, y)
        step(optimizer, loss)
        yield loss.item()
    yield from (value.item() for each in model.parameters() for value in each.flatten())


@training
def two_shares() -> Log:
    """Float32, to be held against the same shares in one process, bit for bit."""
    torch.manual_seed(9)
    data = images()
    model = distributed(nn.Sequential(nn.Flatten(), nn.Linear(108, 16), nn.Tanh(), nn.Linear(16, 5)).float())
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    log = []
    for x, y in data:
        loss = F.cross_entropy(model(x.float()), y)
        step(optimizer, loss)
        log.append(loss.item())
    return log + [value.item() for each in model.parameters() for value in each.flatten()]
