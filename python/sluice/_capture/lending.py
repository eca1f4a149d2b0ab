"""The lock of captures: a thread has it as often as it likes, and lends it to another one that it waits for. What the
threads change under it is undone in the opposite order, because none goes on before those on top of it have ended."""

import contextlib
import threading

from .. import _core


class Lock:
    def __init__(self):
        self._changed = threading.Condition()
        self._owners = []  # threads, once for each time; the last one has the lock
        self._waiting = {}  # the ModelLock that a thread waits for

    def __enter__(self):
        me = threading.current_thread()
        with self._changed:
            self._changed.wait_for(lambda: not self._owners or self._next() is me)
            self._owners.append(me)

    def _next(self):
        """Who may go on: the owner, or the thread that has the model for which it waits."""
        thread = self._owners[-1]
        for _ in range(len(self._waiting)):  # they may wait for each other
            lock = self._waiting.get(thread)
            thread = lock.owner if lock else thread
        return thread

    def __exit__(self, *error):
        with self._changed:
            self._owners.pop()
            self._changed.notify_all()

    @contextlib.contextmanager
    def lent(self, thread):
        """Inside, the lock is the thread's if it was the caller's. The end waits until the thread has given back what
        it took."""
        with self._changed:
            count = len(self._owners)
            self._owners.append(thread)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._changed.wait_for(lambda: len(self._owners) == count + 1)
                self._owners.pop()
                self._changed.notify_all()

    @contextlib.contextmanager
    def waiting(self, lock):
        """While the caller waits for the lock of a model, its owner may capture that model."""
        me = threading.current_thread()
        with self._changed:
            if me in self._owners and lock.owner in self._owners[: self._owners.index(me)]:
                raise _core.InvalidArgument(
                    "a function that the capture of a model calls uses that model: the capture waits for the function, "
                    "so the function cannot wait for the capture; use the model after it"
                )
            self._waiting[me] = lock
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._waiting[me]


class ModelLock:
    """The lock of a model, which a thread has as often as it likes. It may be taken in captures and before them."""

    def __init__(self, captures):
        self._captures = captures
        self._lock = threading.RLock()
        self._depth = 0
        self.owner = None

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            with self._captures.waiting(self):
                self._lock.acquire()
        self._depth += 1
        self.owner = threading.current_thread()

    def __exit__(self, *error):
        self._depth -= 1
        if self._depth == 0:
            self.owner = None
        self._lock.release()
