"""Cases for views, copies and factories; see capture_cases.py."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from capture_cases import Case, INTS, normal, X

BATCH = normal(2, 3, 4)


def rows(x):
    a, b = x.unbind(0)
    return a * b


def strided(x):
    return x.as_strided((2, 3), (1, 4)), x.diagonal(), x.unfold(1, 2, 1), torch.diagonal(x, 1)


SHAPE = [
    Case(
        "view",
        lambda x: (
            x.view(6, 4),
            x.reshape(-1),
            x.flatten(1),
            x.view(2, -1) * 2,
            x.unsqueeze(1),
            x[:1].squeeze(0),
            x[:1].squeeze(),
            torch.unflatten(x, 2, (2, 2)),
            torch.ravel(x),
        ),
        BATCH,
    ),
    Case(
        "view_of_permuted",
        lambda x: (
            x.transpose(0, 1).reshape(3, 8),
            x.permute(2, 0, 1).contiguous().view(4, -1),
            x.mT,
            x.movedim(0, 2),
            x[0].t(),
            x[0].T,
            torch.swapaxes(x, 0, 2),
        ),
        BATCH,
    ),
    Case(
        "expand",
        lambda x: (
            x.expand(5, 2, 3, 4),
            x[:, :1].expand(-1, 6, -1),
            x[0].expand_as(x),
            torch.broadcast_to(x[0, 0], (3, 4)),
        ),
        BATCH,
    ),
    Case(
        "slice",
        lambda x: (
            x[1:],
            x[:, -2:],
            x[..., ::2],
            x[0, 1, 2],
            x[:, 1],
            x.narrow(2, 1, 2),
            x[None, :, 0],
            x.select(2, -1),
        ),
        BATCH,
    ),
    Case(
        "split",
        lambda x: (
            x.split(2, 2),
            x.chunk(3, 1),
            x.split([1, 3], 2),
            x.tensor_split(2, 2),
            torch.unsafe_split(x, 2, 2),
            torch.unsafe_chunk(x, 2, 2),
            x.unbind(1),
            torch.unsafe_split_with_sizes(x, [1, 3], 2),
        ),
        BATCH,
    ),
    Case("unbind", rows, BATCH),
    Case("iterate", lambda x: [row * i for i, row in enumerate(x)], BATCH),
    Case("strided", strided, normal(4, 4)),
    Case("alias", lambda x: (torch.ops.aten.alias(x), x.view_as(x), x.clone()), BATCH),
    Case("detach", lambda x: (x * x.detach(), x.data * 2), BATCH),
    Case(
        "cat",
        lambda x, y: (
            torch.cat([x, y], 1),
            torch.stack([x, y], -1),
            torch.hstack([x, y]),
            torch.cat([x, torch.zeros(0)]),
            torch.vstack([x, y]),
            torch.concat([x, y]),
            torch.ops.aten.concatenate([x, y]) if hasattr(torch.ops.aten, "concatenate") else x,
        ),
        X,
        X,
    ),
    Case("cat_types", lambda x, i: (torch.cat([x, i]), torch.stack([i, i.int()])), X, INTS),
    Case("cat_empty_types", lambda i: (torch.cat([i, i[:0, 0].double()]), torch.cat([i[:0, 0].int(), i])), INTS),
    Case(
        "repeat",
        lambda x: (
            x.repeat(2, 1),
            x.repeat(2, 1, 3),
            torch.tile(x, (2,)),
            x.repeat_interleave(2, 1),
            x.repeat_interleave(torch.tensor([1, 2, 0]), dim=0),
        ),
        X,
    ),
    Case("flip_of_a_part", lambda x: (x[:, :2].flip(0).view(-1), x[:, 1:].t().flip(0).t().view(-1)), X),
    Case("flip", lambda x: (x.flip(0), x.flip(0, 1), torch.fliplr(x), x.flip(())), X),
    Case("roll", lambda x: (x.roll(1), x.roll((1, -2), (0, 1)), x.roll(0, 0)), X),
    Case("rot90", lambda x: [torch.rot90(x, k, (0, 1)) for k in range(4)], X),
    Case("tril", lambda x: (x.tril(), x.triu(1), x.tril(-1)), X),
    Case(
        "diag_embed",
        lambda x: (torch.diag_embed(x), torch.diag_embed(x, 1), torch.diag(x[0]), torch.diag(x, 1)),
        X,
    ),
    Case("block_diag", lambda x, y, i: torch.block_diag(x, y[0], y[0, 0], i), X, X, INTS),
    Case(
        "scatters",
        lambda x, y: (
            torch.slice_scatter(x, y, 1, 1, 4, 2),
            torch.select_scatter(x, y[:, 0], 1, 2),
            torch.diagonal_scatter(x, y[:, 1], 1),
        ),
        X,
        normal(3, 2),
    ),
    Case(
        "pad",
        lambda x: (
            F.pad(x, (1, 2)),
            F.pad(x, (1, 0, 2, 1), value=3.0),
            F.pad(x, (-1, 1)),
            F.pad(x > 0, (1, 1), value=True),
        ),
        X,
    ),
    Case(
        "pad_modes",
        lambda x: (
            F.pad(x, (2, 1), mode="reflect"),
            F.pad(x, (2, 1), mode="replicate"),
            F.pad(x, (2, 1), mode="circular"),
        ),
        BATCH,
    ),
    Case(
        "pad_modes_2d",
        lambda x: (
            nn.ReflectionPad2d((1, 2, 1, 0))(x),
            nn.ReplicationPad2d(2)(x),
            nn.ZeroPad2d(1)(x),
            nn.ConstantPad2d(1, 2.0)(x),
        ),
        normal(2, 2, 3, 4),
    ),
    Case(
        "pad_modes_3d",
        lambda x: (
            nn.ReplicationPad3d(1)(x),
            F.pad(x, (1, 1, 1, 1, 1, 1), mode="reflect"),
            nn.ConstantPad3d(1, 0.5)(x),
        ),
        normal(1, 2, 3, 3, 3),
    ),
    Case(
        "pixel_shuffle",
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)),
        normal(2, 4, 2, 4),
    ),
    Case("channel_shuffle", lambda x: F.channel_shuffle(x, 2), normal(2, 4, 2, 2), grad=False),
    Case(
        "unfold",
        lambda x: (F.unfold(x, (2, 2), padding=1, stride=2), F.unfold(x, 3)),
        normal(2, 3, 5, 4),
    ),
    Case("fold", lambda x: F.fold(x, (4, 5), (2, 2), padding=1, stride=1), normal(2, 8, 30)),
    Case(
        "types",
        lambda x, i: (
            x.double(),
            x.half(),
            x.to(torch.bfloat16).float(),
            x.long(),
            i.float(),
            x.bool(),
            x.type_as(i),
            x.to(x.dtype, copy=True),
            i.to(torch.int32),
        ),
        X,
        INTS,
        grad=False,
    ),
    Case(
        "like",
        lambda x, i: (
            torch.zeros_like(x) + x,
            torch.ones_like(i),
            torch.full_like(x, 2) * x,
            torch.empty_like(x).fill_(2),
            x.new_zeros(2),
            x.new_ones(2, 2),
            x.new_full((2,), 3.0),
            x.new_empty(2).fill_(1.0),
            torch.ones_like(x, dtype=torch.int32),
            x.new_empty_strided((2, 2), (1, 2)).fill_(1.0),
        ),
        X,
        INTS,
    ),
    Case(
        "factories",
        lambda x: (
            torch.zeros(2) + x[0, 0],
            torch.arange(4) * x,
            torch.linspace(0, 1, 4) * x,
            torch.eye(4) + x[0],
            torch.full((2,), 3.0) * x[0, 0],
            torch.empty(2).fill_(3.0),
            torch.tensor([1.0, 2.0]),
        ),
        X,
        grad=False,
    ),
    Case(
        "meshgrid",
        lambda x: (torch.meshgrid(x[0], x[1], indexing="ij"), torch.cartesian_prod(x[0], x[1])),
        X,
    ),
    Case("large_constant", lambda x: x + torch.ones(20, 20) * 3, normal(20, 20)),
]
