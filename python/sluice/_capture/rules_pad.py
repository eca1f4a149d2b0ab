"""Padding, and images taken apart into pixels and patches."""

import torch

from . import emit
from .registry import rule


def _pads(x, pad):
    """Torch lists the last axis first."""
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return before, after


@rule("aten.constant_pad_nd")
def constant_pad(ctx, x, pad, value=0):
    before, after = _pads(x, pad)
    starts = [max(-b, 0) for b in before]
    ends = [n - max(-a, 0) for n, a in zip(x.shape, after)]
    if any(b < 0 for b in before) or any(a < 0 for a in after):
        x = emit.op("slice", x, starts=starts, ends=ends)
    before, after = ([max(each, 0) for each in side] for side in (before, after))
    if x.dtype == "bool":
        return emit.cast(constant_pad(ctx, emit.cast(x, "uint8"), pad, bool(value)), "bool")
    return emit.op("pad", x, before=before, after=after, value=float(value))


def _padding(name, mode):
    @rule(*(f"aten.{name}_pad{n}d.default" for n in (1, 2, 3)))
    def apply(ctx, x, padding):
        before, after = _pads(x, padding)
        return emit.op("pad", x, before=before, after=after, mode=mode)


_padding("reflection", "reflect")
_padding("replication", "edge")

# Pixels and patches.


@rule("aten.pixel_shuffle")
def pixel_shuffle(ctx, x, factor):
    *lead, channels, rows, columns = x.shape
    n, kept = len(lead), channels // (factor * factor)
    x = emit.reshape(x, [*lead, kept, factor, factor, rows, columns])
    x = emit.transpose(x, [*range(n + 1), n + 3, n + 1, n + 4, n + 2])
    return emit.reshape(x, [*lead, kept, rows * factor, columns * factor])


@rule("aten.pixel_unshuffle")
def pixel_unshuffle(ctx, x, factor):
    *lead, channels, rows, columns = x.shape
    n = len(lead)
    x = emit.reshape(x, [*lead, channels, rows // factor, factor, columns // factor, factor])
    x = emit.transpose(x, [*range(n + 1), n + 2, n + 4, n + 1, n + 3])
    shape = [*lead, channels * factor * factor, rows // factor, columns // factor]
    return emit.reshape(x, shape)


@rule("aten.channel_shuffle")
def channel_shuffle(ctx, x, groups):
    batch, channels, *rest = x.shape
    x = emit.reshape(x, [batch, groups, channels // groups, *rest])
    x = emit.transpose(x, [0, 2, 1, *range(3, len(x.shape))])
    return emit.reshape(x, [batch, channels, *rest])


def _patch_positions(size, kernel, dilation, padding, stride):
    """For each patch element and patch, the flat position in the padded image."""
    rows, columns = (n + 2 * p for n, p in zip(size, padding))
    flat = torch.arange(rows * columns, dtype=torch.float64).reshape(1, 1, rows, columns)
    patches = torch.nn.functional.unfold(flat, kernel, dilation, 0, stride)
    return patches[0].to(torch.int64), rows, columns


@rule("aten.im2col")
def im2col(ctx, x, kernel, dilation, padding, stride):
    batched = len(x.shape) == 4
    x = x if batched else emit.reshape(x, [1, *x.shape])
    batch, channels, *size = x.shape
    places, rows, columns = _patch_positions(size, kernel, dilation, padding, stride)
    x = emit.op("pad", x, before=[0, 0, *padding], after=[0, 0, *padding])
    x = emit.reshape(x, [batch, channels, rows * columns])
    x = emit.op("gather", x, ctx.value(places), axis=2)
    shape = [channels * places.shape[0], places.shape[1]]
    return emit.reshape(x, [batch, *shape] if batched else shape)


@rule("aten.col2im")
def col2im(ctx, x, size, kernel, dilation, padding, stride):
    batched = len(x.shape) == 3
    x = x if batched else emit.reshape(x, [1, *x.shape])
    places, rows, columns = _patch_positions(size, kernel, dilation, padding, stride)
    batch, channels = x.shape[0], x.shape[1] // places.shape[0]
    x = emit.reshape(x, [batch, channels, places.numel()])
    start = emit.full([batch, channels, rows * columns], 0, x.dtype)
    x = emit.op("scatter_add", start, ctx.value(places.reshape(-1)), x, axis=2)
    x = emit.reshape(x, [batch, channels, rows, columns])
    for axis, (n, p) in enumerate(zip(size, padding), start=2):
        x = emit.cut(x, axis, p, p + n)
    return x if batched else emit.reshape(x, x.shape[1:])
