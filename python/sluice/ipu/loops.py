"""Loops that run on the devices."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from .. import _core
from ..nn._tensor import as_tensor
from . import ipu_compiler
from ._structure import body_of
from .ipu_infeed_queue import IPUInfeedQueue


def repeat(
    n: int,
    body: Callable,
    inputs: Optional[Sequence[Any]] = None,
    infeed_queue: Optional[IPUInfeedQueue] = None,
) -> List[_core.Tensor]:
    """Runs the body n times. It gets the inputs, later the values that the iteration before returned,
    and then the tensors of the infeed's next element. Returns the values of the last iteration. A
    compiled function has one loop."""
    function = ipu_compiler.current("loops.repeat")
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"loops.repeat: the number of iterations is an int, got {type(n).__name__}")
    starts = [as_tensor(value) for value in _as_list(inputs)]
    call = body_of(body, "the body of loops.repeat")
    queue = None
    if infeed_queue is not None:
        queue = infeed_queue._started()
        call = infeed_queue._with_names(call, len(starts))
    function._keep(queue)

    def placed(tensors: List[_core.Tensor]) -> List[_core.Tensor]:
        with function._default_shard():
            return call(tensors)

    results = _core.repeat(n, placed, starts, queue)
    function._end_loop()
    return results


def _as_list(inputs: Any) -> List[Any]:
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
