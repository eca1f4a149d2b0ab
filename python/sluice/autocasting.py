"""Autocast: functions run in the types that a policy names for them.

    model.autocast()                       # a model,
    model.layer2.autocast(False)           # but for one of its layers,
    @sluice.autocast()                     # a function,
    with sluice.autocast(enabled=False):   # a few lines

It is off unless you ask for it, and the nearest setting counts.
``options.Precision.autocastPolicy`` sets the policy, and
``options.Precision.autocastEnabled(False)`` ignores all requests.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, List, TypeVar

import torch

from .blocks import _Scope

__all__ = ["Policy", "autocast", "default"]

_F = TypeVar("_F", bound=Callable[..., Any])

#: The attribute of a module with its own setting.
MARK = "_sluice_autocast"


class autocast(_Scope):
    """Switches autocast on or off: in a with statement, or as the decorator of a function."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__()
        if not isinstance(enabled, bool):
            raise TypeError(f"autocast: expected True or False, got {enabled!r}")
        self._enabled = enabled

    def _make(self) -> Any:
        from . import _core

        return _core.Autocast(self._enabled)

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast(self._enabled):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _name(entry: Any) -> str:
    """The name of a function or layer: torch.bmm, torch.nn.Conv2d and "conv2d" all have one."""
    name = entry if isinstance(entry, str) else getattr(entry, "__name__", None)
    if not name:
        raise TypeError(f"Policy: expected functions and layers of torch or names, got {entry!r}")
    return name


class Policy:
    """Says in which types autocast runs functions and layers.

    fp16: in float16; fp32: in float32; promote: in float32 if the types of operands differ; demote:
    in float16 if they differ. Entries are functions (torch.bmm), layers (torch.nn.Conv2d) or their
    names. ``half`` may be torch.bfloat16, which then takes the place of float16.
    """

    def __init__(
        self,
        fp16: Iterable[Any] = (),
        fp32: Iterable[Any] = (),
        promote: Iterable[Any] = (),
        demote: Iterable[Any] = (),
        half: torch.dtype = torch.float16,
    ) -> None:
        self.fp16: List[str] = [_name(each) for each in fp16]
        self.fp32: List[str] = [_name(each) for each in fp32]
        self.promote: List[str] = [_name(each) for each in promote]
        self.demote: List[str] = [_name(each) for each in demote]
        self.half = half

    def to_core(self) -> Any:
        """The policy as an argument of ``_core.Options.apply``."""
        from . import _core
        from ._values import dtype_name

        lists = [self.fp16, self.fp32, self.promote, self.demote]
        return _core.Call("Policy", [*lists, dtype_name(self.half)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lists = [f"{name}={value!r}" for name, value in vars(self).items() if value]
        return f"Policy({', '.join(lists)})"


class _Default(Policy):
    """The policy that options have: matrix products and convolutions run in float16."""

    def to_core(self) -> Any:
        return "Default"

    def __repr__(self) -> str:
        return "default"


default = _Default()


def _module_autocast(self: torch.nn.Module, enabled: bool = True) -> torch.nn.Module:
    """Switches autocast on or off for this module and the modules below it; see sluice.autocast."""
    if not isinstance(enabled, bool):
        raise TypeError(f"autocast: expected True or False, got {enabled!r}")
    setattr(self, MARK, enabled)
    return self


torch.nn.Module.autocast = _module_autocast  # type: ignore[attr-defined]
