"""Whole networks: some steps of training against eager torch in float32 and float64. The error of
every weight and buffer relative to float64 may be twice that of eager float32."""

import copy
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F
from capture_support import difference, train

try:
    import torchvision
except ImportError:
    torchvision = None


class Classifier(nn.Module):
    """A network with a loss."""

    def __init__(self, body, pick=None):
        super().__init__()
        self.body = body
        self.pick = pick or (lambda x: x)

    def forward(self, x, labels):
        x = self.pick(self.body(x))
        return x, F.cross_entropy(x, labels)


def mnist():
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10), nn.LogSoftmax(1),
    )


class Block(nn.Module):
    """The usual residual block, with a sum in place."""

    def __init__(self, channels=4):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.last = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.last(self.second(F.relu(self.norm(self.first(x)), inplace=True)))
        y += x
        return F.relu(y, inplace=True).mean((2, 3))


class Recurrent(nn.Module):
    def __init__(self, layer, size):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(size, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][-1])


class Encoder(nn.Module):
    def __init__(self, layers, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[0], x.shape[0]), float("-inf"), dtype=x.dtype), 1)
        return self.head(self.layers(x, mask=mask).mean(0))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        y, weights = self.attention(x, x, x)
        return y.mean(0) + weights.sum()


class GptBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.other = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        b, t, c = x.size()
        parts = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / (c // self.heads) ** 0.5)
        mask = torch.tril(torch.ones(t, t)).view(1, 1, t, t)
        scores = F.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1)
        x = x + self.out((scores @ v).transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.other(x))


class Gpt(nn.Module):
    """Two blocks, with the table of tokens as the last layer."""

    def __init__(self, words=11, size=8, length=6):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, size), nn.Embedding(length, size)
        self.blocks = nn.ModuleList([GptBlock(size, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, i):
        x = self.tokens(i) + self.places(torch.arange(i.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).view(-1, self.head.out_features)


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def labels(n, classes=3):
    return torch.randint(0, classes, (n,), generator=torch.Generator().manual_seed(2))


NETWORKS = {
    "mnist": lambda: (Classifier(mnist()), normal(4, 1, 28, 28), labels(4, 10)),
    "residual block": lambda: (Classifier(Block()), normal(3, 4, 6, 6), labels(3)),
    "lstm": lambda: (Classifier(Recurrent(nn.LSTM(5, 6, 2), 6)), normal(7, 4, 5), labels(4)),
    "two-way lstm": lambda: (
        Classifier(Recurrent(nn.LSTM(5, 6, 2, bidirectional=True), 12)),
        normal(7, 4, 5),
        labels(4),
    ),
    "gru": lambda: (Classifier(Recurrent(nn.GRU(5, 6, 2), 6)), normal(7, 4, 5), labels(4)),
    "encoder layer": lambda: (Classifier(Encoder(1)), normal(5, 3, 8), labels(3)),
    "encoder": lambda: (
        Classifier(Encoder(2, activation="gelu", norm_first=True)), normal(5, 3, 8), labels(3)),
    "attention": lambda: (Classifier(Attention()), normal(5, 3, 8), labels(3)),
    "gpt": lambda: (
        Classifier(Gpt()), labels(12, 11).reshape(2, 6), labels(12, 11)),
}
if torchvision is not None:
    NETWORKS["resnet18"] = lambda: (
        Classifier(torchvision.models.resnet18(num_classes=5)), normal(2, 3, 64, 64), labels(2))
    NETWORKS["mobilenet_v2"] = lambda: (
        Classifier(
            without_dropout(torchvision.models.mobilenet_v2(num_classes=5, width_mult=0.35))
        ),
        normal(4, 3, 64, 64), labels(4))
    NETWORKS["vision transformer"] = lambda: (
        Classifier(torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5)),
        normal(2, 3, 32, 32), labels(2))


def without_dropout(net):
    for part in net.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return net


STEPS, RATE = 3, 0.05

# Small images and many normalized layers make this one amplify every rounding, in torch as well;
# how much is a matter of luck for single tensors.
FACTORS = {"mobilenet_v2": 6}


def trained_by_torch(net, x, y):
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        result, loss = net(x, y)
        loss.backward()
        optimizer.step()
    return result.detach()


class Networks(unittest.TestCase):
    def _check(self, name):
        torch.manual_seed(0)
        net, x, y = NETWORKS[name]()
        single, double = copy.deepcopy(net), copy.deepcopy(net).double()
        wide = x.double() if x.is_floating_point() else x
        expected = trained_by_torch(single, x, y), trained_by_torch(double, wide, y)
        result = train(net, x, y, lr=RATE, steps=STEPS)[0]
        states = [result, *net.state_dict().values()]
        singles = [expected[0], *single.state_dict().values()]
        doubles = [expected[1], *double.state_dict().values()]
        names = ["result", *net.state_dict()]
        problems, factor = [], FACTORS.get(name, 2)
        for what, ours, torchs, exact in zip(names, states, singles, doubles):
            self.assertEqual(ours.dtype, torchs.dtype, what)
            own, allowed = difference(ours, exact), factor * difference(torchs, exact) + 1e-6
            if own > allowed:
                problems.append(f"{what}: {own:.2e} > {allowed:.2e}")
        self.assertEqual("", "\n".join(problems))


for _name in NETWORKS:
    setattr(
        Networks,
        f"test_{_name.replace(' ', '_').replace('-', '_')}_trains_as_with_torch",
        lambda self, name=_name: self._check(name),
    )

if __name__ == "__main__":
    unittest.main()
