"""Questions about devices, the log, and where text of the library goes in a notebook."""

from __future__ import annotations

import re
import sys
from typing import Any, Union

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


class NotebookConsole:
    """Writes text of the library to the output of the running cell. The progress of a compilation is a bar of
    tqdm if that is installed, and else a line that is drawn again."""

    _percent = re.compile(r"Graph compilation: (\d+)/100")

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, text: str) -> None:
        found = self._percent.search(text)
        if found is not None and self._bar is None:
            self._bar = _new_bar()
        if self._bar is None or (found is None and text != "\n"):
            sys.stderr.write(text)
            return
        if found is not None:
            self._bar.update(int(found[1]) - self._bar.n)
        if text.endswith("\n"):
            self._bar.close()
            self._bar = None


def _new_bar() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=100, desc="Graph compilation")
