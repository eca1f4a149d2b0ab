"""Losses. Reductions are numbers in aten: 0 none, 1 mean, 2 sum."""

from .. import _core
from . import dtypes, emit
from .registry import raw_rule, rule
from .rules_logs import xlogy
from .rules_math import common

functions = _core.functions
_NAMES = ("none", "mean", "sum")


def _reduced(x, reduction):
    if reduction == 0:
        return x
    return emit.reduce("reduce_mean" if reduction == 1 else "reduce_sum", x)


def _labels(x):
    """Class numbers; torch takes int64 and, for some losses, uint8."""
    return x if x.dtype in ("int32", "int64") else emit.cast(x, "int64")


def _classes_first(x):
    """Scores without a batch axis get one."""
    return emit.reshape(x, [1, *x.shape]) if len(x.shape) == 1 else x


def _nll(scores, target, weight, reduction, ignore_index):
    """Minus the chosen log-probabilities, weighted by class; the mean is by weight."""
    scores, single = _classes_first(scores), len(scores.shape) == 1
    target = _labels(target)
    if single:
        target = emit.reshape(target, [1])
    if weight is None:
        loss = emit.op(
            "nll_loss", scores, target, reduction=_NAMES[reduction], ignoreIndex=ignore_index
        )
        return emit.reshape(loss, []) if single else loss
    losses = emit.op("nll_loss", scores, target, reduction="none", ignoreIndex=ignore_index)
    ignored = emit.op("equal", target, emit.scalar(ignore_index, target.dtype))
    safe = emit.where(ignored, emit.scalar(0, target.dtype), target)
    factors = emit.op("gather", emit.cast(weight, losses.dtype), safe, axis=0)
    factors = emit.where(ignored, emit.scalar(0, losses.dtype), factors)
    losses = emit.mul(losses, factors)
    if reduction == 0:
        return emit.reshape(losses, []) if single else losses
    total = emit.reduce("reduce_sum", losses)
    return total if reduction == 2 else emit.div(total, emit.reduce("reduce_sum", factors))


@rule("aten.nll_loss", "aten.nll_loss2d", "aten.nll_loss_nd")
def nll_loss(ctx, x, target, weight=None, reduction=1, ignore_index=-100):
    (x,) = emit.resolve("nll_loss", x)
    return _nll(x, target, weight, reduction, ignore_index)


@rule("aten.cross_entropy_loss")
def cross_entropy(
    ctx, x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0
):
    if dtypes.is_float(target.dtype):
        return _soft_cross_entropy(x, target, weight, reduction, label_smoothing)
    target = _labels(target)
    if weight is None and len(x.shape) > 1:
        return functions.cross_entropy(
            x, target, _NAMES[reduction], ignore_index, label_smoothing
        )
    (x,) = emit.resolve("cross_entropy", x)
    axis = 0 if len(x.shape) == 1 else 1
    scores = emit.op("log_softmax", x, axis=axis)
    loss = _nll(scores, target, weight, reduction, ignore_index)
    if label_smoothing == 0:
        return loss
    return _smoothed(scores, loss, target, weight, reduction, ignore_index, label_smoothing)


def _smoothed(scores, loss, target, weight, reduction, ignore_index, smoothing):
    """Mixes the loss with the mean over all classes."""
    axis = 0 if len(scores.shape) == 1 else 1
    classes = scores.shape[axis]
    if weight is not None:
        shape = [1] * len(scores.shape)
        shape[axis] = classes
        weighted = emit.mul(scores, emit.reshape(emit.cast(weight, scores.dtype), shape))
    else:
        weighted = scores
    spread = emit.op("neg", emit.reduce("reduce_sum", weighted, [axis]))
    ignored = emit.op("equal", target, emit.scalar(ignore_index, target.dtype))
    zero = emit.scalar(0, scores.dtype)
    spread = emit.where(ignored, zero, spread)
    if reduction == 1:
        count = emit.where(ignored, zero, emit.scalar(1, scores.dtype))
        if weight is not None:
            safe = emit.where(ignored, emit.scalar(0, target.dtype), target)
            factors = emit.op("gather", emit.cast(weight, scores.dtype), safe, axis=0)
            count = emit.mul(count, factors)
        spread = emit.div(emit.reduce("reduce_sum", spread), emit.reduce("reduce_sum", count))
    elif reduction == 2:
        spread = emit.reduce("reduce_sum", spread)
    return emit.add(emit.scale(loss, 1 - smoothing), emit.scale(spread, smoothing / classes))


