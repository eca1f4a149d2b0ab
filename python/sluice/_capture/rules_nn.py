"""Layers: linear, convolution, normalization and activations. Where the C++ front end has the layer,
the same ops are made, so that results have the same bits."""

import torch

from .. import _core
from . import dtypes, emit
from .registry import raw_rule, rule

functions = _core.functions


@rule("aten.linear")
def linear(ctx, x, weight, bias=None):
    return functions.linear(x, weight, bias)


# Convolution. Inputs without a batch axis get one.


def batched(x, rank):
    """x with a batch axis, and how to take that off a result."""
    if len(x.shape) == rank:
        return x, lambda y: y
    return emit.reshape(x, [1, *x.shape]), lambda y: emit.reshape(y, y.shape[1:])


def per_axis(given, axes):
    given = [given] if isinstance(given, int) else list(given)
    return given * axes if len(given) == 1 else given


@rule("aten.conv1d", "aten.conv2d", "aten.conv3d")
def conv(ctx, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    axes = len(weight.shape) - 2
    x, unbatch = batched(x, axes + 2)
    return unbatch(
        functions.conv(
            x,
            weight,
            bias,
            stride=per_axis(stride, axes),
            padding=per_axis(padding, axes),
            dilation=per_axis(dilation, axes),
            groups=groups,
        )
    )


@rule("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_same(ctx, x, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
    axes = len(weight.shape) - 2
    dilation = per_axis(dilation, axes)
    if padding == "valid":
        return conv(ctx, x, weight, bias, stride, 0, dilation, groups)
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    lead = [0] * (len(x.shape) - axes)
    odd = [total % 2 for total in totals]
    if any(odd):
        # What is left over goes to the end.
        x = emit.op("pad", x, before=[0] * len(x.shape), after=lead + odd)
    return conv(ctx, x, weight, bias, stride, [t // 2 for t in totals], dilation, groups)


@rule("aten.convolution")
def convolution(
    ctx, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    if not transposed:
        return conv(ctx, x, weight, bias, stride, padding, dilation, groups)
    axes = len(weight.shape) - 2
    x, weight, bias = _resolved(f"conv_transpose{axes}d", x, weight, bias)
    x, unbatch = batched(x, axes + 2)
    stride, padding, dilation, extra = (
        per_axis(each, axes) for each in (stride, padding, dilation, output_padding)
    )
    size = [
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            x.shape[2:], stride, padding, dilation, weight.shape[2:], extra
        )
    ]
    channels = weight.shape[1] * groups
    y = emit.op(
        "conv_grad_input",
        weight,
        x,
        strides=stride,
        pads=padding * 2,
        dilations=dilation,
        groups=groups,
        inputShape=[x.shape[0], channels, *size],
    )
    if bias is not None:
        y = emit.add(y, emit.reshape(bias, [channels, *[1] * axes]))
    return unbatch(y)


def _resolved(function, *operands):
    """Like emit.resolve, with operands that may be missing."""
    present = [each for each in operands if each is not None]
    resolved = iter(emit.resolve(function, *present))
    return [None if each is None else next(resolved) for each in operands]


# Normalization.


def _or_constant(x, count, value, dtype):
    return emit.full(count, value, dtype) if x is None else x


@raw_rule("aten.batch_norm")
def batch_norm(
    ctx, x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn=False
):
    value = ctx.value(x)
    channels = [x.shape[1]]
    gamma = _or_constant(ctx.value(weight), channels, 1, value.dtype)
    beta = _or_constant(ctx.value(bias), channels, 0, value.dtype)
    if not training:
        mean, variance = ctx.value(running_mean), ctx.value(running_var)
        return functions.batch_norm_inference(value, gamma, beta, mean, variance, eps)
    y, mean, variance = functions.batch_norm(value, gamma, beta, eps)
    if running_mean is not None:
        count = x.numel() // x.shape[1]
        if count < 2:
            raise _core.InvalidArgument(
                f"training needs more than one value per channel, got {list(x.shape)}"
            )
        if isinstance(momentum, _core.Tensor):
            _average_by_tensor(ctx, running_mean, mean, momentum)
            unbiased = emit.scale(variance, count / (count - 1))
            _average_by_tensor(ctx, running_var, unbiased, momentum)
        else:
            _average(ctx, running_mean, mean, momentum, momentum)
            _average(ctx, running_var, variance, momentum, momentum * count / (count - 1))
    return y


def _average(ctx, running, newest, momentum, share):
    """running = (1 - momentum) * running + share * newest, without a gradient."""
    old = ctx.value(running)
    kept = emit.scale(emit.cast(old, newest.dtype), 1 - momentum)
    total = emit.add(kept, emit.scale(newest, share))
    ctx.write(running, emit.cast(emit.op("detach", total), old.dtype))


def _average_by_tensor(ctx, running, newest, momentum):
    """The same with a momentum that only a run knows."""
    old = ctx.value(running)
    share = emit.cast(momentum, newest.dtype)
    kept = emit.mul(emit.cast(old, newest.dtype), emit.sub(emit.scalar(1, newest.dtype), share))
    total = emit.add(kept, emit.mul(newest, share))
    ctx.write(running, emit.cast(emit.op("detach", total), old.dtype))


def cumulative_batch_norm(ctx, module, x):
    """A batch norm without a momentum: its running statistics are the means over all batches so far,
    which a buffer counts."""
    count = emit.shift(ctx.value(module.num_batches_tracked), 1)
    ctx.write(module.num_batches_tracked, count)
    dtype = "float64" if x.dtype is torch.float64 else "float32"
    momentum = emit.div(emit.scalar(1, dtype), emit.cast(count, dtype))
    affine = module.weight, module.bias
    running = module.running_mean, module.running_var
    y = batch_norm(ctx, x, *affine, *running, True, momentum, module.eps)
    return ctx.wrap(y, ctx.has_gradient(*(each for each in (x, *affine) if each is not None)))


@rule("aten.layer_norm")
def layer_norm(ctx, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn=False):
    gamma = _or_constant(weight, normalized_shape, 1, x.dtype)
    beta = _or_constant(bias, normalized_shape, 0, x.dtype)
    x, gamma, beta = emit.resolve("layer_norm", x, gamma, beta)
    return emit.op("layer_norm", x, gamma, beta, axis=-len(normalized_shape), epsilon=eps)


@rule("aten.rms_norm")
def rms_norm(ctx, x, normalized_shape, weight=None, eps=None):
    gamma = _or_constant(weight, normalized_shape, 1, x.dtype)
    x, gamma = emit.resolve("rms_norm", x, gamma)
    smallest = torch.finfo(dtypes.torch_type(x.dtype)).eps
    epsilon = smallest if eps is None else eps
    return emit.op("rms_norm", x, gamma, axis=-len(normalized_shape), epsilon=epsilon)


@rule("aten.group_norm")
def group_norm(ctx, x, groups, weight=None, bias=None, eps=1e-5, cudnn=False):
    gamma = _or_constant(weight, [x.shape[1]], 1, x.dtype)
    beta = _or_constant(bias, [x.shape[1]], 0, x.dtype)
    x, gamma, beta = emit.resolve("group_norm", x, gamma, beta)
    return emit.op("group_norm", x, gamma, beta, groups=groups, epsilon=eps)


@rule("aten._weight_norm_interface")
def weight_norm(ctx, v, g, dim=0):
    """v with the norms g along an axis, and the norms that v had."""
    axes = [i for i in range(len(v.shape)) if i != dim % len(v.shape)]
    norms = emit.op("sqrt", emit.reduce("reduce_sum", emit.op("square", v), axes, True))
    return emit.mul(v, emit.div(g, norms)), norms


# Activations.


@rule("aten.relu")
def relu(ctx, x):
    (x,) = emit.resolve("relu", x)
    if dtypes.is_float(x.dtype):
        return emit.op("relu", x)
    return emit.op("maximum", x, emit.scalar(0, x.dtype))


@rule("aten.silu")
def silu(ctx, x):
    (x,) = emit.resolve("silu", x)
    return emit.op("silu", x)


@rule("aten.gelu")
def gelu(ctx, x, approximate="none"):
    (x,) = emit.resolve("gelu", x)
    return emit.op("gelu", x, approximate=approximate)


@rule("aten.leaky_relu")
def leaky_relu(ctx, x, slope=0.01):
    return emit.op("leaky_relu", x, alpha=slope)


@rule("aten.elu")
def elu(ctx, x, alpha=1.0, scale=1.0, input_scale=1.0):
    if scale == 1 and input_scale == 1:
        return emit.op("elu", x, alpha=alpha)
    below = emit.scale(emit.op("expm1", emit.scale(_at_most_zero(x), input_scale)), alpha * scale)
    return emit.where(_is_positive(x), emit.scale(x, scale), below)


def _is_positive(x):
    return emit.op("greater", x, emit.scalar(0, x.dtype))


def _at_most_zero(x):
    """The branch for negative numbers must be finite everywhere, for its gradient."""
    return emit.op("minimum", x, emit.scalar(0, x.dtype))


@rule("aten.celu")
def celu(ctx, x, alpha=1.0):
    return emit.op("celu", x, alpha=alpha)


@rule("aten.selu")
def selu(ctx, x):
    return emit.op("selu", x, alpha=1.6732632423543772848, gamma=1.0507009873554804935)


@rule("aten.hardshrink")
def hardshrink(ctx, x, lambd=0.5):
    inside = emit.op("less_equal", emit.op("abs", x), emit.scalar(lambd, x.dtype))  # NaN is not
    return emit.where(inside, emit.scalar(0, x.dtype), x)


@rule("aten.softshrink")
def softshrink(ctx, x, lambd=0.5):
    return emit.op("shrink", x, lambd=lambd, bias=lambd)


@rule("aten.hardsigmoid")
def hardsigmoid(ctx, x):
    return emit.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5)


@rule("aten.hardswish")
def hardswish(ctx, x):
    return emit.op("hard_swish", x)


@rule("aten.hardtanh")
def hardtanh(ctx, x, low=-1.0, high=1.0):
    return emit.op("clamp", x, low=low, high=high)


@rule("aten.mish")
def mish(ctx, x):
    return emit.op("mish", x)


@rule("aten.softplus")
def softplus(ctx, x, beta=1, threshold=20):
    scaled = emit.scale(x, beta)
    y = emit.scale(emit.op("softplus", scaled), 1 / beta)
    if threshold >= 20:  # above it torch is linear, and the difference is far below rounding
        return y
    return emit.where(emit.op("greater", scaled, emit.scalar(threshold, x.dtype)), x, y)


@rule("aten.log_sigmoid")
def log_sigmoid(ctx, x):
    return emit.op("neg", emit.op("softplus", emit.op("neg", x)))


@rule("aten.threshold")
def threshold(ctx, x, limit, value):
    below = emit.op("less_equal", x, emit.scalar(limit, x.dtype))  # NaN is not, and stays
    return emit.where(below, emit.scalar(value, x.dtype), x)


@rule("aten.prelu")
def prelu(ctx, x, weight):
    weight = emit.cast(weight, x.dtype)
    channels = emit.elements(weight.shape)
    shape = [channels, *[1] * (len(x.shape) - 2)] if len(x.shape) > 1 else [channels]
    return emit.op("prelu", x, emit.reshape(weight, [1] if channels == 1 else shape))


@rule("aten.glu")
def glu(ctx, x, dim=-1):
    axis = dim % len(x.shape)
    half = x.shape[axis] // 2
    left, right = emit.ops("split", [x], axis=axis, sizes=[half, half])
    return emit.mul(left, emit.op("sigmoid", right))
