"""Products of matrices and other sums of products."""

from . import emit
from .registry import raw_rule, rule
from .rules_math import common


def _matrix(ctx, x):
    """A tensor's value and whether it is to be transposed: the view `w.t()` is `w`, transposed."""
    node = ctx.symbolic(x).node
    below = getattr(node, "swaps_last_axes", None)
    if below is not None and len(below.read().shape) >= 2:
        return below.read(), True
    return node.read(), False


def product(ctx, function, x, y):
    """The matrix product of two tensors of torch, without copies of transposed views."""
    left, flip_left = _matrix(ctx, x)
    right, flip_right = _matrix(ctx, y)
    left, right = emit.resolve(function, left, right)
    attrs = {"transposeA": True} if flip_left else {}
    if flip_right:
        attrs["transposeB"] = True
    return emit.op("matmul", left, right, **attrs)


@raw_rule("aten.mm")
def mm(ctx, x, y):
    return product(ctx, "mm", x, y)


@raw_rule("aten.bmm")
def bmm(ctx, x, y):
    return product(ctx, "bmm", x, y)


@raw_rule("aten.mv")
def mv(ctx, x, y):
    return product(ctx, "mv", x, y)


@raw_rule("aten.dot", "aten.vdot")
def dot(ctx, x, y):
    return product(ctx, "dot", x, y)


@raw_rule("aten.matmul")
def matmul(ctx, x, y):
    ranks = (x.dim(), y.dim())
    names = {(1, 1): "dot", (2, 2): "mm", (3, 3): "bmm", (2, 1): "mv"}
    return product(ctx, names.get(ranks, "matmul"), x, y)


def _plus(ctx, function, start, beta, alpha, x, y):
    """beta * start + alpha * (x y)."""
    total = emit.scale(product(ctx, function, x, y), alpha)
    if beta == 0:
        return total
    start = emit.scale(emit.cast(ctx.value(start), total.dtype), beta)
    return emit.add(total, start)


@raw_rule("aten.addmm")
def addmm(ctx, start, x, y, beta=1, alpha=1):
    return _plus(ctx, "addmm", start, beta, alpha, x, y)


@raw_rule("aten.addmv")
def addmv(ctx, start, x, y, beta=1, alpha=1):
    return _plus(ctx, "mv", start, beta, alpha, x, y)


@rule("aten.addr")
def addr(ctx, start, x, y, beta=1, alpha=1):
    x, y = common(None, emit.reshape(x, [x.shape[0], 1]), y)
    total = emit.scale(emit.mul(x, y), alpha)
    return total if beta == 0 else emit.add(total, emit.scale(emit.cast(start, total.dtype), beta))


@raw_rule("aten.baddbmm")
def baddbmm(ctx, start, x, y, beta=1, alpha=1):
    return _plus(ctx, "bmm", start, beta, alpha, x, y)


@raw_rule("aten.addbmm")
def addbmm(ctx, start, x, y, beta=1, alpha=1):
    total = emit.reduce("reduce_sum", product(ctx, "bmm", x, y), [0])
    total = emit.scale(total, alpha)
    return emit.add(total, emit.scale(ctx.value(start), beta))


@rule("aten.linalg_cross")
def cross(ctx, x, y, dim=-1):
    x, y = common("cross", x, y)
    shape = [max(a, b) for a, b in zip(x.shape, y.shape)]
    x, y = emit.broadcast(x, shape), emit.broadcast(y, shape)
    axis = emit.axis_of(dim, len(shape))
    a, b = ([emit.cut(v, axis, i, i + 1) for i in range(3)] for v in (x, y))
    parts = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts.append(emit.sub(emit.mul(a[j], b[k]), emit.mul(a[k], b[j])))
    return emit.concat(parts, axis)


@rule("aten._trilinear")
def trilinear(ctx, x, y, z, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over some axes of the product of three tensors that each lack some of the axes."""
    rank = len(x.shape) + len(expand1)
    letters = "abcdefghijklm"[:rank]
    names = [
        "".join(c for i, c in enumerate(letters) if i not in missing)
        for missing in (expand1, expand2, expand3)
    ]
    out = "".join(c for i, c in enumerate(letters) if i not in sumdim)
    x, y, z = emit.resolve("bilinear", x, y, z)
    return emit.op("einsum", x, y, z, equation=",".join(names) + "->" + out)
