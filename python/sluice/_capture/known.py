"""Known values: tensors that do not depend on inputs, parameters or random numbers. Functions of
known values only are computed at once by torch, so that shapes, masks and positions need no rules
and may decide what Python does. They become constants where a function mixes them with others."""

import torch

from .. import _core
from . import compat


def require_plain(x):
    """Refuses tensors that Sluice has no counterpart of."""
    if x.layout is not torch.strided:
        raise _core.Unsupported(f"a sparse tensor ({x.layout}) is used; call to_dense() on it")
    if x.is_quantized:
        raise _core.Unsupported("a quantized tensor is used; call dequantize() on it")
    if x.is_complex():
        raise _core.Unsupported(f"a complex tensor ({x.dtype}) is used; keep its parts apart")
    if x.device.type != "cpu":
        raise _core.Unsupported(
            f"a tensor on the device '{x.device}' is used; move the model and its tensors to "
            "'cpu', Sluice places them on its own devices"
        )


def require_writable(capture, target, metadata=False):
    """Refuses writes to tensors that exist outside of the model: they are constants of it."""
    x = capture.symbolic(target)
    if metadata and x.node.storage.owner is not None and x is not target:
        raise _core.Unsupported(
            "the shape of a parameter or buffer is changed in place; change that of a view, such as "
            "x.view_as(x)"
        )
    owner = x.node.storage.owner
    if owner is not None and not owner.is_buffer:
        hint = (
            "write it between the calls, which the next call sees, or compute with a changed copy, as "
            "torch.nn.utils.parametrize does"
        )
        if not owner.trainable:
            hint = "it is not trained, so make it a buffer with register_buffer()"
        raise _core.Unsupported(
            f"the weight '{owner.full_name}' is written in forward, and in a model only the optimizer changes "
            f"weights; {hint}"
        )
    if x.node.storage.outside or (metadata and x is not target):
        raise _core.Unsupported(
            "a tensor that is neither a buffer nor made in forward is changed in place; the model "
            "sees it as a constant: register_buffer() it, or clone() it first"
        )


def run(capture, func, args, kwargs):
    """Computes a function of known values. Written arguments are written in place."""
    from .mode import convert

    found = {}  # the contents of each tensor, by its id

    def contents(x):
        return found.setdefault(id(x), capture.symbolic(x).known())

    written = compat.mutable_arguments(func) if compat.is_overload(func) else []
    targets = [args[i] if i < len(args) else kwargs.get(name) for i, name in written]
    targets = [each for each in targets if isinstance(each, torch.Tensor)]
    for each in targets:
        require_writable(capture, each)
    called, args, kwargs = compat.with_truths(func, convert(contents, args), convert(contents, kwargs))
    result = called(*args, **kwargs)
    if targets:
        for each in targets:
            _require_same_shape(each, found[id(each)])
            capture.symbolic(each).node.storage.known_changed()
        return targets[0] if len(targets) == 1 else tuple(targets)
    return capture.wrap(result)


def _require_same_shape(target, contents):
    if target.shape != contents.shape:
        raise _core.Unsupported(
            f"a tensor {list(target.shape)} is resized to {list(contents.shape)} in place; use reshape(), or make a "
            "tensor of that shape"
        )


class Memory:
    """Finds the parameter whose memory a tensor shares: `parameter.data`, and views that were made
    before the capture began."""

    def __init__(self, parameters):
        self._parameters = parameters
        self._by_pointer = None

    def add(self, tensors):
        self._by_pointer = {}
        for x in tensors:
            if x.numel() > 0 and x.is_contiguous():
                self._by_pointer.setdefault(_pointer(x), x)

    def find(self, x):
        """The parameter and the flat positions of x's elements in it, or None."""
        if not self._by_pointer or x.numel() == 0:
            return None
        parameter = self._by_pointer.get(_pointer(x))
        if parameter is None or parameter.dtype != x.dtype:
            return None
        flat = torch.arange(parameter.numel())
        offset = x.storage_offset() - parameter.storage_offset()
        if offset < 0:
            return None
        return parameter, torch.as_strided(flat, x.size(), x.stride(), offset)


def _pointer(x):
    """Where the memory begins that x is a part of."""
    return x.data_ptr() - x.storage_offset() * x.element_size()
