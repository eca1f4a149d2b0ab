"""Special functions that no op computes, made of ops that do not lose their digits."""

import math

from . import emit
from .registry import rule
from .rules_math import floating

# M. Giles, Approximating the erfinv function: polynomials in w - 2.5 for w < 5, else in sqrt(w) - 3.
_CENTRE = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
_TAIL = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682]


def _polynomial(x, factors):
    """The factor of the highest power comes first."""
    total = emit.scalar(factors[0], x.dtype)
    for factor in factors[1:]:
        total = emit.shift(emit.mul(total, x), factor)
    return total


def _erfinv_near(y):
    """erfinv(y) for |y| < 1 to the digits of float32."""
    inside = emit.add(emit.op("log1p", emit.op("neg", y)), emit.op("log1p", y))
    w = emit.op("neg", inside)
    centre = _polynomial(emit.shift(w, -2.5), _CENTRE)
    tail = _polynomial(emit.shift(emit.op("sqrt", w), -3), _TAIL)
    return emit.mul(emit.where(emit.op("less", w, emit.scalar(5, y.dtype)), centre, tail), y)


def _erfinv_refined(y, value):
    """Halley's steps on erf(value) = |y| where that is small, else on erfc(value) = 1 - |y|: neither
    cancels."""
    size, x = emit.op("abs", y), emit.op("abs", value)
    missing = emit.sub(emit.scalar(1, y.dtype), size)
    is_small = emit.op("less", size, emit.scalar(0.5, y.dtype))
    for _ in range(4):
        bell = emit.op("exp", emit.op("neg", emit.op("square", x)))
        above, below = emit.sub(emit.op("erf", x), size), emit.sub(missing, emit.op("erfc", x))
        error = emit.where(is_small, above, below)
        step = emit.div(error, emit.scale(bell, 2 / math.sqrt(math.pi)))
        x = emit.sub(x, emit.div(step, emit.shift(emit.mul(x, step), 1)))
    return emit.mul(x, emit.op("sign", y))


@rule("aten.erfinv.default")
def erfinv(ctx, x):
    x = floating(x)
    if x.dtype in ("float16", "bfloat16"):  # the polynomials would round at every step
        return emit.cast(erfinv(ctx, emit.cast(x, "float32")), x.dtype)
    one, zero = emit.scalar(1, x.dtype), emit.scalar(0, x.dtype)
    edge = emit.op("equal", emit.op("abs", x), one)  # infinite, and its derivative is, too
    y = emit.op("detach", emit.where(edge, zero, x))
    value = _erfinv_near(y)
    if x.dtype == "float64":
        value = _erfinv_refined(y, value)
    if ctx.training:
        slope = emit.scale(emit.op("exp", emit.op("square", value)), math.sqrt(math.pi) / 2)
        apart = emit.sub(x, emit.op("detach", x))
        value = emit.add(emit.op("detach", value), emit.mul(apart, emit.op("detach", slope)))
    ends = emit.mul(
        emit.where(edge, x, zero), emit.where(edge, emit.scalar(math.inf, x.dtype), one)
    )
    return emit.add(ends, emit.where(edge, zero, value))


# C. Lanczos's series for g = 7 and 9 terms, to the digits of double.
_LANCZOS = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7]


def _lgamma_right(z):
    """Of float64 numbers from 1/2 on."""
    total = emit.scalar(0.99999999999980993, z.dtype)
    for i, factor in enumerate(_LANCZOS):
        total = emit.add(total, emit.div(emit.scalar(factor, z.dtype), emit.shift(z, i)))
    t = emit.shift(z, 6.5)
    power = emit.sub(emit.mul(emit.shift(z, -0.5), emit.op("log", t)), t)
    return emit.shift(emit.add(power, emit.op("log", total)), 0.5 * math.log(2 * math.pi))


@rule("aten.lgamma.default")
def lgamma(ctx, x):
    """In float64, where the error is near 1e-15 also beside the zeros at 1 and 2; left of 1/2 by
    gamma(x) gamma(1 - x) = pi / sin(pi x)."""
    x = floating(x)
    wide = emit.cast(x, "float64")
    endless, one = emit.op("is_inf", wide), emit.scalar(1, "float64")
    wide = emit.where(endless, one, wide)
    left = emit.op("less", wide, emit.scalar(0.5, "float64"))
    right = _lgamma_right(emit.where(left, emit.sub(one, wide), wide))
    turn = emit.sub(wide, emit.op("round", wide))  # the sine of large numbers keeps its digits
    sine = emit.op("sin", emit.scale(emit.where(left, turn, emit.scalar(0.25, "float64")), math.pi))
    mirrored = emit.sub(emit.sub(emit.scalar(math.log(math.pi), "float64"), emit.op("log", emit.op("abs", sine))), right)
    value = emit.where(left, mirrored, right)
    return emit.cast(emit.where(endless, emit.scalar(math.inf, "float64"), value), x.dtype)


# Bernoulli's numbers B(2n) / 2n, of the asymptotic series of digamma.
_BERNOULLI = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12]


def _digamma_right(z):
    """Of float64 numbers from 1/2 on: from z + 10, where the series has the digits of double."""
    steps = [emit.op("reciprocal", emit.shift(z, i)) for i in range(10)]
    below = steps[0]
    for each in steps[1:]:
        below = emit.add(below, each)
    z = emit.shift(z, 10)
    square = emit.op("square", emit.op("reciprocal", z))
    series = emit.mul(square, _polynomial(square, _BERNOULLI[::-1]))
    half = emit.scale(emit.op("reciprocal", z), 0.5)
    return emit.sub(emit.sub(emit.sub(emit.op("log", z), half), series), below)


@rule("aten.digamma.default")
def digamma(ctx, x):
    """In float64; left of 1/2 by digamma(1 - x) - digamma(x) = pi / tan(pi x). Minus infinity at 0, or plus at -0."""
    x = floating(x)
    wide = emit.cast(x, "float64")
    zero, one = emit.scalar(0, "float64"), emit.scalar(1, "float64")
    left = emit.op("less", wide, emit.scalar(0.5, "float64"))
    right = _digamma_right(emit.where(left, emit.sub(one, wide), wide))
    turn = emit.sub(wide, emit.op("round", wide))
    whole = emit.op("logical_and", left, emit.op("equal", turn, zero))
    safe = emit.where(emit.op("logical_and", left, emit.op("not_equal", turn, zero)), turn, emit.scalar(0.25, "float64"))
    slope = emit.scale(emit.op("reciprocal", emit.op("tan", emit.scale(safe, math.pi))), math.pi)
    value = emit.where(left, emit.sub(right, slope), right)
    pole = emit.where(emit.op("equal", wide, zero), emit.op("neg", emit.op("reciprocal", wide)), emit.scalar(math.nan, "float64"))
    return emit.cast(emit.where(whole, emit.op("detach", pole), value), x.dtype)
