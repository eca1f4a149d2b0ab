"""The state of an optimizer: the devices have it while a model trains, and the user's object gives it.

Optimizers of `sluice.optim` have sections of their own for it. Those of `torch.optim` get it in torch's
form: what their `state` has when a model is made goes to the devices, and `state_dict()` and the end of the
model bring it back, so that checkpoints and loops in plain torch go on where the model was.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any, Callable, Dict, List

import torch

from . import _core
from ._convert import to_core, to_torch
from ._state import Tree

State = Dict[str, Dict[str, Any]]


#: The optimizers that are tied to a model.
_linked: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()


def require_free(optimizer: torch.optim.Optimizer) -> None:
    """An error if the optimizer belongs to a model: it gives the state of one."""
    if optimizer in _linked:
        raise _core.InvalidArgument(
            "the optimizer is that of another model that lives, and has the state of one model: destroy() that one "
            "first, or make an optimizer for each model, with its parameters"
        )


def link(optimizer: torch.optim.Optimizer, core: _core.Model, tree: Tree) -> "_Link":
    """Ties an optimizer to a model. The model takes a state over that the optimizer has."""
    require_free(optimizer)
    kind = _OwnLink if hasattr(optimizer, "attach_state") else _TorchLink
    return kind(optimizer, core, tree)


def _each_tensor(state: State, change: Callable[[Any], Any]) -> State:
    return {name: {key: change(t) for key, t in part.items()} for name, part in state.items()}


class _Link:
    def __init__(self, optimizer: torch.optim.Optimizer, core: _core.Model, tree: Tree) -> None:
        self.optimizer = optimizer
        self._core = core
        self._tree = tree
        try:
            self._attach()
        except BaseException:
            self.lose()
            raise
        _linked.add(optimizer)

    def resume(self) -> None:
        """Takes the end back: the devices still have the state."""
        self._connect()
        _linked.add(self.optimizer)

    def _read(self) -> State:
        return _each_tensor(self._core.optimizer_state_dict(), lambda t: to_torch(t).clone())

    def _write(self, state: State) -> None:
        self._core.load_optimizer_state_dict(_each_tensor(state, to_core))

    def _attach(self) -> None:
        raise NotImplementedError

    def _connect(self) -> None:
        """As _attach, but the devices keep their state."""
        raise NotImplementedError

    def end(self) -> None:
        """Leaves the newest state in the optimizer."""
        raise NotImplementedError

    def lose(self) -> None:
        """Ends in a forked process, which cannot ask the devices."""
        _linked.discard(self.optimizer)


class _OwnLink(_Link):
    """For an optimizer of `sluice.optim`."""

    def _attach(self) -> None:
        self.optimizer.attach_state(self._read, self._write)

    def _connect(self) -> None:
        self.optimizer.connect_state(self._read, self._write)

    def end(self) -> None:
        try:
            self.optimizer.attach_state(None, None)
        except _core.RecoverableError:  # torn by a step that failed, of which the module warns
            pass
        finally:
            self.lose()

    def lose(self) -> None:
        self.optimizer.detach_state()
        super().lose()


class _TorchLink(_Link):
    """For an optimizer of `torch.optim`. The devices use torch's names, `weight.exp_avg`, but count the
    steps of all weights as one."""

    _METHODS = ("state_dict", "load_state_dict", "__reduce_ex__")

    def _attach(self) -> None:
        self._connect()
        self._push()

    def _connect(self) -> None:
        kind, optimizer = type(self.optimizer), self.optimizer

        def state_dict(*args: Any, **kwargs: Any) -> Dict[str, Any]:
            self._fetch()
            return kind.state_dict(optimizer, *args, **kwargs)

        def load_state_dict(*args: Any, **kwargs: Any) -> None:
            kind.load_state_dict(optimizer, *args, **kwargs)
            try:
                self._push()
            except _core.RecoverableError as error:
                raise _core.RecoverableError(
                    "the optimizer has the state that was loaded, and the model cannot take it over: destroy() "
                    f"the model and make a new one with the same optimizer; {error.message}"
                ) from None

        def reduce(protocol: Any) -> Any:  # of copy, pickle and torch.save
            self._fetch()
            return kind.__reduce_ex__(optimizer, protocol)

        methods = (state_dict, load_state_dict, reduce)
        vars(optimizer).update(zip(self._METHODS, methods))

    def end(self) -> None:
        try:
            self._fetch()
        except _core.RecoverableError:  # torn by a step that failed, of which the module warns
            pass
        finally:
            self.lose()

    def lose(self) -> None:
        for name in self._METHODS:
            vars(self.optimizer).pop(name, None)
        super().lose()

    def _parameters(self) -> Dict[str, torch.Tensor]:
        names = self._tree.names()
        groups = self.optimizer.param_groups
        return {names[id(p)]: p for group in groups for p in group["params"] if id(p) in names}

    def _fetch(self) -> None:
        state = self._read()
        steps = int(state["ipu_param"]["updates"])
        if steps == 0:
            return
        for name, parameter in self._parameters().items():
            own = _of(state["ipu_state"], name)
            if own:
                count = {} if isinstance(self.optimizer, torch.optim.SGD) else {"step": torch.tensor(float(steps))}
                self.optimizer.state[parameter] = {**count, **own}

    def _counts(self) -> bool:
        """Whether updates depend on the number of steps."""
        return any("betas" in group or group.get("dampening") for group in self.optimizer.param_groups)

    def _push(self) -> None:
        given = {name: self.optimizer.state.get(p) for name, p in self._parameters().items()}
        if not any(given.values()):
            return
        state = self._read()
        kept = {name: _of(state["ipu_state"], name) for name in given}  # of what is trained
        old = {name: own for name, own in given.items() if own and kept[name]}
        for name, own in old.items():
            for key, value in kept[name].items():
                if own.get(key) is not None:
                    value.copy_(own[key])
        steps = _steps_of(old)
        new = [name for name in kept if kept[name] and name not in old]
        if new and steps > 0 and self._counts():
            _warn_of_new(new)
        state["ipu_param"]["updates"].fill_(steps)
        if "optimizer.step" in state["ipu_state"]:
            state["ipu_state"]["optimizer.step"].fill_(steps)
        self._write(state)


def _of(state: Dict[str, Any], name: str) -> Dict[str, Any]:
    """What the devices keep for one weight, by torch's names."""
    start = name + "."
    return {k[len(start) :]: v for k, v in state.items() if k.startswith(start) and "." not in k[len(start) :]}


def _steps_of(given: Dict[str, Dict[str, Any]]) -> int:
    """How many steps torch has made. SGD does not count them; the first is the only one that differs."""
    counts: List[int] = sorted({int(own["step"]) for own in given.values() if "step" in own})
    if len(counts) > 1:
        raise _core.Unsupported(
            f"the parameters of the optimizer have made different numbers of steps, {counts}, and a model has "
            "one number for all of them: train with a new optimizer"
        )
    if counts:
        return counts[0]
    return 1 if any(own.get("momentum_buffer") is not None for own in given.values()) else 0


def _warn_of_new(new: List[str]) -> None:
    more = f" and {len(new) - 1} more weights" if len(new) > 1 else ""
    warnings.warn(
        f"the optimizer has trained other weights already, but not '{new[0]}'{more}; torch counts the steps of "
        "each weight and a model those of all as one, so that the first updates of these differ from torch's (with Adam's "
        "usual betas they are up to 3 times as large): train with a new optimizer if that matters",
        stacklevel=9,
    )
