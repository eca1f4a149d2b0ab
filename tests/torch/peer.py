"""Runs one model of the comparisons in PyTorch.

    peer.py <folder>

Reads manifest.json and in.<name>.bin, writes out.*.bin. The manifest's "model" is one of
  {"layer": {"kind": "Conv2d", "args": [...], "kwargs": {...}}}  torch.nn, applied to parameter x
  {"function": {"name": "gelu", "kwargs": {...}}}                torch.nn.functional, likewise
  {"loss": {"kwargs": {...}}}                                    cross-entropy of x and input labels
  {"network": "mnist"}                                           inputs images, labels
  {"network": "linear"}                                          inputs images, targets; squared error
The loss of the first two is the sum of the output times input c. Exit status 77: no PyTorch.
"""
import json
import sys
from pathlib import Path

try:
    import numpy
    import torch
except ImportError as error:
    print(f"PyTorch cannot be imported: {error}", file=sys.stderr)
    sys.exit(77)

F = torch.nn.functional
TYPES = {"f32": numpy.float32, "f64": numpy.float64, "i32": numpy.int32, "i64": numpy.int64}


class Probe(torch.nn.Module):
    """A layer, a function or a loss applied to a parameter."""

    def __init__(self, model, state):
        super().__init__()
        self.x = torch.nn.Parameter(torch.empty(state["x"]["shape"]))
        self.model = model
        if "layer" in model:
            kind = model["layer"]
            self.layer = getattr(torch.nn, kind["kind"])(*kind.get("args", []), **kind.get("kwargs", {}))

    def forward(self, inputs):
        if "loss" in self.model:
            loss = F.cross_entropy(self.x, inputs["labels"], **self.model["loss"]["kwargs"])
            return F.log_softmax(self.x, 1), loss
        output = self.apply_model()
        return output, (output * inputs["c"]).sum()

    def apply_model(self):
        if "function" in self.model:
            function = self.model["function"]
            return getattr(F, function["name"])(self.x, **function.get("kwargs", {}))
        kind = self.model["layer"]["kind"]
        if kind == "MultiheadAttention":
            length = self.x.shape[1]
            mask = torch.full((length, length), float("-inf")).triu(1)
            return self.layer(self.x, self.x, self.x, attn_mask=mask, need_weights=False)[0]
        if kind == "LSTMCell":
            state = self.layer(self.x, self.layer(self.x))
            return torch.cat(state, 1)
        return self.layer(self.x)


class Mnist(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 10, 5)
        self.conv2 = torch.nn.Conv2d(10, 20, 5)
        self.fc1 = torch.nn.Linear(320, 256)
        self.fc2 = torch.nn.Linear(256, 10)

    def forward(self, inputs):
        x = F.relu(F.max_pool2d(self.conv1(inputs["images"]), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return x, F.cross_entropy(x, inputs["labels"])


class Linear(torch.nn.Module):
    def __init__(self, state):
        super().__init__()
        self.fc = torch.nn.Linear(*reversed(state["fc.weight"]["shape"]))

    def forward(self, inputs):
        y = self.fc(inputs["images"])
        return y, F.mse_loss(y, inputs["targets"])


def make(model, state):
    network = model.get("network")
    if network == "mnist":
        return Mnist()
    return Linear(state) if network == "linear" else Probe(model, state)


def load(folder, tensors):
    """Tensors by name; the files are row-major."""
    return {name: torch.from_numpy(numpy.fromfile(folder / f"in.{name}.bin", TYPES[t["dtype"]])
                                   .reshape(t["shape"])) for name, t in tensors.items()}


def save(path, tensor):
    tensor.detach().contiguous().numpy().tofile(path)


def main():
    folder = Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    torch.set_num_threads(1)
    net = make(manifest["model"], manifest["state"])
    net.load_state_dict(load(folder, manifest["state"]))
    inputs = load(folder, manifest["inputs"])
    rule = dict(manifest["optimizer"])
    optimizer = getattr(torch.optim, rule.pop("rule"))(net.parameters(), **rule)
    losses = []
    for step in range(manifest["steps"]):
        optimizer.zero_grad()
        output, loss = net(inputs)
        if step == 0:
            save(folder / "out.output.bin", output)
            (folder / "out.shape.json").write_text(json.dumps(list(output.shape)))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    save(folder / "out.losses.bin", torch.stack(losses))
    for name, value in net.state_dict().items():
        save(folder / f"out.state.{name}.bin", value)


if __name__ == "__main__":
    main()
