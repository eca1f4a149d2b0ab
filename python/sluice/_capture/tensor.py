"""SymbolicTensor: what a module's forward sees in place of its tensors while it is captured."""

import torch

from .. import _core
from . import compat, dtypes, functional, places


class SymbolicTensor(torch.Tensor):
    """A tensor with a shape, strides and a type, but without memory. `node` (views.py) says which
    value of the trace it stands for. Shapes and types come from that value, so that no kernel of
    torch runs."""

    @staticmethod
    def __new__(cls, node, size, strides, offset, dtype):
        return compat.wrapper(cls, size, strides, dtype)

    def __init__(self, node, size, strides, offset, dtype):
        self.node = node
        self.offset = offset  # torch's own must fit into memory that is not there

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        special = _SPECIAL.get(func)
        if special is not None:
            return special(func, args, kwargs or {})
        return compat.pass_through(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Outside of a capture: what a cache in Python has kept is what it was, if that is known."""
        from .mode import convert

        def contents(x):
            known = x.known() if isinstance(x, SymbolicTensor) else x
            if known is None:
                raise _core.InvalidArgument(
                    f"{func} is applied to a symbolic tensor outside of the trace that made it; symbolic "
                    "tensors live only while a model's forward is captured, so return the value or keep it "
                    "in a buffer, not in a cache such as functools.lru_cache"
                )
            return known

        return func(*convert(contents, args), **convert(contents, kwargs or {}))

    def __repr__(self, *args, **kwargs):
        state = "unknown" if self.node.storage.known is None else "known"
        return f"SymbolicTensor(shape={list(self.shape)}, dtype={self.dtype}, {state})"

    def __format__(self, spec):
        return repr(self)

    def __copy__(self):
        return self.detach()  # torch's has the same memory, and no gradient passes it

    def __deepcopy__(self, memo):
        return self.clone()

    def known(self):
        """The contents as a torch tensor that shares memory with all other views, or None."""
        whole = self.node.storage.known
        if whole is None:
            return None
        return torch.as_strided(whole, self.size(), self.stride(), self.offset)

    def shadow(self):
        """A tensor of torch with the same geometry and no contents."""
        flat = torch.empty(self.storage_size(), dtype=self.dtype, device="meta")
        return torch.as_strided(flat, self.size(), self.stride(), self.offset)

    def storage_size(self):
        """How many elements the geometry reaches."""
        if self.numel() == 0:
            return self.offset
        last = sum((n - 1) * s for n, s in zip(self.size(), self.stride()))
        return self.offset + last + 1

    def repeats_elements(self):
        """Whether two of the elements are the same memory."""
        flat = torch.arange(self.storage_size())
        places = torch.as_strided(flat, self.size(), self.stride(), self.offset)
        return places.unique().numel() < self.numel()


def contiguous(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def fresh(node, shape, dtype):
    """A tensor over all of a storage. The type is one of torch."""
    return SymbolicTensor(node, tuple(shape), contiguous(shape), 0, dtype)


def of_value(node, value):
    return fresh(node, value.shape, dtypes.torch_type(value.dtype))


def like(node, geometry):
    """A tensor with the geometry of another one."""
    return SymbolicTensor(
        node, geometry.size(), geometry.stride(), geometry.storage_offset(), geometry.dtype
    )


def _contents(func, args, kwargs):
    """tolist and numpy, which torch refuses for tensors without memory."""
    if args[0].node.storage.known is None:
        _refuse(
            f"Tensor.{func.__name__}",
            "the value of a tensor is wanted, but it is known only when the model runs; use functions of "
            "torch, return the tensor, or run the code on the host with sluice.CPU",
        )
    with compat.BelowPython():
        return func(args[0].known().clone(), *args[1:], **kwargs)


def _array(func, args, kwargs):
    """numpy.asarray(x)."""
    array = _contents(torch.Tensor.numpy, args[:1], {})
    return array.astype(*args[1:], **kwargs) if args[1:] or kwargs else array


def _refuse(what, reason):
    """An error with the module's path and the user's line, outside of any function of torch."""
    from . import current  # which this module is a part of

    capture = current()
    path = capture.module_path if capture is not None else []
    raise places.located(_core.Unsupported(reason), what, path)


def _no_memory(func, args, kwargs):
    """What asks for the address of the elements."""
    _refuse(
        f"Tensor.{func.__name__}",
        "a tensor has no memory while the model is captured; use functions of torch",
    )


def _no_gradients(func, args, kwargs):
    """Tensor.backward and torch.autograd.grad."""
    _refuse(
        f"{'Tensor' if func.__name__ == 'backward' else 'torch.autograd'}.{func.__name__}",
        "a training model takes the gradient of the last tensor that forward returns by itself: return "
        "the loss, and leave backward and the optimizer's step out",
    )


def _no_hooks(func, args, kwargs):
    """What asks for the gradient of one tensor."""
    _refuse(
        f"Tensor.{func.__name__}",
        "the gradients of a model stay on its devices, so that a hook would never be called and no .grad "
        "kept: leave it out, and look at gradients with Options.anchorTensor",
    )


def _requires_grad(func, args, kwargs):
    """Symbolic tensors have no gradients of torch's, but forward may ask whether there will be one."""
    from . import current

    capture = current()
    if compat.pass_through(func, args, kwargs):
        return True
    return capture is not None and capture.training and capture.has_gradient(args[0])


def _is_place(x):
    """Whether x is a single integer that only a run knows."""
    return (
        isinstance(x, SymbolicTensor)
        and x.dim() == 0
        and not x.is_floating_point()
        and x.dtype is not torch.bool
        and x.node.storage.known is None
    )


def _places(x, index):
    """The (position in the index, axis of x) of unknown single integers in x[index]."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(_is_place(each) for each in items):
        return [], items
    axes = [_axes_of(each) for each in items]
    rest = x.dim() - sum(axes)
    found, axis = [], 0
    for i, (each, count) in enumerate(zip(items, axes)):
        if _is_place(each):
            found.append((i, axis))
        axis += rest if each is Ellipsis else count
    return found, items


def _axes_of(item):
    """How many axes one part of an index takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.dim() if isinstance(item, torch.Tensor) and item.dtype is torch.bool else 1


def _getitem(func, args, kwargs):
    """torch asks single integer tensors in an index for their number; unknown ones select."""
    x, index = args
    found, items = _places(x, index)
    for i, axis in found:
        x = x.index_select(axis, items[i].reshape(1))
        items = (*items[:i], 0, *items[i + 1 :])
    return compat.pass_through(func, (x, items if found else index), kwargs)


def _setitem(func, args, kwargs):
    x, index, value = args
    found, items = _places(x, index)
    if not found:
        return compat.pass_through(func, args, kwargs)
    i, axis = found[0]
    place = items[i].reshape(1)
    part = x.index_select(axis, place)
    part[(*items[:i], 0, *items[i + 1 :])] = value
    x.index_copy_(axis, place, part)


def set_data(x, y):
    """`x.data = y`, which torch does below its dispatcher."""
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        _refuse("Tensor.data", "the data of a tensor is replaced by that of another shape or type")
    if not isinstance(y, SymbolicTensor):
        _refuse("Tensor.data", "the data of a tensor is replaced by that of one from outside; use copy_()")
    if _requires_grad(torch.Tensor.requires_grad.__get__, (x,), {}):
        x.detach().copy_(y)  # what x was computed from keeps its gradient
        return
    x.node = y.detach().node
    x.offset = y.offset
    if x.stride() != y.stride():
        x.node, x.offset = y.detach().contiguous().node, 0


def _replaced(function):
    return lambda func, args, kwargs: function(*args, **kwargs)


_SPECIAL = {
    **{func: _replaced(function) for func, function in functional.REPLACED.items()},
    torch.Tensor.data.__set__: lambda func, args, kwargs: set_data(*args),
    torch.Tensor.tolist: _contents,
    torch.Tensor.numpy: _contents,
    torch.Tensor.__array__: _array,
    torch.Tensor.data_ptr: _no_memory,
    torch.Tensor.storage: _no_memory,
    torch.Tensor.__reduce_ex__: _no_memory,
    torch.Tensor.__dlpack__: _no_memory,
    torch.Tensor.__dlpack_device__: _no_memory,
    torch.Tensor.backward: _no_gradients,
    torch.Tensor.register_hook: _no_hooks,
    torch.Tensor.retain_grad: _no_hooks,
    torch.Tensor.requires_grad.__get__: _requires_grad,
    torch.autograd.grad: _no_gradients,
    torch.Tensor.__getitem__: _getitem,
    torch.Tensor.__setitem__: _setitem,
}
