"""Dataset: what an infeed queue reads. Small, in the manner of tf.data; any iterable does as well."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterable, Iterator, Optional

import numpy as np

from .. import _core


class Dataset:
    """Elements that can be read from the start again and again."""

    def __init__(self, open_: Callable[[], Iterable[Any]]) -> None:
        self._open = open_

    def __iter__(self) -> Iterator[Any]:
        return iter(self._open())

    @staticmethod
    def of(source: Any) -> "Dataset":
        """From a Dataset, arrays (see from_tensor_slices), an iterable, or a function that returns an
        iterator."""
        if isinstance(source, Dataset):
            return source
        if _has_rows(source):
            return Dataset.from_tensor_slices(source)
        if hasattr(source, "__iter__"):
            return Dataset(lambda: source)
        if callable(source):
            return Dataset.from_generator(source)
        raise TypeError(
            "a dataset is a Dataset, NumPy arrays, an iterable or a function that returns an iterator, "
            f"got {type(source).__name__}"
        )

    @staticmethod
    def from_tensors(tensors: Any) -> "Dataset":
        """One element."""
        return Dataset(lambda: [tensors])

    @staticmethod
    def from_tensor_slices(tensors: Any) -> "Dataset":
        """The rows of an array, of a tuple of arrays or of a dict of them."""
        columns = list(_columns(tensors))
        lengths = {np.shape(column)[:1] for column in columns}
        if len(lengths) != 1 or lengths == {()}:
            raise _core.InvalidArgument(
                f"the arrays of a dataset need as many rows each; got {[np.shape(c) for c in columns]}"
            )
        (length,) = lengths.pop()
        return Dataset(lambda: (_mapped(lambda a: a[i], tensors) for i in range(length)))

    @staticmethod
    def from_generator(generator: Callable[[], Iterable[Any]]) -> "Dataset":
        """What a function yields; it is called at each start."""
        return Dataset(generator)

    def map(self, function: Callable) -> "Dataset":
        """The results of a function. The parts of a tuple are its arguments."""
        return Dataset(lambda: (function(*e) if isinstance(e, tuple) else function(e) for e in self))

    def repeat(self, count: Optional[int] = None) -> "Dataset":
        """The elements so many times, or without end."""

        def elements() -> Iterator[Any]:
            for _ in itertools.count() if count is None else range(count):
                empty = True
                for element in self:
                    empty = False
                    yield element
                if empty:
                    return

        return Dataset(elements)

    def batch(self, size: int) -> "Dataset":
        """Stacks elements. Shapes are fixed, so the remainder is dropped."""
        if size < 1:
            raise _core.InvalidArgument(f"batch: the size must be at least 1, got {size}")

        def elements() -> Iterator[Any]:
            source = iter(self)
            while len(group := list(itertools.islice(source, size))) == size:
                yield _stacked(group)

        return Dataset(elements)

    def take(self, count: int) -> "Dataset":
        """The first elements."""
        return Dataset(lambda: itertools.islice(iter(self), count))


def _has_rows(source: Any) -> bool:
    if isinstance(source, np.ndarray):
        return True
    return isinstance(source, (tuple, dict)) and all(
        isinstance(column, np.ndarray) for column in _columns(source)
    )


def _columns(tensors: Any) -> Iterable[Any]:
    if isinstance(tensors, dict):
        return tensors.values()
    return tensors if isinstance(tensors, tuple) else (tensors,)


def _mapped(function: Callable, element: Any) -> Any:
    if isinstance(element, dict):
        return {name: function(value) for name, value in element.items()}
    if isinstance(element, tuple):
        return tuple(function(value) for value in element)
    return function(element)


def _stacked(group: list) -> Any:
    first = group[0]
    if isinstance(first, dict):
        return {name: np.stack([each[name] for each in group]) for name in first}
    if isinstance(first, tuple):
        return tuple(np.stack(column) for column in zip(*group))
    return np.stack(group)
