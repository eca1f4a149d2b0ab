"""Cases for layers, losses and composites; see capture_cases.py."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from capture_cases import POSITIVE, Case, X, between, integers, normal, values

IMAGE = normal(2, 4, 6, 5)


def layer(module, *inputs, **options):
    return Case(repr(module).replace("\n", ""), module, *inputs, **options)


ACTIVATIONS = [
    layer(nn.ELU(0.7), X),
    layer(nn.CELU(0.7), X),
    layer(nn.SELU(), X),
    layer(nn.GELU(), X),
    layer(nn.GELU("tanh"), X),
    layer(nn.ReLU(), X),
    layer(nn.ReLU6(), X),
    layer(nn.LeakyReLU(0.2), X),
    layer(nn.SiLU(), X),
    layer(nn.Mish(), X),
    layer(nn.Hardshrink(0.3), X),
    layer(nn.Softshrink(0.3), X),
    layer(nn.Tanhshrink(), X),
    layer(nn.Hardsigmoid(), X),
    layer(nn.Hardswish(), X),
    layer(nn.Hardtanh(-0.5, 0.7), X),
    layer(nn.Softplus(), X),
    layer(nn.Softplus(2.0), X),
    layer(nn.Softplus(2.0, 0.5), X),
    layer(nn.Softsign(), X),
    layer(nn.LogSigmoid(), X),
    layer(nn.Threshold(0.1, 2.0), X),
    layer(nn.PReLU(), X),
    layer(nn.PReLU(4), X),
    layer(nn.PReLU(4), IMAGE),
    layer(nn.GLU(1), X),
    layer(nn.RReLU().eval(), X),
    layer(nn.Softmax2d(), IMAGE),
    Case("relu_integers", F.relu, integers(5, 3, 4, low=-5)),
    Case("elu_scaled", lambda x: torch.ops.aten.elu(x, 0.7, 1.3, 0.9), X),
]

def sized(nearest, *others):
    """The functions of aten for given sizes, with their other arguments."""
    ops = torch.ops.aten
    yield getattr(ops, "upsample_" + nearest), ()
    yield getattr(ops, "_upsample_" + nearest.replace("nearest", "nearest_exact")), ()
    for name in others:
        for corners in (True, False):
            yield getattr(ops, "upsample_" + name), (corners,)


LAYERS = [
    layer(nn.Linear(4, 5), X),
    layer(nn.Linear(4, 5, bias=False), normal(2, 3, 4)),
    layer(nn.Linear(4, 5), normal(4)),
    layer(nn.Conv1d(4, 6, 3, padding=1, stride=2), normal(2, 4, 7)),
    layer(nn.Conv2d(4, 6, 3, padding=(1, 0), groups=2), IMAGE),
    layer(nn.Conv2d(4, 6, 3, dilation=2, padding=2, bias=False), IMAGE),
    layer(nn.Conv2d(4, 2, (3, 2), padding="same"), IMAGE),
    layer(nn.Conv2d(4, 2, 3, padding="valid"), IMAGE),
    layer(nn.Conv2d(4, 2, 3), normal(4, 5, 5)),
    layer(nn.Conv1d(4, 2, 2, padding="same"), normal(2, 4, 7)),
    layer(nn.Conv3d(2, 3, 2, padding="same"), normal(1, 2, 3, 4, 3)),
    layer(nn.Conv2d(4, 2, 3, padding=1, padding_mode="circular"), IMAGE),
    layer(nn.Conv3d(2, 3, 2), normal(1, 2, 3, 4, 3)),
    layer(nn.ConvTranspose1d(4, 3, 3, stride=2), normal(2, 4, 5)),
    layer(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), IMAGE),
    layer(nn.ConvTranspose3d(2, 3, 2), normal(1, 2, 3, 3, 3)),
    Case(
        "convolution",
        lambda x, w, b: torch.convolution(x, w, b, [1], [1], [1], False, [0], 1),
        normal(2, 3, 5),
        normal(4, 3, 3),
        normal(4),
    ),
    layer(nn.MaxPool1d(2), normal(2, 3, 8)),
    layer(nn.MaxPool2d(3, 2, 1), IMAGE),
    layer(nn.MaxPool2d(2, ceil_mode=True), IMAGE),
    layer(nn.MaxPool2d(2, 1, dilation=2), normal(4, 5, 5)),
    layer(nn.MaxPool3d(2), normal(1, 2, 4, 4, 4)),
    Case("max_pool_with_places", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), IMAGE),
    Case(
        "max_pool1d_with_places",
        lambda x: F.max_pool1d(x, 2, return_indices=True),
        normal(2, 3, 8),
    ),
    Case(
        "max_pool3d_with_places",
        lambda x: F.max_pool3d(x, 2, return_indices=True),
        normal(1, 2, 4, 4, 4),
    ),
    Case("max_unpool1d", lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), normal(2, 3, 8)),
    Case(
        "max_unpool2d",
        lambda x: (
            F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]),
            F.max_unpool2d(*F.max_pool2d(x[0], 2, return_indices=True), 2, output_size=x.shape[-2:]),
        ),
        IMAGE,
    ),
    Case("max_unpool3d", lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), normal(1, 2, 4, 4, 4)),
    layer(nn.AvgPool1d(2), normal(2, 3, 8)),
    layer(nn.AvgPool2d(3, 2, 1), IMAGE),
    layer(nn.AvgPool2d(3, 2, 1, count_include_pad=False, ceil_mode=True), IMAGE),
    layer(nn.AvgPool2d(2, divisor_override=3), IMAGE),
    layer(nn.AvgPool3d(2), normal(1, 2, 4, 4, 4)),
    layer(nn.AdaptiveAvgPool1d(3), normal(2, 3, 8)),
    layer(nn.AdaptiveAvgPool2d(1), IMAGE),
    layer(nn.AdaptiveAvgPool2d((3, 2)), IMAGE),
    layer(nn.AdaptiveAvgPool2d((None, 1)), IMAGE),
    layer(nn.AdaptiveAvgPool3d(2), normal(1, 2, 4, 3, 4)),
    layer(nn.AdaptiveMaxPool1d(4), normal(2, 3, 8)),
    layer(nn.AdaptiveMaxPool2d((3, 5)), IMAGE),
    layer(nn.AdaptiveMaxPool3d(2), normal(1, 2, 4, 4, 4)),
    layer(nn.BatchNorm1d(4), X),
    layer(nn.BatchNorm2d(4), IMAGE),
    layer(nn.BatchNorm2d(4, affine=False), IMAGE),
    layer(nn.BatchNorm2d(4, track_running_stats=False), IMAGE),
    layer(nn.BatchNorm3d(2), normal(2, 2, 2, 3, 2)),
    layer(nn.BatchNorm2d(4).eval(), IMAGE),
    layer(nn.LayerNorm(4), X),
    layer(nn.LayerNorm((6, 5), elementwise_affine=False), IMAGE),
    layer(nn.GroupNorm(2, 4), IMAGE),
    layer(nn.GroupNorm(2, 4, affine=False), X),
    layer(nn.InstanceNorm1d(3), normal(2, 3, 8)),
    layer(nn.InstanceNorm2d(4, affine=True), IMAGE),
    layer(nn.InstanceNorm3d(2, track_running_stats=True), normal(2, 2, 2, 3, 2)),
    layer(nn.LocalResponseNorm(2), IMAGE),
    Case("weight_norm", lambda v, g: torch._weight_norm(v, g, 0), X, normal(3, 1)),
    layer(nn.CosineSimilarity(), X, X),
    layer(nn.PairwiseDistance(), X, X),
    layer(nn.Upsample(scale_factor=2), IMAGE),
    layer(nn.Upsample(size=(4, 7)), IMAGE),
    layer(nn.Upsample(scale_factor=1.5, mode="nearest-exact"), IMAGE),
    layer(nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    layer(nn.Upsample(size=(9, 4), mode="bilinear", align_corners=True), IMAGE),
    layer(nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True), normal(1, 2, 3, 5)),
    layer(nn.Upsample(scale_factor=(1.5, 0.7), mode="bicubic", align_corners=True), normal(1, 2, 3, 5)),
    layer(nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    layer(nn.Upsample(scale_factor=2), normal(2, 3, 5)),
    layer(nn.Upsample(scale_factor=2, mode="linear"), normal(2, 3, 5)),
    layer(nn.Upsample(scale_factor=2), normal(1, 2, 3, 3, 3)),
    layer(nn.Upsample(scale_factor=2, mode="trilinear"), normal(1, 2, 3, 3, 3)),
    Case(
        "upsample_1d",
        lambda x: [f(x, [7], *a) for f, a in sized("nearest1d", "linear1d")],
        normal(2, 3, 5),
    ),
    Case(
        "upsample_2d",
        lambda x: [f(x, [4, 7], *a) for f, a in sized("nearest2d", "bilinear2d", "bicubic2d")],
        IMAGE,
    ),
    Case(
        "upsample_3d",
        lambda x: [f(x, [2, 4, 7], *a) for f, a in sized("nearest3d", "trilinear3d")],
        normal(1, 2, 3, 3, 3),
    ),
    Case(
        "upsample_exact",
        lambda x: (
            F.interpolate(x[:, :, 0], scale_factor=1.4, mode="nearest-exact"),
            F.interpolate(x[:, :, None], scale_factor=1.4, mode="nearest-exact"),
            F.interpolate(x[:, :, 0], scale_factor=1.4),
        ),
        IMAGE,
    ),
    Case(
        "grid_sample",
        lambda x, g: (
            F.grid_sample(x, g, align_corners=False),
            F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
        ),
        IMAGE,
        between(-0.9, 0.9, 2, 3, 3, 2),
    ),
    Case(
        "grid_sampler_2d",
        lambda x, g: torch.ops.aten.grid_sampler_2d(x, g, 0, 2, False),
        IMAGE,
        between(-0.9, 0.9, 2, 3, 3, 2),
    ),
    layer(nn.Embedding(5, 3), integers(5, 2, 3)),
    layer(nn.Embedding(5, 3, padding_idx=2), integers(5, 2, 3)),
    layer(nn.EmbeddingBag(5, 3), integers(5, 2, 3)),
    layer(nn.EmbeddingBag(5, 3, mode="sum", padding_idx=2), integers(5, 6), values(0, 2, 2, 5)),
    layer(
        nn.EmbeddingBag(5, 3, mode="mean", include_last_offset=True),
        integers(5, 6),
        values(0, 2, 6),
    ),
    layer(nn.EmbeddingBag(5, 3, mode="max"), integers(5, 2, 3)),
    Case(
        "embedding_bag_weights",
        lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        normal(5, 3),
        integers(5, 2, 3),
        normal(2, 3),
    ),
    Case(
        "embedding_bag_plain",
        lambda w, i, o: torch.embedding_bag(w, i, o)[0],
        normal(5, 3),
        integers(5, 6),
        values(0, 2),
    ),
]

SEQUENCE = normal(5, 2, 3)

RECURRENT = [
    layer(nn.LSTM(3, 4), SEQUENCE),
    layer(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), SEQUENCE),
    layer(nn.LSTM(3, 4, bias=False), normal(5, 3)),
    layer(nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True), SEQUENCE),
    layer(nn.LSTM(3, 4, proj_size=2, bias=False), SEQUENCE),
    layer(nn.GRU(3, 4), SEQUENCE),
    layer(nn.GRU(3, 4, 2, bidirectional=True), SEQUENCE),
    layer(nn.RNN(3, 4), SEQUENCE),
    layer(nn.RNN(3, 4, nonlinearity="relu", batch_first=True), SEQUENCE),
    layer(nn.LSTMCell(3, 4), normal(2, 3)),
    layer(nn.GRUCell(3, 4), normal(2, 3)),
    layer(nn.RNNCell(3, 4), normal(2, 3)),
]

MASK = values(
    [True, False, True, True, True],
    [True] * 5,
    [False] * 4 + [True],
    [True] * 5,
    [True] * 5,
)


def attention(x, m):
    """All forms of masks; torch 1.13 has the function under a private name."""
    if hasattr(F, "scaled_dot_product_attention"):
        return [
            F.scaled_dot_product_attention(x, x, x),
            F.scaled_dot_product_attention(x, x, x, is_causal=True),
            F.scaled_dot_product_attention(x, x, x, m),
            F.scaled_dot_product_attention(x, x, x, m.float()),
        ]
    f = torch._C._nn._scaled_dot_product_attention
    return [
        f(x, x, x)[0],
        f(x, x, x, is_causal=True)[0],
        f(x, x, x, m)[0],
        f(x, x, x, m.float())[0],
        f(x, x, x, m, need_attn_weights=True),
        f(x, x, x, m.to(x.dtype), need_attn_weights=True),
        f(x, x, x, need_attn_weights=True, is_causal=True),
    ]


class Padded(nn.Module):
    """An evaluated encoder of padded sequences, which torch would pack where no gradients are wanted."""

    def __init__(self):
        super().__init__()
        part = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(part, 2).eval()

    def forward(self, x, lengths):
        return self.encoder(x, src_key_padding_mask=torch.arange(5) >= lengths[:, None])


ENCODER = nn.TransformerEncoderLayer(
    4, 2, 8, activation="gelu", norm_first=True, batch_first=True
)

ATTENTION = [
    layer(nn.MultiheadAttention(4, 2), normal(5, 2, 4), normal(6, 2, 4), normal(6, 2, 4)),
    layer(
        nn.MultiheadAttention(4, 2, batch_first=True, bias=False).eval(),
        normal(2, 5, 4),
        normal(2, 6, 4),
        normal(2, 6, 4),
    ),
    layer(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), normal(5, 2, 4)),
    layer(ENCODER.eval(), normal(2, 5, 4)),
    layer(Padded(), normal(2, 5, 4), values(3, 5)),
    layer(nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), normal(5, 2, 4), normal(6, 2, 4)),
    Case("attention_masks", attention, normal(2, 3, 5, 4), MASK),
]

LABELS = integers(5, 3)
SCORES = normal(3, 5)
PIXELS = normal(2, 5, 3, 3)
SIGNS = values(1.0, -1.0, 1.0)


def losses(make, *inputs, **options):
    """A loss with each reduction."""
    return [
        Case(f"{make.__name__} {r} {sorted(options)}", make(reduction=r, **options), *inputs)
        for r in ("mean", "sum", "none")
    ]


class Weighted(nn.Module):
    """A loss with a weight per class, which is a buffer."""

    def __init__(self, make, **options):
        super().__init__()
        self.loss = make(weight=torch.tensor([0.5, 1.0, 2.0, 0.7, 1.5]), **options)

    def forward(self, x, y):
        return self.loss(x, y)


LOSSES = [
    *losses(nn.CrossEntropyLoss, SCORES, LABELS),
    *losses(nn.CrossEntropyLoss, SCORES, values(1, -100, 4)),
    *losses(nn.CrossEntropyLoss, SCORES, LABELS, label_smoothing=0.1),
    *losses(nn.CrossEntropyLoss, PIXELS, integers(5, 2, 3, 3), ignore_index=2),
    *losses(nn.CrossEntropyLoss, SCORES, between(0.0, 1.0, 3, 5)),
    *[
        Case(
            f"weighted {r} {s}",
            Weighted(nn.CrossEntropyLoss, reduction=r, label_smoothing=s, ignore_index=2),
            SCORES,
            values(1, 2, 4),
        )
        for r in ("mean", "sum", "none")
        for s in (0.0, 0.1)
    ],
    Case(
        "weighted soft",
        Weighted(nn.CrossEntropyLoss, label_smoothing=0.1),
        SCORES,
        between(0.0, 1.0, 3, 5),
    ),
    Case("cross_entropy_single", F.cross_entropy, normal(5), integers(5)),
    *losses(nn.NLLLoss, SCORES, LABELS),
    *[
        Case(f"weighted nll {r}", Weighted(nn.NLLLoss, reduction=r), SCORES, LABELS)
        for r in ("mean", "sum", "none")
    ],
    Case("nll_pixels", F.nll_loss, PIXELS, integers(5, 2, 3, 3)),
    Case(
        "nll_parts",
        lambda x, y, p, q: (torch.ops.aten.nll_loss(x, y), torch.ops.aten.nll_loss2d(p, q)),
        SCORES,
        LABELS,
        PIXELS,
        integers(5, 2, 3, 3),
    ),
    *losses(nn.MSELoss, X, X),
    *losses(nn.L1Loss, X, X),
    *losses(nn.MultiMarginLoss, SCORES, LABELS),
    *losses(nn.MultiMarginLoss, SCORES, LABELS, p=2, margin=0.5),
    Case("multi_margin_weighted", Weighted(nn.MultiMarginLoss), SCORES, LABELS),
    Case("multi_margin_of_one", lambda x, y: F.multi_margin_loss(x, y[0]), normal(5), values(2)),
    *losses(nn.GaussianNLLLoss, X, X, POSITIVE),
    *losses(nn.GaussianNLLLoss, X, X, between(0.2, 2.0, 3), full=True, eps=0.5),
    *losses(nn.GaussianNLLLoss, X, X, between(0.2, 2.0, 3, 1)),
    *losses(nn.SmoothL1Loss, X, X, beta=0.7),
    Case("smooth_l1_zero", lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), X, X),
    *losses(nn.HuberLoss, X, X, delta=0.7),
    *losses(nn.BCELoss, between(0.1, 0.9, 3, 4), between(0.1, 0.9, 3, 4)),
    *losses(nn.BCEWithLogitsLoss, X, between(0.1, 0.9, 3, 4)),
    Case(
        "bce_weights",
        lambda x, t, w: (
            F.binary_cross_entropy(torch.sigmoid(x), t.detach(), w.detach()),
            F.binary_cross_entropy_with_logits(x, t.detach(), w.detach(), pos_weight=w[0].detach()),
        ),
        X,
        between(0.1, 0.9, 3, 4),
        between(0.5, 2.0, 3, 4),
    ),
    *losses(nn.KLDivLoss, X, between(0.1, 0.9, 3, 4)),
    Case(
        "kl_div_batch",
        lambda x, y: (
            F.kl_div(x, y, reduction="batchmean"),
            F.kl_div(x, y, reduction="sum", log_target=True),
        ),
        X,
        between(0.1, 0.9, 3, 4),
    ),
    *losses(nn.PoissonNLLLoss, X, between(0.1, 3.0, 3, 4)),
    *losses(nn.PoissonNLLLoss, X, between(0.1, 3.0, 3, 4), full=True),
    *losses(nn.HingeEmbeddingLoss, normal(3), SIGNS),
    *[
        Case(
            f"soft_margin {r}",
            lambda x, i, r=r: F.soft_margin_loss(x, i.to(x.dtype), reduction=r),
            normal(3),
            values(1, -1, 1),
        )
        for r in ("mean", "sum", "none")
    ],
    *losses(nn.MarginRankingLoss, normal(3), normal(3), SIGNS, margin=0.2),
    *losses(nn.CosineEmbeddingLoss, X, X, SIGNS),
    *losses(nn.TripletMarginLoss, X, X, X),
    Case(
        "ctc",
        lambda x, y, n: [
            F.ctc_loss(x.log_softmax(2), y, n + 6, n, reduction=r)
            for r in ("mean", "sum", "none")
        ],
        normal(8, 2, 5),
        integers(5, 2, 2, low=1),
        values(2, 1),
    ),
    Case(
        "ctc_lists",
        lambda x, y: F.ctc_loss(x.log_softmax(2), y, (8, 8), (2, 1)),
        normal(8, 2, 5),
        values(1, 2, 3),
    ),
]
