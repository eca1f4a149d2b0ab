"""Random numbers. Every function here gives new numbers in every run, in the order of the trace;
the generator arguments of torch have no influence."""

import torch

from .. import _core
from . import dtypes, emit
from .registry import raw_rule, rule
from .rules_nn import leaky_relu
from .rules_shape import require_cpu


def uniform_of(shape, dtype, low=0.0, high=1.0):
    if not dtypes.is_float(dtype):
        raise _core.InvalidArgument(f"random numbers of type {dtype}; expected a float type")
    return emit.op(
        "random_uniform", shape=list(shape), dtype=dtypes.attribute(dtype), low=low, high=high
    )


def normal_of(shape, dtype, mean=0.0, deviation=1.0):
    attrs = {"mean": mean, "deviation": deviation}
    return emit.op("random_normal", shape=list(shape), dtype=dtypes.attribute(dtype), **attrs)


def _dtype(given, default=None):
    return dtypes.core_name(given) if given is not None else default or dtypes.default_float()


@rule("aten.rand", "aten.rand.generator", eager=False)
def rand(ctx, size, dtype=None, device=None, **_):
    require_cpu(device)
    return uniform_of(size, _dtype(dtype))


@rule("aten.randn", "aten.randn.generator", eager=False)
def randn(ctx, size, dtype=None, device=None, **_):
    require_cpu(device)
    return normal_of(size, _dtype(dtype))


@rule("aten.rand_like", eager=False)
def rand_like(ctx, x, dtype=None, device=None, **_):
    return uniform_of(x.shape, _dtype(dtype, x.dtype))


@rule("aten.randn_like", eager=False)
def randn_like(ctx, x, dtype=None, device=None, **_):
    return normal_of(x.shape, _dtype(dtype, x.dtype))


def _integers(shape, low, high, dtype):
    """Whole numbers from low to before high."""
    if high - low > 2**24:
        numbers = uniform_of(shape, "float64", 0.0, float(high - low))
    else:
        numbers = uniform_of(shape, "float32", 0.0, float(high - low))
    # Rounding may have made the largest numbers equal to the limit.
    limit = emit.scalar(high - low - 1, numbers.dtype)
    numbers = emit.op("minimum", emit.op("floor", numbers), limit)
    return emit.shift(emit.cast(numbers, dtype), low)


@rule("aten.randint", "aten.randint.generator", eager=False)
def randint(ctx, high, size, dtype=None, **_):
    return _integers(size, 0, high, _dtype(dtype, "int64"))


@rule("aten.randint.low", "aten.randint.low_generator", eager=False)
def randint_low(ctx, low, high, size, dtype=None, **_):
    return _integers(size, low, high, _dtype(dtype, "int64"))


@rule("aten.randint_like", eager=False)
def randint_like(ctx, x, high, dtype=None, **_):
    return _integers(x.shape, 0, high, _dtype(dtype, x.dtype))


@rule("aten.randint_like.low_dtype", eager=False)
def randint_like_low(ctx, x, low, high, dtype=None, **_):
    return _integers(x.shape, low, high, _dtype(dtype, x.dtype))


@rule("aten.randperm", "aten.randperm.generator", eager=False)
def randperm(ctx, n, dtype=None, **_):
    if n == 0:
        return emit.cast(emit.iota(0), _dtype(dtype, "int64"))
    places = emit.ops("top_k", [uniform_of([n], "float64")], k=n, axis=0, largest=False)[1]
    return emit.cast(places, _dtype(dtype, "int64"))


@rule("aten.uniform_", eager=False)
def uniform(ctx, x, low=0.0, high=1.0, **_):
    return uniform_of(x.shape, x.dtype, low, high)


@rule("aten.normal_", eager=False)
def normal(ctx, x, mean=0.0, std=1.0, **_):
    return normal_of(x.shape, x.dtype, mean, std)


