"""A thread that reads an iterator ahead into a buffer of limited size."""

from __future__ import annotations

import collections
import os
import threading
import weakref
from typing import Any, Deque, Iterator, Optional

import torch


class _End:
    """The last entry of a buffer: the error that ended the iterator, or None."""

    def __init__(self, error: Optional[BaseException]) -> None:
        self.error = error


class _Buffer:
    """Elements on their way from the thread to the caller."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: Deque[Any] = collections.deque()  # guarded by _changed
        self._stopped = False  # guarded by _changed
        self._changed = threading.Condition()

    def put(self, entry: Any) -> bool:
        """Waits for room; returns false if nobody wants the entry any more."""
        with self._changed:
            while len(self._entries) >= self._size and not self._stopped:
                self._changed.wait()
            if not self._stopped:
                self._entries.append(entry)
                self._changed.notify_all()
            return not self._stopped

    def get(self) -> Any:
        with self._changed:
            while not self._entries and not self._stopped:
                self._changed.wait()
            if not self._entries:
                return _End(None)
            entry = self._entries.popleft()
            self._changed.notify_all()
            return entry

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._entries.clear()
            self._changed.notify_all()


def _read(elements: Iterator[Any], buffer: _Buffer) -> None:
    """What the thread does. It must not know the Prefetcher, which ends it when it is collected."""
    error: Optional[BaseException] = None
    try:
        while True:
            with torch.autograd.profiler.record_function("sluice.load"):
                element = next(elements)
            if not buffer.put(element):
                return
            del element
    except StopIteration:
        pass
    except BaseException as raised:  # also SystemExit: the caller has to know
        error = raised
    buffer.put(_End(error))
    del error  # its traceback has this frame: a cycle that would keep the iterator


def _finish(
    buffer: _Buffer, thread: threading.Thread, seconds: Optional[float], process: int
) -> None:
    if os.getpid() != process:  # a fork has no such thread, and the buffer's lock may be held
        return
    buffer.stop()
    if thread is not threading.current_thread():  # the collector may run there
        thread.join(timeout=seconds)


class Prefetcher:
    """Reads one iterator after the other, each in a thread of its own.

    The thread ends with its iterator, with ``stop``, when the object is collected and when the
    interpreter exits.
    """

    def __init__(self, buffer_size: int) -> None:
        self._size = buffer_size
        self._buffer: Optional[_Buffer] = None
        self._thread: Optional[threading.Thread] = None
        self._finish: Optional[weakref.finalize] = None

    def start(self, elements: Iterator[Any]) -> None:
        """Begins to read an iterator. The one before must have ended or been stopped."""
        buffer = self._buffer = _Buffer(self._size)
        thread = threading.Thread(
            target=_read, args=(elements, buffer), name="sluice-loader", daemon=True
        )
        # A dataset that never returns must not keep the program from ending.
        self._finish = weakref.finalize(self, _finish, buffer, thread, 10, os.getpid())
        self._thread = thread
        thread.start()

    def next(self) -> Any:
        """The next element. Raises StopIteration at the end, or the error that came instead."""
        if self._buffer is None:
            raise StopIteration
        entry = self._buffer.get()
        if not isinstance(entry, _End):
            return entry
        self._buffer = None
        error = StopIteration() if entry.error is None else entry.error
        try:
            raise error
        finally:
            del error, entry  # no cycle with this frame either

    def stop(self) -> None:
        """Ends the thread; what it has read and nobody has asked for is dropped."""
        if self._finish is not None and self._thread is not None:
            self._finish.detach()
            if self._buffer is not None:
                _finish(self._buffer, self._thread, None, os.getpid())
            else:
                self._thread.join()  # it has sent its last entry
        self._buffer = self._thread = self._finish = None
