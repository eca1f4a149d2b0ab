"""Logarithms, powers of 2, and functions made of them."""

import math

from . import emit
from .registry import rule
from .rules_math import common, common_floats, floating


def _logarithm(name, base):
    @rule(f"aten.{name}.default")
    def apply(ctx, x):
        x = floating(x)
        y = emit.scale(emit.op("log", x), 1 / math.log(base))
        # Powers of the base have whole logarithms, as floor() of them expects. Gradients do not see this.
        whole = emit.op("round", y)
        missing = emit.sub(whole, y)
        power = emit.op("pow", emit.scalar(base, x.dtype), whole)
        exact = emit.op("logical_and", emit.op("equal", power, x), emit.op("equal", missing, missing))
        missing = emit.where(exact, missing, emit.scalar(0, x.dtype))
        return emit.add(y, emit.op("detach", missing))


_logarithm("log2", 2)
_logarithm("log10", 10)


@rule("aten.exp2.default")
def exp2(ctx, x):
    x = floating(x)
    return emit.op("pow", emit.scalar(2, x.dtype), x)


@rule("aten.logit.default")
def logit(ctx, x, eps=None):
    x = floating(x)
    if eps is not None:
        x = emit.op("clamp", x, low=eps, high=1 - eps)
    return emit.op("log", emit.div(x, emit.sub(emit.scalar(1, x.dtype), x)))


def log_of_sum(x, y):
    """log(exp(x) + exp(y)), from the larger one, so that both have a gradient where they are equal."""
    zero = emit.scalar(0, x.dtype)
    infinite = emit.op("logical_and", emit.op("equal", x, y), emit.op("is_inf", x))
    apart = emit.where(infinite, zero, emit.sub(x, y))
    from_x = emit.add(x, emit.op("softplus", emit.op("neg", apart)))
    from_y = emit.add(y, emit.op("softplus", apart))
    infinite_x = emit.where(infinite, x, from_x)
    return emit.where(emit.op("greater_equal", x, y), infinite_x, from_y)


@rule("aten.logaddexp")
def logaddexp(ctx, x, y):
    return log_of_sum(*common(None, x, y))


@rule("aten.logaddexp2")
def logaddexp2(ctx, x, y):
    x, y = common(None, x, y)
    return emit.scale(log_of_sum(emit.scale(x, math.log(2)), emit.scale(y, math.log(2))), 1 / math.log(2))


@rule("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other")
def xlogy(ctx, x, y):
    x, y = common_floats(None, x, y)
    zero = emit.scalar(0, x.dtype)
    # Where it does not count, the logarithm must be finite, or the gradient would be NaN.
    endless = emit.op("logical_or", emit.op("less_equal", y, zero), emit.op("is_inf", y))
    unused = emit.op("logical_and", emit.op("equal", x, zero), endless)
    safe = emit.where(unused, emit.scalar(1, x.dtype), y)
    return emit.mul(x, emit.op("log", safe))
