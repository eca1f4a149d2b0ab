"""Trace points in the user's code: when data was loaded, when a batch was prepared.

They are recorded between ``record(True)`` and ``record(False)``, or from the start if SLUICE_PROFILE
(or PVTI_OPTIONS='{"enable": "true"}') is set. ``sluice report model.slt host.slt --format perfetto``
puts them on one absolute time with the traces of models.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator

from . import _core

__all__ = ["Channel", "record", "write"]


def record(on: bool = True) -> None:
    """Begins or ends the recording of trace points."""
    _core.record_tracepoints(bool(on))


def write(file: str) -> None:
    """Writes all trace points that have ended into a trace file (.slt)."""
    _core.write_host_trace(str(file))


class Channel:
    """A named line of a report on which trace points appear."""

    def __init__(self, name: str) -> None:
        self.name = str(name)

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Makes calls of these methods of an object trace points; returns the object."""
        for name in methods:
            setattr(obj, name, self._traced(getattr(obj, name), name))
        return obj

    def _traced(self, method: Any, name: str) -> Any:
        @functools.wraps(method)
        def traced(*args: Any, **named: Any) -> Any:
            with self.tracepoint(name):
                return method(*args, **named)

        return traced

    @contextlib.contextmanager
    def tracepoint(self, name: str) -> Iterator[None]:
        """A context manager whose lifetime is a trace point."""
        point = _core.Tracepoint(self.name, str(name))
        try:
            yield
        finally:
            point.end()
