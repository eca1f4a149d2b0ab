"""Reductions, sorting and running sums."""

import math

from . import dtypes, emit
from .registry import rule
from .rules_logs import log_of_sum
from .rules_math import common, floating, truth


def _axes(dim):
    if dim is None:
        return []
    return [dim] if isinstance(dim, int) else list(dim)


def _typed(x, dtype):
    return x if dtype is None else emit.cast(x, dtypes.core_name(dtype))


def _counted(x, dtype):
    """Sums and products of integers are int64."""
    if dtype is None and not dtypes.is_float(x.dtype):
        return emit.cast(x, "int64")
    return _typed(x, dtype)


def _reduced_shape(x, dim):
    rank = len(x.shape)
    axes = [emit.axis_of(a, rank) for a in _axes(dim)] or range(rank)
    return math.prod(x.shape[a] for a in axes) if rank else 1


@rule("aten.sum", "aten.sum.dim_IntList")
def total(ctx, x, dim=None, keepdim=False, dtype=None):
    (x,) = emit.resolve("sum", x)
    return emit.reduce("reduce_sum", _counted(x, dtype), _axes(dim), keepdim)


@rule("aten.nansum")
def nansum(ctx, x, dim=None, keepdim=False, dtype=None):
    if dtypes.is_float(x.dtype):
        x = emit.where(emit.op("is_nan", x), emit.scalar(0, x.dtype), x)
    return total(ctx, x, dim, keepdim, dtype)


@rule("aten.mean", "aten.mean.dim")
def mean(ctx, x, dim=None, keepdim=False, dtype=None):
    (x,) = emit.resolve("mean", x)
    return emit.reduce("reduce_mean", _typed(x, dtype), _axes(dim), keepdim)


@rule("aten.prod", "aten.prod.dim_int")
def product(ctx, x, dim=None, keepdim=False, dtype=None):
    return emit.reduce("reduce_prod", _counted(x, dtype), _axes(dim), keepdim)


def _extreme(x, name, axes, keep):
    if x.dtype == "bool":
        return truth(emit.reduce(name, emit.cast(x, "int32"), axes, keep))
    return emit.reduce(name, x, axes, keep)


@rule("aten.amax", "aten.max")
def amax(ctx, x, dim=(), keepdim=False):
    (x,) = emit.resolve("max", x)
    return _extreme(x, "reduce_max", _axes(dim), keepdim)


@rule("aten.amin", "aten.min")
def amin(ctx, x, dim=(), keepdim=False):
    return _extreme(x, "reduce_min", _axes(dim), keepdim)


@rule("aten.aminmax")
def aminmax(ctx, x, dim=None, keepdim=False):
    return tuple(_extreme(x, f"reduce_{n}", _axes(dim), keepdim) for n in ("min", "max"))


def _position(x, dim, keepdim, smallest=False):
    """argmax or argmin as int64; without an axis, in the flattened tensor."""
    if x.dtype == "bool":
        x = emit.cast(x, "int32")
    keep_shape = [1] * len(x.shape) if keepdim else []
    if dim is None or len(x.shape) == 0:
        x = emit.reshape(x, [emit.elements(x.shape)])
        found = _position(x, 0, False, smallest)
        return emit.reshape(found, keep_shape)
    if smallest:
        x = emit.op("neg", x) if dtypes.is_float(x.dtype) else emit.op("bitwise_not", x)
    return emit.op("argmax", x, axis=emit.axis_of(dim, len(x.shape)), keepDims=bool(keepdim))


@rule("aten.argmax")
def argmax(ctx, x, dim=None, keepdim=False):
    return _position(x, dim, keepdim)


@rule("aten.argmin")
def argmin(ctx, x, dim=None, keepdim=False):
    return _position(x, dim, keepdim, smallest=True)


def pick(x, places, dim, keepdim):
    """The elements at these places of an axis, which the places keep with extent 1."""
    values = emit.op("gather_elements", x, places, axis=dim)
    if not keepdim:
        shape = [n for i, n in enumerate(x.shape) if i != dim]
        values, places = emit.reshape(values, shape), emit.reshape(places, shape)
    return values, places


@rule("aten.max.dim")
def max_dim(ctx, x, dim, keepdim=False):
    return _best(x, dim, keepdim, False)


