"""How a model is called: its arguments as tensors, and what forward did with them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch

from . import _capture, _core, args as _args

Types = Tuple[Tuple[torch.Size, torch.dtype], ...]  # of the tensors of a call


def require_no_arrays(name: str, value: Any) -> None:
    if isinstance(value, np.ndarray):
        raise _core.InvalidArgument(
            f"the argument '{name}' is a NumPy array, and models take tensors; use "
            "torch.from_numpy(array)"
        )
    if isinstance(value, dict):
        for key, each in value.items():
            require_no_arrays(f"{name}[{key!r}]", each)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            require_no_arrays(f"{name}[{i}]", each)


class Traced(NamedTuple):
    """What forward did with tensors of certain shapes and types."""

    spec: _args.Spec  # the structure of what it returned
    outputs: int  # the number of tensors in it
    changed: Tuple[int, ...]  # the inputs that it wrote
    constants: Tuple[_capture.Constant, ...]  # tensors from outside that it read


class Form:
    """How the model is called: the structure of the arguments, and what was compiled for it."""

    def __init__(self, spec: _args.Spec, names: List[str]) -> None:
        self.spec = spec
        self.names = names
        self.compiled: Dict[Types, Traced] = {}
        # The number of tensors, if the arguments are nothing else: then there is nothing to take apart.
        args, kwargs = spec.children
        only_tensors = not kwargs.children and all(each.kind == "tensor" for each in args.children)
        self.tensors = len(args.children) if only_tensors else -1


def write_back(tensor: torch.Tensor, value: torch.Tensor, name: str) -> None:
    """Gives an input that forward changed in place its new value."""
    if tensor.shape != value.shape:
        raise _core.InvalidArgument(
            f"forward changes its input '{name}' in place, but the model returns only {tuple(value.shape)} "
            f"of {tuple(tensor.shape)}; use outputMode(OutputMode.All), or do not change it"
        )
    with torch.no_grad():
        tensor.copy_(value)


def leaf_names(arguments: Dict[str, Any]) -> List[str]:
    """A name for every tensor: that of its argument, with a number if there are several in it."""
    names = []
    for name, value in arguments.items():
        count = len(_args.flatten(value)[0])
        names += [name] if count == 1 else [f"{name}.{i}" for i in range(count)]
    return names
