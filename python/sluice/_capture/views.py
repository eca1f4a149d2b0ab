"""Values that several tensors share.

A trace knows values, not memory, so tensors that share memory are turned into functions here. A
Storage holds the value of one piece of memory. A View is one step (a slice, a permutation ...) away
from a storage or from another view. Reading a view replays its step on what it views; writing it
computes the new value of what it views by the inverse of the step, up to the storage.
"""

import torch

from .. import _core
from . import dtypes, emit


class Storage:
    """One piece of memory. It holds a torch tensor while its contents are known, else a symbolic
    tensor.

    owner    the `_core.Parameter` whose value this is, if any
    outside  whether the contents are a tensor from outside of the capture: a constant
    """

    def __init__(self, value=None, known=None, owner=None, outside=False):
        self._value = value
        self.known = known
        self.owner = owner
        self.outside = outside
        self.version = 0

    @property
    def storage(self):
        return self

    def read(self):
        if self._value is None:
            if self.known is not None:
                self._value = constant(self.known)
            else:
                self._value = self.owner.use()
        return self._value

    def write(self, value):
        if self.owner is not None:
            self.owner.assign(value)
        self._value = value
        self.known = None
        self.version += 1

    def known_changed(self):
        """To be called after the known contents were written."""
        self._value = None
        self.version += 1


class View:
    """One step away from another node."""

    def __init__(self, parent, step):
        self._parent = parent
        self._step = step
        self._value = None
        self._version = -1
        self.storage = parent.storage

    @property
    def swaps_last_axes(self):
        """What this is the matrix transpose of, or None."""
        return self._parent if isinstance(self._step, Permute) and self._step.swaps_last else None

    def read(self):
        if self._version != self.storage.version or self._value is None:
            self._value = self._step.read(self._parent.read())
            self._version = self.storage.version
        return self._value

    def write(self, value):
        if self._step.overwrites:
            self._parent.write(self._step.write(None, value))
        else:
            self._parent.write(self._step.write(self._parent.read(), value))


class Reshape:
    overwrites = True

    def __init__(self, before, after):
        self._before, self._after = tuple(before), tuple(after)

    def read(self, x):
        return emit.reshape(x, self._after)

    def write(self, _, new):
        return emit.reshape(new, self._before)


class Permute:
    overwrites = True

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
    overwrites = False

    def __init__(self, shape):
        self._shape = tuple(shape)

    def read(self, x):
        return emit.broadcast(x, self._shape)

    def write(self, base, new):
        raise _core.Unsupported(
            "an expanded tensor is written in place: several of its elements are one and the same; "
            "write a clone() of it"
        )


class Strided:
    """Any other view: the elements of the base at given flat positions (a known tensor)."""

    overwrites = False

    def __init__(self, positions):
        self._positions = positions

    def _indices(self):
        return _core.constant(host_tensor(self._positions.reshape(-1)))

    def read(self, x):
        flat = emit.reshape(x, [emit.elements(x.shape)])
        picked = emit.op("gather", flat, self._indices(), axis=0)
        return emit.reshape(picked, self._positions.shape)

    def write(self, base, new):
        if self._positions.unique().numel() != self._positions.numel():
            raise _core.Unsupported(
                "a view that holds some elements twice is written in place; write a clone() of it"
            )
        flat = emit.reshape(base, [emit.elements(base.shape)])
        values = emit.reshape(new, [emit.elements(new.shape)])
        written = emit.op("scatter_elements", flat, self._indices(), values, axis=0)
        return emit.reshape(written, base.shape)


class Detach:
    overwrites = True

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
