"""Functions of the host and of shared libraries as ops of a model."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ._convert import dtype_name, to_core, to_torch, torch_dtype

__all__ = ["CPU", "custom_op"]


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: Optional[Dict[str, Any]] = None,
) -> List[torch.Tensor]:
    """The results of an op that ``sluice.load_custom_ops`` has loaded from a shared library.

    Of the example outputs only shapes and types are used. An attribute is a number, a text in ASCII
    or a list of one kind of these. Outside of a model the examples themselves are returned, as
    placeholders; ``isRunningOnIpu`` tells the two apart.
    """
    from . import _core

    checked = {key: _attribute(key, value) for key, value in (attributes or {}).items()}
    if not _core.tracing():
        return [each.clone() for each in example_outputs]
    from . import _capture

    results = _core.functions.custom_op(
        [_capture.unwrap(each) for each in inputs],
        name,
        domain,
        domain_version,
        [_type_of(each) for each in example_outputs],
        checked,
    )
    return [_capture.wrap(each, inputs) for each in results]


def _attribute(key: str, value: Any) -> Any:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    kinds = {type(each) for each in items}
    if len(kinds) > 1 or not kinds <= {int, float, str}:
        raise ValueError(
            f"custom_op: the attribute {key!r} must be a number, a text or a list of one kind of "
            f"these, got {value!r}"
        )
    for each in items:
        if isinstance(each, str) and not each.isascii():
            raise ValueError(f"custom_op: the attribute {key!r} is not ASCII: {each!r}")
        if isinstance(each, float) and abs(each) > torch.finfo(torch.float32).max:
            raise ValueError(f"custom_op: the attribute {key!r} is beyond float32: {each!r}")
    return items if isinstance(value, (list, tuple)) else value


def _type_of(tensor: torch.Tensor) -> Tuple[List[int], str]:
    return list(tensor.shape), dtype_name(tensor.dtype)


class CPU:
    """A function of the host as an op of an inference model.

    ``self.decode = sluice.CPU(decode, "decode")`` and, in forward, ``y = self.decode(x)``. The
    function gets tensors and returns one tensor or several; it runs each time the model reaches
    the op. It is also called once, with zeros, when the model is traced, to learn the shapes of its
    results.
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        if not callable(layer_to_call):
            raise TypeError(f"CPU: expected a function or a module, got {layer_to_call!r}")
        self._function, self._id = layer_to_call, ID
        self._op: Any = None

    def __call__(self, *input: torch.Tensor, **kwargs: Any) -> Any:
        from . import _core

        if not _core.tracing():
            return self._function(*input, **kwargs)
        if kwargs:
            raise TypeError("CPU: a model passes tensors by position only")
        from . import _capture

        values = [_capture.unwrap(each) for each in input]
        alone, types = self._result_types([(v.shape, v.dtype) for v in values])
        if self._op is None:
            self._op = _core.HostOp(self._run, self._id)
        results = tuple(_capture.wrap(each) for each in self._op(values, types))
        return results[0] if alone else results

    def _results(self, inputs: Sequence[torch.Tensor]) -> Tuple[bool, List[torch.Tensor]]:
        with torch.no_grad():
            results = self._function(*inputs)
        if isinstance(results, torch.Tensor):
            return True, [results]
        if not isinstance(results, (list, tuple)):
            raise TypeError(f"CPU {self._id!r}: the function must return tensors, got {results!r}")
        return False, list(results)

    def _result_types(self, types: Sequence[Any]) -> Tuple[bool, List[Any]]:
        """Calls the function with zeros."""
        from . import _capture

        def call() -> Tuple[bool, List[Any]]:
            zeros = [torch.zeros(shape, dtype=torch_dtype(name)) for shape, name in types]
            alone, results = self._results(zeros)
            return alone, [_type_of(each) for each in results]

        return _capture.outside(call)

    def _run(self, inputs: Sequence[Any]) -> List[Any]:
        _, results = self._results([to_torch(each) for each in inputs])
        return [to_core(each) for each in results]

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_op": None}
