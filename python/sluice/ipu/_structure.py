"""What functions take and return: tensors, lists of them, and operations, which are no values. Stages of a
pipeline may also return tensors by names."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

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


def callable_of(function: Callable, where: str) -> Callable[..., Any]:
    """A function of tensors, or a torch module as one."""
    if _is_torch_module(function):
        from . import _torch  # which needs torch

        function = _torch.as_function(function)
    if not callable(function):
        raise TypeError(f"{where}: expected a function, got {type(function).__name__}")
    return function


def body_of(function: Callable, where: str) -> Callable[..., List[Tensor]]:
    """A function of tensors, or a torch module, as a function from a list, and tensors by names, to a list."""
    call = callable_of(function, where)
    return lambda tensors, named={}: tensors_of(call(*tensors, **named), where)


class Names:
    """The names under which the stages of a pipeline pass their results on. A stage gets the results of a dict
    as arguments by name. The stages are traced in their order."""

    def __init__(self) -> None:
        self._found: Dict[int, List[Optional[List[str]]]] = {}  # of each function of a stage

    def begin(self, stage: int) -> None:
        """The first function of a stage is traced next."""
        self._found[stage] = []

    def results(self, stage: int, result: Any, where: str) -> List[Tensor]:
        """The tensors of what a function of the stage has returned."""
        if not isinstance(result, dict):
            self._found[stage].append(None)
            return tensors_of(result, where)
        for name, value in result.items():
            if not isinstance(name, str) or value is None or isinstance(value, (dict, list, tuple, Operation)):
                raise _core.InvalidArgument(f"{where}: a dict has one tensor for each name, got {name!r}: {value!r}")
        self._found[stage].append(list(result))
        return [as_tensor(value) for value in result.values()]

    def of(self, stage: int) -> Optional[List[str]]:
        """The names of the stage's results; None if they have none."""
        parts = self._found.get(stage, [])
        if all(names is None for names in parts):
            return None
        names = [name for part in parts for name in part or ()]
        if None in parts or len(set(names)) < len(names):
            raise _core.InvalidArgument(
                f"stage {stage} of the pipeline: functions that run at the same time return all dicts or none, with "
                f"different names, got {parts}"
            )
        return names

    def call(self, stage: int, function: Callable, tensors: List[Tensor]) -> Any:
        """Calls a function with the results of the stage."""
        names = self.of(stage)
        return function(*tensors) if names is None else function(**dict(zip(names, tensors)))


def _is_torch_module(function: Any) -> bool:
    """Without importing torch, which need not be there."""
    return any(cls.__module__.startswith("torch.nn") for cls in type(function).__mro__)