@rule(
    "aten.normal.Tensor_Tensor",
    "aten.normal.Tensor_float",
    "aten.normal.float_Tensor",
    eager=False,
)
def normal_around(ctx, mean, std=1.0, **_):
    tensors = [each for each in (mean, std) if isinstance(each, _core.Tensor)]
    dtype = tensors[0].dtype
    shape = torch.broadcast_shapes(*(each.shape for each in tensors))
    numbers = emit.mul(normal_of(shape, dtype), emit.tensor(std, dtype))
    return emit.op("detach", emit.add(numbers, emit.tensor(mean, dtype)))


@rule("aten.normal.float_float", eager=False)
def normal_sized(ctx, mean, std, size, dtype=None, **_):
    return normal_of(size, _dtype(dtype), mean, std)


@rule("aten.exponential_", eager=False)
def exponential(ctx, x, rate=1.0, **_):
    # 1 - u is never 0.
    numbers = uniform_of(x.shape, x.dtype)
    kept = emit.op("log", emit.sub(emit.scalar(1, x.dtype), numbers))
    return emit.scale(kept, -1 / rate)


def _chosen(shape, probability, dtype):
    """1 with the probability, else 0."""
    wide = probability.dtype if isinstance(probability, _core.Tensor) else "float32"
    below = emit.op("less", uniform_of(shape, wide), emit.tensor(probability, wide))
    return emit.cast(below, dtype)


@rule("aten.bernoulli", eager=False)
def bernoulli(ctx, x, **_):
    return _chosen(x.shape, x, x.dtype)


@rule("aten.bernoulli.p", "aten.bernoulli_.float", eager=False)
def bernoulli_p(ctx, x, p=0.5, **_):
    return _chosen(x.shape, float(p), x.dtype)


@rule("aten.bernoulli_.Tensor", eager=False)
def bernoulli_tensor(ctx, x, p, **_):
    return _chosen(x.shape, p, x.dtype)


@rule("aten.multinomial", eager=False)
def multinomial(ctx, x, count, replacement=False, **_):
    """The largest of log p + Gumbel noise are a sample without replacement."""
    rows = x if len(x.shape) == 2 else emit.reshape(x, [1, *x.shape])
    drawn = count if replacement else 1
    shape = [rows.shape[0], drawn, rows.shape[1]]
    noise = emit.op("log", exponential(ctx, emit.full(shape, 0, x.dtype)))
    scores = emit.sub(emit.op("log", emit.reshape(rows, [rows.shape[0], 1, rows.shape[1]])), noise)
    if replacement:
        places = emit.op("argmax", scores, axis=2)
    else:
        scores = emit.reshape(scores, rows.shape)
        places = emit.ops("top_k", [scores], k=count, axis=1, largest=True)[1]
    return places if len(x.shape) == 2 else emit.reshape(places, [count])


# Dropout. Where it does nothing, the result is the argument itself, as in torch.


def dropped(x, p):
    """Every element of a `_core.Tensor` is dropped with probability p."""
    if p == 0:
        return x
    if p == 1:
        return emit.mul(x, emit.scalar(0, x.dtype))
    (x,) = emit.resolve("dropout", x)
    return emit.op("dropout", x, p=p)


@raw_rule("aten.dropout", eager=False)
def dropout(ctx, x, p, train):
    return dropped(ctx.value(x), p) if train and p > 0 else ctx.symbolic(x)


@raw_rule("aten.feature_dropout", eager=False)
def feature_dropout(ctx, x, p, train):
    if not train or p == 0:
        return ctx.symbolic(x)
    if p == 1:
        return dropped(ctx.value(x), p)
    shape = [*x.shape[:2], *[1] * (x.dim() - 2)]
    return emit.op("shaped_dropout", ctx.value(x), shape=shape, ratio=p)


@rule("aten.rrelu", eager=False)
def rrelu(ctx, x, lower=0.125, upper=1 / 3, training=False, **_):
    if not training:
        return leaky_relu(ctx, x, (lower + upper) / 2)
    slopes = uniform_of(x.shape, x.dtype, lower, upper)
    negative = emit.op("less", x, emit.scalar(0, x.dtype))
    return emit.where(negative, emit.mul(x, slopes), x)
