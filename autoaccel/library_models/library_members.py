"""What modules of libraries hold, for lookups by names that a program computes: `getattr(torch.optim, name)`."""

from __future__ import annotations

ANY_MODEL = "<any>"
"""In the place of a name: some function of `torchvision.models` that makes a model."""

MEMBERS: dict[str, tuple[str, ...]] = {
    "torch.optim": tuple(
        """ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam RMSprop Rprop SGD
        SparseAdam""".split()
    ),
    "torch.optim.lr_scheduler": tuple(
        """ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LRScheduler
        LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR
        StepLR""".split()
    ),
    "torchvision.models": (ANY_MODEL,),
    "torchvision.datasets": tuple(
        """CIFAR10 CIFAR100 CLEVRClassification CREStereo Caltech101 Caltech256 CarlaStereo CelebA Cityscapes
        CocoCaptions CocoDetection Country211 DTD DatasetFolder EMNIST ETH3DStereo EuroSAT FER2013 FGVCAircraft
        FallingThingsStereo FakeData FashionMNIST Flickr30k Flickr8k Flowers102 FlyingChairs FlyingThings3D Food101
        GTSRB HD1K HMDB51 INaturalist ImageFolder ImageNet Imagenette InStereo2k KMNIST Kinetics Kitti Kitti2012Stereo
        Kitti2015Stereo LFWPairs LFWPeople LSUN LSUNClass MNIST Middlebury2014Stereo MovingMNIST Omniglot OxfordIIITPet
        PCAM PhotoTour Places365 QMNIST RenderedSST2 SBDataset SBU SEMEION STL10 SUN397 SVHN SceneFlowStereo Sintel
        SintelStereo StanfordCars UCF101 USPS VOCDetection VOCSegmentation VisionDataset WIDERFace""".split()
    ),
}
"""By module, what can be called in it. Names that only some versions have are among them."""

_MODULES = frozenset(
    """torch.nn torch.nn.functional torch.nn.init torch.nn.modules torch.nn.parallel torch.nn.utils torch.optim
    torch.optim.lr_scheduler torch.utils torch.utils.data torch.utils.model_zoo torch.utils.checkpoint torch.autograd
    torch.distributed torch.cuda torch.backends torch.backends.cudnn torch.hub torch.jit torch.linalg torch.fft
    torch.distributions torch.utils.tensorboard torchvision.models torchvision.datasets torchvision.transforms
    torchvision.transforms.functional torchvision.utils torchvision.ops numpy.random numpy.linalg os.path
    PIL.Image PIL.ImageFile PIL.ImageOps PIL.ImageDraw matplotlib.pyplot scipy.io scipy.sparse scipy.ndimage""".split()
)
_KNOWN = frozenset(
    """torch torchvision numpy math collections typing abc enum pathlib dataclasses numbers __future__""".split()
)
_RUNNING = frozenset({"torch.load", "torch.hub.load", "torch.jit.load"})
_PLAIN = frozenset("math collections typing abc enum pathlib numbers __future__".split())
_PLAIN_FUNCTIONS = frozenset({"torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url"})

PARTIAL = "functools.partial"
"""What raises where it is given no function: by keywords alone."""

TAKING_NOTHING = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.nn.Module"})
"""Base classes that raise where they are given something."""


def is_module(name: str) -> bool:
    """Whether an imported name stands for a module, which cannot be called."""
    return "." not in name or name in _MODULES


def is_known(name: str) -> bool:
    """Whether a member of a library runs no code of others when it is called."""
    return is_module(name) or name == PARTIAL or (name.partition(".")[0] in _KNOWN and name not in _RUNNING)


def gives_plain_object(name: str) -> bool:
    """Whether a call of it gives an object without parameters, gradients or samples."""
    return name.partition(".")[0] in _PLAIN or name in _PLAIN_FUNCTIONS
