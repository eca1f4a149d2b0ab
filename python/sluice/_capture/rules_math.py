"""Element-wise functions."""

import math

from .. import _core
from . import dtypes, emit
from .registry import rule

Tensor = _core.Tensor


def floating(x):
    """x in a float type: integers become the default one."""
    return x if dtypes.is_float(x.dtype) else emit.cast(x, dtypes.default_float())


def common(function, *operands):
    """The operands as tensors of the type in which torch computes; with `function`, a name of
    autocast policies, after its casts."""
    if function is not None:
        operands = emit.resolve(function, *operands)
    return _in_type(dtypes.promote(*operands), operands)


def common_floats(function, *operands):
    """The same for functions whose results are floats: integers become the default type at once, so that a
    number need not fit into the type of a tensor of integers."""
    if function is not None:
        operands = emit.resolve(function, *operands)
    dtype = dtypes.promote(*operands)
    return _in_type(dtype if dtypes.is_float(dtype) else dtypes.default_float(), operands)


def _in_type(dtype, operands):
    return [emit.tensor(each, dtype) for each in operands]


# Functions of one tensor.


def _unary(name, op=None, function=None):
    @rule(f"aten.{name}.default")
    def apply(ctx, x):
        if function is not None:
            (x,) = emit.resolve(function, x)
        return emit.op(op or name, floating(x))


for _name in (
    "acos acosh asin asinh atan atanh cos cosh erf erfc expm1 log1p reciprocal rsqrt sin sinh tan"
).split():
    _unary(_name)
for _name in "exp log sigmoid sqrt tanh".split():
    _unary(_name, function=_name)


def _rounding(name):
    @rule(f"aten.{name}.default")
    def apply(ctx, x):
        return emit.op(name, x) if dtypes.is_float(x.dtype) else x


for _name in ("ceil", "floor", "round"):
    _rounding(_name)


@rule("aten.round.decimals")
def round_decimals(ctx, x, decimals):
    factor = 10.0**decimals
    return emit.div(emit.op("round", emit.scale(x, factor)), emit.scalar(factor, x.dtype))


@rule("aten.trunc.default")
def trunc(ctx, x):
    if not dtypes.is_float(x.dtype):
        return x
    below = emit.op("less", x, emit.scalar(0, x.dtype))
    return emit.where(below, emit.op("ceil", x), emit.op("floor", x))


@rule("aten.frac.default")
def frac(ctx, x):
    return emit.sub(x, trunc(ctx, x))


@rule("aten.abs.default")
def absolute(ctx, x):
    (x,) = emit.resolve("abs", x)
    return emit.op("abs", x)


@rule("aten.neg.default")
def negative(ctx, x):
    (x,) = emit.resolve("neg", x)
    return emit.op("neg", x)


@rule("aten.sign.default", "aten.sgn.default")
def sign(ctx, x):
    return emit.op("sign", x) if x.dtype != "bool" else x


@rule("aten.square.default")
def square(ctx, x):
    (x,) = emit.resolve("square", x)
    return emit.op("square", x)


def _scaled(name, factor):
    @rule(f"aten.{name}.default")
    def apply(ctx, x):
        return emit.scale(floating(x), factor)


_scaled("deg2rad", math.pi / 180)
_scaled("rad2deg", 180 / math.pi)


@rule("aten.sinc.default")
def sinc(ctx, x):
    angle = emit.scale(floating(x), math.pi)
    at_zero = emit.op("equal", angle, emit.scalar(0, angle.dtype))
    one = emit.scalar(1, angle.dtype)
    safe = emit.where(at_zero, one, angle)
    return emit.where(at_zero, one, emit.div(emit.op("sin", safe), safe))


@rule("aten.isnan.default")
def isnan(ctx, x):
    return emit.op("is_nan", x) if dtypes.is_float(x.dtype) else emit.full(x.shape, 0, "bool")


