"""Exports networks from PyTorch to ONNX, with what PyTorch computes for them.

    onnx_export.py <folder> [--opset N]...

Writes <network>.<opset>.onnx, and <network>.safetensors with the tensors input.<name>, output, c
and grad.<parameter>; the loss is the sum of the output times c. Weights, inputs and c are random
with a fixed seed. The small ones of tests/onnx/models come from here. Exit status 77: no PyTorch.
"""
import argparse
import json
import sys
import warnings
from pathlib import Path

try:
    import torch
except ImportError as error:
    print(f"PyTorch cannot be imported: {error}", file=sys.stderr)
    sys.exit(77)

nn = torch.nn
F = nn.functional


class Mnist(nn.Module):
    """The network of examples/mnist_pipeline, of any width."""

    def __init__(self, first, second, hidden):
        super().__init__()
        self.conv1 = nn.Conv2d(1, first, 5)
        self.conv2 = nn.Conv2d(first, second, 5)
        self.fc1 = nn.Linear(second * 16, hidden)
        self.fc2 = nn.Linear(hidden, 10)

    def forward(self, images):
        x = F.relu(F.max_pool2d(self.conv1(images), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.short = None
        if stride != 1 or channels != out:
            self.short = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False),
                                       nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Residual(4, 4, 1), Residual(4, 6, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 5)

    def forward(self, images):
        return self.fc(self.pool(self.blocks(self.stem(images))).flatten(1))


class Tagger(nn.Module):
    """A tag for every token, by a bidirectional LSTM of two layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(10, 4)

    def forward(self, tokens):
        return F.log_softmax(self.fc(self.lstm(self.embedding(tokens))[0]), -1)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5)
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(self.gru(x)[0][-1])


class Transformer(nn.Module):
    def __init__(self, norm_first):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.position = nn.Parameter(torch.randn(5, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True,
                                           norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
        self.fc = nn.Linear(8, 4)

    def forward(self, tokens):
        return self.fc(self.encoder(self.embedding(tokens) + self.position).mean(1))


class Double(nn.Sequential):
    def __init__(self, channels, out):
        super().__init__(nn.Conv2d(channels, out, 3, 1, 1), nn.LeakyReLU(0.1),
                         nn.Conv2d(out, out, 3, 1, 1), nn.GroupNorm(2, out), nn.SiLU())


class UNet(nn.Module):
    """Two levels down and up; one way up is a convolution, the other an interpolation."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = Double(1, 4), Double(4, 6), Double(6, 8)
        self.up2 = nn.ConvTranspose2d(8, 6, 2, 2)
        self.up1 = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge2, self.merge1 = Double(12, 6), Double(10, 4)
        self.out = nn.Conv2d(4, 2, 1)

    def forward(self, images):
        a = self.down1(images)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.avg_pool2d(b, 2))
        b = self.merge2(torch.cat([self.up2(c), b], 1))
        return torch.sigmoid(self.out(self.merge1(torch.cat([self.up1(b), a], 1))))


class Recurrence(nn.Module):
    """A loop in Python over the steps, which scripting keeps as a loop."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(7, 4)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        states = []
        for t in range(x.shape[1]):
            h = torch.tanh(self.cell(torch.cat([x[:, t], h], 1)))
            states.append(h)
        return torch.stack(states, 1)


def networks():
    """Name: network, training mode, name of the input, the input."""
    tokens = torch.randint(0, 12, (3, 5))
    yield "mnist", Mnist(3, 4, 12), False, "images", torch.randn(2, 1, 28, 28)
    yield "mnist_full", Mnist(10, 20, 256), False, "images", torch.randn(4, 1, 28, 28)
    yield "resnet", ResNet(), False, "images", torch.randn(2, 3, 12, 12)
    yield "resnet_train", ResNet(), True, "images", torch.randn(2, 3, 12, 12)
    yield "tagger", Tagger(), True, "tokens", tokens
    yield "gru", Gru(), True, "x", torch.randn(4, 2, 4)
    yield "transformer", Transformer(False), True, "tokens", tokens
    yield "transformer_norm_first", Transformer(True), True, "tokens", tokens
    yield "unet", UNet(), True, "images", torch.randn(1, 1, 8, 8)
    yield "recurrence", torch.jit.script(Recurrence()), True, "x", torch.randn(2, 5, 3)


def randomize(net):
    """Factors and statistics that start as ones and zeros would hide mistakes."""
    for name, tensor in list(net.named_parameters()) + list(net.named_buffers()):
        if tensor.dim() == 1 and tensor.is_floating_point():
            torch.nn.init.uniform_(tensor, 0.5, 1.5)


def write_tensors(path, tensors):
    """The safetensors format: length, JSON header, row-major bytes."""
    names = {torch.float32: "F32", torch.int64: "I64"}
    header, blobs, at = {}, [], 0
    for name, tensor in tensors.items():
        blobs.append(tensor.detach().contiguous().numpy().tobytes())
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def export(folder, name, case, opset):
    net, training, argument, value = case
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(net, value, str(folder / f"{name}.{opset}.onnx"), opset_version=opset,
                      training=mode, do_constant_folding=False, input_names=[argument],
                      output_names=["output"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--opset", type=int, action="append")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, net, training, argument, value in networks():
        randomize(net)
        net.train(training)
        for opset in arguments.opset or [11, 14, 17]:
            if name == "resnet_train" and opset < 14:
                continue  # no training mode before
            export(arguments.folder, name, (net, training, argument, value), opset)
        output = net(value)
        c = torch.randn_like(output)
        (output * c).sum().backward()
        tensors = {f"input.{argument}": value, "output": output, "c": c}
        tensors |= {f"grad.{key}": p.grad for key, p in net.named_parameters()}
        write_tensors(arguments.folder / f"{name}.safetensors", tensors)


main()
