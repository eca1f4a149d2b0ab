"""Small networks that several tests train."""

import torch
from torch import nn

import sluice


class TwoLayers(nn.Module):
    """A perceptron in two blocks; with labels it returns the loss last."""

    def __init__(self, size=6, dtype=torch.float32):
        super().__init__()
        self.first = nn.Linear(size, size, dtype=dtype)
        self.last = nn.Linear(size, 3, dtype=dtype)

    def forward(self, x, labels=None):
        with sluice.Block("one", ipu_id=0):
            x = torch.tanh(self.first(x))
        with sluice.Block("two", ipu_id=1):
            x = self.last(x)
            if labels is None:
                return x
            return x, nn.functional.cross_entropy(x, labels)


class Normed(nn.Module):
    """With buffers that training writes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, target=None):
        x = self.norm(self.fc(x))
        return x if target is None else (x, nn.functional.mse_loss(x, target))


def batch(rows=8, size=6, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(rows, size, generator=generator),
        torch.randint(0, classes, (rows,), generator=generator),
    )


def train_eagerly(net, optimizer, x, y, steps=1, accumulation=1):
    """What `steps` calls of a training model with this data should do."""
    for _ in range(steps):
        optimizer.zero_grad()
        for part_x, part_y in zip(x.chunk(accumulation), y.chunk(accumulation)):
            (net(part_x, part_y)[-1] / accumulation).backward()
        optimizer.step()


def bits(module):
    """A hash of all parameters and buffers."""
    return [sluice._convert.to_core(t).hash() for t in module.state_dict().values()]
