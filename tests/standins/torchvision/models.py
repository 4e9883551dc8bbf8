"""Networks with torchvision's names and attributes, shallow and narrow, never pretrained."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn


class VGG16_Weights(Enum):  # noqa: N801 - the library's name
    DEFAULT = "none"
    IMAGENET1K_V1 = "none (v1)"


class VGG19_Weights(Enum):  # noqa: N801 - the library's name
    DEFAULT = "none"
    IMAGENET1K_V1 = "none (v1)"


class ResNet18_Weights(Enum):  # noqa: N801 - the library's name
    DEFAULT = "none"
    IMAGENET1K_V1 = "none (v1)"


class ResNet50_Weights(Enum):  # noqa: N801 - the library's name
    DEFAULT = "none"
    IMAGENET1K_V1 = "none (v1)"


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
            if stride != 1 or inplanes != planes
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return torch.as_tensor(self.relu(out))


class ResNet(nn.Module):
    """One block a stage, 64 to 128 channels, whatever depth the name says."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64))
        self.layer2 = nn.Sequential(BasicBlock(64, 64, 2))
        self.layer3 = nn.Sequential(BasicBlock(64, 128, 2))
        self.layer4 = nn.Sequential(BasicBlock(128, 128, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(128, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return torch.as_tensor(self.fc(torch.flatten(self.avgpool(x), 1)))


class VGG(nn.Module):
    """The layer indices of the original (`features[16]`, …) with a sixteenth of its channels."""

    def __init__(self, plan: Sequence[int | str], num_classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for step in plan:
            if isinstance(step, str):
                layers.append(nn.MaxPool2d(2, 2))
            else:
                layers += [nn.Conv2d(channels, step // 16, 3, padding=1), nn.ReLU(inplace=True)]
                channels = step // 16
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(
            nn.Linear(channels, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, num_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.classifier(torch.flatten(self.avgpool(self.features(x)), 1)))


class AlexNet(nn.Module):
    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 11, 4, 2),
            nn.ReLU(True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(16, 32, 5, padding=2),
            nn.ReLU(True),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(32, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.classifier(torch.flatten(self.avgpool(self.features(x)), 1)))


_VGG16 = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M")
_VGG19 = (64, 64, "M", 128, 128, "M", 256, 256, 256, 256, "M", 512, 512, 512, 512, "M", 512, 512, 512, 512, "M")


def resnet18(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> ResNet:
    return ResNet(num_classes)


def resnet34(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> ResNet:
    return ResNet(num_classes)


def resnet50(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> ResNet:
    return ResNet(num_classes)


def resnet101(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> ResNet:
    return ResNet(num_classes)


def resnet152(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> ResNet:
    return ResNet(num_classes)


def vgg16(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> VGG:
    return VGG(_VGG16, num_classes)


def vgg19(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> VGG:
    return VGG(_VGG19, num_classes)


def alexnet(pretrained: bool = False, *, weights: Any = None, num_classes: int = 1000, **_: Any) -> AlexNet:
    return AlexNet(num_classes)
