"""Reading and writing at computed places."""

import torch

from .. import _core
from . import dtypes, emit
from .registry import raw_rule, refuse, rule
from .rules_math import floor_divide

# What data decide.

refuse(
    "the value of a tensor decides what Python does next, but it is known only when the model runs",
    "aten._local_scalar_dense",
    "aten.allclose",
    "aten.equal",
    "aten.is_nonzero",
)
refuse(
    "max_norm writes the table in forward, and in a model only the optimizer changes weights; scale the rows "
    "where they are used, or write the table between the calls",
    "aten.embedding_renorm_",
)
_SHAPE_BY_VALUES = (
    "the shape of the result depends on the values of a tensor, which are known only when the "
    "model runs; use masks (torch.where) instead"
)
refuse(
    _SHAPE_BY_VALUES,
    "aten.nonzero",
    "aten.nonzero_numpy",
    "aten.unique_dim",
    "aten._unique",
    "aten._unique2",
    "aten.unique_consecutive",
    "aten.unique_dim_consecutive",
    "aten.repeat_interleave.Tensor",
)


@raw_rule("aten.masked_select")
def masked_select(ctx, x, mask):
    if ctx.known(mask) is None:
        raise _core.Unsupported(_SHAPE_BY_VALUES)
    with ctx.mode:
        x, mask = torch.broadcast_tensors(x, mask)
        return ctx.value(x[mask])


@rule("aten.masked_scatter")
def masked_scatter(ctx, x, mask, source):
    """The n-th place of the mask takes the n-th element of the source."""
    mask = emit.broadcast(mask, x.shape)
    flat = emit.reshape(emit.cast(mask, "int64"), [emit.elements(x.shape)])
    number = emit.shift(emit.op("cumsum", flat, axis=0), -1)
    first = emit.op("maximum", number, emit.scalar(0, "int64"))  # before the first place
    taken = emit.op("gather", emit.reshape(source, [emit.elements(source.shape)]), first, axis=0)
    return emit.where(mask, emit.reshape(taken, x.shape), x)


@rule("aten.gather")
def gather(ctx, x, dim, index, sparse_grad=False):
    if len(x.shape) == 0:
        return emit.op("identity", x)
    axis = dim % len(x.shape)
    for other, extent in enumerate(index.shape):
        if other != axis:
            x = emit.cut(x, other, 0, extent)
    return emit.op("gather_elements", x, index, axis=axis)


@rule("aten.index_select")
def index_select(ctx, x, dim, index):
    if len(x.shape) == 0:
        return emit.op("identity", x)
    index = emit.reshape(index, [emit.elements(index.shape)])
    return emit.op("gather", x, index, axis=dim % len(x.shape))


@rule("aten.take")
def take(ctx, x, index):
    return emit.op("gather", emit.reshape(x, [emit.elements(x.shape)]), index, axis=0)


# Scattering.


def _scatter(x, dim, index, source, reduction):
    """The elements of source that have an index go to x."""
    if len(x.shape) == 0:
        x, index, source = (emit.reshape(each, [1]) for each in (x, index, source))
        return emit.reshape(_scatter(x, 0, index, source, reduction), [])
    axis = dim % len(x.shape)
    for other, extent in enumerate(index.shape):
        source = emit.cut(source, other, 0, extent)
    return _within(x, axis, index, source, reduction)


def _within(x, axis, index, source, reduction):
    """scatter_elements for an index that is smaller than x along other axes too."""
    attrs = {"axis": axis} if reduction == "none" else {"axis": axis, "reduction": reduction}
    smaller = [
        i for i, (n, m) in enumerate(zip(index.shape, x.shape)) if i != axis and n < m
    ]
    part = x
    for i in smaller:
        part = emit.cut(part, i, 0, index.shape[i])
    written = emit.op("scatter_elements", part, index, source, **attrs)
    for i in reversed(smaller):
        whole = x
        for j in smaller:
            if j < i:
                whole = emit.cut(whole, j, 0, index.shape[j])
        rest = emit.cut(whole, i, index.shape[i], x.shape[i])
        written = emit.concat([written, rest], i)
    return written