def _soft_cross_entropy(x, target, weight, reduction, smoothing):
    """Targets that are probabilities."""
    if tuple(x.shape) != tuple(target.shape):
        raise _core.InvalidArgument(
            f"targets of a floating-point type are probabilities and need the shape {list(x.shape)} of "
            f"the scores, got {list(target.shape)}; class numbers must be integers: use target.long()"
        )
    x, target = common("cross_entropy", x, target)
    axis = 0 if len(x.shape) == 1 else 1
    classes = x.shape[axis]
    if smoothing:
        target = emit.shift(emit.scale(target, 1 - smoothing), smoothing / classes)
    terms = emit.mul(emit.op("log_softmax", x, axis=axis), target)
    if weight is not None:
        shape = [1] * len(x.shape)
        shape[axis] = classes
        terms = emit.mul(terms, emit.reshape(emit.cast(weight, x.dtype), shape))
    losses = emit.op("neg", emit.reduce("reduce_sum", terms, [axis]))
    if reduction != 1:
        return _reduced(losses, reduction)
    rows = emit.elements(x.shape) // classes
    return emit.scale(emit.reduce("reduce_sum", losses), 1 / rows)


def _pair(function, x, target):
    x, target = common(function, x, target)
    shape = [max(a, b) for a, b in zip(x.shape, target.shape)]
    if len(x.shape) == len(target.shape):
        return emit.broadcast(x, shape), emit.broadcast(target, shape)
    return x, target


@rule("aten.mse_loss")
def mse_loss(ctx, x, target, reduction=1):
    return functions.mse_loss(*_pair("mse_loss", x, target), _NAMES[reduction])


@rule("aten.l1_loss")
def l1_loss(ctx, x, target, reduction=1):
    return functions.l1_loss(*_pair("l1_loss", x, target), _NAMES[reduction])


def _huber(x, target, inner, reduction, flat_scale):
    """Quadratic up to a distance of `inner`, then linear."""
    x, target = _pair(None, x, target)
    apart = emit.op("abs", emit.sub(x, target))
    near = emit.op("less", apart, emit.scalar(inner, x.dtype))
    square = emit.scale(emit.op("square", apart), 0.5 * (1 / inner if flat_scale else 1))
    line = emit.shift(apart, -0.5 * inner)
    if not flat_scale:
        line = emit.scale(line, inner)
    return _reduced(emit.where(near, square, line), reduction)


@rule("aten.smooth_l1_loss")
def smooth_l1_loss(ctx, x, target, reduction=1, beta=1.0):
    if beta == 0:
        return l1_loss(ctx, x, target, reduction)
    return _huber(x, target, beta, reduction, flat_scale=True)


@rule("aten.huber_loss")
def huber_loss(ctx, x, target, reduction=1, delta=1.0):
    return _huber(x, target, delta, reduction, flat_scale=False)


@rule("aten.binary_cross_entropy")
def binary_cross_entropy(ctx, x, target, weight=None, reduction=1):
    x, target = _pair("binary_cross_entropy", x, target)
    one, lowest = emit.scalar(1, x.dtype), emit.scalar(-100, x.dtype)
    value = emit.op("detach", x)
    hit = emit.op("maximum", emit.op("log", value), lowest)
    miss = emit.op("maximum", emit.op("log1p", emit.op("neg", value)), lowest)
    losses = emit.sub(emit.mul(emit.sub(target, one), miss), emit.mul(target, hit))
    if ctx.training:
        losses = emit.add(losses, emit.mul(emit.sub(x, value), _bce_slope(value, target)))
    if weight is not None:
        losses = emit.mul(losses, emit.cast(weight, x.dtype))
    return _reduced(losses, reduction)


def _bce_slope(x, target):
    """The derivative in x that torch takes, which is finite everywhere."""
    spread = emit.mul(emit.sub(emit.scalar(1, x.dtype), x), x)
    least = emit.scalar(2.0**-14 if x.dtype == "float16" else 1e-12, x.dtype)
    return emit.div(emit.sub(x, emit.op("detach", target)), emit.op("maximum", spread, least))


