"""Values that several tensors share.

A trace knows values, not memory, so tensors that share memory are turned into functions here. A
Storage holds the value of one piece of memory. A View is one step (a slice, a permutation ...) away
from a storage or from another view. Reading a view replays its step on what it views; writing it
computes the new value of what it views by the inverse of the step, up to the storage.
"""

import contextlib

import torch

from .. import _core
from . import dtypes, emit

_bodies = []  # of the loops and branches that are being traced: what each has read for the first time


@contextlib.contextmanager
def body():
    """Values that are first read inside stay there: the ops that compute them become those of a loop or a
    branch."""
    _bodies.append([])
    try:
        yield
    finally:
        for node, value in _bodies.pop():
            node.forget(value)


def _note(node, value):
    if _bodies:
        _bodies[-1].append((node, value))


class Storage:
    """One piece of memory. It holds a torch tensor while its contents are known, else a symbolic
    tensor.

    capture       a token of the capture that it belongs to
    owner         the `_core.Parameter` whose value this is, if any
    outside       whether the contents are a tensor from outside of the capture: a constant
    has_gradient  whether the value may depend on what is trained; that of a parameter is what is trained
    """

    is_detached = has_twins = False

    def __init__(self, capture, value=None, known=None, owner=None, outside=False, has_gradient=False):
        self.capture = capture
        self._value = value
        self._seen = None
        self.known = known
        self.owner = owner
        self.outside = outside
        self.version = 0
        trained = owner is not None and not owner.is_buffer and owner.trainable
        self.has_gradient = has_gradient or trained

    @property
    def storage(self):
        return self

    def read(self):
        if self._value is None:
            if self.known is not None:
                self._value = constant(self.known)
            else:
                self._value = self.owner.use()
            _note(self, self._value)
        return self._value

    def forget(self, value):
        """Reads again what was read, unless it was written since."""
        if self._value is value:
            self._value = None

    def write(self, value):
        if self.owner is not None:
            self.owner.assign(value)
        self._value = value
        self._seen = None
        self.known = None
        self.version += 1

    def seen(self):
        """The value whose gradients count: the last one that was not written unseen."""
        return self.read() if self._seen is None else self._seen

    def keep_gradient_of(self, seen):
        """Lets gradients of the value go to another one instead."""
        finite = emit.op("less", emit.op("abs", seen), emit.scalar(float("inf"), seen.dtype))
        source = emit.where(finite, seen, emit.scalar(0, seen.dtype))
        zero = emit.sub(source, emit.op("detach", source))
        self._value = emit.add(emit.op("detach", self._value), zero)
        self._seen = seen
        self.version += 1

    def known_changed(self):
        """To be called after the known contents were written."""
        self._value = None
        self.version += 1


class View:
    """One step away from another node.

    is_detached  whether gradients do not pass it
    has_twins    whether one of its steps repeats elements
    """

    def __init__(self, parent, step):
        self._parent = parent
        self._step = step
        self._value = None
        self._version = -1
        self.storage = parent.storage
        self.is_detached = parent.is_detached or isinstance(step, Detach)
        self.has_twins = parent.has_twins or step.makes_twins

    @property
    def swaps_last_axes(self):
        """What this is the matrix transpose of, or None."""
        return self._parent if isinstance(self._step, Permute) and self._step.swaps_last else None

    def read(self):
        if self._version != self.storage.version or self._value is None:
            self._value = self._step.read(self._parent.read())
            self._version = self.storage.version
            _note(self, self._value)
        return self._value

    def forget(self, value):
        """Reads again what was read."""
        if self._value is value:
            self._value = None

    def write(self, value):
        if self.has_twins:
            self._write_elements(value)
        elif self._step.overwrites:
            self._parent.write(self._step.write(None, value))
        else:
            self._parent.write(self._step.write(self._parent.read(), value))

    def _write_elements(self, value):
        """Writes through a view that has some elements twice: `places` says which element of what it
        views each element of this one is. That no two are the same is checked before."""
        base, steps = self, []
        while base.has_twins:
            steps.append(base._step)
            base = base._parent
        whole = base.read()
        places = emit.reshape(emit.iota(emit.elements(whole.shape)), whole.shape)
        for step in reversed(steps):
            places = places if isinstance(step, Detach) else step.read(places)
        base.write(_scattered(whole, places, value))


