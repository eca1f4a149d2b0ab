"""Pooling and resizing."""

import math

from .. import _core
from . import emit
from .registry import rule
from .rules_nn import batched, per_axis

# Pooling.


def _window(kernel, stride, padding, axes):
    kernel = per_axis(kernel, axes)
    stride = per_axis(stride, axes) if stride else kernel
    return {"kernel": kernel, "strides": stride, "pads": per_axis(padding, axes) * 2}


def _max_pool(x, axes, kernel, stride, padding, dilation, ceil_mode):
    (x,) = emit.resolve("max_pool2d", x)
    x, unbatch = batched(x, axes + 2)
    attrs = _window(kernel, stride, padding, axes)
    if any(d != 1 for d in per_axis(dilation, axes)):
        attrs["dilations"] = per_axis(dilation, axes)
    values, offsets = emit.ops("max_pool", [x], ceilMode=bool(ceil_mode), **attrs)
    return unbatch(values), unbatch(offsets), attrs


def _max_pools(axes):
    @rule(f"aten.max_pool{axes}d.default")
    def apply(ctx, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        return _max_pool(x, axes, kernel, stride, padding, dilation, ceil_mode)[0]

    @rule(f"aten.max_pool{axes}d_with_indices.default")
    def with_indices(ctx, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        values, offsets, attrs = _max_pool(x, axes, kernel, stride, padding, dilation, ceil_mode)
        return values, _flat_places(x.shape[-axes:], offsets, attrs)


for _axes in (1, 2, 3):
    _max_pools(_axes)


def _flat_places(size, offsets, attrs):
    """The flat position in the input of each window's element, from its offset in the window."""
    axes = len(size)
    rest = emit.cast(offsets, "int64")
    total = None
    steps = attrs.get("dilations", [1] * axes)
    for i in range(axes):
        inner = emit.scalar(math.prod(attrs["kernel"][i + 1 :]), "int64")
        inside = emit.div(rest, inner)
        rest = emit.op("mod", rest, inner)
        shape = [1] * axes
        shape[i] = offsets.shape[len(offsets.shape) - axes + i]
        first = emit.shift(emit.scale(emit.iota(shape[i]), attrs["strides"][i]), -attrs["pads"][i])
        place = emit.add(emit.reshape(first, shape), emit.scale(inside, steps[i]))
        total = place if total is None else emit.add(emit.scale(total, size[i]), place)
    return total


def _avg_pools(axes):
    @rule(f"aten.avg_pool{axes}d.default")
    def apply(
        ctx,
        x,
        kernel,
        stride=(),
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        (x,) = emit.resolve("avg_pool2d", x)
        x, unbatch = batched(x, axes + 2)
        attrs = _window(kernel, stride, padding, axes)
        if divisor_override is None:
            count = bool(count_include_pad)
            return unbatch(
                emit.op("avg_pool", x, ceilMode=bool(ceil_mode), countIncludePad=count, **attrs)
            )
        if ceil_mode:
            raise _core.Unsupported("divisor_override together with ceil_mode")
        y = emit.op("avg_pool", x, countIncludePad=True, **attrs)
        return unbatch(emit.scale(y, math.prod(attrs["kernel"]) / divisor_override))


for _axes in (1, 2, 3):
    _avg_pools(_axes)


def _adaptive_bounds(extent, parts):
    return [(i * extent // parts, -(-(i + 1) * extent // parts)) for i in range(parts)]


def _adaptive(x, size, op):
    """Pools axis by axis; where the windows are equal, by a reshape."""
    first = len(x.shape) - len(size)
    for axis, parts in enumerate(size, start=first):
        extent = x.shape[axis]
        if parts is None or parts == extent:
            continue
        if extent % parts == 0:
            shape = [*x.shape[:axis], parts, extent // parts, *x.shape[axis + 1 :]]
            x = emit.reduce(op, emit.reshape(x, shape), [axis + 1])
            continue
        windows = [emit.cut(x, axis, a, b) for a, b in _adaptive_bounds(extent, parts)]
        x = emit.concat([emit.reduce(op, w, [axis], True) for w in windows], axis)
    return x


@rule("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d")
def adaptive_avg_pool(ctx, x, size):
    if all(n == 1 for n in size):
        (x,) = emit.resolve("mean", x)
        return emit.reduce("reduce_mean", x, range(-len(size), 0), True)
    return _adaptive(x, size, "reduce_mean")


@rule("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def adaptive_max_pool(ctx, x, size):
    """The second result, the places, is needed for unpooling only; it is that of equal windows."""
    if any(n % parts for n, parts in zip(x.shape[-len(size) :], size)):
        raise _core.Unsupported("adaptive max pooling with windows of different sizes")
    axes = len(size)
    kernel = [n // parts for n, parts in zip(x.shape[-axes:], size)]
    values, offsets, attrs = _max_pool(x, axes, kernel, kernel, 0, 1, False)
    return values, _flat_places(x.shape[-axes:], offsets, attrs)


def _max_unpool(ctx, x, places, size):
    """Each value goes to its place in the flattened image; all others are 0."""
    axes = len(size)
    lead = list(x.shape[:-axes])
    cells = [*lead, emit.elements(x.shape[-axes:])]
    image = emit.full([*lead, emit.elements(size)], 0, x.dtype)
    values, places = emit.reshape(x, cells), emit.reshape(places, cells)
    flat = emit.op("scatter_elements", image, places, values, axis=len(lead))
    return emit.reshape(flat, [*lead, *size])


@rule("aten.max_unpool2d")
def max_unpool2d(ctx, x, places, output_size):
    return _max_unpool(ctx, x, places, output_size)


@rule("aten.max_unpool3d")
def max_unpool3d(ctx, x, places, output_size, stride, padding):
    return _max_unpool(ctx, x, places, output_size)


# Resizing of images.


def _scaled_sizes(x, size, factors):
    spatial = x.shape[2:]
    if size is not None:
        return list(size)
    return [int(n * f) for n, f in zip(spatial, factors)]


def _resize(x, size, factors, mode, coordinates, **extra):
    sizes = [*x.shape[:2], *_scaled_sizes(x, size, factors)]
    attrs = {"sizes": sizes, "mode": mode, "coordinates": coordinates, **extra}
    if factors is not None and all(f is not None for f in factors):
        attrs["scales"] = [1.0, 1.0, *factors]
    return emit.op("resize", x, **attrs)


def _factors(given):
    return None if not given or any(f is None for f in given) else list(given)


def _nearest(name, coordinates, nearest):
    for axes in (1, 2, 3):

        @rule(f"aten.{name}{axes}d.default", f"aten.{name}{axes}d.vec")
        def apply(ctx, x, size, *factors):
            return _resize(x, size, _given(factors), "nearest", coordinates, nearest=nearest)


def _given(factors):
    """The scale factors: one list (vec), or one number per axis."""
    if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
        return _factors(factors[0])
    return _factors(factors)


_nearest("upsample_nearest", "asymmetric", "floor")
_nearest("_upsample_nearest_exact", "half_pixel", "round_prefer_ceil")


def _interpolated(name, mode):
    @rule(f"aten.{name}.default", f"aten.{name}.vec")
    def apply(ctx, x, size, align_corners, *factors):
        if align_corners:  # the corners say the scale; torch ignores the factors
            return _resize(x, _scaled_sizes(x, size, _given(factors)), None, mode, "align_corners")
        return _resize(x, size, _given(factors), mode, "half_pixel")


_interpolated("upsample_linear1d", "linear")
_interpolated("upsample_bilinear2d", "linear")
_interpolated("upsample_trilinear3d", "linear")
_interpolated("upsample_bicubic2d", "cubic")


@rule("aten.grid_sampler", "aten.grid_sampler_2d")
def grid_sampler(ctx, x, grid, mode, padding, align_corners):
    if len(x.shape) != 4:
        raise _core.Unsupported("grid_sample of volumes; only images [N, C, H, W] are supported")
    return emit.op(
        "grid_sample",
        x,
        grid,
        mode=("bilinear", "nearest", "bicubic")[mode],
        padding=("zeros", "border", "reflection")[padding],
        alignCorners=bool(align_corners),
    )