@rule("aten.min.dim")
def min_dim(ctx, x, dim, keepdim=False):
    return _best(x, dim, keepdim, True)


def _best(x, dim, keepdim, smallest):
    if len(x.shape) == 0:
        return x, emit.scalar(0, "int64")
    dim = emit.axis_of(dim, len(x.shape))
    return pick(x, _position(x, dim, True, smallest), dim, keepdim)


def _any(x, axes, keepdim):
    return truth(emit.reduce("reduce_max", emit.cast(truth(x), "int32"), axes, keepdim))


@rule("aten.any", "aten.any.dim", "aten.any.dims")
def any_of(ctx, x, dim=None, keepdim=False):
    return _like_torch(x, _any(x, _axes(dim), keepdim))


@rule("aten.all", "aten.all.dim", "aten.all.dims")
def all_of(ctx, x, dim=None, keepdim=False):
    ones = emit.cast(truth(x), "int32")
    return _like_torch(x, truth(emit.reduce("reduce_min", ones, _axes(dim), keepdim)))


def _like_torch(x, result):
    """torch answers in uint8 for uint8, and in bool for all other types."""
    return emit.cast(result, "uint8") if x.dtype == "uint8" else result


@rule("aten.count_nonzero.dim_IntList", "aten.count_nonzero")
def count_nonzero(ctx, x, dim=None):
    return emit.reduce("reduce_sum", emit.cast(truth(x), "int64"), _axes(dim))


@rule("aten.logsumexp")
def logsumexp(ctx, x, dim, keepdim=False):
    return emit.reduce("reduce_log_sum_exp", floating(x), _axes(dim), keepdim)


# Variance.


def _wide(x):
    """x in a type whose squares and sums neither overflow nor vanish."""
    return emit.cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x


def _variance(x, dim, correction, keepdim):
    """The variance and the mean, in a wide type."""
    x, axes = _wide(x), _axes(dim)
    count = _reduced_shape(x, dim)
    centre = emit.reduce("reduce_mean", x, axes, True)
    squares = emit.op("square", emit.sub(x, centre))
    freedom = max(count - (1 if correction is None else correction), 0)
    total = emit.reduce("reduce_sum", squares, axes, keepdim)
    variance = emit.div(total, emit.scalar(freedom, x.dtype))
    return variance, centre if keepdim else emit.reshape(centre, variance.shape)


@rule("aten.var.correction")
def var(ctx, x, dim=None, correction=1, keepdim=False):
    return emit.cast(_variance(x, dim, correction, keepdim)[0], x.dtype)


@rule("aten.std.correction")
def std(ctx, x, dim=None, correction=1, keepdim=False):
    return emit.cast(_root(_variance(x, dim, correction, keepdim)[0]), x.dtype)


@rule("aten.var_mean.correction")
def var_mean(ctx, x, dim=None, correction=1, keepdim=False):
    return tuple(emit.cast(each, x.dtype) for each in _variance(x, dim, correction, keepdim))


@rule("aten.std_mean.correction")
def std_mean(ctx, x, dim=None, correction=1, keepdim=False):
    variance, centre = _variance(x, dim, correction, keepdim)
    return emit.cast(_root(variance), x.dtype), emit.cast(centre, x.dtype)


# Norms.


def _root(x):
    """The square root with gradient 0 at 0, as torch's norms and deviations have it."""
    zero = emit.scalar(0, x.dtype)
    is_zero = emit.op("equal", x, zero)
    safe = emit.where(is_zero, emit.scalar(1, x.dtype), x)
    return emit.where(is_zero, zero, emit.op("sqrt", safe))


def vector_norm(x, order, axes, keep):
    return emit.cast(_norm(_wide(x), order, axes, keep), x.dtype)


