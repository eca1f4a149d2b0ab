"""Functions that torch would take apart in a way that loses something: attention, einsum, bags of
embeddings, recurrent layers."""

import math

import torch

from .. import _core
from . import dtypes, emit
from .registry import raw_rule, refuse, rule
from .rules_random import dropped

functions = _core.functions


@rule("aten.einsum")
def einsum(ctx, equation, operands, path=None):
    operands = emit.resolve("tensordot", *operands)
    dtype = dtypes.promote(*operands)
    return emit.op("einsum", *(emit.cast(x, dtype) for x in operands), equation=equation)


def _attention(ctx, q, k, v, mask, p, causal, scale):
    if p > 0:
        weights = _attention_weights(ctx, q, k, mask, causal, scale)
        return emit.op("matmul", dropped(weights, p), v)
    if mask is not None and mask.dtype != "bool":
        mask = emit.cast(mask, "float64" if q.dtype == "float64" else "float32")
    return functions.scaled_dot_product_attention(q, k, v, mask, causal, scale)


def _attention_weights(ctx, q, k, mask, causal, scale):
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q, k = emit.resolve("scaled_dot_product_attention", q, k)
    scores = emit.op("matmul", emit.scale(q, factor), k, transposeB=True)
    lowest = emit.scalar(torch.finfo(dtypes.torch_type(scores.dtype)).min, scores.dtype)
    if causal:
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        scores = emit.where(ctx.value(keep), scores, lowest)
    if mask is not None and mask.dtype == "bool":
        scores = emit.where(mask, scores, lowest)
    elif mask is not None:
        scores = emit.add(scores, emit.cast(mask, scores.dtype))
    return emit.op("softmax", scores, axis=len(scores.shape) - 1)


