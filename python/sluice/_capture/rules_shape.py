"""Views, copies and factories."""

import functools

import torch

from .. import _core
from . import dtypes, emit
from .mode import assign
from .registry import raw_rule, refuse, rule, view_rule
from .views import Detach, Expand, Permute, Reshape, Slice, Strided

# Views. Each rule gets the tensor and the geometry of the result, which torch itself computed.


@view_rule(
    "aten.view",
    "aten._unsafe_view",
    "aten._reshape_alias",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze",
)
def reshape(x, result, *args):
    return [Reshape(x.shape, result.shape)]


@view_rule("aten.alias")
def same(x, result):
    return []


@view_rule("aten.detach")
def detach(x, result):
    return [Detach()] if x.dtype.is_floating_point else []


@view_rule("aten.t")
def t(x, result):
    return [Permute((1, 0))] if x.dim() == 2 else []


@view_rule("aten.transpose.int")
def transpose(x, result, dim0, dim1):
    if x.dim() == 0:
        return []
    axes = list(range(x.dim()))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return [Permute(axes)]


@view_rule("aten.permute")
def permute(x, result, dims):
    return [Permute([d % x.dim() for d in dims])] if x.dim() else []


@view_rule("aten.expand")
def expand(x, result, size, implicit=False):
    return [Expand(result.shape)] if result.shape != x.shape else []


def _bounds(start, end, extent):
    start = 0 if start is None else start
    end = extent if end is None else end
    start, end = (i + extent if i < 0 else i for i in (start, end))
    start = min(max(start, 0), extent)
    return start, min(max(end, start), extent)


@view_rule("aten.slice.Tensor")
def cut(x, result, dim=0, start=None, end=None, step=1):
    axis = dim % x.dim()
    start, end = _bounds(start, end, x.shape[axis])
    return [Slice(axis, start, end, step, x.shape[axis])]


def _part(x, axis, start, length):
    return [Slice(axis, start, start + length, 1, x.shape[axis])]


@view_rule("aten.select.int")
def select(x, result, dim, index):
    axis = dim % x.dim()
    one = list(x.shape)
    one[axis] = 1
    return [*_part(x, axis, index % x.shape[axis], 1), Reshape(one, result.shape)]


@view_rule(
    "aten.split.Tensor",
    "aten.split_with_sizes",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes",
)
def split(x, results, sizes, dim=0):
    axis, start, steps = dim % x.dim(), 0, []
    for each in results:
        steps.append(_part(x, axis, start, each.shape[axis]))
        start += each.shape[axis]
    return steps


@view_rule("aten.unbind.int")
def unbind(x, results, dim=0):
    return [select(x, each, dim, i) for i, each in enumerate(results)]


def _positions(x, result):
    """Where in x, counted flat, the elements of a view of it are."""
    whole = torch.arange(x.numel()).reshape(x.shape)
    if x.is_contiguous():
        return torch.as_strided(
            whole, result.size(), result.stride(), result.storage_offset() - x.offset
        )
    raise _core.Unsupported("this view of a tensor that is not contiguous; call contiguous() first")


@view_rule("aten.as_strided")
def as_strided(x, result, size, stride, offset=None):
    return [Strided(_positions(x, result))]


@view_rule("aten.diagonal")
def diagonal(x, result, offset=0, dim1=0, dim2=1):
    whole = torch.arange(x.numel()).reshape(x.shape)
    return [Strided(torch.diagonal(whole, offset, dim1, dim2))]


@view_rule("aten.unfold")
def unfold(x, result, dimension, size, step):
    whole = torch.arange(x.numel()).reshape(x.shape)
    return [Strided(whole.unfold(dimension, size, step))]


refuse(
    "elements of one type cannot be seen as those of another; use to()",
    "aten.view.dtype",
)
refuse(
    "the memory of a tensor cannot be exchanged or resized in a captured forward",
    "aten.set_.source_Tensor",
    "aten.set_.source_Storage",
    "aten.set_.source_Storage_storage_offset",
    "aten.resize_",
    eager=False,
)

# Copies.


@rule("aten.clone")
def clone(ctx, x, memory_format=None):
    return emit.op("identity", x)