@rule("aten.binary_cross_entropy_with_logits")
def bce_with_logits(ctx, x, target, weight=None, pos_weight=None, reduction=1):
    x, target = _pair("binary_cross_entropy_with_logits", x, target)
    if weight is None and pos_weight is None:
        return functions.bce_with_logits(x, target, _NAMES[reduction])
    # p t softplus(-x) + (1 - t) softplus(x): nothing cancels, so that a small loss keeps its digits.
    hit = emit.mul(target, emit.op("softplus", emit.op("neg", x)))
    if pos_weight is not None:
        hit = emit.mul(hit, emit.cast(pos_weight, x.dtype))
    miss = emit.mul(emit.sub(emit.scalar(1, x.dtype), target), emit.op("softplus", x))
    losses = emit.add(hit, miss)
    if weight is not None:
        losses = emit.mul(losses, emit.cast(weight, x.dtype))
    return _reduced(losses, reduction)


@rule("aten.soft_margin_loss")
def soft_margin_loss(ctx, x, target, reduction=1):
    x, target = common(None, x, target)
    product = emit.op("neg", emit.mul(x, target))
    return _reduced(emit.op("softplus", product), reduction)


@rule("aten.multi_margin_loss")
def multi_margin_loss(ctx, x, target, p=1, margin=1, weight=None, reduction=1):
    single, x = len(x.shape) == 1, _classes_first(x)
    rows, classes = x.shape
    labels = emit.reshape(_labels(target), [rows, 1])
    own = emit.op("equal", labels, emit.iota(classes, labels.dtype))
    zero = emit.scalar(0, x.dtype)

    def of_label(values):
        return emit.reduce("reduce_sum", emit.where(own, values, zero), [1], keep=True)

    gaps = emit.op("relu", emit.shift(emit.sub(x, of_label(x)), margin))
    gaps = gaps if p == 1 else emit.mul(gaps, gaps)
    if weight is not None:
        gaps = emit.mul(gaps, of_label(emit.broadcast(emit.cast(weight, x.dtype), x.shape)))
    gaps = emit.where(own, zero, gaps)
    losses = emit.scale(emit.reduce("reduce_sum", gaps, [1]), 1 / classes)
    return _reduced(emit.reshape(losses, []) if single else losses, reduction)


@rule("aten.kl_div")
def kl_div(ctx, x, target, reduction=1, log_target=False):
    x, target = common(None, x, target)
    if log_target:
        terms = emit.mul(emit.op("exp", target), emit.sub(target, x))
    else:
        terms = emit.sub(xlogy(ctx, target, target), emit.mul(target, x))
    return _reduced(terms, reduction)


@raw_rule("aten.ctc_loss.Tensor", "aten.ctc_loss.IntList")
def ctc_loss(
    ctx, x, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False
):
    """Targets are [batch, longest], or all one after another if their lengths are known."""
    import torch

    def tensor_of(lengths):
        if isinstance(lengths, (list, tuple)):
            lengths = torch.tensor(lengths, dtype=torch.int64)
        return lengths

    input_lengths, target_lengths = tensor_of(input_lengths), tensor_of(target_lengths)
    scores, labels = ctx.value(x), _labels(ctx.value(targets))
    if len(scores.shape) == 2:
        raise _core.Unsupported("ctc_loss without a batch axis; add one with unsqueeze(1)")
    if targets.dim() == 1:
        labels = _in_rows(ctx, labels, target_lengths)
    steps, counts = (
        emit.cast(_labels(ctx.value(each)), labels.dtype)
        for each in (input_lengths, target_lengths)
    )
    losses = emit.op(
        "ctc_loss", scores, labels, steps, counts, blank=blank, zeroInfinity=bool(zero_infinity)
    )
    if reduction == 1:
        least = emit.op("maximum", counts, emit.scalar(1, counts.dtype))
        return emit.reduce("reduce_mean", emit.div(losses, emit.cast(least, losses.dtype)))
    return _reduced(losses, reduction)


def _in_rows(ctx, labels, lengths):
    """Concatenated targets as rows of the longest one's length."""
    import torch

    known = ctx.known(lengths)
    if known is None:
        raise _core.Unsupported(
            "ctc_loss with concatenated targets needs target_lengths that are known; give targets "
            "[batch, longest]"
        )
    starts = torch.cumsum(known, 0) - known
    longest = max(int(known.max()), 1)
    places = (starts[:, None] + torch.arange(longest)).clamp(max=max(labels.shape[0] - 1, 0))
    return emit.op("gather", labels, ctx.value(places), axis=0)
