"""Models and forked processes.

A forked process has the memory of its parent but none of the threads of its devices, so a model of the
parent would wait in it for ever. In the child such models, sessions, functions and queues are lost: calls
say so, and nothing waits for them at the end. So that the parameters of torch modules have their newest
values there, they are copied from the devices before the fork, unless a step is running in another thread.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, List, NoReturn, Sequence

from . import _core


class Watched:
    """What forks have to know of an object with devices or threads; a base class."""

    _running = False  # whether a call of it is running

    def _state_trees(self) -> Sequence[Any]:
        """The trees (_state.Tree) whose newest values its devices may have."""
        return ()

    def _after_fork(self) -> None:
        """In the child: forgets devices whose threads are not here."""
        raise NotImplementedError


_watched: "weakref.WeakSet[Watched]" = weakref.WeakSet()


def watch(each: Watched) -> None:
    """From now on forks tell the object, and `living` has it."""
    _watched.add(each)


def living(kind: type) -> List[Any]:
    """The objects of a class that are watched."""
    return [each for each in list(_watched) if isinstance(each, kind)]


def lose(*parts: Any) -> None:
    """Keeps parts of a model of the parent until the process is gone, beyond the end of the interpreter:
    they would end by waiting for threads that a child does not have."""
    for each in parts:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


def lost_error(what: str = "model") -> _core.InvalidArgument:
    """For calls of what the parent made."""
    return _core.InvalidArgument(
        f"this {what} was made before the process forked, and its devices and threads belong to the parent "
        f"process: make a new {what} in this process, or start it with multiprocessing's method 'spawn'"
    )


class Lost:
    """Takes the place of a part of the library that was the parent's: any use of it is an error."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        raise lost_error(self._what)


def _before() -> None:
    everything = list(_watched)
    # A step that runs may be one that forks, and waiting for it would be for ever.
    busy = [id(tree) for each in everything if each._running for tree in each._state_trees()]
    for each in everything:
        for tree in each._state_trees():
            if id(tree) not in busy:
                tree.fetch()


def _after() -> None:
    for each in list(_watched):
        each._after_fork()


os.register_at_fork(before=_before, after_in_child=_after)
