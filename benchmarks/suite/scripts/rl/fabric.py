"""Deep Q-learning on many cart poles at once: the simulator and the replay buffer are NumPy, the networks PyTorch."""

import argparse
import math
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from lightning_fabric import Fabric

GAMMA, TAU, LR = 0.99, 0.005, 3e-4
EPS_START, EPS_END, EPS_DECAY = 0.9, 0.05, 1000


class VectorCartPole:
    # A pole on a cart, in many copies; an episode that is over begins anew at once.
    def __init__(self, num_envs, seed):
        self.num_envs, self.rng = num_envs, np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, (self.num_envs, 4)).astype(np.float32)
        self.steps = np.zeros(self.num_envs, dtype=np.int64)
        return self.state.copy()

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        cos, sin = np.cos(theta), np.sin(theta)
        temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        new = np.stack([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc])
        self.state = new.T.astype(np.float32)
        self.steps += 1
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.2095) | (self.steps >= 500)
        next_obs = self.state.copy()
        self.state[done] = self.rng.uniform(-0.05, 0.05, (int(done.sum()), 4))
        self.steps[done] = 0
        return next_obs, np.ones(self.num_envs, dtype=np.float32), done, self.state.copy()


Batch = namedtuple("Batch", "obs actions rewards next_obs dones")


class ReplayBuffer:
    def __init__(self, capacity, seed):
        self.obs = np.zeros((capacity, 4), dtype=np.float32)
        self.next_obs = np.zeros((capacity, 4), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.dones = np.zeros(capacity, dtype=np.float32)
        self.capacity, self.pos, self.size = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, actions, rewards, next_obs, dones):
        where = (self.pos + np.arange(len(obs))) % self.capacity
        self.obs[where], self.next_obs[where] = obs, next_obs
        self.actions[where], self.rewards[where], self.dones[where] = actions, rewards, dones
        self.pos = (self.pos + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, batch_size):
        idx = self.rng.integers(0, self.size, batch_size)
        return Batch(self.obs[idx], self.actions[idx], self.rewards[idx], self.next_obs[idx], self.dones[idx])


class QNetwork(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layer1 = nn.Linear(4, hidden)
        self.layer2 = nn.Linear(hidden, hidden)
        self.layer3 = nn.Linear(hidden, 2)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--steps", type=int, default=5000, help="steps of the optimizer, one after each step of all poles"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=str, choices=["small", "full"], default="small")
    parser.add_argument("--data", type=str, default="data", help="not needed")
    args = parser.parse_args()
    num_envs, batch_size, hidden = (128, 1024, 256) if args.size == "full" else (64, 512, 128)

    fabric = Fabric(accelerator="auto", devices=1)
    fabric.launch()
    fabric.seed_everything(args.seed, verbose=False)
    rng = np.random.default_rng(args.seed)
    device = fabric.device

    envs = VectorCartPole(num_envs, args.seed + 1)
    rb = ReplayBuffer(102400, args.seed + 2)
    q_network = QNetwork(hidden)
    target_network = QNetwork(hidden).to(device)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.AdamW(q_network.parameters(), lr=LR, amsgrad=True)
    q_network, optimizer = fabric.setup(q_network, optimizer)

    obs = envs.reset()
    for _ in range(20):
        actions = rng.integers(0, 2, num_envs)
        next_obs, rewards, dones, new_obs = envs.step(actions)
        rb.add(obs, actions, rewards, next_obs, dones)
        obs = new_obs

    step, finished = 0, 0
    while step < args.steps:
        epsilon = EPS_END + (EPS_START - EPS_END) * math.exp(-(step + 1) / EPS_DECAY)
        with torch.no_grad():
            greedy = torch.argmax(q_network(torch.Tensor(obs).to(device)), dim=1).cpu().numpy()
        actions = np.where(rng.random(num_envs) < epsilon, rng.integers(0, 2, num_envs), greedy)
        next_obs, rewards, dones, new_obs = envs.step(actions)
        rb.add(obs, actions, rewards, next_obs, dones)
        obs = new_obs
        finished += int(dones.sum())

        data = rb.sample(batch_size)
        states = torch.tensor(data.obs).to(device)
        chosen = torch.tensor(data.actions).to(device)
        next_states = torch.tensor(data.next_obs).to(device)
        reward = torch.tensor(data.rewards).to(device)
        done = torch.tensor(data.dones).to(device)
        with torch.no_grad():
            target_max, _ = target_network(next_states).max(dim=1)
            td_target = reward + GAMMA * target_max * (1 - done)
        old_val = q_network(states).gather(1, chosen.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(old_val, td_target)

        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(q_network, optimizer, clip_val=100)
        optimizer.step()

        for target_param, param in zip(target_network.parameters(), q_network.parameters()):
            target_param.data.copy_(TAU * param.data + (1.0 - TAU) * target_param.data)

        value = loss.item()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {value:.6f} mean q {old_val.mean().item():.3f} finished episodes {finished}")
