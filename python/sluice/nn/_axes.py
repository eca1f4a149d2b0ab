"""Axes as arguments."""

from __future__ import annotations

from typing import List, Sequence, Union

from .. import _core

Axes = Union[None, int, Sequence[int]]


def one_axis(axis: int, rank: int, what: str) -> int:
    """An axis that may be negative, counted from the front."""
    if not -rank <= axis < rank:
        raise _core.InvalidArgument(f"{what}: axis {axis} is out of range for rank {rank}")
    return axis % rank


def several_axes(axes: Axes, rank: int, what: str) -> List[int]:
    """None means all."""
    if axes is None:
        return list(range(rank))
    return sorted(one_axis(a, rank, what) for a in ([axes] if isinstance(axes, int) else axes))
