"""Samplers of loaders: shares of processes, and orders that begin in a known thread."""

from __future__ import annotations

import itertools
from typing import Any, Iterator, Optional

from torch.utils.data import Sampler


class ProcessShare(Sampler):
    """The samples of one process: blocks of another sampler's order, dealt out in turn."""

    def __init__(self, sampler: Any, block: int, processes: int, process: int) -> None:
        self._sampler, self._block = sampler, block
        self._processes, self._process = processes, process

    def __len__(self) -> int:
        # Each process gets the same number, so that all make the same calls.
        return len(self._sampler) // (self._block * self._processes) * self._block

    def __iter__(self) -> Iterator[Any]:
        order = iter(self._sampler)
        for _ in range(len(self) // self._block):
            deal = list(itertools.islice(order, self._block * self._processes))
            yield from deal[self._process * self._block:][: self._block]


class Order:
    """A sampler whose first element can be drawn early.

    Samplers draw their seeds with the first element. torch's loader asks for it in the thread that
    loads; ``begin`` does so in the thread that begins the epoch, where the order of draws is fixed.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._current: Optional[_Started] = None

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        self._current = _Started(iter(self._sampler))
        return self._current

    def begin(self) -> None:
        if self._current is not None:
            self._current.begin()


class _Started:
    """An iterator that can look at its first element."""

    _NOTHING = object()

    def __init__(self, elements: Iterator[Any]) -> None:
        self._elements = elements
        self._first: Any = self._NOTHING
        self._begun = False

    def begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._first = next(self._elements, self._NOTHING)

    def __iter__(self) -> "_Started":
        return self

    def __next__(self) -> Any:
        self._begun = True
        if self._first is not self._NOTHING:
            first, self._first = self._first, self._NOTHING
            return first
        return next(self._elements)
