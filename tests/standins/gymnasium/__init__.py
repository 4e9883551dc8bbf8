"""Stand-in for gymnasium: the cart-pole task alone, from its equations of motion."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "0.0+stand-in"


class CartPole:
    """A pole on a cart (Barto, Sutton, Anderson 1983); state is position, velocity, angle, angular velocity."""

    def __init__(self) -> None:
        self.spec = SimpleNamespace(id="CartPole-v1", reward_threshold=475.0)
        self.random = np.random.default_rng()
        self.state = np.zeros(4)
        self.steps = 0

    def reset(self, seed: int | None = None) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self.state.astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        _, velocity, angle, spin = self.state
        force = 10.0 if action == 1 else -10.0
        push = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        acceleration = push - 0.05 * turn * math.cos(angle) / 1.1
        change = np.array([velocity, acceleration, spin, turn])
        self.state = self.state + 0.02 * change
        self.steps += 1
        fallen = bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180)
        return self.state.astype(np.float32), 1.0, fallen, self.steps >= 500, {}

    def render(self) -> None:
        """Nothing to show."""


def make(name: str, render_mode: str | None = None) -> CartPole:
    if name != "CartPole-v1":
        raise ValueError(f"the stand-in has no environment {name!r}")
    return CartPole()