@rule("aten.scatter.src")
def scatter(ctx, x, dim, index, source):
    return _scatter(x, dim, index, source, "none")


@rule("aten.scatter.value")
def scatter_value(ctx, x, dim, index, value):
    return _scatter(x, dim, index, emit.full(index.shape, value, x.dtype), "none")


_REDUCTIONS = {"add": "add", "multiply": "mul"}


@rule("aten.scatter.reduce")
def scatter_with(ctx, x, dim, index, source, reduce):
    return _scatter(x, dim, index, source, _REDUCTIONS[reduce])


@rule("aten.scatter.value_reduce")
def scatter_value_with(ctx, x, dim, index, value, reduce):
    source = emit.full(index.shape, value, x.dtype)
    return _scatter(x, dim, index, source, _REDUCTIONS[reduce])


@rule("aten.scatter_add")
def scatter_add(ctx, x, dim, index, source):
    return _scatter(x, dim, index, source, "add")


_REDUCE = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def _neutral(reduce, dtype):
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    info = (torch.finfo if dtypes.is_float(dtype) else torch.iinfo)(dtypes.torch_type(dtype))
    if dtypes.is_float(dtype):
        return float("-inf") if reduce == "amax" else float("inf")
    return info.min if reduce == "amax" else info.max


def _reduced(x, scatter_into, reduce, include_self):
    """Scatters with a reduction. `scatter_into(start, kind, source or number)` does one scatter.
    Places that get nothing keep x."""
    start = x
    touched = None
    if not include_self or reduce == "mean":
        counts = scatter_into(emit.full(x.shape, 0, x.dtype), "add", 1)
        touched = emit.op("not_equal", counts, emit.scalar(0, x.dtype))
    if not include_self:
        start = emit.where(touched, emit.scalar(_neutral(reduce, x.dtype), x.dtype), x)
    result = scatter_into(start, _REDUCE[reduce], None)
    if reduce == "mean":
        least = emit.scalar(1, x.dtype)
        count = emit.add(counts, least) if include_self else emit.op("maximum", counts, least)
        is_float = dtypes.is_float(x.dtype)
        result = emit.div(result, count) if is_float else floor_divide(None, result, count)
    return result if include_self else emit.where(touched, result, x)


@rule("aten.scatter_reduce.two")
def scatter_reduce(ctx, x, dim, index, source, reduce, include_self=True):
    def into(start, kind, number):
        values = source if number is None else emit.full(index.shape, number, x.dtype)
        return _scatter(start, dim, index, values, kind)

    return _reduced(x, into, reduce, include_self)


def _along(x, dim, index, source, kind):
    """Scatters whole slices: index has one entry per slice of source."""
    axis = emit.axis_of(dim, len(x.shape))
    shape = [1] * max(len(x.shape), 1)
    shape[axis] = emit.elements(index.shape)
    places = emit.broadcast(emit.reshape(index, shape), source.shape)
    return _scatter(x, axis, places, source, kind)


@rule("aten.index_add")
def index_add(ctx, x, dim, index, source, alpha=1):
    if dtypes.is_float(x.dtype) and len(x.shape) > 0:
        axis = dim % len(x.shape)
        return emit.op("scatter_add", x, index, emit.scale(source, alpha), axis=axis)
    return _along(x, dim, index, emit.scale(source, alpha), "add")


@rule("aten.index_copy")
def index_copy(ctx, x, dim, index, source):
    return _along(x, dim, index, source, "none")


