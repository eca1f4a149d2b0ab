"""Evaluates expressions in PyTorch, many in one process.

    functions_peer.py <folder>

Reads manifest.json, a list of cases, and in.<case>.<name>.bin. A case has "module", an expression that
makes a module or is empty; "call", an expression of the inputs and of the module m; and the types of
"inputs" and of the module's "state". Writes out.<case>.y.bin with its shape, and the gradients of the
sum of y times sin(0.7 + 1.3 i) as out.<case>.grad.<name>.bin. Exit status 77: no PyTorch.
"""
import json
import math
import sys
from pathlib import Path

try:
    import numpy
    import torch
except ImportError as error:
    print(f"PyTorch cannot be imported: {error}", file=sys.stderr)
    sys.exit(77)

F = torch.nn.functional
TYPES = {"f32": numpy.float32, "i32": numpy.int32, "i64": numpy.int64, "bool": numpy.bool_, "u8": numpy.uint8}


def load(prefix, tensors):
    return {name: torch.from_numpy(numpy.fromfile(f"{prefix}{name}.bin", TYPES[t["dtype"]]).reshape(t["shape"]))
            for name, t in tensors.items()}


def save(path, tensor):
    tensor.detach().float().contiguous().numpy().tofile(path)


def run(folder, index, case):
    prefix = str(folder / f"in.{index}.")
    inputs = load(prefix, case["inputs"])
    for value in inputs.values():
        if value.dtype == torch.float32:
            value.requires_grad_(True)
    names = {"torch": torch, "F": F, "math": math, **inputs}
    module = None
    if case["module"]:
        module = eval(case["module"], names)
        module.load_state_dict(load(prefix, case["state"]))
        names["m"] = module
    y = eval(case["call"], names)
    out = str(folder / f"out.{index}.")
    save(out + "y.bin", y)
    Path(out + "shape.json").write_text(json.dumps(list(y.shape)))
    if not case["gradient"]:
        return
    weights = numpy.sin(0.7 + 1.3 * numpy.arange(y.numel())).astype(numpy.float32).reshape(tuple(y.shape))
    (y * torch.from_numpy(weights)).sum().backward()
    leaves = {name: value for name, value in inputs.items() if value.requires_grad}
    leaves.update(module.named_parameters() if module else {})
    for name, value in leaves.items():
        save(f"{out}grad.{name}.bin", value.grad if value.grad is not None else torch.zeros_like(value))


def main():
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    for index, case in enumerate(json.loads((folder / "manifest.json").read_text())):
        try:
            run(folder, index, case)
        except Exception as error:
            sys.exit(f"case {index}, {case['module']} {case['call']}: {error}")


if __name__ == "__main__":
    main()
