"""Models and forked processes.

A forked process has the memory of its parent but none of the threads of its devices, so a model of the
parent would wait in it for ever. In the child such models are lost: calls say so, and nothing waits for
them at the end. So that the parameters have their newest values there, they are copied from the devices
before the fork, unless a step is running in another thread.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from . import _core

_models: "weakref.WeakSet[Any]" = weakref.WeakSet()  # with before_fork and after_fork


def watch(model: Any) -> None:
    """From now on forks tell the model."""
    _models.add(model)


def lose(*parts: Any) -> None:
    """Keeps parts of a model of the parent until the process is gone, beyond the end of the interpreter:
    they would end by waiting for threads that a child does not have."""
    for each in parts:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


def lost_error() -> _core.InvalidArgument:
    """For calls of a model that the parent made."""
    return _core.InvalidArgument(
        "this model was made before the process forked, and its devices belong to the parent process: make "
        "a new model in this process, or start it with multiprocessing's method 'spawn'"
    )


def _before() -> None:
    for each in list(_models):
        each.before_fork()


def _after() -> None:
    for each in list(_models):
        each.after_fork()


os.register_at_fork(before=_before, after_in_child=_after)
