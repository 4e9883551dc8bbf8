"""Deep Q-learning on many cart poles, tuned by hand.

Transitions are rows of one table on the device, written and gathered as a whole; an update is one CUDA graph; the
host waits for the device once a step, for the actions.
"""

import argparse
import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

GAMMA, TAU, LR, CAPACITY = 0.99, 0.005, 3e-4, 128 * 800
EPS_START, EPS_END, EPS_DECAY = 0.9, 0.05, 1000
SIZES = {"full": (128, 1024, 256), "small": (64, 512, 128)}


class VectorCartPole:
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
        return next_obs, done, self.state.copy()


class Learner:
    def __init__(self, num_envs, batch, hidden, device):
        layers = [nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2)]
        self.policy = nn.Sequential(*layers).to(device)
        self.target = copy.deepcopy(self.policy).requires_grad_(False)
        self.parameters, self.averages = list(self.policy.parameters()), list(self.target.parameters())
        self.cuda, self.graph, self.updates, self.position, self.size = device.type == "cuda", None, 0, 0, 0
        capturable = {"capturable": True} if self.cuda else {}
        self.optimizer = torch.optim.AdamW(self.parameters, lr=LR, amsgrad=True, fused=True, **capturable)
        self.table = torch.zeros(CAPACITY, 11, device=device)  # state, next, action, reward, done
        self.rows = torch.zeros(batch, dtype=torch.int64, device=device)
        self.loss = torch.zeros((), device=device)
        self.staged = torch.zeros(num_envs, 11, pin_memory=self.cuda)
        self.written = torch.cuda.Event() if self.cuda else None

    @torch.no_grad()
    def act(self, obs):
        return self.policy(torch.from_numpy(obs).to(self.table.device)).argmax(1).cpu().numpy()

    def add(self, obs, actions, next_obs, dones):
        if self.cuda:
            self.written.synchronize()  # the copy of the step before, long over
        staged = self.staged.numpy()
        staged[:, :4], staged[:, 4:8], staged[:, 8], staged[:, 9], staged[:, 10] = obs, next_obs, actions, 1.0, dones
        end = self.position + len(staged)
        self.table[self.position : end].copy_(self.staged, non_blocking=True)
        if self.cuda:
            self.written.record()
        self.position, self.size = end % CAPACITY, max(self.size, end)

    def work(self):
        states, next_states, rest = self.table.index_select(0, self.rows).split((4, 4, 3), dim=1)
        action, reward, done = rest.unbind(1)
        wanted = reward + GAMMA * self.target(next_states).amax(1) * (1 - done)
        q = self.policy(states).gather(1, action.long().unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, wanted)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(self.parameters, 100)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.parameters, TAU)
            self.loss.copy_(loss)

    def update(self, rows):
        """The loss, in a tensor that the next update overwrites."""
        self.rows.copy_(torch.from_numpy(rows))
        self.updates += 1
        if not self.cuda:
            self.work()
        elif self.updates <= 3:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.work()
            torch.cuda.current_stream().wait_stream(side)
        else:
            if self.graph is None:
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.work()
            self.graph.replay()
        return self.loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed")
    args = parser.parse_args()
    num_envs, batch, hidden = SIZES[args.size]

    torch.manual_seed(args.seed)
    rng, sampling = np.random.default_rng(args.seed), np.random.default_rng(args.seed + 2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    envs = VectorCartPole(num_envs, args.seed + 1)
    learner = Learner(num_envs, batch, hidden, device)

    obs, step, warming = envs.reset(), 0, 20
    while step < args.steps:
        if warming:
            actions = rng.integers(0, 2, num_envs)
        else:
            epsilon = EPS_END + (EPS_START - EPS_END) * math.exp(-(step + 1) / EPS_DECAY)
            greedy = learner.act(obs)
            actions = np.where(rng.random(num_envs) < epsilon, rng.integers(0, 2, num_envs), greedy)
        next_obs, dones, new_obs = envs.step(actions)
        learner.add(obs, actions, next_obs, dones)
        obs = new_obs
        if warming:
            warming -= 1
            continue
        loss = learner.update(sampling.integers(0, learner.size, batch))
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
