"""The networks that `./dev bench table` times: one definition, run by Sluice and by its peers.

A workload makes its module, its inputs and its optimizer from a seed, so that both sides start from the same
weights and see the same data. `second` shapes are drawn by a seed: no rule may be good for the first set only.
"""

import dataclasses
import random
from typing import Callable, Optional

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Workload:
    """What one call does. `micro_batches` are run by one call; in training they make one update."""

    module: Callable[[], nn.Module]
    inputs: Callable[[], list]
    optimizer: Optional[Callable] = None  # none: inference
    micro_batches: int = 1
    stages: tuple = ()  # names of submodules at which the stages of a pipeline begin
    images: bool = False  # channels last is worth a try
    peers: tuple = ("torch",)

    @property
    def trains(self):
        return self.optimizer is not None


class Mnist(nn.Module):
    def __init__(self, labelled=True):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 256), nn.Linear(256, 10)
        self.labelled = labelled

    def forward(self, x, labels=None):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return F.cross_entropy(x, labels) if self.labelled else x


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.full((tokens, tokens), float("-inf")).triu(1)
            mixed = torch.softmax(q @ k.transpose(-1, -2) * size ** -0.5 + mask, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, tokens, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids, targets):
        x = self.head(self.norm(self.blocks(self.tokens(ids) + self.positions.weight)))
        return F.cross_entropy(x.flatten(0, 1), targets.flatten())


class Classifier(nn.Module):
    """A network of torchvision with its loss."""

    def __init__(self, name, **options):
        super().__init__()
        import torchvision

        self.body = getattr(torchvision.models, name)(**options)

    def forward(self, images, labels):
        return F.cross_entropy(self.body(images), labels)


class Products(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(size, size) / size ** 0.5) for _ in range(count)])

    def forward(self, x):
        for weight in self.weights:
            x = x @ weight
        return x


class Mlp(nn.Module):
    def __init__(self, blocks, width):
        super().__init__()
        self.layers = nn.Sequential(*(
            nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)) for _ in range(blocks)))

    def forward(self, x, y):
        return F.mse_loss(self.layers(x), y)


def adamw(parameters, **options):
    return torch.optim.AdamW(parameters, lr=1e-3, **options)


def sgd(parameters, **options):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, **options)


def images(batch, pixels, classes, channels=3):
    return [torch.randn(batch, channels, pixels, pixels), torch.randint(0, classes, (batch,))]


def mnist_training(batch, count, stages=()):
    return Workload(Mnist, lambda: images(batch * count, 28, 10, 1), adamw, count, stages=stages, images=True)


def mnist_inference(batch, count):
    return Workload(lambda: Mnist(False).eval(), lambda: images(batch * count, 28, 10, 1)[:1],
                    micro_batches=count, images=True)


def gpt(layers, width, heads, tokens, batch, vocabulary=8192):
    ids = lambda: [torch.randint(0, vocabulary, (batch, tokens)) for _ in range(2)]
    return Workload(lambda: Gpt(layers, width, heads, tokens, vocabulary), ids, adamw)


def resnet(batch, pixels, classes=1000):
    return Workload(lambda: Classifier("resnet18", num_classes=classes), lambda: images(batch, pixels, classes),
                    sgd, images=True)


def products(count, batch, rows, size):
    return Workload(lambda: Products(count, size), lambda: [torch.randn(batch, rows, size)])


def mlp(blocks, width, batch, count, stages=()):
    return Workload(lambda: Mlp(blocks, width), lambda: [torch.randn(batch * count, width) for _ in range(2)], sgd,
                    count, stages=stages)


def vision(name, batch, pixels=224):
    def make():
        import torchvision

        network = getattr(torchvision.models, name)()
        for parameter in network.parameters():
            if not parameter.any() and parameter.dim() > 1:  # a last layer of zeros would make all results equal
                nn.init.normal_(parameter, std=0.02)
        return network.eval()

    return Workload(make, lambda: images(batch, pixels, 1000)[:1], images=True, peers=("torch", "onnxruntime"))


def first_set():
    return {
        "mnist training": mnist_training(40, 10),
        "mnist pipeline": mnist_training(40, 10, stages=("conv2", "fc1", "fc2")),
        "mnist inference 8": mnist_inference(8, 100),
        "mnist inference 100": mnist_inference(100, 10),
        "gpt": gpt(6, 384, 6, 128, 4),
        "resnet18 224": resnet(4, 224),
        "resnet18 32": resnet(64, 32, 10),
        "products": products(20, 32, 250, 250),
        "mlp": mlp(8, 512, 256, 8),
        "mlp pipeline": mlp(8, 512, 256, 8, stages=("layers.2", "layers.4", "layers.6")),
        **{f"{name} b{batch}": vision(name, batch)
           for name in ("resnet18", "mobilenet_v2", "squeezenet1_1", "vit_b_16") for batch in (1, 8)},
    }


def second_set(seed):
    """Shapes near those of the first set, drawn by the seed."""
    draw = random.Random(seed)
    batch, width = draw.randrange(20, 60), 64 * draw.randrange(4, 9)
    return {
        "mnist training": mnist_training(batch, 10),
        "mnist inference 8": mnist_inference(draw.randrange(5, 13), 100),
        "gpt": gpt(draw.randrange(3, 8), width, width // 64, 16 * draw.randrange(5, 13), draw.randrange(2, 7)),
        "resnet18 224": resnet(draw.randrange(2, 7), 16 * draw.randrange(10, 17)),
        "resnet18 32": resnet(draw.randrange(40, 90), 32, 10),
        "products": products(20, draw.randrange(16, 48), draw.randrange(180, 350), draw.randrange(180, 350)),
        "mlp": mlp(8, 64 * draw.randrange(5, 11), draw.randrange(150, 350), 8),
        "resnet18 b1": vision("resnet18", 1, 32 * draw.randrange(5, 9)),
        "mobilenet_v2 b1": vision("mobilenet_v2", 1, 32 * draw.randrange(5, 9)),
    }


def find(name, seed=None):
    return (first_set() if seed is None else second_set(seed))[name]
