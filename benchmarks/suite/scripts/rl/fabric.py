"""Deep Q-learning on many cart poles at once: the simulator and the replay buffer are NumPy, the networks PyTorch."""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F
import torch.optim as optim
from lightning_fabric import Fabric
from original import EPS_DECAY, EPS_END, EPS_START, GAMMA, LR, QNetwork, ReplayBuffer, TAU, VectorCartPole


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
