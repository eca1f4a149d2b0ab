"""The functions and layers that docs/python.md lists, each with a call.

A line of a table is a name of torch and, unless the name itself is the call, a lambda of the inputs. The
inputs of a table are made once. `test_documents.py` runs every call in a model and in torch, and compares
the page's table with these names.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def _g():
    return torch.Generator().manual_seed(5)


X = torch.rand(3, 4, generator=_g()) * 0.8 + 0.1  # inside (0, 1), where all functions are defined
Y = torch.rand(3, 4, generator=_g()) + 0.5
I = torch.tensor([[0, 2, 1, 3], [1, 1, 0, 2], [3, 0, 2, 2]])
IMAGE = torch.rand(2, 4, 8, 8, generator=_g())
LINE = torch.rand(2, 4, 8, generator=_g())
VOLUME = torch.rand(2, 4, 4, 4, 4, generator=_g())
LABELS = torch.tensor([1, 0, 3])
SIGNS = torch.tensor([1.0, -1.0, 1.0])


def _plain(prefix, names, *inputs):
    owner = {"torch": torch, "torch.nn": nn, "torch.nn.functional": F, "torch.linalg": torch.linalg}[prefix]
    return {f"{prefix}.{n}": (getattr(owner, n), inputs) for n in names.split()}


def _layers(inputs, **made):
    return {f"torch.nn.{name}": (module, (inputs,)) for name, module in made.items()}


def _calls(inputs, **lambdas):
    """Names with dots are written with two underscores."""
    return {name.replace("__", "."): (call, inputs) for name, call in lambdas.items()}


class _WeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.utils.weight_norm(nn.Linear(4, 3))

    def forward(self, x):
        return self.layer(x)


class _Loss(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, *inputs):
        return self.loss(*inputs)


TABLES = {
    "making tensors": _calls(
        (X,),
        torch__arange=lambda x: x + torch.arange(4),
        Tensor__fill_=lambda x: torch.empty(4).fill_(2) + x,
        torch__full=lambda x: x + torch.full((3, 4), 2.0),
        torch__full_like=lambda x: torch.full_like(x, 2),
        Tensor__new_ones=lambda x: x + x.new_ones(4),
        Tensor__new_zeros=lambda x: x + x.new_zeros(4),
        torch__ones=lambda x: x + torch.ones(4),
        torch__ones_like=lambda x: torch.ones_like(x) + x,
        torch__zeros=lambda x: x + torch.zeros(4),
        torch__zeros_like=lambda x: torch.zeros_like(x) + x,
    ),
    "indexing, joining and shapes": {
        **_calls(
            (X, I),
            torch__bincount=lambda x, i: torch.bincount(i.flatten(), minlength=4),
            torch__bucketize=lambda x, i: torch.bucketize(x, torch.tensor([0.2, 0.5])),
            torch__cat=lambda x, i: torch.cat([x, x], 1),
            torch__chunk=lambda x, i: torch.chunk(x, 2, 1),
            torch__gather=lambda x, i: torch.gather(x, 1, i),
            torch__index_select=lambda x, i: torch.index_select(x, 1, i[0]),
            torch__index_reduce=lambda x, i: x.index_reduce(1, i[0], x, "amax"),
            torch__reshape=lambda x, i: torch.reshape(x, (2, 6)),
            torch__roll=lambda x, i: torch.roll(x, 1, 0),
            torch__scatter=lambda x, i: torch.scatter(x, 1, i[:, :1], 2.0),
            torch__scatter_add=lambda x, i: x.scatter_add(1, i, x),
            torch__scatter_reduce=lambda x, i: x.scatter_reduce(1, i, x, "amax"),
            torch__stack=lambda x, i: torch.stack([x, x]),
            torch__split=lambda x, i: torch.split(x, 2, 1),
            torch__squeeze=lambda x, i: torch.squeeze(x[:1]),
            torch__t=lambda x, i: torch.t(x),
            torch__take_along_dim=lambda x, i: torch.take_along_dim(x, i, 1),
            torch__transpose=lambda x, i: torch.transpose(x, 0, 1),
            torch__unbind=lambda x, i: torch.unbind(x),
            torch__unsqueeze=lambda x, i: torch.unsqueeze(x, 1),
            torch__where=lambda x, i: torch.where(i > 1, x, -x),
            Tensor__expand=lambda x, i: x[:1].expand(5, 4),
            Tensor__expand_as=lambda x, i: x[:1].expand_as(x),
            Tensor__masked_fill=lambda x, i: x.masked_fill(i > 1, 0.0),
            Tensor__index_fill_=lambda x, i: x.clone().index_fill_(1, torch.tensor([1]), 3.0),
            torch__meshgrid=lambda x, i: torch.meshgrid(x[0], x[1], indexing="ij"),
            torch__cartesian_prod=lambda x, i: torch.cartesian_prod(x[0], x[1]),
        ),
    },
    "arithmetic": {
        **_plain("torch", "abs acos asin asinh atan atanh ceil cos cosh exp expm1 floor frac log log10 log1p "
                 "log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc isnan", X),
        **_plain("torch", "acosh", Y + 1),
        **_plain("torch", "add div floor_divide fmod mul pow remainder sub true_divide cdist eq ge gt le lt ne "
                 "max min", X, Y),
        **_plain("torch", "bitwise_and bitwise_or bitwise_xor", I, I + 1),
        **_plain("torch", "bitwise_not", I),
        **_plain("torch", "logical_and logical_or", I > 1, I < 3),
        **_calls(
            (X, Y),
            torch__addcdiv=lambda x, y: torch.addcdiv(x, x, y, value=0.5),
            torch__clamp=lambda x, y: torch.clamp(x, 0.3, 0.6),
            torch__clamp_max=lambda x, y: torch.clamp_max(x, 0.5),
            torch__clamp_min=lambda x, y: torch.clamp_min(x, 0.5),
            torch__norm=lambda x, y: torch.norm(x),
            torch__cross=lambda x, y: torch.cross(x.t(), y.t(), dim=1),
            torch__cumprod=lambda x, y: torch.cumprod(x, 1),
            torch__cumsum=lambda x, y: torch.cumsum(x, 1),
        ),
    },
    "reductions and sorting": {
        **_plain("torch", "argmax argmin count_nonzero mean median prod std std_mean sum var var_mean", X),
        **_plain("torch", "all any", I > 0),
        **_calls(
            (X,),
            torch__amax=lambda x: torch.amax(x, 1),
            torch__amin=lambda x: torch.amin(x, 1),
            torch__logsumexp=lambda x: torch.logsumexp(x, 1),
            torch__topk=lambda x: torch.topk(x, 2),
            torch__sort=lambda x: torch.sort(x, 1),
            torch__argsort=lambda x: torch.argsort(x, 1),
        ),
        **_plain("torch.linalg", "norm matrix_norm vector_norm", X),
    },
    "products": _calls(
        (X, Y),
        torch__matmul=lambda x, y: torch.matmul(x, y.t()),
        torch__bmm=lambda x, y: torch.bmm(x[None], y.t()[None]),
        torch__addmm=lambda x, y: torch.addmm(x[:, :3], x, y.t()),
        torch__tensordot=lambda x, y: torch.tensordot(x, y, dims=2),
        torch__einsum=lambda x, y: torch.einsum("ij,kj->ik", x, y),
    ),
    "convolution and pooling": {
        **_layers(LINE, Conv1d=nn.Conv1d(4, 3, 3), ConvTranspose1d=nn.ConvTranspose1d(4, 3, 3, 2),
                  MaxPool1d=nn.MaxPool1d(2), AvgPool1d=nn.AvgPool1d(2), AdaptiveAvgPool1d=nn.AdaptiveAvgPool1d(3)),
        **_layers(IMAGE, Conv2d=nn.Conv2d(4, 3, 3), ConvTranspose2d=nn.ConvTranspose2d(4, 3, 3, 2),
                  MaxPool2d=nn.MaxPool2d(2), AvgPool2d=nn.AvgPool2d(2), AdaptiveAvgPool2d=nn.AdaptiveAvgPool2d(3),
                  Upsample=nn.Upsample(scale_factor=2)),
        **_layers(VOLUME, Conv3d=nn.Conv3d(4, 3, 2), ConvTranspose3d=nn.ConvTranspose3d(4, 3, 2),
                  MaxPool3d=nn.MaxPool3d(2), AvgPool3d=nn.AvgPool3d(2), AdaptiveAvgPool3d=nn.AdaptiveAvgPool3d(2)),
    },
    "padding": {
        **_layers(LINE, ReflectionPad1d=nn.ReflectionPad1d(2), ReplicationPad1d=nn.ReplicationPad1d(2),
                  ConstantPad1d=nn.ConstantPad1d(2, 1.5)),
        **_layers(IMAGE, ReflectionPad2d=nn.ReflectionPad2d(2), ReplicationPad2d=nn.ReplicationPad2d(2),
                  ConstantPad2d=nn.ConstantPad2d(2, 1.5), ZeroPad2d=nn.ZeroPad2d(1)),
        **_layers(VOLUME, ReplicationPad3d=nn.ReplicationPad3d(1), ConstantPad3d=nn.ConstantPad3d(1, 1.5)),
    },
    "activations": {
        **_layers(X - 0.5, ELU=nn.ELU(), CELU=nn.CELU(), GELU=nn.GELU(), Hardshrink=nn.Hardshrink(0.2),
                  LeakyReLU=nn.LeakyReLU(), LogSoftmax=nn.LogSoftmax(1), Mish=nn.Mish(), ReLU=nn.ReLU(),
                  SELU=nn.SELU(), SiLU=nn.SiLU(), Sigmoid=nn.Sigmoid(), Softmax=nn.Softmax(1),
                  Softplus=nn.Softplus(), Softsign=nn.Softsign(), Softshrink=nn.Softshrink(0.2), Tanh=nn.Tanh(),
                  PReLU=nn.PReLU(), RReLU=nn.RReLU().eval(), Hardtanh=nn.Hardtanh(-0.2, 0.2),
                  Threshold=nn.Threshold(0.1, 2.0)),
        **_plain("torch.nn.functional", "glu", X),
    },
    "norms": {
        **_layers(X, BatchNorm1d=nn.BatchNorm1d(4), LayerNorm=nn.LayerNorm(4)),
        **_layers(LINE, InstanceNorm1d=nn.InstanceNorm1d(4)),
        **_layers(IMAGE, BatchNorm2d=nn.BatchNorm2d(4), GroupNorm=nn.GroupNorm(2, 4),
                  InstanceNorm2d=nn.InstanceNorm2d(4)),
        **_layers(VOLUME, BatchNorm3d=nn.BatchNorm3d(4), InstanceNorm3d=nn.InstanceNorm3d(4)),
        "torch.nn.utils.weight_norm": (_WeightNorm(), (X,)),
    },
    "layers": {
        **_layers(LINE, RNN=nn.RNN(8, 5), GRU=nn.GRU(8, 5), LSTM=nn.LSTM(8, 5, 2, bidirectional=True)),
        **_layers(X, Identity=nn.Identity(), Linear=nn.Linear(4, 2)),
        **_layers(I, Embedding=nn.Embedding(4, 3), EmbeddingBag=nn.EmbeddingBag(4, 3)),
        "torch.nn.Bilinear": (nn.Bilinear(4, 4, 3), (X, Y)),
        "torch.nn.functional.one_hot": (lambda i: F.one_hot(i, 4), (I,)),
        "torch.nn.MultiheadAttention": (lambda x, a=nn.MultiheadAttention(8, 2): a(x, x, x), (LINE,)),
        "torch.nn.TransformerEncoderLayer": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (LINE,)),
    },
    "losses": {
        **{f"torch.nn.{loss}": (_Loss(getattr(nn, loss)()), (X, Y)) for loss in
           "L1Loss MSELoss SmoothL1Loss KLDivLoss PoissonNLLLoss BCEWithLogitsLoss".split()},
        **{f"torch.nn.{loss}": (_Loss(getattr(nn, loss)()), (X, LABELS)) for loss in
           "CrossEntropyLoss NLLLoss".split()},
        "torch.nn.BCELoss": (_Loss(nn.BCELoss()), (X, X)),
        "torch.nn.HingeEmbeddingLoss": (_Loss(nn.HingeEmbeddingLoss()), (X[:, 0], SIGNS)),
        "torch.nn.SoftMarginLoss": (_Loss(nn.SoftMarginLoss()), (X[:, 0], SIGNS)),
        "torch.nn.CosineEmbeddingLoss": (_Loss(nn.CosineEmbeddingLoss()), (X, Y, SIGNS)),
        "torch.nn.MarginRankingLoss": (_Loss(nn.MarginRankingLoss()), (X[:, 0], Y[:, 0], SIGNS)),
        "torch.nn.TripletMarginLoss": (_Loss(nn.TripletMarginLoss()), (X, Y, X + 1)),
        "torch.nn.CTCLoss": (
            lambda x, y: F.ctc_loss(x.log_softmax(2), y, (8, 8), (2, 1)),
            (LINE.permute(2, 0, 1).contiguous(), torch.tensor([[1, 2], [3, 1]])),
        ),
    },
}

#: Functions whose numbers are random: shape and type are torch's, values are not.
RANDOM = {
    "torch.bernoulli": lambda x: torch.bernoulli(x),
    "torch.distributions.Bernoulli": lambda x: torch.distributions.Bernoulli(x).sample(),
    "torch.randn": lambda x: x + torch.randn(4),
    "torch.normal": lambda x: torch.normal(x, 1.0),
    "torch.distributions.Normal": lambda x: torch.distributions.Normal(x, 1.0).sample(),
    "torch.rand": lambda x: x + torch.rand(4),
    "Tensor.uniform_": lambda x: torch.empty(3, 4).uniform_() + x,
    "torch.distributions.Uniform": lambda x: torch.distributions.Uniform(x, x + 1).sample(),
    "Tensor.exponential_": lambda x: torch.empty(3, 4).exponential_() + x,
    "torch.distributions.Exponential": lambda x: torch.distributions.Exponential(x).sample(),
    "torch.randperm": lambda x: x + torch.randperm(4),
    "torch.nn.Dropout": lambda x: F.dropout(x, 0.5, training=True),
}

#: Functions that a model refuses.
REFUSED = {
    "torch.nonzero": lambda x: torch.nonzero(x),
    "torch.masked_select": lambda x: torch.masked_select(x, x > 0.5),
    "torch.unique": lambda x: torch.unique(x),
    "Tensor.item": lambda x: x * x.sum().item(),
    "torch.linalg.svd": lambda x: torch.linalg.svd(x)[1],
    "torch.fft.fft": lambda x: torch.fft.fft(x).real,
}


def rows():
    """The rows of the page's table."""
    def short(names):
        return ", ".join(f"`{name}`" for name in names)

    for title, table in TABLES.items():
        yield f"| {title} | {short(table)} | as torch |"
    yield f"| random numbers | {short(RANDOM)} | other numbers than torch's, the same under every strategy |"
    yield f"| | {short(REFUSED)} | refused |"