@rule("aten.scaled_dot_product_attention", eager=False)
def scaled_dot_product_attention(
    ctx, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if enable_gqa:
        raise _core.Unsupported("enable_gqa; repeat the heads of keys and values instead")
    return _attention(ctx, q, k, v, attn_mask, dropout_p, is_causal, scale)


@rule("aten._scaled_dot_product_attention", eager=False)
def scaled_dot_product_attention_1(
    ctx, q, k, v, attn_mask=None, dropout_p=0.0, need_attn_weights=False, is_causal=False
):
    """The form of torch 1.13, which may also return the weights."""
    if need_attn_weights:
        weights = _attention_weights(ctx, q, k, attn_mask, is_causal, None)
        weights = dropped(weights, dropout_p)
        return emit.op("matmul", weights, v), weights
    return _attention(ctx, q, k, v, attn_mask, dropout_p, is_causal, None), None


@raw_rule("aten._nested_tensor_from_mask_left_aligned", eager=False)
def nested_tensor_from_mask_left_aligned(ctx, x, mask):
    """Whether TransformerEncoder may pack padded sequences, which evaluated ones ask before anything else; a
    capture packs nothing."""
    return False


# Bags of embeddings.


@raw_rule("aten.embedding_bag", "aten.embedding_bag.padding_idx")
def embedding_bag(
    ctx,
    table,
    index,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Rows of the table are summed, averaged or compared per bag; bags begin at the offsets. Only
    the first of the four results, the bags, is made: the others serve torch's own gradient."""
    if scale_grad_by_freq:
        raise _core.Unsupported("scale_grad_by_freq is not supported")
    bags = offsets.numel() - int(include_last_offset)
    starts = emit.cast(ctx.value(offsets), "int64")
    places = emit.iota(index.numel())
    if include_last_offset:
        starts = emit.cut(starts, 0, 0, bags)
    bag_of = emit.shift(emit.op("bucketize", places, starts, right=True), -1)
    bag_of = emit.cast(bag_of, "int64")
    (rows,) = emit.resolve("embedding", ctx.value(table))
    index = ctx.value(index)
    rows = emit.op("gather", rows, index, axis=0)
    counted = emit.full([rows.shape[0]], 1, rows.dtype)
    if padding_idx is not None and padding_idx >= 0:
        real = emit.op("not_equal", index, emit.scalar(padding_idx, index.dtype))
        counted = emit.cast(real, rows.dtype)
    result = _bags(ctx, rows, bag_of, counted, bags, mode, per_sample_weights)
    unused = torch.zeros(0, dtype=torch.int64)
    return result, unused, unused, unused


def _bags(ctx, rows, bag_of, counted, bags, mode, weights):
    shape = [bags, rows.shape[1]]
    column = emit.reshape(counted, [rows.shape[0], 1])
    start = emit.full(shape, 0, rows.dtype)
    if mode == 2:
        lowest = emit.scalar(torch.finfo(dtypes.torch_type(rows.dtype)).min, rows.dtype)
        rows = emit.where(emit.cast(column, "bool"), rows, lowest)
        places = emit.broadcast(emit.reshape(bag_of, [rows.shape[0], 1]), rows.shape)
        low = emit.full(shape, float("-inf"), rows.dtype)
        best = emit.op("scatter_elements", low, places, rows, axis=0, reduction="max")
        empty = emit.op("less_equal", best, lowest)
        return emit.where(empty, emit.scalar(0, rows.dtype), best)
    if weights is not None:
        column = emit.mul(column, emit.reshape(ctx.value(weights), [rows.shape[0], 1]))
    total = emit.op("scatter_add", start, bag_of, emit.mul(rows, column), axis=0)
    if mode == 0:
        return total
    zeros = emit.full([bags], 0, rows.dtype)
    count = emit.op("scatter_add", zeros, bag_of, counted, axis=0)
    count = emit.op("maximum", count, emit.scalar(1, rows.dtype))
    return emit.div(total, emit.reshape(count, [bags, 1]))


# Recurrent layers. The product with the input is made for all steps at once, as torch does.

refuse(
    "packed sequences have steps of different batch sizes; give padded sequences",
    "aten.lstm.data",
    "aten.gru.data",
    "aten.rnn_tanh.data",
    "aten.rnn_relu.data",
    "aten._pack_padded_sequence",
)


def _gates(x, count):
    size = x.shape[-1] // count
    return emit.ops("split", [x], axis=len(x.shape) - 1, sizes=[size] * count)


def _lstm_step(given, state, weight, bias):
    h, c = state
    gates = emit.add(given, functions.linear(h, weight, bias))
    enter, keep, new, leave = _gates(gates, 4)
    kept = emit.mul(emit.op("sigmoid", keep), c)
    c = emit.add(kept, emit.mul(emit.op("sigmoid", enter), emit.op("tanh", new)))
    return emit.mul(emit.op("sigmoid", leave), emit.op("tanh", c)), c


def _projected(step, weight):
    """An LSTM whose output is a linear function of its own."""

    def projected(*args):
        h, c = step(*args)
        return functions.linear(h, weight, None), c

    return projected


def _gru_step(given, state, weight, bias):
    (h,) = state
    given = _gates(given, 3)
    own = _gates(functions.linear(h, weight, bias), 3)
    reset = emit.op("sigmoid", emit.add(given[0], own[0]))
    update = emit.op("sigmoid", emit.add(given[1], own[1]))
    new = emit.op("tanh", emit.add(given[2], emit.mul(reset, own[2])))
    return (emit.add(emit.mul(emit.sub(h, new), update), new),)


def _plain_step(function):
    def step(given, state, weight, bias):
        (h,) = state
        return (emit.op(function, emit.add(given, functions.linear(h, weight, bias))),)

    return step


def _direction(step, x, state, weights, reverse):
    """One layer in one direction: x is [steps, batch, features]."""
    own, hidden, *biases = weights
    own_bias, hidden_bias = biases if biases else (None, None)
    given = functions.linear(x, own, own_bias)
    rows = [emit.reshape(each, each.shape[1:]) for each in _steps(given)]
    outputs = []
    for row in reversed(rows) if reverse else rows:
        state = step(row, state, hidden, hidden_bias)
        outputs.append(state[0])
    outputs = outputs[::-1] if reverse else outputs
    lifted = [emit.reshape(each, [1, *each.shape]) for each in outputs]
    return emit.concat(lifted, 0), state


def _steps(x):
    n = x.shape[0]
    return [x] if n == 1 else emit.ops("split", [x], axis=0, sizes=[1] * n)


def _layers(step, x, states, weights, options, projects=False):
    """All layers. `states` has, per kind of state, one tensor per layer and direction."""
    has_biases, layers, p, train, bidirectional, batch_first = options
    if batch_first:
        x = emit.transpose(x, [1, 0, 2])
    directions = 2 if bidirectional else 1
    each = (4 if has_biases else 2) + projects
    last = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            i = layer * directions + direction
            part = weights[i * each : (i + 1) * each]
            state = tuple(kind[i] for kind in states)
            whole = step
            if projects:
                *part, projection = part
                whole = _projected(step, projection)
            out, state = _direction(whole, x, state, part, direction == 1)
            outputs.append(out)
            last.append(state)
        x = emit.concat(outputs, 2)
        if train and layer + 1 < layers:
            x = dropped(x, p)
    if batch_first:
        x = emit.transpose(x, [1, 0, 2])
    return x, [_stacked([state[i] for state in last]) for i in range(len(states))]


def _stacked(parts):
    return emit.concat([emit.reshape(p, [1, *p.shape]) for p in parts], 0)


def _split_states(x):
    return [emit.reshape(each, each.shape[1:]) for each in _steps(x)]


@rule("aten.lstm.input", eager=False)
def lstm(ctx, x, state, weights, has_biases, layers, p, train, bidirectional, batch_first):
    hidden, cell = state
    options = (has_biases, layers, p, train, bidirectional, batch_first)
    states = (_split_states(hidden), _split_states(cell))
    projects = hidden.shape[2] != cell.shape[2]
    out, (h, c) = _layers(_lstm_step, x, states, weights, options, projects)
    return out, h, c


def _recurrent(name, step):
    @rule(f"aten.{name}.input", eager=False)
    def apply(ctx, x, state, weights, has_biases, layers, p, train, bidirectional, batch_first):
        options = (has_biases, layers, p, train, bidirectional, batch_first)
        out, (h,) = _layers(step, x, (_split_states(state),), weights, options)
        return out, h


_recurrent("gru", _gru_step)
_recurrent("rnn_tanh", _plain_step("tanh"))
_recurrent("rnn_relu", _plain_step("relu"))