@rule("aten.isinf.default")
def isinf(ctx, x):
    return emit.op("is_inf", x) if dtypes.is_float(x.dtype) else emit.full(x.shape, 0, "bool")


def _infinite(name, **sides):
    @rule(f"aten.{name}.default")
    def apply(ctx, x):
        if not dtypes.is_float(x.dtype):
            return emit.full(x.shape, 0, "bool")
        return emit.op("is_inf", x, **sides)


_infinite("isposinf", detect_negative=False)
_infinite("isneginf", detect_positive=False)


@rule("aten.signbit.default")
def signbit(ctx, x):
    zero = emit.scalar(0, x.dtype)
    if dtypes.is_float(x.dtype):  # 1 / -0 is negative
        x = emit.where(emit.op("equal", x, zero), emit.op("reciprocal", x), x)
    return emit.op("less", x, zero)


@rule("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(ctx, x, y):
    x, y = common_floats(None, x, y)
    return emit.where(
        emit.op("not_equal", signbit(ctx, x), signbit(ctx, y)), emit.op("neg", x), emit.op("identity", x)
    )


@rule("aten.heaviside")
def heaviside(ctx, x, values):
    zero, one = emit.scalar(0, x.dtype), emit.scalar(1, x.dtype)
    step = emit.where(emit.op("greater", x, zero), one, zero)
    return emit.where(emit.op("equal", x, zero), values, step)


_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


@rule("aten.nan_to_num.default")
def nan_to_num(ctx, x, nan=None, posinf=None, neginf=None):
    if not dtypes.is_float(x.dtype):
        return emit.op("identity", x)
    largest = _LARGEST[x.dtype]
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    above = emit.op("is_inf", x, detect_negative=False)
    below = emit.op("is_inf", x, detect_positive=False)
    for test, number in ((emit.op("is_nan", x), nan or 0.0), (above, high), (below, low)):
        x = emit.where(test, emit.scalar(number, x.dtype), x)
    return x


# Arithmetic.


@rule("aten.add.Tensor", "aten.add.Scalar")
def add(ctx, x, y, alpha=1):
    x, y = common("add", x, y)
    if x.dtype == "bool":
        return emit.op("logical_or", x, y)
    return emit.add(x, emit.scale(y, alpha))


@rule("aten.sub.Tensor", "aten.sub.Scalar")
def sub(ctx, x, y, alpha=1):
    x, y = common("sub", x, y)
    return emit.sub(x, emit.scale(y, alpha))


@rule("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(ctx, x, y, alpha=1):
    return sub(ctx, y, x, alpha)


@rule("aten.mul.Tensor", "aten.mul.Scalar")
def mul(ctx, x, y):
    x, y = common("mul", x, y)
    return emit.op("logical_and", x, y) if x.dtype == "bool" else emit.mul(x, y)


@rule("aten.div.Tensor", "aten.div.Scalar")
def div(ctx, x, y):
    return emit.div(*common_floats("div", x, y))


@rule("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(ctx, x, y, rounding_mode=None):
    if rounding_mode is None:
        return div(ctx, x, y)
    x, y = common("div", x, y)
    if dtypes.is_float(x.dtype):
        return trunc(ctx, emit.div(x, y)) if rounding_mode == "trunc" else _floor_of_quotient(x, y)
    if rounding_mode == "trunc":
        return emit.div(x, y)
    return _floor_of_integers(x, y)


def _floor_of_integers(x, y):
    """One less than the truncated quotient where that was rounded up. x less a remainder may not fit."""
    quotient = emit.div(x, y)
    rest = emit.op("mod", x, y)  # with the sign of y
    fits = emit.op("equal", rest, emit.op("mod", x, y, fmod=True))
    return emit.where(fits, quotient, emit.sub(quotient, emit.scalar(1, x.dtype)))


def _floor_of_quotient(x, y):
    """What the remainder leaves, over y, as in Python: 1 // 0.1 is 9, although 1 / 0.1 rounds to 10."""
    zero, one = emit.scalar(0, x.dtype), emit.scalar(1, x.dtype)
    rest = emit.op("mod", x, y, fmod=True)
    apart = emit.op("not_equal", emit.op("less", y, zero), emit.op("less", rest, zero))
    below = emit.op("logical_and", emit.op("not_equal", rest, zero), apart)
    quotient = emit.div(emit.sub(x, rest), y)  # whole but for a rounding
    whole = emit.op("round", emit.where(below, emit.sub(quotient, one), quotient))
    return emit.where(emit.op("equal", y, zero), emit.op("detach", emit.div(x, y)), whole)


@rule("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(ctx, x, y):
    return div_mode(ctx, x, y, "floor")


@rule("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(ctx, x, y):
    return emit.op("mod", *common(None, x, y))


@rule("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(ctx, x, y):
    return emit.op("mod", *common(None, x, y), fmod=True)


@rule("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(ctx, x, y):
    x, y = emit.resolve("pow", x, y)
    if isinstance(x, Tensor) and not isinstance(y, Tensor) and dtypes.is_float(x.dtype):
        if y == 2:
            return emit.op("square", x)
        if y == 1:
            return emit.op("identity", x)
    return emit.op("pow", *common(None, x, y))


def _extreme_of(op, x, y):
    """The larger or smaller one; truth values have no order of their own."""
    if x.dtype == "bool":
        return emit.op("logical_or" if op == "maximum" else "logical_and", x, y)
    return emit.op(op, x, y)


def _extreme(name):
    @rule(f"aten.{name}")
    def apply(ctx, x, y):
        x, y = common(None, x, y)
        result = _extreme_of(name, x, y)
        if not (ctx.training and dtypes.is_float(x.dtype)):
            return result
        both = emit.add(emit.scale(x, 0.5), emit.scale(y, 0.5))  # equal numbers share the gradient
        return emit.where(emit.op("equal", x, y), both, result)


_extreme("maximum")
_extreme("minimum")


@rule("aten.atan2")
def atan2(ctx, x, y):
    return emit.op("atan2", *common_floats(None, x, y))


def _without_nan(name, op):
    @rule(name)
    def apply(ctx, x, y):
        x, y = common(None, x, y)
        best = _extreme_of(op, x, y)
        if dtypes.is_float(x.dtype):
            best = emit.where(emit.op("is_nan", y), x, best)
            best = emit.where(emit.op("is_nan", x), y, best)
        return best


_without_nan("aten.fmax", "maximum")
_without_nan("aten.fmin", "minimum")


@rule("aten.hypot")
def hypot(ctx, x, y):
    x, y = common(None, x, y)
    # In units of the larger one, so that no square overflows or vanishes.
    size = emit.op("detach", emit.op("maximum", emit.op("abs", x), emit.op("abs", y)))
    above, below = (emit.scalar(each, x.dtype) for each in (0, math.inf))
    inner = emit.op("logical_and", emit.op("greater", size, above), emit.op("less", size, below))
    unit = emit.where(inner, size, emit.scalar(1, x.dtype))
    squares = [emit.op("square", emit.div(each, unit)) for each in (x, y)]
    length = emit.mul(unit, emit.op("sqrt", emit.add(*squares)))
    infinite = emit.op("logical_or", emit.op("is_inf", x), emit.op("is_inf", y))  # whatever the other is
    unknown = emit.op("logical_and", infinite, emit.op("is_nan", length))
    return emit.where(unknown, emit.scalar(math.inf, x.dtype), length)


@rule("aten.addcmul")
def addcmul(ctx, x, y, z, value=1):
    x, y, z = common("addcmul", x, y, z)
    return emit.add(x, emit.scale(emit.mul(y, z), value))


@rule("aten.addcdiv")
def addcdiv(ctx, x, y, z, value=1):
    x, y, z = common("addcdiv", x, y, z)
    return emit.add(x, emit.scale(emit.div(y, z), value))


@rule("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(ctx, x, y, weight):
    """From the nearer end, so that weight 1 gives y."""
    x, y = common(None, x, y)
    apart, weight = emit.sub(y, x), emit.tensor(weight, x.dtype)
    from_x = emit.add(x, emit.mul(weight, apart))
    from_y = emit.sub(y, emit.mul(apart, emit.sub(emit.scalar(1, x.dtype), weight)))
    near = emit.op("less", emit.op("abs", weight), emit.scalar(0.5, x.dtype))
    return emit.where(near, from_x, from_y)


# Limits.


@rule("aten.clamp", "aten.clamp.Tensor", "aten.clip", "aten.clip.Tensor")
def clamp(ctx, x, min=None, max=None):
    if not any(isinstance(each, Tensor) for each in (min, max)):
        numbers = [each for each in (min, max) if each is not None]
        x = emit.cast(x, dtypes.promote(x, *numbers))
        (x,) = emit.resolve("clamp", x)
        low = -math.inf if min is None else min
        high = math.inf if max is None else max
        # The op's gradient ends at the bounds; that of torch, as of maximum, includes them.
        if dtypes.is_float(x.dtype) and low <= high and not ctx.training:
            return emit.op("clamp", x, low=low, high=high)
    for op, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            x = _extreme_of(op, *common(None, x, bound))
    return x


@rule("aten.clamp_min", "aten.clamp_min.Tensor")
def clamp_min(ctx, x, bound):
    return clamp(ctx, x, bound, None)


@rule("aten.clamp_max", "aten.clamp_max.Tensor")
def clamp_max(ctx, x, bound):
    return clamp(ctx, x, None, bound)


# Comparison and logic.


def _comparison(name, op, function=None):
    @rule(f"aten.{name}.Tensor", f"aten.{name}.Scalar")
    def apply(ctx, x, y):
        x, y = common(function, x, y)
        if x.dtype == "bool" and op not in ("equal", "not_equal"):
            x, y = emit.cast(x, "int32"), emit.cast(y, "int32")
        return emit.op(op, x, y)


_comparison("eq", "equal", "equal")
_comparison("ne", "not_equal", "equal")
_comparison("lt", "less", "less")
_comparison("le", "less_equal", "less")
_comparison("gt", "greater", "greater")
_comparison("ge", "greater_equal", "greater")


def truth(x):
    return emit.cast(x, "bool")


def _logical(name):
    @rule(f"aten.{name}.default")
    def apply(ctx, x, y):
        return emit.op(name, truth(x), truth(y))


for _name in ("logical_and", "logical_or", "logical_xor"):
    _logical(_name)


@rule("aten.logical_not")
def logical_not(ctx, x):
    return emit.op("logical_not", truth(x))


def _bitwise(name):
    @rule(*(f"aten.bitwise_{name}.{each}" for each in ("Tensor", "Scalar", "Scalar_Tensor")))
    def apply(ctx, x, y):
        x, y = common(None, x, y)
        return emit.op(("logical_" if x.dtype == "bool" else "bitwise_") + name, x, y)


for _name in ("and", "or", "xor"):
    _bitwise(_name)


@rule("aten.bitwise_not")
def bitwise_not(ctx, x):
    return emit.op("logical_not" if x.dtype == "bool" else "bitwise_not", x)


def _shift(name, operator, direction):
    @rule(
        f"aten.{name}.Tensor",
        f"aten.{name}.Tensor_Scalar",
        f"aten.{operator}.Tensor",
        f"aten.{operator}.Scalar",
    )
    def apply(ctx, x, y):
        return emit.op("bit_shift", *common(None, x, y), direction=direction)


_shift("bitwise_left_shift", "__lshift__", "LEFT")
_shift("bitwise_right_shift", "__rshift__", "RIGHT")


@rule("aten.where.self")
def where(ctx, condition, x, y):
    return emit.where(truth(condition), *common("where", x, y))


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(ctx, x, mask, value):
    return emit.where(truth(mask), emit.tensor(value, x.dtype), x)
