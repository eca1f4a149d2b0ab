"""Trace points in the user's code. They belong to the report of a run, which is not there yet."""

from __future__ import annotations

from typing import Any

__all__ = ["Channel"]


class Channel:
    """A named line of a report on which trace points appear."""

    def __init__(self, name: str) -> None:
        raise NotImplementedError(
            f"profiling.Channel({name!r}): this version does not have reports with trace points of "
            "the user; Options.enableProfiling writes a trace of the model itself"
        )

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Makes calls of these methods of an object trace points."""
        raise NotImplementedError

    def tracepoint(self, name: str) -> Any:
        """A context manager whose lifetime is a trace point."""
        raise NotImplementedError
