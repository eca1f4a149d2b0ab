"""The lock of captures: a thread has it as often as it likes, and lends it to another one that it waits for. What the
threads change under it is undone in the opposite order, because none goes on before those on top of it have ended."""

import contextlib
import threading


class Lock:
    def __init__(self):
        self._changed = threading.Condition()
        self._owners = []  # threads, once for each time; the last one has the lock

    def __enter__(self):
        me = threading.current_thread()
        with self._changed:
            self._changed.wait_for(lambda: not self._owners or self._owners[-1] is me)
            self._owners.append(me)

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
