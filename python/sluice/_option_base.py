"""What ``Options`` and its groups share: setters by name, and values that can be read.

Every setter ends in one call of the core, which checks names, types and ranges in one place. The
core's table of settings says which setters exist, so a setter without a method of its own is
available as well.
"""

from __future__ import annotations

import difflib
import re
import warnings
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import _values, enums

#: Names that are accepted for the sake of programs that call them, with the reason why they change
#: nothing. The first use of each warns.
NO_EFFECT: Dict[str, str] = {
    "Attribute": "it tells PopART how to compile the ops made inside, for instance which to outline",
    "Options.sourceLocationExcludes": "errors always name the line of the model's own code",
    "Options.appendToLocationExcludes": "errors always name the line of the model's own code",
    "Jit.traceModel(False)": "forward always becomes a graph in the same way",
    "_Popart.setEngineOptions": "there is no Poplar engine",
    "_Popart.setPatterns": "the passes of the compiler are not chosen one by one",
    "_Popart.set": "this option of PopART has no counterpart",
    "set_overlap_for_input": "inputs overlap with computation whenever data and memory allow it; "
    "Options.inputOverlap sets it for all inputs",
    "set_overlap_for_output": "outputs overlap with computation whenever data and memory allow "
    "it; Options.outputOverlap sets it for all outputs",
    "AsynchronousDataAccessor.miss_sleep_time_in_ms": "the loading thread waits without polling",
    "scopes.frontend_attribute": "attributes are notes for Poplar's compiler, which is not there",
    "scopes.partials_type": "sums are made in float32 at least",
    "AsynchronousDataAccessor.sharing_strategy": "a thread loads, so no memory is shared",
}

_warned: Set[str] = set()


def warn_no_effect(name: str, detail: str = "") -> None:
    """Warns, once for each name and detail, that a call changes nothing."""
    if name + detail not in _warned:
        _warned.add(name + detail)
        what = f"{name}({detail!r})" if detail else name
        warnings.warn(f"{what} has no effect: {NO_EFFECT[name]}", stacklevel=3)


# The enumerations of a setting's arguments, by position.
_KINDS: Dict[str, List[Optional[Any]]] = {
    "inputReplicaGrouping": [None, enums.CommGroupType],
    "outputMode": [enums.OutputMode],
    "syntheticDataMode": [enums.SyntheticDataMode],
    "recomputation": [enums.Recomputation],
    "virtualGraphMode": [enums.VirtualGraphMode],
    "connectionType": [enums.ConnectionType],
    "inputOverlap": [enums.OverlapMode],
    "outputOverlap": [enums.OverlapMode],
    "syncPattern": [enums.SyncPattern],
    "traceValues": [enums.TraceValues],
    "training.accumulationAndReplicationReductionType": [enums.ReductionType],
    "training.replicationReductionType": [enums.ReductionType],
    "training.setMeanAccumulationAndReplicationReductionStrategy": [enums.MeanReductionStrategy],
    "precision.halfFloatCasting": [enums.HalfFloatCastingBehavior],
}


def _snake(name: str) -> str:
    """gradientAccumulation -> gradient_accumulation, setWeightLocation -> weight_location."""
    name = re.sub(r"^set(?=[A-Z])", "", name)
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return "_".join(words).lower()


class Settings:
    """Setters and values of one group of the core's table; the base of Options and its groups."""

    #: What the names of the group begin with in the core: "training.".
    _prefix = ""
    #: PopTorch's names of values that have other names here: the setting and the position.
    _values_by_name: Dict[str, Tuple[str, int]] = {}

    def _owner(self) -> Any:
        """The Options."""
        raise NotImplementedError

    def _apply(self, setter: str, *values: Any) -> Any:
        self._owner()._record(self._prefix + setter, values)
        return self

    def _names(self) -> List[str]:
        """The setters of the group, without the prefix."""
        found = [name for name in self._owner()._core.settings() if name.startswith(self._prefix)]
        return [n[len(self._prefix):] for n in found if "." not in n[len(self._prefix):]]

    def value(self, setter: str) -> Any:
        """The value that a setter has set: ``options.value("outputMode")``.

        It is a tuple if the setter has several arguments, and text for strategies and locations.
        """
        name = self._prefix + setter
        try:
            values = _values.parse(self._owner().text(name))
        except SyntaxError:
            return self._owner().text(name)
        kinds = _KINDS.get(name, [])
        kinds = kinds + [None] * (len(values) - len(kinds))
        values = tuple(_values.as_enum(value, kind) for value, kind in zip(values, kinds))
        return values[0] if len(values) == 1 else values

    def _read(self, name: str) -> Any:
        """The value with a name in PopTorch's manner: ``options.device_iterations``."""
        if name in self._values_by_name:
            setter, position = self._values_by_name[name]
            value = self.value(setter)
            return value[position] if isinstance(value, tuple) and position >= 0 else value
        for setter in self._names():
            if _snake(setter) == name and self._owner()._readable(self._prefix + setter):
                return self.value(setter)
        raise AttributeError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        names = self._names()
        known = names + [each for each in dir(type(self)) if not each.startswith("_")]
        known += [_snake(each) for each in names] + list(self._values_by_name)
        near = difflib.get_close_matches(name, sorted(set(known)), n=3)
        where = type(self).__name__.lstrip("_")
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; it has {', '.join(names)}"
        return f"{where} has no option {name!r}{hint}"

    def __getattr__(self, name: str) -> Any:
        # Copies and pickles look for special names before there is anything to ask.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in self._names():
            return self._setter(name)
        return self._read(name)

    def _setter(self, name: str) -> Callable[..., Any]:
        def setter(*values: Any) -> Any:
            return self._apply(name, *values)

        setter.__name__ = setter.__qualname__ = name
        setter.__doc__ = f"Sets {self._prefix}{name}; the C++ setter of this name documents it."
        return setter

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(self._names()))

    def _changed(self) -> Dict[str, str]:
        """The printed values of the group that are not the defaults."""
        return {
            name[len(self._prefix):]: text
            for name, text in self._owner()._changes().items()
            if name.startswith(self._prefix) and "." not in name[len(self._prefix):]
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self._changed())})"


def shown(values: Dict[str, str]) -> str:
    """Printed values as keyword arguments; several arguments of a setter are a tuple."""
    return ", ".join(f"{name}={_as_one(text)}" for name, text in values.items())


def _as_one(text: str) -> str:
    try:
        return f"({text})" if len(_values.parse(text)) > 1 else text
    except SyntaxError:  # a name of the user's, with a line break or the like
        return text
