"""x[key] as in NumPy."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from .. import _core
from ._tensor import Tensor, is_symbolic
from .shapes import gather, reshape


def _whole_key(key: Any, rank: int) -> List[Any]:
    """A key with one entry per axis, besides those that are None."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise _core.InvalidArgument("an index may have one ...")
    missing = rank - sum(k is not None and k is not Ellipsis for k in keys)
    if missing < 0:
        raise _core.InvalidArgument(f"there are {rank - missing} indices for {rank} axes")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), None)
    if at is None:
        return keys + [np.s_[:]] * missing
    return keys[:at] + [np.s_[:]] * missing + keys[at + 1 :]


def _bounds(key: Any, extent: int) -> Tuple[int, int, int]:
    if isinstance(key, (int, np.integer)):
        if not -extent <= key < extent:
            raise IndexError(f"index {key} is out of range for an axis of extent {extent}")
        return key % extent, key % extent + 1, 1
    if not hasattr(key, "indices"):
        raise _core.InvalidArgument(
            f"an index is an integer, a slice, ... or None, got {type(key).__name__}; use nn.gather "
            "for tensors of indices"
        )
    start, stop, step = key.indices(extent)
    if step < 1:
        raise _core.InvalidArgument("slices have a positive step; use nn.op('reverse', x, axes=[...])")
    return start, max(start, stop), step


def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key] as in NumPy, for integers, slices, ... and None; one tensor of integers gathers rows."""
    if is_symbolic(key) or isinstance(key, (list, np.ndarray)):
        return gather(x, key)
    keys = _whole_key(key, len(x.shape))
    picks = [k for k in keys if k is not None]
    bounds = [_bounds(k, extent) for k, extent in zip(picks, x.shape)]
    y = x
    if any(b != (0, extent, 1) for b, extent in zip(bounds, x.shape)):
        starts, ends, steps = (list(each) for each in zip(*bounds))
        y = _core.op("slice", [x], {"starts": starts, "ends": ends, "steps": steps})[0]
    extents = iter(y.shape)
    shape = []
    for k in keys:
        extent = 1 if k is None else next(extents)
        if not isinstance(k, (int, np.integer)):
            shape.append(extent)
    return y if tuple(shape) == y.shape else reshape(y, shape)
