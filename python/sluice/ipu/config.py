"""IPUConfig: the settings of the system, for all functions that are compiled afterwards."""

from __future__ import annotations

import difflib
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from .. import _core


def _boolean(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, got {value!r}")
    return value


def _count(what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is an int, got {value!r}")
    if value < 1:
        raise _core.InvalidArgument(f"{what} must be at least 1, got {value}")
    return value


def _devices(what: str, value: Any) -> Optional[int]:
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return None if value is None else _count(what, value)


def _ids(what: str, value: Any) -> Optional[List[int]]:
    if value is None:
        return None
    ids = [value] if isinstance(value, int) else list(value)
    for each in ids:
        if isinstance(each, bool) or not isinstance(each, int):
            raise TypeError(f"{what} is a device number or a list of them, got {value!r}")
    return ids


def _connection(what: str, value: Any) -> str:
    name = getattr(value, "name", value)
    names = {"ALWAYS": "Always", "ON_DEMAND": "OnDemand", "NEVER": "Never"}
    if not isinstance(name, str) or name.upper() not in names:
        raise _core.InvalidArgument(f"{what} is one of {', '.join(names)}, got {value!r}")
    return names[name.upper()]


Check = Callable[[str, Any], Any]


class _Group:
    """Settings by name; other names are refused."""

    _settings: Dict[str, Check] = {}
    _defaults: Dict[str, Any] = {}

    def __init__(self, path: str) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_values", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._settings:
            raise self._unknown(name)
        self._values[name] = self._settings[name](self._path + name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._settings:
            raise self._unknown(name)
        return self._values.get(name, self._defaults.get(name))

    def _unknown(self, name: str) -> AttributeError:
        known = [*self._settings, *(k for k, v in vars(self).items() if isinstance(v, _Group))]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
        return AttributeError(f"IPUConfig has no setting '{self._path}{name}'; {hint}")


class _FloatingPoint(_Group):
    """inv, div0 and oflo end a step at the first NaN or infinity; the devices do not tell them apart.
    esr rounds new values of 16-bit weights stochastically."""

    _settings = {name: _boolean for name in ("inv", "div0", "oflo", "esr")}
    _defaults = {name: False for name in _settings}


class _IoTiles(_Group):
    _settings = {"num_io_tiles": _count}


class _Connection(_Group):
    _settings = {"type": _connection}


class IPUConfig(_Group):
    """The settings of the system, as attributes:

    auto_select_ipus        the number of devices; a function has as many replicas as fit on them
    select_ipus             the same for exactly these devices
    allow_recompute         activations are recomputed for the backward pass
    floating_point_behaviour.inv, .div0, .oflo, .esr
    io_tiles.num_io_tiles
    device_connection.type  ALWAYS, ON_DEMAND or NEVER

    configure_ipu_system() puts them into effect."""

    _settings = {"auto_select_ipus": _devices, "select_ipus": _ids, "allow_recompute": _boolean}
    _defaults = {"allow_recompute": False}

    def __init__(self) -> None:
        super().__init__("")
        for name, group in (
            ("floating_point_behaviour", _FloatingPoint),
            ("io_tiles", _IoTiles),
            ("device_connection", _Connection),
        ):
            object.__setattr__(self, name, group(name + "."))

    def configure_ipu_system(self) -> None:
        """Applies the settings to all functions that are compiled from now on."""
        if self.auto_select_ipus is not None and self.select_ipus is not None:
            raise _core.InvalidArgument("set auto_select_ipus or select_ipus, not both")
        settings = self._as_settings()
        probe = _core.Options()
        for name, value in settings.items():
            probe.apply(name, value)
        global _state
        with _lock:
            _state = _State(settings, self.auto_select_ipus or self.select_ipus)

    def _as_settings(self) -> Dict[str, Any]:
        numbers = self.floating_point_behaviour
        settings: Dict[str, Any] = {}
        if self.allow_recompute:
            settings["recomputation"] = _core.Name("Recomputation.All")
        if numbers.inv or numbers.div0 or numbers.oflo:
            settings["precision.enableFloatingPointExceptions"] = True
        if numbers.esr:
            settings["precision.enableStochasticRounding"] = True
        if self.io_tiles.num_io_tiles is not None:
            settings["tensorLocations.numIOTiles"] = self.io_tiles.num_io_tiles
        if self.device_connection.type is not None:
            settings["connectionType"] = _core.Name(f"ConnectionType.{self.device_connection.type}")
        return settings


class _State:
    def __init__(self, settings: Dict[str, Any], selection: Union[None, int, Sequence[int]]) -> None:
        self.settings = settings
        self.selection = selection


_lock = threading.Lock()
_state = _State({}, None)


def reset_ipu_configuration() -> None:
    """Forgets what configure_ipu_system() has set."""
    global _state
    with _lock:
        _state = _State({}, None)


class _FunctionOptions:
    """The options of one function, for any number of devices per replica."""

    def __init__(self, given: Optional[_core.Options], state: _State) -> None:
        self._given = given
        self._state = state

    @property
    def selects_devices(self) -> bool:
        """Whether the number of replicas follows from that of the devices of a replica."""
        return self._given is None and self._state.selection is not None

    def for_devices(self, devices: int) -> _core.Options:
        if self._given is not None:
            return self._given.clone()
        options = _core.Options()
        for name, value in self._state.settings.items():
            options.apply(name, value)
        selection = self._state.selection
        if isinstance(selection, int):
            options.apply("autoSelectDevices", selection, devices)
        elif selection is not None:
            options.apply("selectDevices", list(selection), devices)
        return options


def options_for(options: Optional[Any]) -> _FunctionOptions:
    """Options that are given count alone; without them, those of the system."""
    given = getattr(options, "_core", options)
    if given is not None and not isinstance(given, _core.Options):
        raise TypeError(f"options: expected sluice.Options, got {type(options).__name__}")
    return _FunctionOptions(given, _state)
