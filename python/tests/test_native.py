"""A network of torch has the bits of the same network written in C++ (native_network.cpp)."""

import json
import os
import struct
import subprocess

import pytest

torch = pytest.importorskip("torch")
import sluice

TYPES = {torch.float32: "F32", torch.int64: "I64"}


def write_safetensors(path, tensors):
    header, contents = {}, b""
    for name, tensor in tensors.items():
        begin = len(contents)
        contents += tensor.detach().numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(contents)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + contents)


def read_safetensors(path):
    """The bytes of every tensor."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header, contents = json.loads(data[8:8 + size]), data[8 + size:]
    return {name: contents[slice(*entry["data_offsets"])] for name, entry in header.items() if name != "__metadata__"}


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 10, 5)
        self.conv2 = torch.nn.Conv2d(10, 20, 5)
        self.fc1 = torch.nn.Linear(320, 256)
        self.fc2 = torch.nn.Linear(256, 10)
        self.loss = torch.nn.CrossEntropyLoss()

    def forward(self, x, y):
        x = torch.relu(torch.nn.functional.max_pool2d(self.conv1(x), 2))
        x = torch.relu(torch.nn.functional.max_pool2d(self.conv2(x), 2))
        x = self.fc2(torch.relu(self.fc1(x.flatten(1))))
        return x, self.loss(x, y)


def test_a_network_of_torch_has_the_bits_of_one_in_cpp(tmp_path):
    torch.manual_seed(5)
    net = Network()
    x, y = torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))
    write_safetensors(tmp_path / "in", {**net.state_dict(), "x": x, "y": y})
    subprocess.run([os.environ["SLUICE_NATIVE_NETWORK"], tmp_path / "in", tmp_path / "out"], check=True)
    options = sluice.Options()
    options.Training.gradientAccumulation(4)
    model = sluice.trainingModel(net, options, sluice.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.01))
    before = net.state_dict()["fc2.weight"].clone()
    for _ in range(3):
        model(x, y)
    trained = {name: tensor.numpy().tobytes() for name, tensor in net.state_dict().items()}
    assert trained == read_safetensors(tmp_path / "out")
    assert not torch.equal(net.fc2.weight, before)
