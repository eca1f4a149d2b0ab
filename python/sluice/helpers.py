"""Questions about devices, and the log."""

from __future__ import annotations

from typing import Union

__all__ = ["ipuHardwareIsAvailable", "ipuHardwareVersion", "setLogLevel"]

_LEVELS = {"OFF": 6, "ERR": 4, "WARN": 3, "INFO": 2, "DEBUG": 1, "TRACE": 0, "TRACE_ALL": 0}


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether a model could run on this many devices now."""
    from . import _core

    return bool(_core.devices_are_available(num_ipus))


def ipuHardwareVersion() -> int:
    """The number that ``Options.useOfflineIpuTarget`` takes for the devices of this machine.

    The devices of this library have no versions; it is always 2, the default there.
    """
    return 2


def setLogLevel(level: Union[str, int]) -> None:
    """Sets what is logged: "OFF", "ERR", "WARN", "INFO", "DEBUG", "TRACE", or the number of one."""
    from . import _core

    number = _LEVELS.get(level.upper(), level) if isinstance(level, str) else level
    if isinstance(number, bool) or number not in _LEVELS.values():
        names = ", ".join(f"{name} ({value})" for name, value in _LEVELS.items())
        raise ValueError(f"setLogLevel: expected one of {names}; got {level!r}")
    _core.set_log_level(number)
