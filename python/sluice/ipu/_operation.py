"""What TensorFlow would call an op without a result."""

from __future__ import annotations

from typing import Any, Callable, Optional


class Operation:
    """Something that a function has asked for, such as an enqueue or a training step. A function may
    return it; it is no value. Some can be run by the host: `infeed_queue.deleter.run()`."""

    def __init__(self, name: str, action: Optional[Callable[[], Any]] = None) -> None:
        self.name = name
        self._action = action

    def run(self) -> None:
        """Runs it on the host."""
        if self._action is None:
            raise TypeError(f"'{self.name}' is a part of a compiled function: call that function")
        self._action()

    __call__ = run

    def __repr__(self) -> str:
        return f"<Operation '{self.name}'>"
