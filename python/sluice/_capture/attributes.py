"""What a captured forward may do to the attributes of its modules: all that it leaves behind is undone, so that
every capture, and a call of the module itself, begin with the same ones."""

import collections
import contextlib

import torch

from .. import _core
from . import compat

_DICTIONARIES = (dict, collections.OrderedDict, collections.defaultdict)
_LISTS = (list, collections.deque)
_MOST = 10_000  # entries; what has more is data, which every capture would copy


class _Kept:
    """The attributes of a module, and what its lists, dictionaries and sets contain, but for the largest."""

    def __init__(self, module, path):
        self.module = module
        self.path = path
        self.parameters = dict(compat.own_parameters(module))
        self.buffers = _present(compat.own_buffers(module))
        self.parts = _present(compat.own_parts(module))
        self._attributes = dict(vars(module))
        self._contents = {}  # by the container's id: the container and a copy
        self._keep(self._attributes.values())

    def _keep(self, values):
        waiting = list(values)
        while waiting:
            each = waiting.pop()
            kind = type(each)
            if kind not in (*_DICTIONARIES, *_LISTS, set) or id(each) in self._contents or len(each) > _MOST:
                continue
            self._contents[id(each)] = (each, kind(each) if kind in _LISTS else each.copy())
            waiting.extend(each.values() if kind in _DICTIONARIES else each)

    def require_same(self):
        """An error if the module has other weights, buffers or parts now."""
        _require_same(self, "parameter", self.parameters, compat.own_parameters(self.module))
        _require_same(self, "part", self.parts, _present(compat.own_parts(self.module)))
        now = _present(compat.own_buffers(self.module))
        added = next((name for name in now if name not in self.buffers), None)
        if added is not None:
            raise _changed(self, "buffer", added)

    def put_back(self):
        now = vars(self.module)
        for name in [name for name in now if name not in self._attributes]:
            del now[name]
        now.update(self._attributes)
        for container, copy in self._contents.values():
            if _differs(container, copy):
                container.clear()
                (container.extend if type(container) in _LISTS else container.update)(copy)


def _present(members):
    return {name: each for name, each in members.items() if each is not None}


def _differs(a, b):
    if len(a) != len(b):
        return True
    if isinstance(a, set):
        return any(each not in b for each in a)
    if isinstance(a, dict) and any(x is not y for x, y in zip(a.values(), b.values())):
        return True
    return any(x is not y for x, y in zip(a, b))


def _require_same(kept, what, before, now):
    name = next((name for name in before if now.get(name) is not before[name]), None)
    name = name or next((name for name in now if name not in before), None)
    if name is not None:
        raise _changed(kept, what, name)


def _changed(kept, what, name):
    path = ".".join(part for part in (kept.path, name) if part)
    if what == "parameter":
        return _core.Unsupported(
            f"forward adds, removes or replaces the parameter '{path}', and the weights of a model are those "
            "that it has at the first call; do it before, or compute with a changed copy"
        )
    return _core.Unsupported(
        f"forward adds, removes or replaces the {what} '{path}', and a model has those that its module has at the "
        "first call: call the module once with an example before that, or make it in __init__"
    )


@contextlib.contextmanager
def kept(capture, modules, names, parameters):
    """Buffers that forward replaces (`self.mean = ...`) are written. Afterwards every module gets its own
    attributes back: symbolic tensors would be of no use to it later, and what a counter or a key of a cache says
    goes with them."""
    before = [_Kept(each, names.get(id(each), "")) for each in modules]
    try:
        yield
        for each in before:
            each.require_same()
            for name, old in each.buffers.items():
                new = getattr(each.module, name, None)
                if new is not old and id(old) in parameters and isinstance(new, torch.Tensor):
                    _replace(capture, old, new, name)
    finally:
        for each in before:
            each.put_back()


def _replace(capture, old, new, name):
    if new.shape != old.shape or new.dtype != old.dtype:
        raise _core.Unsupported(
            f"the buffer '{name}' is {old.dtype} {list(old.shape)} and forward replaces it by "
            f"{new.dtype} {list(new.shape)}; a buffer keeps its type and shape"
        )
    capture.write(old, capture.value(new))
