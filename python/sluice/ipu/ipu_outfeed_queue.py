"""IPUOutfeedQueue: passes results of a running function to the host."""

from __future__ import annotations

import enum
from typing import Any, Dict, Iterator, List, Union

import numpy as np

from .. import _core
from ..nn._tensor import as_tensor, to_numpy
from . import ipu_compiler
from ._operation import Operation

Results = Union[np.ndarray, List[np.ndarray], Dict[str, np.ndarray]]


class IPUOutfeedMode(enum.Enum):
    ALL = "all"
    LAST = "last"


class IPUOutfeedQueue:
    """The body of a loop, or a pipeline, enqueues tensors, and any thread dequeues them, while the
    function runs or afterwards. In mode LAST only the newest iteration is kept. A capacity makes the
    function wait when so many iterations are in the queue."""

    def __init__(
        self, outfeed_mode: Union[None, str, IPUOutfeedMode] = None, capacity: int = 0
    ) -> None:
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        try:
            self.mode = IPUOutfeedMode(mode.lower() if isinstance(mode, str) else mode)
        except ValueError:
            raise _core.InvalidArgument(f"outfeed_mode is ALL or LAST, got {mode!r}") from None
        self._queue = _core.OutfeedQueue(self.mode.value, capacity)
        self._names: Any = None  # of the tensors, if a pipeline's last stage returns a dict
        self._form: Any = list  # how dequeue returns tensors: dict, list, or None for a single one

    def enqueue(self, tensors: Any) -> Operation:
        """Puts a tensor, a tuple or list of tensors, or a dict of them by names into the queue, in
        every iteration of loops.repeat. Its body calls this once."""
        ipu_compiler.current("enqueue")._keep(self._queue)
        if isinstance(tensors, dict):
            for name in tensors:
                if not isinstance(name, str):
                    raise TypeError(f"enqueue: the keys of a dict are names, got {name!r}")
            named = {name: as_tensor(value) for name, value in tensors.items()}
            _core.enqueue_named(self._queue, named)
            self._form = dict
        elif isinstance(tensors, (list, tuple)):
            _core.enqueue(self._queue, [as_tensor(value) for value in tensors])
            self._form = list
        else:
            _core.enqueue(self._queue, [as_tensor(tensors)])
            self._form = None
        return Operation("enqueue")

    def dequeue(self) -> Results:
        """What has arrived, in the form in which it was enqueued; does not wait. In mode ALL arrays are
        [iterations, ...], with no iterations if none has arrived, and in mode LAST [...]; with
        replicas, their axis comes next."""
        if self._form is dict:
            return {name: to_numpy(t) for name, t in self._queue.dequeue_named().items()}
        arrays = [to_numpy(tensor) for tensor in self._queue.dequeue()]
        if self._names is not None:
            return dict(zip(self._names, arrays))
        return arrays[0] if self._form is None else arrays

    def __iter__(self) -> Iterator[Results]:
        """The iterations that have arrived, one after the other."""
        if self.mode is IPUOutfeedMode.LAST:
            raise _core.InvalidArgument("a queue of mode LAST has one element: use dequeue()")
        results = self.dequeue()
        if isinstance(results, dict):
            columns = zip(*results.values())
            return (dict(zip(results, each)) for each in columns)
        return iter(results) if self._form is None else (list(each) for each in zip(*results))

    def __len__(self) -> int:
        """The number of iterations that can be dequeued now."""
        return len(self._queue)

    def __bool__(self) -> bool:
        return True

    def wait(self, iterations: int = 1) -> bool:
        """Waits until so many iterations can be dequeued; returns False if the queue is deleted."""
        return self._queue.wait(iterations)

    @property
    def deleter(self) -> Operation:
        """Ends the queue: who waits for it returns, and a function that enqueues fails."""
        return Operation("outfeed deleter", self._queue.close)
