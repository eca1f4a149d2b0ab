"""The workloads of `./dev bench cuda`: one definition for Sluice and for PyTorch."""

import dataclasses
import sys
from pathlib import Path
from typing import Callable, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "table"))
import torch
import workloads
from torch import nn


@dataclasses.dataclass
class Row:
    module: Callable[[], nn.Module]
    inputs: Callable[[], list]  # of all micro-batches of one update, or of one call without an update
    optimizer: Optional[Callable] = None  # none: inference
    micro_batches: int = 1
    updates: int = 1  # in one call of Sluice
    half: bool = False  # bfloat16 autocast
    images: bool = False  # channels last for the peer
    items: int = 1  # images or tokens in one call of the module, for figures per second
    device: str = "cuda:0"
    stages: tuple = ()  # submodules at which stages begin, or with `streamed` phases
    streamed: bool = False  # the weights are in the host's memory

    @property
    def trains(self):
        return self.optimizer is not None


class Spread(nn.Module):
    """Makes rows of one."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, row):
        return row * torch.linspace(0.5, 1, self.rows, device=row.device).to(row.dtype).unsqueeze(1)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(0)


def linear(width, dtype, like):
    """Without bias, and with the weights of another one: billions of random numbers take their time."""
    made = nn.Linear(width, width, bias=False, dtype=dtype)
    with torch.no_grad():
        made.weight.copy_(like.weight) if like else nn.init.normal_(made.weight, std=(2 / width) ** 0.5)
    return made


class Stack(nn.Module):
    """Equal layers whose weights are streamed. One row comes from the host and one goes back, so that the weights
    alone are streamed."""

    def __init__(self, layers, width, tokens, dtype=torch.float32):
        super().__init__()
        parts, last = [], None
        for _ in range(layers):
            last = linear(width, dtype, last)
            parts.append([last, nn.ReLU()])
        parts[0].insert(0, Spread(tokens))
        parts[-1].append(Mean())
        self.layers = nn.Sequential(*(nn.Sequential(*part) for part in parts))

    def forward(self, row):
        return self.layers(row)


class TrainedStack(Stack):
    """With a loss."""

    def forward(self, row):
        return self.layers(row).float().pow(2).mean()


def streamed(width, layers=12, tokens=None, dtype=torch.float32):
    return Row(lambda: Stack(layers, width, tokens or width, dtype).eval(), lambda: [torch.randn(1, width).to(dtype)],
               items=tokens or width, stages=tuple(f"layers.{i}" for i in range(layers)), streamed=True)


def streamed_training(width, layers, tokens):
    """Weights and the state of Adam are in the host's memory, activations on the GPU."""
    return Row(lambda: TrainedStack(layers, width, tokens), lambda: [torch.randn(1, width)], workloads.adamw, half=True,
               items=tokens, stages=tuple(f"layers.{i}" for i in range(layers)), streamed=True)


def from_table(workload, **more):
    return Row(workload.module, workload.inputs, workload.optimizer, workload.micro_batches, images=workload.images,
               **more)


def gpt(**more):
    return from_table(workloads.gpt(12, 768, 12, 1024, 8, vocabulary=50304), half=True, items=8 * 1024, updates=4, **more)


def resnet():
    body = lambda: workloads.Classifier("resnet50", num_classes=1000)
    return Row(body, lambda: workloads.images(64, 224, 1000), workloads.sgd, half=True, images=True, items=64,
               updates=8)


def four(device, stages):
    """Micro-batches that a stage works on for some hundred microseconds."""
    make = workloads.mlp(8, 2048, 1024, 16, stages=("layers.2", "layers.4", "layers.6") if stages else ())
    return from_table(make, items=16 * 1024, device=device, stages=make.stages)


ROWS = {
    "mnist training": from_table(workloads.mnist_training(40, 10), items=400, updates=20),
    "mnist inference": from_table(workloads.mnist_inference(8, 100), items=800),
    "gpt 12 x 768": gpt(),
    "resnet50": resnet(),
    "one stage": four("cuda:0", False),
    "four stages": four("cuda:0*4", True),
    "streamed 250": streamed(250),
    "streamed 2048": streamed(2048),
    "streamed 4096": streamed(4096),
    "streamed 8192": streamed(8192),
    "3.2 B inference 4k": streamed(8192, 48, 4096, torch.bfloat16),
    "3.2 B inference 16k": streamed(8192, 48, 16384, torch.bfloat16),
    "1.6 B training 16k": streamed_training(8192, 24, 16384),
}
