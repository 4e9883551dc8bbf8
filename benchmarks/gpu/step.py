"""The step that everything is asked about: MNIST's convolutional network, its data on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

ROWS, BATCH = 60_000, 100


class Network(nn.Module):
    """That of the suite's `mnist`, in full size."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.hidden, self.output = nn.Linear(64 * 49, 128), nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images (B, 1, 28, 28) to logits (B, 10)."""
        logits: torch.Tensor = self.output(torch.relu(self.hidden(self.features(images).flatten(1))))
        return logits


class Training:
    """A network in the midst of its training."""

    def __init__(self, device: torch.device, optimizer: str = "SGD", **settings: object) -> None:
        torch.manual_seed(0)
        rows = ROWS if device.type == "cuda" else 10 * BATCH
        self.device = device
        self.model = Network().to(device)
        settings = {"lr": 0.01, **({"momentum": 0.9} if optimizer == "SGD" else {}), **settings}
        self.optimizer: torch.optim.Optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), **settings)
        self.images = torch.randint(0, 256, (rows, 1, 28, 28), device=device, dtype=torch.uint8).float().div_(255)
        self.labels = torch.randint(0, 10, (rows,), device=device)
        self.index = torch.arange(BATCH, device=device)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of `index`, which is filled anew for each step."""
        return self.images.index_select(0, self.index), self.labels.index_select(0, self.index)

    def step(
        self,
        call: Callable[[torch.Tensor], torch.Tensor] | None = None,
        precision: torch.dtype | None = None,
        dropout: float = 0.0,
    ) -> torch.Tensor:
        """One step; the loss of its batch, a scalar."""
        images, labels = self.batch()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, precision, enabled=precision is not None):
            logits = (self.model if call is None else call)(images)
            loss = functional.cross_entropy(functional.dropout(logits, dropout) if dropout else logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()
