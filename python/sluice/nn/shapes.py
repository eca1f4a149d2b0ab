"""Functions that change shapes or pick elements. Axes may be negative."""

from __future__ import annotations

import builtins
from typing import Any, List, Sequence, Tuple, Union

import numpy as np

from .. import _core
from ._axes import Axes, one_axis, several_axes
from ._tensor import Tensor, as_tensor, as_tensors, op

__all__ = [
    "broadcast_to", "concat", "expand_dims", "flatten", "gather", "one_hot", "pad", "permute",
    "reshape", "slice", "split", "squeeze", "stack", "tile", "top_k", "transpose",
]


# --- shape ----------------------------------------------------------------------------------------


def reshape(x: Any, shape: Sequence[int]) -> Tensor:
    """One extent may be -1; it takes all that remains."""
    x, dims = as_tensor(x), list(shape)
    count = int(np.prod(x.shape, dtype=np.int64))
    known = int(np.prod([d for d in dims if d != -1], dtype=np.int64))
    if dims.count(-1) == 1 and known > 0 and count % known == 0:
        dims[dims.index(-1)] = count // known
    if any(d < 0 for d in dims) or int(np.prod(dims, dtype=np.int64)) != count:
        raise _core.InvalidArgument(f"reshape: {x.shape} has {count} elements and cannot be {shape}")
    return _core.op("reshape", [x], {"shape": dims})[0]


def flatten(x: Any, start_axis: int = 0) -> Tensor:
    """Joins the axes from start_axis to the last one."""
    x = as_tensor(x)
    start = one_axis(start_axis, len(x.shape), "flatten") if x.shape else 0
    return reshape(x, [*x.shape[:start], -1])


def expand_dims(x: Any, axis: int) -> Tensor:
    """A new axis of extent 1."""
    x = as_tensor(x)
    at = one_axis(axis, len(x.shape) + 1, "expand_dims")
    return reshape(x, [*x.shape[:at], 1, *x.shape[at:]])


def squeeze(x: Any, axis: Axes = None) -> Tensor:
    """Without these axes, which have extent 1; None: without all that do."""
    x = as_tensor(x)
    if axis is None:
        gone = [i for i, d in enumerate(x.shape) if d == 1]
    else:
        gone = several_axes(axis, len(x.shape), "squeeze")
    for i in gone:
        if x.shape[i] != 1:
            raise _core.InvalidArgument(f"squeeze: axis {i} of {x.shape} has not the extent 1")
    return reshape(x, [d for i, d in enumerate(x.shape) if i not in gone])


def permute(x: Any, axes: Sequence[int]) -> Tensor:
    """Axis i of the result is axis axes[i] of x."""
    x = as_tensor(x)
    order = [one_axis(a, len(x.shape), "permute") for a in axes]
    return _core.op("transpose", [x], {"permutation": order})[0]


def transpose(x: Any, axis0: int = -2, axis1: int = -1) -> Tensor:
    """Swaps two axes."""
    x = as_tensor(x)
    order = list(range(len(x.shape)))
    a, b = (one_axis(axis, len(order), "transpose") for axis in (axis0, axis1))
    order[a], order[b] = order[b], order[a]
    return permute(x, order)


def broadcast_to(x: Any, shape: Sequence[int]) -> Tensor:
    return op("broadcast_to", x, shape=list(shape))


def tile(x: Any, repeats: Sequence[int]) -> Tensor:
    """The tensor repeated along each axis."""
    return op("tile", x, repeats=list(repeats))


def concat(parts: Sequence[Any], axis: int = 0) -> Tensor:
    tensors = _core.resolve_types("cat", as_tensors(list(parts)))
    if not tensors:
        raise _core.InvalidArgument("concat: there is nothing to join")
    return _core.op("concat", tensors, {"axis": one_axis(axis, len(tensors[0].shape), "concat")})[0]


def stack(parts: Sequence[Any], axis: int = 0) -> Tensor:
    """Joins tensors of one shape along a new axis."""
    return concat([expand_dims(part, axis) for part in as_tensors(list(parts))], axis)


def split(x: Any, sizes: Union[int, Sequence[int]], axis: int = 0) -> List[Tensor]:
    """Parts with these extents along an axis, or so many equal ones."""
    x = as_tensor(x)
    at = one_axis(axis, len(x.shape), "split")
    if isinstance(sizes, int):
        if sizes < 1 or x.shape[at] % sizes != 0:
            raise _core.InvalidArgument(f"split: {x.shape[at]} cannot be {sizes} equal parts")
        sizes = [x.shape[at] // sizes] * sizes
    return _core.op("split", [x], {"axis": at, "sizes": list(sizes)})


def pad(x: Any, before: Sequence[int], after: Sequence[int], mode: str = "constant",
        value: float = 0.0) -> Tensor:
    return op("pad", x, before=list(before), after=list(after), mode=mode, value=float(value))


# --- elements -------------------------------------------------------------------------------------


def slice(x: Any, axis: int, start: int, end: int) -> Tensor:
    """Elements [start, end) along an axis; negative positions count from its end."""
    x = as_tensor(x)
    at = one_axis(axis, len(x.shape), "slice")
    low, high, _ = builtins.slice(start, end).indices(x.shape[at])
    starts, ends = [0] * len(x.shape), list(x.shape)
    starts[at], ends[at] = low, max(low, high)
    return _core.op("slice", [x], {"starts": starts, "ends": ends})[0]


def gather(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """Slices of x at integer indices, whose shape replaces the axis."""
    x = as_tensor(x)
    at = one_axis(axis, len(x.shape), "gather")
    return _core.op("gather", [x, as_tensor(indices)], {"axis": at})[0]


def one_hot(indices: Any, depth: int, axis: int = -1, dtype: Any = "float32") -> Tensor:
    return op("one_hot", indices, depth=depth, axis=axis, dtype=dtype)


def top_k(x: Any, k: int, axis: int = -1, largest: bool = True) -> Tuple[Tensor, Tensor]:
    """The largest (or smallest) values along an axis, and their positions."""
    values, positions = op("top_k", x, k=k, axis=axis, largest=largest)
    return values, positions
