"""Optimizers of torch and of ``sluice.optim`` as those of the core."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Tuple

import torch

from . import optim
from ._optim_base import FIXED


@dataclass(frozen=True)
class _Rule:
    """A rule of the core: torch's class, and the names of its attributes in groups and options."""

    kind: str
    torch_class: type
    group: Tuple[str, ...]
    fixed: Tuple[str, ...] = ()


# A class comes before those that it is a subclass of, as AdamW is one of Adam in newer versions.
_RULES = (
    _Rule("SGD", torch.optim.SGD, ("lr", "momentum", "dampening", "weight_decay"), ("nesterov",)),
    _Rule("AdamW", torch.optim.AdamW, ("lr", "betas", "eps", "weight_decay")),
    _Rule("Adam", torch.optim.Adam, ("lr", "betas", "eps", "weight_decay")),
    _Rule(
        "RMSprop",
        torch.optim.RMSprop,
        ("lr", "alpha", "eps", "weight_decay", "momentum"),
        ("centered",),
    ),
    _Rule("LAMB", optim.LAMB, ("lr", "betas", "eps", "weight_decay")),
)

# Settings of torch that no rule of the core has, and why each must be off.
_REFUSED = {
    "amsgrad": "the rule has no largest second moment",
    "maximize": "a training model minimises its loss: negate the loss instead",
    "differentiable": "updates are not part of the graph that is differentiated",
}

_CORE_NAMES = {"betas": ("beta1", "beta2")}


def _rule_of(optimizer: Any) -> _Rule:
    for rule in _RULES:
        if isinstance(optimizer, rule.torch_class):
            if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(rule.torch_class.step):
                raise TypeError(
                    f"{type(optimizer).__name__} has a step of its own, which a training model "
                    f"cannot run; the rules are {_known()}"
                )
            return rule
    raise TypeError(
        f"expected an optimizer that a training model can run, {_known()}, of torch.optim or "
        f"sluice.optim; got {type(optimizer).__name__}"
    )


def _known() -> str:
    return ", ".join(rule.kind for rule in _RULES)


def _attributes(rule: _Rule, group: Mapping[str, Any]) -> Dict[str, float]:
    """The numbers of a parameter group by their names in the core."""
    names = rule.group + (("velocity_scaling",) if "velocity_scaling" in group else ())
    values: Dict[str, float] = {}
    for name in names:
        if name in _CORE_NAMES:
            values.update(zip(_CORE_NAMES[name], map(float, group[name])))
        else:
            values[name] = float(group[name])
    return values


def _require_supported(optimizer: Any) -> None:
    for number, group in enumerate(optimizer.param_groups):
        for name, reason in _REFUSED.items():
            if group.get(name):
                raise NotImplementedError(
                    f"{type(optimizer).__name__}: {name} is on in parameter group {number}, and "
                    f"{reason}"
                )


def _fixed(rule: _Rule, optimizer: Any) -> Dict[str, Any]:
    """The settings that all groups share, by their names in the core."""
    values: Dict[str, Any] = {}
    for name in rule.fixed:
        given = [bool(group[name]) for group in optimizer.param_groups]
        if len(set(given)) > 1:
            raise ValueError(f"{rule.kind}: all parameter groups must agree on {name}, got {given}")
        values[name] = given[0]
    for name in getattr(optimizer, "_extra", ()):
        value = getattr(optimizer, name)
        values[name] = _type_name(value) if isinstance(value, torch.dtype) else value
    if rule.kind == "SGD" and not isinstance(optimizer, optim.Optimizer):
        values["torch_compatible"] = True
    return values


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def to_core(optimizer: Any, names: Mapping[int, str]) -> Any:
    """The core's optimizer for one of torch or of ``sluice.optim``.

    ``names`` has the name of each variable by the id of its parameter. Parameters without a name
    are not part of the model and are left out.
    """
    from . import _core

    rule = _rule_of(optimizer)
    _require_supported(optimizer)
    first, *others = optimizer.param_groups
    core = _core.Optimizer(rule.kind, **_attributes(rule, first), **_fixed(rule, optimizer))
    for group in others:
        core.add_group(_variables(group, names), _attributes(rule, group))
    if isinstance(optimizer, optim.Optimizer):
        _mark(core, optimizer.variable_attrs)
    else:
        core.mark_defaults_constant()
        _mark_cycled(core, rule, optimizer)
    return core


def _mark_cycled(core: Any, rule: _Rule, optimizer: Any) -> None:
    """Schedulers that let the momentum go up and down write its limits into the groups."""
    if any("max_momentum" in group for group in optimizer.param_groups):
        core.mark_variable("beta1" if "betas" in rule.group else "momentum")


def _mark(core: Any, attributes: optim.VariableAttributes) -> None:
    for name in attributes._allowed:
        if name == "lr" or name in FIXED:
            continue
        for core_name in _CORE_NAMES.get(name, (name,)):
            (core.mark_constant if attributes.isConstant(name) else core.mark_variable)(core_name)


def update_core(model: Any, optimizer: Any, names: Mapping[int, str]) -> Any:
    """Gives the values of now to a compiled model of the core; returns the core's optimizer.

    The model refuses another rule, other parameter groups and another value of a constant.
    """
    from . import _core

    core = to_core(optimizer, names)
    try:
        model.set_optimizer(core)
    except _core.InvalidArgument as error:
        if isinstance(optimizer, optim.Optimizer) or "is constant: " not in error.message:
            raise
        raise _core.InvalidArgument(
            f"{error.message.partition('; ')[0]}. Optimizers of torch have no marks: destroy() the model and make a "
            "new one with the same optimizer, use one of sluice.optim that gets the attribute in its constructor, or "
            "make a scheduler that cycles the momentum before the model's first call (or with cycle_momentum=False)"
        ) from None
    return core


def _variables(group: Mapping[str, Any], names: Mapping[int, str]) -> List[str]:
    return [names[id(parameter)] for parameter in group["params"] if id(parameter) in names]


def untrained(optimizer: Any, names: Mapping[int, str]) -> List[str]:
    """The variables that no parameter group has; like torch, a model does not train them."""
    groups: Iterable[Mapping[str, Any]] = optimizer.param_groups
    trained = {name for group in groups for name in _variables(group, names)}
    return [name for name in names.values() if name not in trained]
