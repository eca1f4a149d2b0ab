"""IPUInfeedQueue: passes the elements of a dataset to a running function."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, List, Optional

from .. import _core, _forks
from ..nn._tensor import to_host, to_numpy
from ._operation import Operation
from .dataset import Dataset


class _Reader:
    """The dataset of a queue as the library reads it. It does not know the queue, which can end so."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.names: Optional[List[str]] = None  # of the first element, if that was a dict
        self._begun = False

    def open(self) -> Iterator[List[_core.HostTensor]]:
        for element in self._dataset:
            names = sorted(element) if isinstance(element, dict) else None
            if not self._begun:
                self.names, self._begun = names, True
            if names != self.names:
                raise _core.InvalidArgument(
                    f"an element of the infeed has the names {names}, the first had {self.names}"
                )
            yield hosts_of(element)


class IPUInfeedQueue(_forks.Watched):
    """Reads a dataset ahead, in a thread of its own: a Dataset, any iterable, a function that returns
    an iterator, or NumPy arrays, whose rows are the elements. Every element is what one iteration of
    one replica gets: an array, a tuple of arrays, or a dict, whose values are passed by name.

    An exception of the dataset ends the call that needed the element, and later ones. An iterable may
    reuse the memory of its arrays: they are copied."""

    def __init__(self, dataset: Any, prefetch_depth: int = 3) -> None:
        if isinstance(prefetch_depth, bool) or not isinstance(prefetch_depth, int):
            raise TypeError(f"prefetch_depth is an int, got {type(prefetch_depth).__name__}")
        if prefetch_depth < 1:
            raise _core.InvalidArgument(f"prefetch_depth must be at least 1, got {prefetch_depth}")
        self._reader = _Reader(Dataset.of(dataset))
        self._depth = prefetch_depth
        self._queue: Optional[_core.InfeedQueue] = None
        self._deleted = False
        self._lock = threading.Lock()
        _forks.watch(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread that is not here may have had it
        if self._queue is not None:
            _forks.lose(self._queue)
            self._queue = _forks.Lost("infeed queue")

    def _started(self) -> _core.InfeedQueue:
        with self._lock:
            if self._deleted:
                raise _core.InvalidArgument("the infeed queue was deleted; make a new one")
            if self._queue is None:
                self._queue = _core.InfeedQueue(self._reader.open, self._depth)
            return self._queue

    def _with_names(self, call: Callable, carried: int) -> Callable:
        """The call with the values of dict elements as tensors by name."""
        self._started().types()  # the first element has arrived then
        names = self._reader.names
        if names is None:
            return call
        return lambda tensors: call(tensors[:carried], dict(zip(names, tensors[carried:])))

    @property
    def initializer(self) -> Operation:
        """Starts to read, which otherwise the first use does. May be run once."""
        return Operation("infeed initializer", self._initialize)

    def _initialize(self) -> None:
        if self._queue is not None:
            raise _core.InvalidArgument("the infeed queue is initialized already; that is done once")
        self._started()

    @property
    def deleter(self) -> Operation:
        """Ends the queue and frees what it has read."""
        return Operation("infeed deleter", self._delete)

    def _delete(self) -> None:
        with self._lock:
            queue, self._queue, self._deleted = self._queue, None, True
        if queue is not None:
            queue.close()

    @property
    def dequeued(self) -> int:
        """The number of elements that were dequeued so far."""
        return 0 if self._queue is None else self._queue.dequeued

    def dequeue(self) -> Any:
        """The next element, on the host."""
        arrays = [to_numpy(tensor) for tensor in self._started().dequeue()]
        if self._reader.names is not None:
            return dict(zip(self._reader.names, arrays))
        return arrays[0] if len(arrays) == 1 else tuple(arrays)


def hosts_of(element: Any) -> List[_core.HostTensor]:
    """The tensors of an element, copied; those of a dict in the order of their names."""
    if isinstance(element, dict):
        return [to_host(element[name]) for name in sorted(element)]
    if isinstance(element, (tuple, list)) and not _is_numbers(element):
        return [to_host(part) for part in element]
    return [to_host(element)]


def _is_numbers(element: Any) -> bool:
    """A list of numbers is one array; a tuple is always several tensors."""
    return isinstance(element, list) and all(isinstance(e, (bool, int, float)) for e in element)
