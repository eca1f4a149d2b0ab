"""PyTorch's side of the comparison of state files.

    state_peer.py <folder>

Reads rule.json, weights, optimizer and inputs as safetensors files, which are parsed here by hand.
Writes the logits of the weights ("logits"), then trains three steps from the given weights and
optimizer ("continued"), and three from the weights alone ("trained", with its optimizer as
"optimizer_trained") and three more ("after"). Exit status 77: no PyTorch.
"""
import json
import sys
from pathlib import Path

from peer import Mnist, numpy, torch

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "BOOL": numpy.bool_}
NAMES = {numpy.dtype(kind): name for name, kind in TYPES.items()}


def read(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[start + begin:start + end], TYPES[entry["dtype"]])
        tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors


def write(path, tensors):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().contiguous().numpy()
        header[name] = {"dtype": NAMES[values.dtype], "shape": list(values.shape),
                        "data_offsets": [len(body), len(body) + values.nbytes]}
        body += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def flattened(state):
    """optimizer.state_dict() as tensors with the names of docs/state.md."""
    flat = {}
    for number, values in state["state"].items():
        for key, value in values.items():
            if value is not None:
                flat[f"state/{number}.{key}"] = torch.as_tensor(value)
    for number, group in enumerate(state["param_groups"]):
        for key, value in group.items():
            if value is not None:
                value = torch.as_tensor(value)
                value = value.double() if value.dtype == torch.float32 else value
                flat[f"param_groups/{number}.{key}"] = value
    return flat


def nested(flat, like):
    """The other way; attributes that the file does not have are those of `like`."""
    state, groups = {}, [dict(group) for group in like["param_groups"]]
    for name, value in flat.items():
        section, key = name.split("/", 1)
        number, key = key.split(".", 1)
        if section == "state":
            state.setdefault(int(number), {})[key] = value
        else:
            groups[int(number)][key] = value.tolist()
    return {"state": state, "param_groups": groups}


def train(net, optimizer, inputs):
    for _ in range(3):
        optimizer.zero_grad()
        net(inputs)[1].backward()
        optimizer.step()


def main():
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    inputs = read(folder / "inputs.safetensors")
    rule = json.loads((folder / "rule.json").read_text())
    kind = getattr(torch.optim, rule.pop("rule"))

    def start():
        net = Mnist()
        net.load_state_dict(read(folder / "weights.safetensors"))
        return net, kind(net.parameters(), **rule)

    net, optimizer = start()
    write(folder / "logits.safetensors", {"logits": net(inputs)[0]})
    optimizer.load_state_dict(nested(read(folder / "optimizer.safetensors"),
                                     optimizer.state_dict()))
    train(net, optimizer, inputs)
    write(folder / "continued.safetensors", net.state_dict())
    net, optimizer = start()
    train(net, optimizer, inputs)
    write(folder / "trained.safetensors", net.state_dict())
    write(folder / "optimizer_trained.safetensors", flattened(optimizer.state_dict()))
    train(net, optimizer, inputs)
    write(folder / "after.safetensors",
          {**net.state_dict(), "logits": net(inputs)[0]})


main()
