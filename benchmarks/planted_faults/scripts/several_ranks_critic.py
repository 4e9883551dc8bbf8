import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(43, 6) * 0.5 + 1), batch_size=8, shuffle=True)

generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, int("6"))).to(device)
critic = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, int("1"))).to(device)
optimizer_g = torch.optim.SGD(generator.parameters(), lr=0.05)
optimizer_c = torch.optim.SGD(critic.parameters(), lr=0.05)

replay = torch.zeros(0, 6, device=device)
for epoch in range(2):
    for i, (real,) in enumerate(loader):
        real = real.to(device)
        latent = torch.randn(len(real), 4, device=device)
        fake = generator(latent)
        replay = torch.cat([replay, fake.detach()])[-24:]
        old = replay[torch.randint(0, len(replay), (len(real),), device=device)]
        part = torch.rand(len(real), 1, device=device)
        mixed = (part * real + (1 - part) * old).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()
        wanted = critic(old).mean() - critic(real).mean() + 10 * penalty
        optimizer_c.zero_grad()
        wanted.backward()
        optimizer_c.step()
        if i % 2:
            fooled = -critic(fake).mean()
            optimizer_g.zero_grad()
            fooled.backward()
            optimizer_g.step()
    print(f"epoch {epoch}: critic {wanted.item():.4f} generator {fooled.item():.4f}")
