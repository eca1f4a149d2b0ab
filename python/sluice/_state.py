"""Parameters stay the user's objects.

The devices hold the values of a model's parameters and buffers. A `Tree` ties them to the tensors of
the torch module:

- After a step that writes them, the tensors of torch are out of date: trained weights, and buffers that
  forward assigns. The first use of any tensor (reading, printing, saving, writing) copies all new
  values back. To see that use, the tree changes the class of the tensors to one that does nothing
  else; `release` changes it back.
- Before a step, tensors that were written since the last one are copied to the devices. torch counts
  the writes of a tensor. Writes through `.data` are not counted, so a tensor whose `.data` was taken
  is copied before the next step as well.

Modules that share a parameter share its value: before a step of one tree, others that hold newer values
of the same tensors copy them back.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from . import _core, _forks as forks
from ._capture import compat
from ._convert import dtype_name, to_core, to_torch

#: The trees that hold a tensor, by id(); a tree removes itself when it ends.
_holders: Dict[int, "weakref.WeakSet[Tree]"] = {}
_lock = threading.RLock()
_changes = 0  # of _holders


def _refresh(values) -> None:
    """Brings the tensors among the arguments of a function of torch up to date."""
    for value in values:
        if isinstance(value, (list, tuple)):
            _refresh(value)
        elif id(value) in _holders:
            for tree in list(_holders.get(id(value), ())):
                tree.fetch()


def _takes_data(func) -> bool:
    owner = getattr(func, "__self__", None)
    return owner is compat.tensor_data() or owner is torch.Tensor.data  # which a capture replaces


#: What may be asked of a tensor that has no values, and functions that give it all of them.
_WITHOUT_VALUES = frozenset(
    "dim device dtype element_size is_complex is_contiguous is_floating_point is_leaf layout ndim ndimension "
    "nelement numel requires_grad requires_grad_ shape size stride".split()
)
_FILLS = frozenset("copy_ fill_ normal_ uniform_ zero_".split())


def _refresh_for(func, args, kwargs) -> None:
    """Brings the arguments of a function of torch up to date. Where a step has torn the values, only those
    that the function reads have to be: a state can be loaded."""
    try:
        _refresh(args)
    except _core.RecoverableError:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        if name in _FILLS:
            _refresh(args[1:])
        elif name not in _WITHOUT_VALUES:
            raise
    _refresh(kwargs.values())


class _Watched:
    """What the classes of watched tensors have in common."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        _refresh_for(func, args, kwargs)
        if args and _takes_data(func):
            for tree in list(_holders.get(id(args[0]), ())):
                tree.suspect(args[0])
        return compat.pass_through(func, args, kwargs)

    def __reduce_ex__(self, protocol):
        _refresh((self,))
        return compat.pass_through(self._plain.__reduce_ex__, (self, protocol), {})


class WatchedParameter(_Watched, torch.nn.Parameter):
    """A parameter of a model; it behaves like any other."""

    _plain = torch.nn.Parameter

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = torch.nn.Parameter(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self):
        return repr(torch.nn.Parameter(self.detach(), self.requires_grad))


class WatchedBuffer(_Watched, torch.Tensor):
    """A buffer of a model; it behaves like any other tensor."""

    _plain = torch.Tensor

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.detach().clone()
        return memo[id(self)]

    def __repr__(self):
        return repr(self.detach())

    def __reduce_ex__(self, protocol):
        return self.detach().clone().__reduce_ex__(protocol)