class Reshape:
    overwrites, makes_twins = True, False

    def __init__(self, before, after):
        self._before, self._after = tuple(before), tuple(after)

    def read(self, x):
        return emit.reshape(x, self._after)

    def write(self, _, new):
        return emit.reshape(new, self._before)


class Permute:
    overwrites, makes_twins = True, False

    def __init__(self, axes):
        self._axes = tuple(axes)

    @property
    def swaps_last(self):
        rank = len(self._axes)
        return rank >= 2 and self._axes == (*range(rank - 2), rank - 1, rank - 2)

    def read(self, x):
        return emit.transpose(x, self._axes)

    def write(self, _, new):
        back = [0] * len(self._axes)
        for to, source in enumerate(self._axes):
            back[source] = to
        return emit.transpose(new, back)


class Slice:
    """Every step-th element of one axis from start to before end."""

    makes_twins = False

    def __init__(self, axis, start, end, step, extent):
        self._range = (axis, start, end, step)
        self.overwrites = (start, end, step) == (0, extent, 1)

    def read(self, x):
        return emit.cut(x, *self._range)

    def write(self, base, new):
        axis, start, end, step = self._range
        if self.overwrites:
            return new
        if step == 1:
            parts = [emit.cut(base, axis, 0, start)] if start > 0 else []
            parts.append(new)
            if end < base.shape[axis]:
                parts.append(emit.cut(base, axis, end, base.shape[axis]))
            return emit.concat([p for p in parts if p.shape[axis] > 0] or [base], axis)
        places = _core.op("iota", [], {"shape": [new.shape[axis]], "dtype": "i64"})[0]
        places = emit.shift(emit.scale(places, step), start)
        shape = [1] * len(new.shape)
        shape[axis] = new.shape[axis]
        places = emit.broadcast(emit.reshape(places, shape), new.shape)
        return emit.op("scatter_elements", base, places, new, axis=axis)


class Expand:
    overwrites, makes_twins = False, True

    def __init__(self, shape):
        self._shape = tuple(shape)

    def read(self, x):
        return emit.broadcast(x, self._shape)


class Strided:
    """Any other view: the elements of the base at given flat positions (a known tensor)."""

    overwrites = False

    def __init__(self, positions):
        self._positions = positions
        self.makes_twins = positions.unique().numel() != positions.numel()

    def _indices(self):
        return _core.constant(host_tensor(self._positions.reshape(-1)))

    def read(self, x):
        flat = emit.reshape(x, [emit.elements(x.shape)])
        picked = emit.op("gather", flat, self._indices(), axis=0)
        return emit.reshape(picked, self._positions.shape)

    def write(self, base, new):
        return _scattered(base, self._indices(), new)


def _scattered(base, places, values):
    """The base with values at flat positions."""
    count = [emit.elements(values.shape)]
    flat = emit.reshape(base, [emit.elements(base.shape)])
    places, values = emit.reshape(places, count), emit.reshape(values, count)
    return emit.reshape(emit.op("scatter_elements", flat, places, values, axis=0), base.shape)


class Detach:
    overwrites, makes_twins = True, False

    def read(self, x):
        return emit.op("detach", x)

    def write(self, _, new):
        return new


def host_tensor(known):
    """A torch tensor as a tensor of `_core` over the same memory; constants copy it."""
    known = known.detach().contiguous()
    if known.dtype == torch.bfloat16:
        return _core.HostTensor(known.view(torch.int16).numpy(), dtype="bfloat16")
    return _core.HostTensor(known.numpy())


_LARGE = 256


def constant(known):
    """The known tensor in the current trace; large tensors of one value are not stored."""
    if dtypes.core_name(known.dtype) is None:
        raise _core.Unsupported(f"a tensor of {known.dtype} is used, which Sluice does not have")
    if known.numel() > _LARGE:
        first = known.reshape(-1)[:1]
        if bool((known == first).all()):
            return emit.broadcast(_core.constant(host_tensor(first.reshape(()))), known.shape)
    return _core.constant(host_tensor(known))