@rule("aten._to_copy")
def to_copy(ctx, x, dtype=None, device=None, **_):
    require_cpu(device)
    if dtype is None or dtypes.core_name(dtype) == x.dtype:
        return emit.op("identity", x)
    if dtypes.core_name(dtype) is None:
        raise _core.Unsupported(f"the type {dtype} has no counterpart")
    return emit.cast(x, dtypes.core_name(dtype))


def require_cpu(device):
    if device is not None and torch.device(device).type != "cpu":
        raise _core.Unsupported(
            f"a tensor is moved to '{device}'; Sluice places tensors on its own devices, so leave "
            "the model on 'cpu'"
        )


@rule("aten.copy_")
def copy(ctx, x, source, non_blocking=False):
    return emit.broadcast(emit.cast(source, x.dtype), x.shape)


@rule("aten.fill.Scalar", "aten.fill.Tensor")
def fill(ctx, x, value):
    return emit.broadcast(emit.tensor(value, x.dtype), x.shape)


@rule("aten.zero")
def zero(ctx, x):
    return emit.full(x.shape, 0, x.dtype)


@rule("aten.cat", "aten.concat", "aten.concatenate")
def cat(ctx, parts, dim=0):
    # torch lets empty lists be joined with anything; their types count.
    parts = _alike("cat", parts)
    parts = [p for p in parts if p.shape != (0,)] or parts[:1]
    return emit.op("concat", *parts, axis=emit.axis_of(dim, len(parts[0].shape)))


@rule("aten.stack")
def stack(ctx, parts, dim=0):
    axis = dim % (len(parts[0].shape) + 1)
    shape = list(parts[0].shape)
    shape.insert(axis, 1)
    return emit.op("concat", *_alike("stack", [emit.reshape(p, shape) for p in parts]), axis=axis)


def _alike(function, parts):
    """The parts in one type."""
    parts = emit.resolve(function, *parts)
    dtype = dtypes.promote(*parts)
    return [emit.cast(p, dtype) for p in parts]


@rule("aten.repeat")
def repeat(ctx, x, repeats):
    x = emit.reshape(x, [1] * (len(repeats) - len(x.shape)) + list(x.shape))
    return emit.op("tile", x, repeats=list(repeats))


@rule("aten.flip")
def flip(ctx, x, dims):
    if not dims or not x.shape:
        return emit.op("identity", x)
    return emit.op("reverse", x, axes=[d % len(x.shape) for d in dims])


@rule("aten.roll")
def roll(ctx, x, shifts, dims=()):
    shape = x.shape
    if not dims:
        x, dims = emit.reshape(x, [emit.elements(shape)]), [0]
    for shift, dim in zip(shifts, dims):
        axis = dim % len(x.shape)
        at = -shift % x.shape[axis]
        if at:
            ends = emit.cut(x, axis, at, x.shape[axis]), emit.cut(x, axis, 0, at)
            x = emit.concat(list(ends), axis)
    return emit.reshape(emit.op("identity", x), shape)


@rule("aten.rot90")
def rot90(ctx, x, k=1, dims=(0, 1)):
    first, second = (d % len(x.shape) for d in dims)
    axes = list(range(len(x.shape)))
    axes[first], axes[second] = axes[second], axes[first]
    k %= 4
    if k == 2:
        return emit.op("reverse", x, axes=[first, second])
    if k == 1:
        return emit.transpose(emit.op("reverse", x, axes=[second]), axes)
    if k == 3:
        return emit.op("reverse", emit.transpose(x, axes), axes=[second])
    return emit.op("identity", x)


@rule("aten.tril")
def tril(ctx, x, diagonal=0):
    return emit.op("trilu", x, upper=False, diagonal=diagonal)


@rule("aten.triu")
def triu(ctx, x, diagonal=0):
    return emit.op("trilu", x, upper=True, diagonal=diagonal)