def _norm(x, order, axes, keep):
    if order == 2:
        return _root(emit.reduce("reduce_sum", emit.op("square", x), axes, keep))
    if order == 0:
        nonzero = emit.op("not_equal", x, emit.scalar(0, x.dtype))
        return emit.reduce("reduce_sum", emit.cast(nonzero, x.dtype), axes, keep)
    size = emit.op("abs", x)
    if order == math.inf:
        return emit.reduce("reduce_max", size, axes, keep)
    if order == -math.inf:
        return emit.reduce("reduce_min", size, axes, keep)
    if order == 1:
        return emit.reduce("reduce_sum", size, axes, keep)
    powers = emit.op("pow", size, emit.scalar(order, x.dtype))
    total = emit.reduce("reduce_sum", powers, axes, keep)
    return emit.op("pow", total, emit.scalar(1 / order, x.dtype))


@rule(
    "aten.norm.Scalar",
    "aten.norm.ScalarOpt_dim",
    "aten.norm.ScalarOpt_dtype",
    "aten.norm.ScalarOpt_dim_dtype",
)
def norm(ctx, x, p=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(_typed(x, dtype), 2 if p is None else p, _axes(dim), keepdim)


@rule("aten.linalg_vector_norm")
def linalg_vector_norm(ctx, x, ord=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(_typed(floating(x), dtype), ord, _axes(dim), keepdim)


@rule("aten.dist")
def dist(ctx, x, y, p=2):
    return vector_norm(emit.sub(*common(None, x, y)), p, [], False)


@rule("aten._cdist_forward")
def cdist(ctx, x, y, p, compute_mode=None):
    x, y = common(None, x, y)
    left = emit.reshape(x, [*x.shape[:-1], 1, x.shape[-1]])
    right = emit.reshape(y, [*y.shape[:-2], 1, *y.shape[-2:]])
    apart = emit.sub(left, right)
    return vector_norm(apart, p, [len(apart.shape) - 1], False)


# Sorting.


def _sorted(x, k, dim, largest):
    kind = x.dtype
    if kind == "bool":
        x = emit.cast(x, "int32")
    if len(x.shape) == 0:
        return emit.cast(x, kind), emit.scalar(0, "int64")
    axis = emit.axis_of(dim, len(x.shape))
    values, places = emit.ops("top_k", [x], k=k, axis=axis, largest=bool(largest))
    return emit.cast(values, kind), places


@rule("aten.topk")
def topk(ctx, x, k, dim=-1, largest=True, sorted=True):
    return _sorted(x, k, dim, largest)


@rule("aten.sort")
def sort(ctx, x, dim=-1, descending=False):
    return _sorted(x, x.shape[dim] if x.shape else 1, dim, descending)


@rule("aten.sort.stable")
def sort_stable(ctx, x, stable=None, dim=-1, descending=False):
    return sort(ctx, x, dim, descending)


@rule("aten.kthvalue")
def kthvalue(ctx, x, k, dim=-1, keepdim=False):
    axis = emit.axis_of(dim, len(x.shape))
    _, places = _sorted(x, k, axis, False)
    return pick(x, emit.cut(places, axis, k - 1, k), axis, keepdim)


@rule("aten.median.dim")
def median_dim(ctx, x, dim, keepdim=False):
    if len(x.shape) == 0:
        return x, emit.scalar(0, "int64")
    axis = emit.axis_of(dim, len(x.shape))
    k = (x.shape[axis] + 1) // 2
    places = emit.cut(_sorted(x, k, axis, False)[1], axis, k - 1, k)
    if dtypes.is_float(x.dtype):  # the first NaN is the median
        is_nan = emit.cast(emit.op("is_nan", x), "int32")
        found = truth(emit.reduce("reduce_max", is_nan, [axis], True))
        places = emit.where(found, _position(is_nan, axis, True), places)
    return pick(x, places, axis, keepdim)


@rule("aten.median")
def median(ctx, x):
    flat = emit.reshape(x, [emit.elements(x.shape)])
    return median_dim(ctx, flat, 0)[0]


@rule("aten.nanmedian.dim")
def nanmedian_dim(ctx, x, dim, keepdim=False):
    """NaN comes last, and does not count."""
    if len(x.shape) == 0 or not dtypes.is_float(x.dtype):
        return median_dim(ctx, x, dim, keepdim)
    axis = emit.axis_of(dim, len(x.shape))
    numbers = emit.cast(emit.op("logical_not", emit.op("is_nan", x)), "int64")
    count = emit.reduce("reduce_sum", numbers, [axis], True)
    middle = emit.div(emit.shift(count, -1), emit.scalar(2, "int64"))  # 0 if there are none
    places = _sorted(x, x.shape[axis], axis, False)[1]
    return pick(x, emit.op("gather_elements", places, middle, axis=axis), axis, keepdim)


@rule("aten.nanmedian")
def nanmedian(ctx, x):
    flat = emit.reshape(x, [emit.elements(x.shape)])
    return nanmedian_dim(ctx, flat, 0)[0]


# Running sums and products.


def _running(state, axis, extent, join):
    """Running results of `join`, which takes the state of what comes before and that of what follows.
    Distances are doubled: after step i every element stands for the last 2^i."""
    distance = 1
    while distance < extent:
        before = [emit.cut(each, axis, 0, extent - distance) for each in state]
        joined = join(before, [emit.cut(each, axis, distance, extent) for each in state])
        kept = [emit.cut(each, axis, 0, distance) for each in state]
        state = [emit.concat(list(each), axis) for each in zip(kept, joined)]
        distance *= 2
    return state


def _running_extreme(x, dim, smallest):
    """The last of equal elements counts, and a NaN from its place on."""
    if len(x.shape) == 0:
        return x, emit.scalar(0, "int64")
    axis = emit.axis_of(dim, len(x.shape))
    extent = x.shape[axis]

    def join(before, after):
        later = emit.op("less_equal" if smallest else "greater_equal", after[0], before[0])
        if dtypes.is_float(after[0].dtype):
            later = emit.op("logical_or", later, emit.op("is_nan", after[0]))
        return [emit.where(later, b, a) for a, b in zip(before, after)]

    numbers = emit.op("detach", x) if dtypes.is_float(x.dtype) else emit.cast(x, "int64")
    line = [extent if i == axis else 1 for i in range(len(x.shape))]
    places = emit.broadcast(emit.reshape(emit.iota(extent), line), x.shape)
    _, places = _running([numbers, places], axis, extent, join)
    return emit.op("gather_elements", x, places, axis=axis), places


@rule("aten.cummax")
def cummax(ctx, x, dim):
    return _running_extreme(x, dim, False)


@rule("aten.cummin")
def cummin(ctx, x, dim):
    return _running_extreme(x, dim, True)


@rule("aten.logcumsumexp")
def logcumsumexp(ctx, x, dim):
    if len(x.shape) == 0:
        return emit.op("identity", x)
    axis = emit.axis_of(dim, len(x.shape))
    return _running([x], axis, x.shape[axis], lambda before, after: [log_of_sum(*before, *after)])[0]


@rule("aten.cumsum")
def cumsum(ctx, x, dim, dtype=None):
    x = _counted(x, dtype)
    if len(x.shape) == 0:
        return x
    return emit.op("cumsum", x, axis=emit.axis_of(dim, len(x.shape)))


@rule("aten.cumprod")
def cumprod(ctx, x, dim, dtype=None):
    x = _counted(x, dtype)
    if len(x.shape) == 0:
        return x
    axis = emit.axis_of(dim, len(x.shape))
    return _running([x], axis, x.shape[axis], lambda before, after: [emit.mul(*after, *before)])[0]


@rule("aten.trace")
def trace_of(ctx, x):
    rows, columns = x.shape
    n = min(rows, columns)
    flat = emit.reshape(x, [rows * columns])
    places = emit.scale(emit.iota(n), columns + 1)
    picked = emit.op("gather", flat, places, axis=0)
    return emit.reduce("reduce_sum", _counted(picked, None))


@rule("aten._softmax", "aten.softmax.int")
def softmax(ctx, x, dim, dtype=None):
    return _over(x, "softmax", dim, dtype)


@rule("aten._log_softmax", "aten.log_softmax.int")
def log_softmax(ctx, x, dim, dtype=None):
    return _over(x, "log_softmax", dim, dtype)


def _over(x, op, dim, dtype):
    if dtype is not None and not isinstance(dtype, bool):
        x = emit.cast(x, dtypes.core_name(dtype))
    (x,) = emit.resolve(op, x)
    if len(x.shape) == 0:
        return emit.reshape(emit.op(op, emit.reshape(x, [1]), axis=0), [])
    return emit.op(op, x, axis=emit.axis_of(dim, len(x.shape)))
