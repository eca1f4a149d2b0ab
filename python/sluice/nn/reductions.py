"""Reductions over some axes, or all if none are given. Axes may be negative."""

from __future__ import annotations

from typing import Any

from ._axes import Axes, one_axis, several_axes
from ._tensor import Tensor, as_tensor, call, op

__all__ = ["argmax", "cumsum", "logsumexp", "max", "mean", "min", "prod", "sum"]


def _reduce(name: str, function: str, x: Any, axis: Axes, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = several_axes(axis, len(x.shape), function)
    return call(function, name, x, axes=axes, keepDims=keepdims)


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Over these axes, or all."""
    return _reduce("reduce_sum", "sum", x, axis, keepdims)


def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return _reduce("reduce_mean", "mean", x, axis, keepdims)


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return _reduce("reduce_max", "max", x, axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return _reduce("reduce_min", "min", x, axis, keepdims)


def prod(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return _reduce("reduce_prod", "prod", x, axis, keepdims)


def logsumexp(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return _reduce("reduce_log_sum_exp", "logsumexp", x, axis, keepdims)


def argmax(x: Any, axis: int = -1, keepdims: bool = False) -> Tensor:
    """The position (int64) of the largest element; of the first if several are equal."""
    x = as_tensor(x)
    at = one_axis(axis, len(x.shape), "argmax")
    return op("argmax", x, axis=at, keepDims=keepdims)


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    x = as_tensor(x)
    at = one_axis(axis, len(x.shape), "cumsum")
    return call("cumsum", "cumsum", x, axis=at, exclusive=exclusive, reverse=reverse)
