"""Cases for indices; see capture_cases.py."""

import torch
import torch.nn.functional as F
from capture_cases import Case, integers, INTS, Make, mask, normal, values, X

TABLE = normal(5, 3)


def put(x, i, y):
    a, b, c = x.clone(), x.clone(), x.clone()
    a[i] = y
    b[:, i] = 2.0
    c.index_put_((i, i), y[:, 0], accumulate=True)
    return a, b, c


def put_masks(x, c):
    y, z = x.clone(), x.clone()
    y[c] = 3.0
    z[torch.tensor([True, False, True])] = 1.0
    z[:, torch.tensor([True, False, False, True])] += 2.0
    return y, z


def dynamic_row(x, i):
    return x[i], x[i, 1:], x[:, i]


INDEX = [
    Case(
        "gather",
        lambda x, i: (x.gather(1, i), x.gather(0, i[:2] % 3), torch.take_along_dim(x, i, 1)),
        X,
        integers(4, 3, 2),
    ),
    Case(
        "scatter_parts",
        lambda x, i, y: (x.scatter(1, i, y), x.scatter_add(0, i[:2], y)),
        X,
        values([0, 2], [2, 1]),
        normal(3, 3),
        grad=False,
    ),
    Case(
        "index_select",
        lambda x, i: (x.index_select(0, i), x.index_select(1, i), torch.take(x, i)),
        X,
        integers(3, 5),
    ),
    Case(
        "scatter",
        lambda x, i, y: (
            x.scatter(1, i, y),
            x.scatter(1, i, 2.0),
            x.scatter_add(1, i, y),
            x.scatter(0, i[:2] % 3, y[:2]),
        ),
        X,
        values([0, 2], [3, 1], [1, 0]),
        normal(3, 2),
    ),
    Case(
        "scatter_kinds",
        lambda x, i, y: (
            x.scatter(1, i, y, reduce="add"),
            x.scatter(1, i, y, reduce="multiply"),
            x.scatter(1, i, 2.0, reduce="multiply"),
            x.scatter(1, i, 2.0, reduce="add"),
        ),
        X,
        integers(4, 3, 2),
        normal(3, 2),
        grad=False,
    ),
    Case(
        "scatter_reduce",
        lambda x, i, y: [
            x.scatter_reduce(1, i, y, r, include_self=s)
            for r in ("sum", "prod", "mean", "amax", "amin")
            for s in (True, False)
        ],
        X,
        integers(4, 3, 5),
        normal(3, 5),
        grad=False,
    ),
    Case(
        "scatter_reduce_grad",
        lambda x, i, y: [x.scatter_reduce(1, i, y, r) for r in ("sum", "mean", "amax", "amin")],
        X,
        values([0, 2], [3, 1], [1, 0]),
        normal(3, 2),
    ),
    Case(
        "index_add",
        lambda x, i, y: (x.index_add(0, i, y), x.index_add(0, i, y, alpha=2)),
        X,
        integers(3, 5),
        normal(5, 4),
    ),
    Case("index_add_integers", lambda x, i: x.index_add(0, i, x[:2]), INTS, integers(3, 2)),
    Case(
        "index_copy",
        lambda x, i, y: (
            x.index_copy(0, i, y),
            x.index_fill(0, i, 3.0),
            x.index_fill(1, i, torch.tensor(2.0)),
        ),
        X,
        values(2, 0),
        normal(2, 4),
    ),
    Case(
        "index_reduce",
        lambda x, i, y: [
            x.index_reduce(0, i, y, r, include_self=s)
            for r in ("prod", "mean", "amax", "amin")
            for s in (True, False)
        ],
        X,
        integers(3, 5),
        normal(5, 4),
        grad=False,
    ),
    Case(
        "means_of_integers",
        lambda x, i, y: (
            x.scatter_reduce(1, i, y, "mean"),
            x.scatter_reduce(0, i[:, :2] % 3, y, "mean", include_self=False),
            x.index_reduce(1, i[0], y, "mean"),
        ),
        values([-1, -2, 5], [3, -4, 0], [-7, 8, -9]),
        values([0, 2, 0], [1, 1, 1], [2, 2, 0]),
        values([-2, -3, 4], [5, -6, 0], [-2, 7, -8]),
    ),
    Case(
        "index",
        lambda x, i: (x[i], x[:, i], x[i, i], x[i[:, None], i], x[i, :, i], x[-i], x[-i, i, -1]),
        normal(4, 4, 4),
        integers(4, 3),
    ),
    Case(
        "index_known",
        lambda x: (
            x[[0, 2]],
            x[torch.tensor([True, False, True])],
            x[:, torch.tensor([1, 1])],
            x[torch.tensor(1)],
        ),
        X,
    ),
    Case(
        "masked_scatter",
        lambda x, c, y: (
            x.masked_scatter(c, y),
            x.masked_scatter(c[0], y[0]),
            x.masked_select(torch.arange(4) % 3 == 0),
            x[0].masked_select(torch.eye(4, dtype=torch.bool)),
        ),
        X,
        mask(3, 4),
        normal(2, 4, 4),
    ),
    Case("index_scalar", dynamic_row, normal(4, 4), Make(lambda g: torch.tensor(2))),
    Case("index_put", put, normal(4, 4), values(2, 0), normal(2, 4)),
    Case("index_put_masks", put_masks, X, mask(3, 4)),
    Case(
        "embedding",
        lambda w, i: (F.embedding(i, w), F.embedding(i, w, padding_idx=1)),
        TABLE,
        integers(5, 2, 3),
    ),
    Case("one_hot", lambda i: F.one_hot(i, 5), integers(5, 2, 3)),
    Case(
        "bucketize",
        lambda x, b: (
            torch.bucketize(x, b.sort()[0]),
            torch.bucketize(x, b.sort()[0], right=True, out_int32=True),
        ),
        X,
        normal(4),
        grad=False,
    ),
    Case(
        "searchsorted",
        lambda x, b: (
            torch.searchsorted(b[0].sort()[0], x),
            torch.searchsorted(b.sort(1)[0], x, right=True, out_int32=True),
            torch.searchsorted(x.long().sort(1)[0], b.long()),
            torch.searchsorted(b[0].sort()[0], 0.5, side="right"),
        ),
        X,
        normal(3, 5),
        grad=False,
    ),
    Case(
        "bincount",
        lambda i, w: (torch.bincount(i, minlength=6), torch.bincount(i, weights=w, minlength=6)),
        values(0, 5, 3, 3, 0),
        normal(5),
        grad=False,
    ),
]
