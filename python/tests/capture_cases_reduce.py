"""Cases for reductions and sorting; see capture_cases.py."""

import math

import torch
import torch.nn.functional as F
from capture_cases import between, Case, integers, INTS, mask, normal, values, X

REDUCE = [
    Case(
        "sum",
        lambda x: (
            x.sum(),
            x.sum(1),
            x.sum((0, 1), keepdim=True),
            x.sum(dtype=torch.float64),
            x[0, 0].sum(),
        ),
        X,
    ),
    Case(
        "sum_integers",
        lambda i, a: (i.sum(), i.int().sum(0), a.sum(1), i.prod(), i.float().sum()),
        integers(3, 3, 4),
        mask(3, 4),
    ),
    Case("nansum", lambda x: (torch.nansum(torch.log(x)), torch.nansum(x, 1)), X, grad=False),
    Case("mean", lambda x: (x.mean(), x.mean(0), x.mean((0, 1), keepdim=True), x.mean(-1)), X),
    Case("prod", lambda x: (x.prod(), x.prod(1), x.prod(0, keepdim=True)), X),
    Case("amax", lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min()), X),
    Case("aminmax", lambda x: (torch.aminmax(x), torch.aminmax(x, dim=1)), X, grad=False),
    Case("amax_bool", lambda a: (a.max(), a.amin(1), a.any(), a.all()), mask(3, 4)),
    Case(
        "arg",
        lambda x: (
            x.argmax(),
            x.argmax(1),
            x.argmin(0, keepdim=True),
            x.argmin(),
            x[0, 0].argmax(),
        ),
        X,
        grad=False,
    ),
    Case(
        "arg_integers",
        lambda i: (i.argmax(1), i.argmin(1), i.max(1)[0], i.min(0)[0]),
        values([3, -1, 7], [2, 9, 4]),
    ),
    Case("max_dim", lambda x: (x.max(1), x.min(0), x.max(1, keepdim=True), x[0, 0].max(0)), X),
    Case(
        "any",
        lambda x, a: (
            (x > 1).any(),
            (x > 0).any(1),
            (x > 0).all(0, keepdim=True),
            a.all(),
            a.byte().any(1),
        ),
        X,
        mask(3, 4),
        grad=False,
    ),
    Case(
        "count_nonzero",
        lambda x: (
            torch.count_nonzero(x > 0),
            torch.count_nonzero(x.relu(), dim=1),
            torch.count_nonzero(x, dim=(0, 1)),
        ),
        X,
        grad=False,
    ),
    Case(
        "logsumexp",
        lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, (0, 1), keepdim=True)),
        X,
    ),
    Case(
        "var",
        lambda x: (
            x.var(),
            x.var(1),
            x.std(0, unbiased=False),
            x.std(),
            torch.var_mean(x, 1),
            torch.std_mean(x),
            x.var(1, keepdim=True),
        ),
        X,
    ),
    Case(
        "norm",
        lambda x: (
            torch.norm(x),
            x.norm(1),
            x.norm(dim=1),
            x.norm(p=3, dim=0, keepdim=True),
            torch.norm(x, p=math.inf),
            torch.norm(x, p=2, dim=1, dtype=torch.float64),
            torch.norm(x, p=2, dtype=torch.float64),
        ),
        X,
    ),
    Case(
        "linalg_norm",
        lambda x: (
            torch.ops.aten.norm.Scalar(x, 3),
            torch.ops.aten.norm.ScalarOpt_dtype(x, 2, dtype=torch.float64),
            torch.ops.aten.norm.ScalarOpt_dim_dtype(x, 2, [1], True, dtype=torch.float64),
            torch.linalg.norm(x),
            torch.linalg.vector_norm(x, 3),
            torch.linalg.vector_norm(x, -math.inf, dim=1),
            torch.linalg.vector_norm(x, 0, dim=1),
            torch.linalg.matrix_norm(x),
            torch.linalg.matrix_norm(x, 1),
            torch.linalg.norm(x, ord=math.inf),
        ),
        X,
    ),
    Case(
        "distances",
        lambda x, y: (
            torch.cdist(x, y),
            torch.cdist(x, y, p=1.0),
            torch.dist(x, y[:3], 2),
            F.pairwise_distance(x, y[:3]),
        ),
        normal(3, 4),
        normal(5, 4),
    ),
    Case("topk", lambda x: (torch.topk(x, 2), torch.topk(x, 2, dim=0, largest=False)), X),
    Case(
        "sort",
        lambda x: (
            torch.sort(x),
            torch.sort(x, 0, descending=True),
            torch.argsort(x, 1),
            torch.sort(x, stable=True, dim=0),
        ),
        X,
    ),
    Case(
        "kthvalue",
        lambda x: (torch.kthvalue(x, 2), torch.kthvalue(x, 1, dim=0, keepdim=True)),
        X,
    ),
    Case("median", lambda x: (x.median(), x.median(1), x.median(0, keepdim=True)), X),
    Case("nanmedian", lambda x, i: (x.nanmedian(), x.nanmedian(1), i.nanmedian(0, keepdim=True)), X, INTS),
    Case(
        "cumsum",
        lambda x, i: (x.cumsum(1), x.cumsum(0), i.cumsum(1), x[0, 0].cumsum(0)),
        X,
        INTS,
    ),
    Case(
        "running_extremes",
        lambda x, i: (
            x.cummax(1),
            x.cummin(0),
            x.round().cummax(0),  # of equal ones the last
            x.round().cummin(1),
            i.cummax(1),
            (i > 0).cummin(0),
            x[0, 0].cummax(0),
        ),
        normal(6, 7),
        INTS,
    ),
    Case("logcumsumexp", lambda x: (x.logcumsumexp(1), x.logcumsumexp(0), x[0, 0].logcumsumexp(0)), normal(6, 7)),
    Case("cumprod", lambda x: (x.cumprod(1), x.cumprod(0)), between(0.5, 1.5, 5, 7)),
    Case("trace", lambda x: x.trace(), normal(4, 5)),
    Case(
        "softmax",
        lambda x: (
            F.softmax(x, 1),
            F.log_softmax(x, 0),
            F.softmin(x, -1),
            torch.softmax(x, 1, dtype=torch.float64),
            F.softmax(x[0, 0], 0),
        ),
        X,
    ),
    Case(
        "softmax_parts",
        lambda x: (torch.ops.aten._softmax(x, 1, False), torch.ops.aten._log_softmax(x, 1, False)),
        X,
    ),
]