@rule("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(ctx, x, dim, index, value):
    shape = list(x.shape)
    shape[dim] = emit.elements(index.shape)
    source = emit.broadcast(emit.tensor(value, x.dtype), shape)
    return _along(x, dim, index, source, "none")


@rule("aten.index_reduce")
def index_reduce(ctx, x, dim, index, source, reduce, include_self=True):
    def into(start, kind, number):
        values = source if number is None else emit.full(source.shape, number, x.dtype)
        return _along(start, dim, index, values, kind)

    return _reduced(x, into, reduce, include_self)


# Advanced indexing: x[i, :, j].


def _index_tensors(ctx, indices):
    """Known masks become positions; masks that are not known decide the shape."""
    found = []
    for each in indices:
        if each is None or each.dtype not in (torch.bool, torch.uint8):
            found.append(each)
            continue
        mask = ctx.known(each)
        if mask is None:
            raise _core.Unsupported(
                "a mask that is known only when the model runs selects elements, so that the shape "
                "of the result depends on data; use torch.where or masked_fill"
            )
        found.extend(mask.nonzero().unbind(1))
    return found


def _within_axis(index, extent):
    """The index counted from the front; an error in the run if it is none of the axis."""
    return emit.op("gather", emit.iota(extent), index, axis=0)


class _Index:
    """x[indices] as one gather along the first axis: the indexed axes of x are moved to the front
    and joined, and the indices become one flat index."""

    def __init__(self, ctx, shape, indices):
        indices = _index_tensors(ctx, indices)
        rank = len(shape)
        self.axes = [i for i, each in enumerate(indices) if each is not None]
        self.others = [i for i in range(rank) if i not in self.axes]
        self.shape = shape
        values = [ctx.value(indices[i]) for i in self.axes]
        self.extents = [shape[i] for i in self.axes]
        self.result = list(torch.broadcast_shapes(*(v.shape for v in values)))
        self.flat = self._flatten(values)
        joined = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.front = self.axes[0] if joined else 0

    def _flatten(self, values):
        total = None
        for value, extent in zip(values, self.extents):
            value = emit.cast(value, "int64")
            if len(values) > 1:  # what reads or writes by a single index checks it itself
                value = _within_axis(value, extent)
            total = value if total is None else emit.add(emit.scale(total, extent), value)
        total = emit.broadcast(total, self.result)
        return emit.reshape(total, [emit.elements(self.result)])

    def rows(self, x):
        """x as [indexed, rest...]."""
        x = emit.transpose(x, [*self.axes, *self.others])
        rest = [self.shape[i] for i in self.others]
        return emit.reshape(x, [emit.elements(self.extents), *rest])

    def unrows(self, x):
        order = [*self.axes, *self.others]
        x = emit.reshape(x, [self.shape[i] for i in order])
        back = [order.index(i) for i in range(len(order))]
        return emit.transpose(x, back)

    def out_shape(self):
        rest = [self.shape[i] for i in self.others]
        return [*rest[: self.front], *self.result, *rest[self.front :]]

    def place(self, picked):
        """[index, rest...] to the shape of the result."""
        picked = emit.reshape(picked, [*self.result, *picked.shape[1:]])
        return emit.transpose(picked, self._order())

    def _order(self):
        n, rest = len(self.result), len(self.others)
        before = range(n, n + self.front)
        return [*before, *range(n), *range(n + self.front, n + rest)]

    def unplace(self, values):
        """The inverse of place, for values of the result's shape."""
        order = self._order()
        values = emit.transpose(values, [order.index(i) for i in range(len(order))])
        rest = [self.shape[i] for i in self.others]
        return emit.reshape(values, [emit.elements(self.result), *rest])


@raw_rule("aten.index.Tensor")
def index(ctx, x, indices):
    plan = _Index(ctx, tuple(x.shape), indices)
    return plan.place(emit.op("gather", plan.rows(ctx.value(x)), plan.flat, axis=0))


@raw_rule("aten.index_put")
def index_put(ctx, x, indices, values, accumulate=False):
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and mask.dtype == torch.bool and ctx.known(mask) is None:
        return _put_mask(ctx, x, mask, values, accumulate)
    plan = _Index(ctx, tuple(x.shape), indices)
    values = emit.cast(ctx.value(values), dtypes.core_name(x.dtype))
    values = plan.unplace(emit.broadcast(values, plan.out_shape()))
    rows = plan.rows(ctx.value(x))
    kind = "add" if accumulate else "none"
    return plan.unrows(_along(rows, 0, plan.flat, values, kind))


def _put_mask(ctx, x, mask, values, accumulate):
    """x[mask] = values is a choice if the values do not depend on how many are chosen."""
    if values.numel() != 1:
        raise _core.Unsupported(
            "x[mask] = values with a mask that is known only when the model runs needs a single "
            "value; use torch.where"
        )
    value = emit.reshape(emit.cast(ctx.value(values), dtypes.core_name(x.dtype)), [])
    test = ctx.value(mask)
    test = emit.reshape(test, [*test.shape, *[1] * (x.dim() - mask.dim())])
    old = ctx.value(x)
    return emit.where(test, emit.add(old, value) if accumulate else value, old)


# Tables.


@rule("aten.embedding")
def embedding(ctx, table, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if scale_grad_by_freq:
        raise _core.Unsupported("scale_grad_by_freq is not supported")
    (table,) = emit.resolve("embedding", table)
    rows = emit.op("gather", table, index, axis=0)
    if padding_idx is None or padding_idx < 0 or not ctx.training:
        return rows
    # The row of the padding gets no gradient.
    padding = emit.op("equal", index, emit.scalar(padding_idx, index.dtype))
    padding = emit.reshape(padding, [*index.shape, 1])
    return emit.where(padding, emit.op("detach", rows), rows)


@raw_rule("aten.one_hot")
def one_hot(ctx, index, num_classes=-1):
    if num_classes < 0:
        raise _core.Unsupported("one_hot of a tensor that is not known needs num_classes")
    index = _within_axis(ctx.value(index), num_classes)
    return emit.op("one_hot", index, depth=num_classes, dtype="i64")


@rule("aten.bucketize.Tensor")
def bucketize(ctx, x, boundaries, out_int32=False, right=False):
    x, boundaries = (emit.cast(each, dtypes.promote(x, boundaries)) for each in (x, boundaries))
    found = emit.op("bucketize", x, boundaries, right=bool(right))
    return emit.cast(found, "int32" if out_int32 else "int64")


@rule("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(ctx, rows, x, out_int32=False, right=False, side=None, sorter=None):
    """One row of boundaries serves all numbers; else every row of numbers has a row of its own."""
    if sorter is not None:
        raise _core.Unsupported("searchsorted with a sorter: gather the boundaries in its order")
    right = side == "right" if side is not None else bool(right)
    dtype = dtypes.promote(x, rows)
    x, rows = emit.tensor(x, dtype), emit.cast(rows, dtype)
    if len(rows.shape) == 1:
        found = emit.op("bucketize", x, rows, right=right)
    else:
        each = emit.reshape(x, [*x.shape, 1])
        rows = emit.reshape(rows, [*rows.shape[:-1], 1, rows.shape[-1]])
        before = emit.op("logical_not", emit.op("greater" if right else "greater_equal", rows, each))  # NaN: all
        found = emit.reduce("reduce_sum", emit.cast(before, "int64"), [len(x.shape)])
    return emit.cast(found, "int32" if out_int32 else "int64")


@raw_rule("aten.bincount")
def bincount(ctx, x, weights=None, minlength=0):
    if minlength <= 0:
        raise _core.Unsupported(
            "bincount of a tensor that is not known needs minlength, one more than the largest "
            "number; larger ones are not counted"
        )
    index = ctx.value(x)
    if weights is None:
        hot = emit.op("one_hot", index, depth=minlength, dtype="i64")
        return emit.reduce("reduce_sum", hot, [0])
    weights = ctx.value(weights)
    if weights.dtype != "float32":
        weights = emit.cast(weights, "float64")
    hot = emit.op("one_hot", index, depth=minlength, dtype=dtypes.attribute(weights.dtype))
    weighted = emit.mul(hot, emit.reshape(weights, [*weights.shape, 1]))
    return emit.reduce("reduce_sum", weighted, [0])