class Held:
    """A tensor of torch and the parameter that stands for it."""

    __slots__ = ("tensor", "parameter", "counted", "version", "suspect", "stepped")

    def __init__(self, tensor: torch.Tensor, parameter: _core.Parameter) -> None:
        self.tensor = tensor
        self.parameter = parameter
        self.counted = not tensor.is_inference()  # torch counts no writes of tensors of inference_mode
        self.stepped = 0  # the tree's number of the step that has written it last
        self.note_copy()

    @property
    def is_written(self) -> bool:
        """Whether the tensor was written since the last copy; not known of tensors of inference_mode."""
        return self.counted and self.tensor._version != self.version

    def note_copy(self) -> None:
        """Says that the tensor and the devices have the same value."""
        self.version = self.tensor._version if self.counted else 0
        self.suspect = not self.counted

    def fill(self, value: torch.Tensor) -> None:
        """Gives the tensor a value of the devices."""
        with contextlib.nullcontext() if self.counted else torch.inference_mode():
            self.tensor.copy_(value.view_as(self.tensor))

    def note_version(self) -> None:
        """Takes the writes so far for those of `fill`."""
        self.version = self.tensor._version if self.counted else 0

    def require_kind(self) -> None:
        """An error if the tensor has another shape or type than when the model was made."""
        was = (self.parameter.dtype, tuple(self.parameter.shape))
        now = (dtype_name(self.tensor.dtype), tuple(self.tensor.shape))
        if now != was:
            raise _core.InvalidArgument(
                f"the parameter '{self.parameter.full_name}' has another type or shape than when the model "
                f"was made: {was[0]} {list(was[1])} then, {now[0]} {list(now[1])} now; destroy() the model "
                "and make a new one"
            )


