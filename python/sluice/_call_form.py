"""How a model is called: its arguments as tensors, and what forward did with them."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch

from . import _capture, _core, args as _args
from ._capture import compat
from ._capture.tensor import SymbolicTensor
from ._state import Held

Types = Tuple[Tuple[torch.Size, torch.dtype], ...]  # of the tensors of a call


def require_tensors(name: str, value: Any) -> None:
    """Refuses what other libraries have in place of tensors."""
    if isinstance(value, np.ndarray):
        raise _core.InvalidArgument(
            f"the argument '{name}' is a NumPy array, and models take tensors; use "
            "torch.from_numpy(array)"
        )
    if isinstance(value, SymbolicTensor):
        raise _core.Unsupported(
            f"the argument '{name}' is a tensor of a forward that is being captured: a model cannot be called "
            "inside of another one; call its module, model.model"
        )
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        raise _core.Unsupported(
            f"the argument '{name}' is a packed sequence, whose shape depends on the lengths in it; give the "
            "padded tensor, pad_packed_sequence(...)[0], and a mask or the lengths"
        )
    if isinstance(value, dict):
        for key, each in value.items():
            require_tensors(f"{name}[{key!r}]", each)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            require_tensors(f"{name}[{i}]", each)


def add_defaults(bound: inspect.BoundArguments) -> None:
    """Makes calls with and without an argument that has its default value the same. Tensors among the
    defaults stay what they are, constants."""
    for name, parameter in bound.signature.parameters.items():
        default = parameter.default
        if name not in bound.arguments and default is not parameter.empty and not _args.flatten(default)[0]:
            bound.arguments[name] = default


class Traced(NamedTuple):
    """What forward did with tensors of certain shapes and types."""

    spec: _args.Spec  # the structure of what it returned
    outputs: int  # the number of tensors in it
    changed: Tuple[int, ...]  # the inputs that it wrote
    constants: Tuple[_capture.Constant, ...]  # tensors from outside that it read
    written: Tuple[Held, ...]  # what a step gives a new value: trained weights, and buffers that it wrote


class Form:
    """How the model is called: the structure of the arguments, and what was compiled for it."""

    def __init__(self, spec: _args.Spec, names: List[str], tensors: int) -> None:
        self.spec = spec
        self.names = names
        self.compiled: Dict[Types, Traced] = {}
        self._autocast = compat.autocast_type()
        self.tensors = tensors  # their number if the caller gave nothing else: nothing to take apart; or -1


    def require_same_autocast(self) -> None:
        """An error in another torch.autocast than that of the first call, which the program has."""
        now = compat.autocast_type()
        if now is not self._autocast:
            was, found = ("off" if each is None else f"on with {each}" for each in (self._autocast, now))
            raise _core.InvalidArgument(
                f"torch.autocast was {was} at the first call of the model, and is {found} now; use another model "
                "for the other precision"
            )


def signature_of(module: torch.nn.Module) -> inspect.Signature:
    """That of forward; any arguments for a function that does not tell."""
    try:
        return inspect.signature(module.forward)
    except (TypeError, ValueError):
        return inspect.signature(lambda *args, **kwargs: None)


def require_separate(names: List[str], leaves: List[torch.Tensor], changed: Tuple[int, ...]) -> None:
    """An error if an input that forward changes shares its memory with another one, which does not see it."""
    places = [each.data_ptr() - each.storage_offset() * each.element_size() for each in leaves]
    for i in changed:
        for j, place in enumerate(places):
            if j != i and place == places[i] and leaves[i].numel() > 0:
                raise _core.InvalidArgument(
                    f"forward changes its input '{names[i]}' in place, and '{names[j]}' is in the same memory; "
                    "give a clone() of one of them"
                )


def require_whole(name: str, tensor: torch.Tensor, returned: Tuple[int, ...]) -> None:
    """An error if a call returns less of an input that forward changes than its shape."""
    if tuple(tensor.shape) != returned:
        raise _core.InvalidArgument(
            f"forward changes its input '{name}' in place, but the model returns only {returned} "
            f"of {tuple(tensor.shape)}; use outputMode(OutputMode.All), or do not change it"
        )


def leaf_names(arguments: Dict[str, Any]) -> List[str]:
    """A name for every tensor: that of its argument, with a number if there are several in it."""
    names = []
    for name, value in arguments.items():
        count = len(_args.flatten(value)[0])
        names += [name] if count == 1 else [f"{name}.{i}" for i in range(count)]
    return names
