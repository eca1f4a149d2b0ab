"""What functions take and return: tensors, lists of them, and operations, which are no values."""

from __future__ import annotations

from typing import Any, Callable, List

from .. import _core
from ..nn._tensor import Tensor, as_tensor
from ._operation import Operation


def tensors_of(result: Any, where: str) -> List[Tensor]:
    """The tensors of a result, in order. None and operations are left out."""
    if result is None or isinstance(result, Operation):
        return []
    if isinstance(result, dict):
        raise _core.InvalidArgument(f"{where}: expected tensors, got a dict; return a list instead")
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in tensors_of(part, where)]
    return [as_tensor(result)]


def body_of(function: Callable, where: str) -> Callable[[List[Tensor]], List[Tensor]]:
    """A function of tensors, or a torch module, as a function from a list to a list."""
    if _is_torch_module(function):
        from . import _torch  # which needs torch

        function = _torch.as_function(function)
    if not callable(function):
        raise TypeError(f"{where}: expected a function, got {type(function).__name__}")
    return lambda tensors: tensors_of(function(*tensors), where)


def _is_torch_module(function: Any) -> bool:
    """Without importing torch, which need not be there."""
    return any(cls.__module__.startswith("torch.nn") for cls in type(function).__mro__)