@raw_rule("aten.diag_embed")
def diag_embed(ctx, x, offset=0, dim1=-2, dim2=-1):
    """The diagonal of zeros, written."""
    n = x.shape[-1] + abs(offset)
    target = ctx.fresh(torch.zeros(*x.shape[:-1], n, n, dtype=x.dtype))
    rank = target.dim()
    axes = [i for i in range(rank) if i not in (dim1 % rank, dim2 % rank)]
    order = [0] * rank
    for source, to in enumerate([*axes, dim1 % rank, dim2 % rank]):
        order[to] = source
    with ctx.mode:
        part, result = target.diagonal(offset, -2, -1), target.permute(order)
    assign(ctx, part, x)
    return ctx.value(result)


@raw_rule("aten.diag")
def diag(ctx, x, diagonal=0):
    with ctx.mode:
        picked = torch.diag_embed(x, diagonal) if x.dim() == 1 else x.diagonal(diagonal)
    return ctx.value(picked)


@rule("aten.slice_scatter")
def slice_scatter(ctx, x, source, dim=0, start=None, end=None, step=1):
    axis = dim % len(x.shape)
    start, end = _bounds(start, end, x.shape[axis])
    return Slice(axis, start, end, step, x.shape[axis]).write(x, source)


@rule("aten.select_scatter")
def select_scatter(ctx, x, source, dim, index):
    axis = dim % len(x.shape)
    shape = list(x.shape)
    shape[axis] = 1
    at = index % x.shape[axis]
    return Slice(axis, at, at + 1, 1, x.shape[axis]).write(x, emit.reshape(source, shape))


@raw_rule("aten.diagonal_scatter")
def diagonal_scatter(ctx, x, source, offset=0, dim1=0, dim2=1):
    with ctx.mode:
        result = x.clone()
        result.diagonal(offset, dim1, dim2).copy_(source)
    return ctx.value(result)


@raw_rule("aten.block_diag")
def block_diag(ctx, parts):
    with ctx.mode:
        parts = [torch.atleast_2d(each) for each in parts]
    dtype = functools.reduce(torch.promote_types, (each.dtype for each in parts))
    rows, columns = (sum(each.size(axis) for each in parts) for axis in (0, 1))
    result = ctx.fresh(torch.zeros(rows, columns, dtype=dtype))
    row = column = 0
    with ctx.mode:
        for each in parts:
            result[row : row + each.size(0), column : column + each.size(1)] = each
            row, column = row + each.size(0), column + each.size(1)
    return ctx.value(result)


# Factories. Those without a tensor among their arguments are computed as known values; these only
# ask a tensor for its shape and type.


def _made(ctx, x, size, make, dtype, device):
    require_cpu(device)
    return make(tuple(size), dtype=x.dtype if dtype is None else dtype)


@raw_rule("aten.zeros_like", "aten.empty_like")
def zeros_like(ctx, x, dtype=None, device=None, **_):
    return _made(ctx, x, x.shape, torch.zeros, dtype, device)


@raw_rule("aten.ones_like")
def ones_like(ctx, x, dtype=None, device=None, **_):
    return _made(ctx, x, x.shape, torch.ones, dtype, device)


@raw_rule("aten.full_like")
def full_like(ctx, x, value, dtype=None, device=None, **_):
    return _made(ctx, x, x.shape, lambda s, dtype: torch.full(s, value, dtype=dtype), dtype, device)


@raw_rule("aten.new_zeros", "aten.new_empty")
def new_zeros(ctx, x, size, dtype=None, device=None, **_):
    return _made(ctx, x, size, torch.zeros, dtype, device)


@raw_rule("aten.new_empty_strided")
def new_empty_strided(ctx, x, size, stride, dtype=None, device=None, **_):
    return _made(ctx, x, size, torch.zeros, dtype, device)


@raw_rule("aten.new_ones")
def new_ones(ctx, x, size, dtype=None, device=None, **_):
    return _made(ctx, x, size, torch.ones, dtype, device)


@raw_rule("aten.new_full")
def new_full(ctx, x, size, value, dtype=None, device=None, **_):
    return _made(ctx, x, size, lambda s, dtype: torch.full(s, value, dtype=dtype), dtype, device)


@raw_rule("aten.empty.memory_format", eager=False)
def empty(ctx, size, dtype=None, device=None, **_):
    """Memory that is read before it is written would differ from capture to capture."""
    require_cpu(device)
    return torch.zeros(size, dtype=dtype)
