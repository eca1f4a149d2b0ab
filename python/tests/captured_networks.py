"""Networks whose training is compared with eager torch (network_comparison.py). Each entry of SMALL
and of FULL makes a module, which returns its result and the loss, and its inputs. Dropout is off:
torch draws other numbers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

try:
    import torchvision
except ImportError:
    torchvision = None


class Classifier(nn.Module):
    """A network with a loss."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, labels):
        x = self.body(x)
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


def twice(inputs, outputs):
    """Two convolutions with normalization, as every level of a U-Net has them."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Down by pooling and up by transposed convolutions; each level also sees what came down."""

    def __init__(self, width, levels, classes=3):
        super().__init__()
        widths = [width * 2**i for i in range(levels)]
        self.down = nn.ModuleList(
            twice(before, after) for before, after in zip([1, *widths], widths)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1])
        )
        self.join = nn.ModuleList(twice(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        passed = []
        for i, level in enumerate(self.down):
            x = level(F.max_pool2d(x, 2) if i > 0 else x)
            passed.append(x)
        for up, join, skipped in zip(self.up, self.join, reversed(passed[:-1])):
            x = join(torch.cat([skipped, up(x)], dim=1))
        return self.head(x)


class Recurrent(nn.Module):
    """All that a recurrent layer returns takes part."""

    def __init__(self, layer, size):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(size, 3)

    def forward(self, x):
        outputs, states = self.layer(x)
        states = states if isinstance(states, tuple) else (states,)
        rest = sum((i + 1) * state.mean() for i, state in enumerate(states))
        return self.head(outputs[-1]) * (1 + rest)


class Encoder(nn.Module):
    def __init__(self, layers, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[0], x.shape[0]), float("-inf"), dtype=x.dtype), 1)
        return self.head(self.layers(x, mask=mask).mean(0))


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
    """Its table of tokens is its last layer as well."""

    def __init__(self, words=11, size=8, length=6, blocks=2, heads=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, size), nn.Embedding(length, size)
        nn.init.normal_(self.tokens.weight, std=size**-0.5)
        self.blocks = nn.ModuleList([GptBlock(size, heads) for _ in range(blocks)])
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, i):
        x = self.tokens(i) + self.places(torch.arange(i.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).view(-1, self.head.out_features)


def frozen_norm():
    """A batch norm in evaluation mode in the middle of what is trained: it uses the statistics that
    it has, and its weights learn all the same."""
    first, last = nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 4, 3, bias=False)
    frozen, own = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    with torch.no_grad():
        frozen.running_mean.copy_(torch.linspace(-0.5, 0.5, 4))
        frozen.running_var.copy_(torch.linspace(0.5, 2, 4))
    frozen.eval()
    return nn.Sequential(first, frozen, nn.ReLU(), last, own, nn.Flatten(), nn.Linear(64, 3))


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def labels(*shape, classes=3, seed=2):
    return torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(seed))


def words(*shape, count=11):
    """Tokens, and others to be told."""
    return labels(*shape, classes=count), labels(shape[0] * shape[1], classes=count, seed=3)


def pictures(net, count, pixels):
    """A network of torchvision with images and labels."""
    return Classifier(net), normal(count, 3, pixels, pixels), labels(count)


def sequences(layer, size):
    return Classifier(Recurrent(layer, size)), normal(7, 4, 5), labels(4)


SMALL = {
    "mnist": lambda: (Classifier(mnist()), normal(4, 1, 28, 28), labels(4, classes=10)),
    "residual block": lambda: (Classifier(Block()), normal(3, 4, 6, 6), labels(3)),
    "frozen batch norm": lambda: (Classifier(frozen_norm()), normal(4, 3, 8, 8), labels(4)),
    "u-net": lambda: (Classifier(UNet(4, 3)), normal(2, 1, 16, 16), labels(2, 16, 16)),
    "lstm": lambda: sequences(nn.LSTM(5, 6, 2), 6),
    "two-way lstm": lambda: sequences(nn.LSTM(5, 6, 2, bidirectional=True), 12),
    "gru": lambda: sequences(nn.GRU(5, 6, 2), 6),
    "two-way gru": lambda: sequences(nn.GRU(5, 6, 2, bidirectional=True), 12),
    "encoder layer": lambda: (Classifier(Encoder(1)), normal(5, 3, 8), labels(3)),
    "encoder": lambda: (
        Classifier(Encoder(2, activation="gelu", norm_first=True)), normal(5, 3, 8), labels(3)),
    "gpt": lambda: (Classifier(Gpt()), *words(2, 6)),
}
FULL = {
    "u-net": lambda: (Classifier(UNet(16, 4)), normal(2, 1, 32, 32), labels(2, 32, 32)),
    "gpt": lambda: (Classifier(Gpt(1000, 192, 64, 6, 6)), *words(2, 64, count=1000)),
}


def with_head(net):
    """torchvision begins with a head of zeros, below which all gradients are zeros."""
    with torch.no_grad():
        net.heads.head.weight.normal_(std=0.1)
    return net


def without_dropout(net):
    for part in net.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return net


def _small_resnet():
    block = torchvision.models.resnet.BasicBlock
    down = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, padding=3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1), block(8, 8), block(8, 16, 2, down),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )


def alive(net):
    """SqueezeNet's last ReLU comes after the last layer; with this it is on."""
    last = [part for part in net.modules() if isinstance(part, nn.Conv2d)][-1]
    nn.init.constant_(last.bias, 1.0)
    return net


def _small_squeezenet():
    fire = torchvision.models.squeezenet.Fire
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(8, 4, 8, 8), fire(16, 4, 8, 8), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(16, 6, 12, 12), nn.Conv2d(24, 5, 1), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )


def _small_efficientnet():
    module = torchvision.models.efficientnet
    parts = [(1, 3, 1, 8, 8, 1), (4, 3, 2, 8, 12, 2), (4, 5, 2, 12, 16, 1)]
    return module.EfficientNet(
        [module.MBConvConfig(*part, 1.0, 1.0) for part in parts], dropout=0.0,
        stochastic_depth_prob=0.0, num_classes=5, last_channel=32)


def _small_pictures(models):
    return {
        "resnet": lambda: pictures(_small_resnet(), 3, 32),
        "mobilenet": lambda: pictures(
            without_dropout(models.MobileNetV2(5, 0.25, [(1, 8, 1, 1), (6, 16, 2, 2)])), 4, 32),
        "vision transformer": lambda: pictures(
            with_head(models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5)), 2, 32),
        "squeezenet": lambda: pictures(alive(_small_squeezenet()), 3, 48),
        "densenet": lambda: pictures(models.DenseNet(4, (2, 2), 8, 2, num_classes=5), 4, 32),
        "efficientnet": lambda: pictures(_small_efficientnet(), 4, 32),
    }


def _full_pictures(models):
    return {
        "resnet18": lambda: pictures(models.resnet18(), 2, 64),
        "mobilenet_v2": lambda: pictures(without_dropout(models.mobilenet_v2()), 8, 64),
        "vit_b_16": lambda: pictures(with_head(models.vit_b_16()), 1, 224),
        "squeezenet1_1": lambda: pictures(
            alive(without_dropout(models.squeezenet1_1())), 4, 64),
        "densenet121": lambda: pictures(models.densenet121(), 2, 64),
        "efficientnet_b0": lambda: pictures(
            without_dropout(models.efficientnet_b0(stochastic_depth_prob=0.0)), 4, 64),
    }


if torchvision is not None:
    SMALL.update(_small_pictures(torchvision.models))
    FULL.update(_full_pictures(torchvision.models))
