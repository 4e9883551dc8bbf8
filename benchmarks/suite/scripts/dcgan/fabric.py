import argparse

import torch
import torch.nn as nn
import torch.optim as optim
import torchvision.datasets as dset
import torchvision.transforms as transforms
from lightning_fabric import Fabric
from original import Discriminator, Generator, weights_init


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="data")
    opt = parser.parse_args()

    fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(opt.seed, verbose=False)
    device = fabric.device
    if opt.size == "full":
        image_size, batch_size, width, nz = 64, 128, 64, 100
    else:
        image_size, batch_size, width, nz = 32, 8, 32, 32

    dataset = dset.MNIST(root=opt.data, download=True,
                         transform=transforms.Compose([
                             transforms.Resize(image_size),
                             transforms.ToTensor(),
                             transforms.Normalize((0.5,), (0.5,)),
                         ]))
    dataloader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)

    netG = Generator(nz, width, image_size)
    netG.apply(weights_init)
    netD = Discriminator(width, image_size)
    netD.apply(weights_init)

    criterion = nn.BCELoss()
    real_label, fake_label = 1.0, 0.0
    optimizerD = optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
    netG, optimizerG = fabric.setup(netG, optimizerG)
    netD, optimizerD = fabric.setup(netD, optimizerD)
    dataloader = fabric.setup_dataloaders(dataloader)

    step = 0
    loss_D, loss_G, seen = 0.0, 0.0, 0
    while step < opt.steps:
        for i, data in enumerate(dataloader, 0):
            # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
            netD.zero_grad()
            real = data[0]
            b_size = real.size(0)
            label = torch.full((b_size,), real_label, device=device)
            output = netD(real)
            errD_real = criterion(output, label)
            fabric.backward(errD_real)
            D_x = output.mean().item()

            noise = torch.randn(b_size, nz, 1, 1, device=device)
            fake = netG(noise)
            label.fill_(fake_label)
            output = netD(fake.detach())
            errD_fake = criterion(output, label)
            fabric.backward(errD_fake)
            D_G_z1 = output.mean().item()
            errD = errD_real + errD_fake
            optimizerD.step()

            # (2) Update G network: maximize log(D(G(z)))
            netG.zero_grad()
            label.fill_(real_label)
            output = netD(fake)
            errG = criterion(output, label)
            fabric.backward(errG)
            D_G_z2 = output.mean().item()
            optimizerG.step()

            loss_D += errD.item()
            loss_G += errG.item()
            seen += 1
            step += 1
            if step % 50 == 0 or step == opt.steps:
                print("step %d loss %.4f loss_d %.4f loss_g %.4f D(x) %.4f D(G(z)) %.4f / %.4f"
                      % (step, (loss_D + loss_G) / seen, loss_D / seen, loss_G / seen, D_x, D_G_z1, D_G_z2), flush=True)
                loss_D, loss_G, seen = 0.0, 0.0, 0
            if step == opt.steps:
                break


if __name__ == "__main__":
    main()
