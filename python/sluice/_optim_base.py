"""What all optimizers of ``sluice.optim`` share: marks of attributes, and state on the devices."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

import torch

#: Settings of a rule. They are part of the compiled program and never change.
FIXED = (
    "nesterov",
    "centered",
    "amsgrad",
    "maximize",
    "bias_correction",
    "use_combined_accum",
    "use_tf_variant",
    "accum_type",
    "velocity_accum_type",
    "first_order_momentum_accum_type",
    "second_order_momentum_accum_type",
)


class VariableAttributes:
    """Says which attributes of an optimizer may change during training.

    A variable attribute can be changed at no cost. A constant is part of the compiled program, and
    another value of it is an error of ``setOptimizer``. The learning rate is always variable.
    """

    def __init__(
        self, variable_attributes: Iterable[str], allowed_attributes: Iterable[str]
    ) -> None:
        self._allowed = list(allowed_attributes)
        self._variable = {name for name in variable_attributes if name in self._allowed}
        self._variable -= set(FIXED)

    def isConstant(self, attr: str) -> bool:
        """Whether the attribute is part of the compiled program."""
        self._require(attr)
        return attr != "lr" and attr not in self._variable

    def markAsConstant(self, attr: str) -> None:
        """Makes the attribute part of the program. Call it before the model is compiled."""
        self._require(attr)
        if attr == "lr":
            raise ValueError("lr is always variable")
        self._variable.discard(attr)

    def markAsVariable(self, attr: str) -> None:
        """Lets the attribute change during training. Call it before the model is compiled."""
        self._require(attr)
        if attr in FIXED:
            raise ValueError(f"{attr} is a part of the rule and cannot change during training")
        self._variable.add(attr)

    def _require(self, attr: str) -> None:
        # PopTorch's users expect an assertion here.
        if attr not in self._allowed:
            raise AssertionError(
                f"unknown attribute {attr!r}; the optimizer has {', '.join(self._allowed)}"
            )

    def __repr__(self) -> str:
        return f"VariableAttributes({sorted(self._variable)}, {self._allowed})"


class Optimizer:
    """What the optimizers of this module share: extra attributes and the state on the devices.

    ``state_dict()`` has torch's sections, and, once a training model uses the optimizer,
    ``ipu_state`` (moments and the like) and ``ipu_param`` (attributes) as well.
    """

    #: Names of attributes of the whole optimizer, which are not in its parameter groups.
    _extra: Tuple[str, ...] = ()

    def __init__(self) -> None:
        self._read_state: Optional[Callable[[], Dict[str, Any]]] = None
        self._write_state: Optional[Callable[[Dict[str, Any]], None]] = None
        self._device_state: Dict[str, Any] = {}

    def _set_up(self, given: Dict[str, Any], defaults: Dict[str, Any]) -> None:
        """Sets the extra attributes, and notes which attributes the caller has given."""
        Optimizer.__init__(self)
        for name in self._extra:
            value = given.get(name)
            setattr(self, name, defaults[name] if value is None else value)
        allowed = ["lr", *(n for n in self.defaults if n != "lr" and n in _NAMES)]
        allowed += [name for name in self._extra if name not in allowed]
        variable = [name for name, value in given.items() if value is not None]
        self.variable_attrs = VariableAttributes(variable, allowed)

    # State on the devices.

    def has_state(self) -> bool:
        """Whether there is state of the devices, from a model or from ``load_state_dict``."""
        return bool(self.get_state_dict())

    def get_state_dict(self) -> Dict[str, Any]:
        """The sections ``ipu_state`` and ``ipu_param``; empty before a model has them."""
        if self._read_state is not None:
            self._device_state = self._read_state()
        return self._device_state

    def set_state_dict(self, state: Dict[str, Any]) -> None:
        """Sets the state of the devices, now or as soon as a model uses the optimizer."""
        if not ("ipu_state" in state and "ipu_param" in state):
            raise RuntimeError(
                "only IPU optimizer states can be loaded: expected the sections ipu_state and "
                f"ipu_param, got {', '.join(map(str, state)) or 'an empty dictionary'}"
            )
        self._device_state = {name: state[name] for name in ("ipu_state", "ipu_param")}
        if self._write_state is not None:
            self._write_state(self._device_state)

    def state_dict(self) -> Dict[str, Any]:
        """torch's state_dict with the state of the devices."""
        return {**super().state_dict(), **self.get_state_dict()}  # type: ignore[misc]

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Loads what ``state_dict`` gave; a dictionary of torch's own optimizers is refused."""
        self.set_state_dict(state)
        if "param_groups" in state:
            torch_part = {name: state[name] for name in ("state", "param_groups")}
            super().load_state_dict(torch_part)  # type: ignore[misc]

    def attach_state(
        self,
        read: Optional[Callable[[], Dict[str, Any]]],
        write: Optional[Callable[[Dict[str, Any]], None]],
    ) -> None:
        """Connects the optimizer to a model, which then gets a state loaded earlier.

        Without functions, it keeps the last state and ends the connection.
        """
        if read is None:
            self.get_state_dict()
        self.connect_state(read, write)
        if write is not None and self._device_state:
            write(self._device_state)

    def connect_state(
        self,
        read: Optional[Callable[[], Dict[str, Any]]],
        write: Optional[Callable[[Dict[str, Any]], None]],
    ) -> None:
        """As attach_state, but each side keeps the state that it has."""
        self._read_state, self._write_state = read, write

    def detach_state(self) -> None:
        """Ends the connection without asking the model, whose devices are another process's."""
        self.connect_state(None, None)

    # torch pickles and copies only its own three fields; functions of a model stay behind.

    def __getstate__(self) -> Dict[str, Any]:
        own = {name: getattr(self, name) for name in (*self._extra, "variable_attrs")}
        own.update(_read_state=None, _write_state=None, _device_state=self.get_state_dict())
        return {**super().__getstate__(), **own}  # type: ignore[misc]


# Attributes that are numbers or settings of a rule; the rest of torch's are about speed.
_NAMES = ("lr", "momentum", "dampening", "weight_decay", "betas", "eps", "alpha")
_NAMES += ("velocity_scaling", *FIXED)


def for_torch(cls: type, given: Dict[str, Any], extra: Sequence[str]) -> Dict[str, Any]:
    """The arguments of torch's constructor; those that this version lacks may only be off."""
    known = inspect.signature(cls.__init__).parameters
    arguments = {}
    for name, value in given.items():
        if value is None or name in extra:
            continue
        if name in known:
            arguments[name] = value
        elif value:
            raise TypeError(f"{cls.__name__} of torch {torch.__version__} has no {name}")
    return arguments


def given_only(arguments: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a constructor, from its locals()."""
    return {k: v for k, v in arguments.items() if k not in ("self", "params", "__class__")}