class Parts:
    """The tensors and parts of a module as they were, so that every call can see that they still are."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.look()

    def look(self) -> None:
        """Takes them as they are now."""
        self._modules = list(self.module.modules())
        self._values = [_members(each) for each in self._modules]
        self._named = _named_members(self.module)

    def changed(self) -> bool:
        """Whether they are others than at the last look."""
        return not _core.same_members(self._modules, self._values)

    def difference(self) -> Optional[str]:
        """The first member that is missing now or another one, in words."""
        now = _named_members(self.module)
        for name, each in self._named.items():
            if name not in now:
                return f"'{name}' was removed"
            if now[name] is not each:
                return f"'{name}' was replaced"
        return next((f"'{name}' was added" for name in now if name not in self._named), None)


def _members(module: torch.nn.Module) -> List[object]:
    return [*module._parameters.values(), *module._buffers.values(), *module._modules.values()]


def _named_members(module: torch.nn.Module) -> Dict[str, object]:
    """The parts, parameters and buffers by path; the parts come first."""
    named = dict(module.named_modules(remove_duplicate=False))
    for path, part in list(named.items()):
        for name, tensor in (*part._parameters.items(), *part._buffers.items()):
            if tensor is not None:
                named[f"{path}.{name}" if path else name] = tensor
    return named


class Tree:
    """The modules, parameters and buffers of a torch module, as the library sees them."""

    def __init__(self, module: torch.nn.Module, core: Optional[_core.Module] = None) -> None:
        """A tree of its own, or one below a node of another tree."""
        self.core = core if core is not None else _core.Module(kind=type(module).__name__)
        self.modules: Dict[int, _core.Module] = {}
        self.parameters: Dict[int, _core.Parameter] = {}
        self.held: List[Held] = []
        self._uncounted = False  # whether there are tensors of inference_mode
        self._users = 0
        self._sharing: Tuple[int, List["weakref.ref[Tree]"]] = (-1, [])  # as of that change of _holders
        self._written = 0  # how often steps have written the devices' values
        self._copied = 0  # which of these the tensors have
        self._failed = False  # a step, so that values on the devices may be torn
        self._lost = False  # this is a forked process, and the devices are the parent's
        self._kept: List[torch.nn.Module] = []  # so that no id() is used again
        self._add(module, self.core, "")
        self._watch()

    # --- building ---------------------------------------------------------------------------

    def _add(self, module: torch.nn.Module, core: _core.Module, path: str) -> None:
        self.modules[id(module)] = core
        self._kept.append(module)
        for name, tensor in module._parameters.items():
            self._hold(core.add_parameter, path, name, tensor)
        for name, tensor in module._buffers.items():
            self._hold(core.add_buffer, path, name, tensor)
        for name, child in module._modules.items():
            if child is not None and id(child) not in self.modules:
                self._add(child, _core.Module(core, name, type(child).__name__), f"{path}{name}.")

    def _hold(self, add, path: str, name: str, tensor: Optional[torch.Tensor]) -> None:
        if tensor is None or id(tensor) in self.parameters:
            return
        if torch.nn.parameter.is_lazy(tensor):
            raise _core.InvalidArgument(
                f"the parameter '{path}{name}' has no shape yet, because its lazy module was never called: "
                "call the module once with an example, and make the optimizer and the model after that"
            )
        parameter = add(name, to_core(tensor, f"the parameter '{path}{name}'"))
        if not parameter.is_buffer and not tensor.requires_grad:
            parameter.trainable = False
        self.parameters[id(tensor)] = parameter
        self.held.append(Held(tensor, parameter))
        self._uncounted |= not self.held[-1].counted

    def _watch(self) -> None:
        global _changes
        with _lock:
            _changes += 1
            for each in self.held:
                _holders.setdefault(id(each.tensor), weakref.WeakSet()).add(self)
        self._set_classes(watched=True)

    def _set_classes(self, watched: bool) -> None:
        with compat.without_torch_function():
            for each in self.held:
                kind = type(each.tensor)
                if watched and kind is torch.nn.Parameter:
                    each.tensor.__class__ = WatchedParameter
                elif watched and kind is torch.Tensor:
                    each.tensor.__class__ = WatchedBuffer
                elif not watched and issubclass(kind, _Watched):
                    each.tensor.__class__ = kind._plain

    def covers(self, module: torch.nn.Module) -> bool:
        """Whether all of a module, its tensors and its parts, belong to this tree."""
        return all(id(part) in self.modules for part in module.modules()) and all(
            id(tensor) in self.parameters
            for part in module.modules()
            for tensor in (*part._parameters.values(), *part._buffers.values())
            if tensor is not None
        )

    def require_unchanged(self, parts: "Parts") -> None:
        """An error if parameters or parts of the module were added, removed or replaced since it was
        wrapped. Another name for something that it has is none of these."""
        if not parts.changed():
            return
        difference = parts.difference()
        if difference is not None and not (difference.endswith("added") and self.covers(parts.module)):
            raise _core.InvalidArgument(
                f"the module {type(parts.module).__name__} has other parameters, buffers or parts than "
                f"when the model was made: {difference}; assign new values in place "
                "(parameter.data.copy_(...)), or destroy() the model and make a new one"
            )
        parts.look()

    # --- values -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def plain(self) -> Iterator[List[_core.Parameter]]:
        """The tensors have torch's own classes inside, as a capture needs them. torch also counts writes that
        are only captured: the caller adds the parameters that these are of, and other threads may write the
        others meanwhile. After an error all count as captured."""
        with _lock:
            self._set_classes(watched=False)
            counted = [(each, each.is_written, each.tensor._version) for each in self.held if each.counted]
        captured: List[_core.Parameter] = []
        ended = False
        try:
            yield captured
            ended = True
        finally:
            ids = {id(each) for each in captured}
            with _lock:
                for each, was_written, count in counted:
                    if ended and id(each.parameter) not in ids:
                        continue
                    if was_written:
                        each.version += each.tensor._version - count
                    else:  # another thread may have filled it meanwhile, which has been noted already
                        each.note_version()
                self._set_classes(watched=True)

    def suspect(self, tensor: torch.Tensor) -> None:
        """Notes that the tensor may be written without being seen."""
        for each in self.held:
            if each.tensor is tensor:
                each.suspect = True

    @property
    def newer(self) -> bool:
        """Whether the devices have newer values than the tensors."""
        return self._written != self._copied

    def note_step(self, written: Optional[Sequence[Held]] = None) -> None:
        """Says that a step has written these values, or all."""
        with _lock:
            for each in self.held if written is None else written:
                each.stepped = self._written + 1
            self._written += 1 if written is None or written else 0

    def note_failure(self) -> None:
        """Says that a step has failed, which may have torn the values on the devices."""
        self._failed = True

    def fetch(self) -> None:
        """Copies new values from the devices to the tensors. Reading may wait for a step of another
        thread, which may itself want to read, so no lock is held meanwhile."""
        written = self._written
        if written == self._copied:
            return
        if self._lost:
            raise _core.InvalidArgument(
                "the newest values of the parameters are on devices of the parent process, which was "
                "running a step when it forked this one: read them before, or fork between the steps"
            )
        with compat.without_torch_function():
            wanted = [each for each in self.held if each.stepped > self._copied and not each.is_written]
        values = [to_torch(each.parameter.value()) for each in wanted]
        with _lock, compat.without_torch_function(), torch.no_grad():
            if self._copied >= written:
                return
            # What was written, through a view from before the step, does not end here. Parameters that are parts
            # of one tensor share its count of writes.
            filled = [(each, value) for each, value in zip(wanted, values) if not each.is_written]
            for each, value in filled:
                each.fill(value)
            for each, _ in filled:
                each.note_version()
            self._copied = written

    def fetch_last(self) -> None:
        """As fetch, before the devices are given up. If a step has torn what they have, the tensors stay as
        they are."""
        last = self._users <= 1
        try:
            self.fetch()
        except _core.RecoverableError as error:
            if last:
                self._copied = self._written
                warnings.warn(
                    "the module keeps the values that it had when one of them was read or written last, since "
                    f"the newest are lost: {error.message}",
                    stacklevel=4,
                )
        if last and self._failed:
            self._mend()

    def _mend(self) -> None:
        """Gives torn variables the values of the tensors, so that none of them starts anew."""
        self._failed = False
        with compat.without_torch_function():
            for each in self.held:
                try:
                    each.parameter.value()
                except _core.RecoverableError:
                    each.parameter.set_value(to_core(each.tensor))

    def push(self) -> None:
        """Copies tensors that were written since the last step to the devices."""
        for other in self._sharers():
            other.fetch()
        if self._uncounted:  # they are copied before every step
            self.fetch()
        # A thread that fetches writes the tensors, too, and notes so under the lock. Giving the devices a value may
        # wait for a step of another thread, so the lock is not held for that.
        with _lock, compat.without_torch_function():
            written = [e for e in self.held if e.suspect or e.tensor._version != e.version]
            for each in written:
                each.require_kind()
            values = [to_core(each.tensor).clone() for each in written]
            for each in written:
                each.note_copy()
        for number, (each, value) in enumerate(zip(written, values)):
            try:
                each.parameter.set_value(value)
            except BaseException:
                for left in written[number:]:
                    left.suspect = True
                raise

    def push_all(self) -> None:
        """Copies all tensors to the devices."""
        for each in self.held:
            each.suspect = True
        self._copied = self._written
        self.push()

    def _sharers(self) -> List["Tree"]:
        """The other trees that have newer values of a tensor of this one."""
        if self._sharing[0] != _changes:
            with _lock:
                trees = {t for e in self.held for t in _holders.get(id(e.tensor), ()) if t is not self}
                self._sharing = (_changes, [weakref.ref(tree) for tree in trees])
        trees = (tree() for tree in self._sharing[1])
        return [tree for tree in trees if tree is not None and tree.newer]

    def lose(self) -> None:
        """In a forked process: gives the tensors back, and forgets the devices."""
        global _lock
        if self._lost:
            return
        _lock = threading.RLock()  # a thread that is not here may have had it
        self._lost = True
        forks.lose(self)
        if not self.newer:  # else reading them is an error
            self.release()

    def names(self) -> Dict[int, str]:
        """The name of each tensor's variable, by id()."""
        return {id(each.tensor): each.parameter.full_name for each in self.held}

    def leave(self) -> None:
        """Called by a model that joined; the last one gives the tensors back."""
        with _lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self.release()

    def release(self) -> None:
        """Gives the tensors back, with their newest values."""
        global _changes
        self.fetch_last()
        with _lock:
            _changes += 1
            free = []
            for each in self.held:
                trees = _holders.get(id(each.tensor))
                if trees is not None:
                    trees.discard(self)
                    if not trees:
                        del _holders[id(each.tensor)]
                        free.append(each)
            kept, self.held = self.held, free
            self._set_classes(watched=False)
            self.held = kept


def join_tree(module: torch.nn.Module) -> Tree:
    """A tree that has all of the module; models of a module, or of a part of a module that has a model,
    share one. It ends when all that joined it have left it."""
    with _lock:
        tensors = (*module.parameters(), *module.buffers())
        trees = (tree for each in tensors for tree in list(_holders.get(id(each), ())))
        tree = next((tree for tree in trees if tree._users > 0 and tree.covers(module)), None)
        tree = tree if tree is not None else Tree(module)
        tree._users += 1
        return tree
