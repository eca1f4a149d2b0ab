"""Element-wise functions where their numbers are special: ties, zeros, infinities, powers of a base."""

import math

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
import sluice  # noqa: E402
from capture_support import as_module, run, train  # noqa: E402

INF, NAN = math.inf, math.nan
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.1, -0.1, 2.0, 3.0, -3.0, 1e-20, 1e20, 100.0]
POWERS = [2.0**k for k in range(-60, 61)] + [10.0**k for k in range(11)]
RUNNING = torch.tensor([[[1.0, -INF, 3.0, INF, 2.0], [1.0, 1.0, INF, 0.0, -0.0], [0.0, NAN, 5.0, NAN, 1.0]]])
MEDIANS = torch.tensor([[[1.0, NAN, 3.0, NAN], [2.0, 1.0, 3.0, 0.0], [NAN, -INF, 1.0, INF]]])
WEIGHTS = [0.0, 0.25, 0.5, 0.75, 1.0, -2.0, 3.0]
SHARES = [0.0, 1e-20, 0.25, 0.5, 1.0 - 2**-24, 1.0]


def pairs(a, b=None):
    return torch.cartesian_prod(torch.tensor(a), torch.tensor(a if b is None else b)).t()


VALUES = {
    "floor_divide": (torch.floor_divide, pairs([*NUMBERS, INF, -INF, NAN])),
    "floor_divide_number": (lambda x: x // 0.1, torch.tensor([[0.1 * k for k in range(-50, 51)]])),
    "log2": (lambda x: torch.log2(x).floor(), torch.tensor([POWERS])),
    "log10": (lambda x: torch.log10(x).floor(), torch.tensor([[10.0**k for k in range(11)]])),
    "logs": (lambda x: torch.stack([x.log2(), x.log10()]), torch.tensor([[0.0, INF, NAN, -1.0, 8.0, 1000.0]])),
    "exp2": (torch.exp2, torch.tensor([[0.0, 3.0, -3.0, 100.0, 2000.0, INF, -INF, NAN]])),
    "logaddexp": (torch.logaddexp, pairs([0.0, 1.0, -800.0, 1e30, INF, -INF])),
    "logaddexp2": (torch.logaddexp2, pairs([0.0, 1.0, -800.0, INF, -INF])),
    "xlogy": (torch.xlogy, pairs([0.0, 1.0, -2.0], [0.0, 1.0, 3.0, -1.0, INF, NAN])),
    "threshold": (lambda x: F.threshold(x, 0.5, 7.0), torch.tensor([[0.0, 0.5, 1.0, INF, -INF, NAN]])),
    "softplus": (lambda x: F.softplus(x, 2.0, 3.0), torch.tensor([[1.0, 1.5, 1.6, 2.0, -9.0]])),
    "selu": (F.selu, torch.tensor([[1.0, -1.0, 1e3]])),
    "signbit": (torch.signbit, torch.tensor([[0.0, -0.0, 1.0, -1.0, INF, -INF]])),
    "copysign": (torch.copysign, pairs([0.0, -0.0, 2.0, -3.0, INF])),
    "heaviside": (torch.heaviside, pairs([0.0, -0.0, 2.0, -3.0, INF, NAN], [0.5, -1.0])),
    "sinc": (torch.sinc, torch.tensor([[0.0, 1e-9, 0.5]])),
    "nan_to_num": (torch.nan_to_num, torch.arange(-3, 3)[None]),
    "isposinf": (lambda x: torch.stack([x.isposinf(), x.isneginf()]), torch.tensor([[INF, -INF, NAN, 1.0]])),
    "isposinf_of_integers": (torch.isneginf, torch.arange(3)[None]),
    "binary_cross_entropy": (lambda p, t: F.binary_cross_entropy(p, t, reduction="none"), pairs(SHARES)),
    "erfinv": (torch.erfinv, torch.tensor([[0.0, -0.0, 1e-20, 0.5, -0.999, 1.0, -1.0, 1.5, NAN]])),
    "lgamma": (
        torch.lgamma,
        torch.tensor([[0.5, 1e-20, 3.5, 30.25, 1e5, 1e30, -0.5, -2.3, -40.6, 0.0, -1.0, -7.0, INF, -INF, NAN]]),
    ),
    "digamma": (
        torch.digamma,
        torch.tensor([[0.5, 1e-20, 1.0, 3.5, 30.25, 1e5, 1e30, -0.5, -2.3, 0.0, -0.0, -1.0, -7.0, INF, -INF, NAN]]),
    ),
    "searchsorted": (torch.searchsorted, torch.tensor([[[1.0, 3.0, 3.0, INF]], [[3.0, NAN, INF, -INF]]])),
    "cummax": (lambda x: torch.cummax(x, 1)[0], RUNNING),
    "cummin": (lambda x: torch.cummin(x, 1)[0], RUNNING),
    "cummax_places": (lambda x: torch.cummax(x, 1)[1], RUNNING),
    "cummin_places": (lambda x: torch.cummin(x, 1)[1], RUNNING),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), torch.tensor([[-INF, -INF, 0.0, -800.0, 90.0, 1e30, INF]])),
    "hypot": (torch.hypot, pairs([0.0, -0.0, 3.0, -4.0, 1e30, -1e38, 1e-30, 1e-44, INF, -INF, NAN])),
    "lerp": (torch.lerp, torch.cartesian_prod(*map(torch.tensor, [[0.0, 1e8, -3.0], [1.0, -1e8], WEIGHTS])).t()),
    "lerp_numbers": (
        lambda x, y: torch.stack([torch.lerp(x, y, w) for w in WEIGHTS]),
        pairs([0.0, 1.0, 1e8, -1e8]),
    ),
    "hardshrink": (F.hardshrink, torch.tensor([[0.5, -0.5, 0.6, -0.6, 0.0, INF, -INF, NAN]])),
    "median": (torch.median, torch.tensor([[1.0, 3.0, NAN, 2.0]])),
    "median_of_numbers": (torch.median, torch.tensor([[4.0, 1.0, INF, 2.0]])),
    "median_along": (lambda x: x.median(1)[0], MEDIANS),
    "median_places": (lambda x: x.median(1, keepdim=True)[1], MEDIANS),
    "nanmedian": (torch.nanmedian, MEDIANS),
    "nanmedian_along": (lambda x: x.nanmedian(1)[0], torch.cat([MEDIANS, torch.full((1, 1, 4), NAN)], 1)),
    "nanmedian_places": (lambda x: x.nanmedian(1, keepdim=True)[1], torch.tensor([[[NAN, INF, NAN], [3.0, NAN, -1.0]]])),
    "nothing_counts": (lambda x: F.cross_entropy(x, torch.tensor([1, 1]), ignore_index=1), torch.ones(1, 2, 3)),
    "nothing_apart": (
        lambda x: torch.stack([loss(x[:, :0], x[:, :0]) for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss)]),
        torch.ones(1, 2, 3),
    ),
    "no_logits": (lambda x: F.binary_cross_entropy_with_logits(x[:, :0], x[:, :0]), torch.ones(1, 2, 3)),
    "no_likelihood_counts": (lambda x: F.nll_loss(x, torch.tensor([1, 1]), ignore_index=1), torch.ones(1, 2, 3)),
}

GRADIENTS = {
    "erfinv": (torch.erfinv, torch.tensor([[0.0, 1e-20, 0.5, -0.999, 1.0, -1.0]])),
    "nothing_counts": (lambda x: F.cross_entropy(x, torch.tensor([1, 1]), ignore_index=1), torch.ones(1, 2, 3)),
    "lgamma": (torch.lgamma, torch.tensor([[0.01, 0.5, 1.0, 1.5, 2.0, 9.0, 1e5, -0.5, -2.3, -40.6]])),
    "digamma": (torch.digamma, torch.tensor([[0.01, 0.5, 1.0, 1.5, 2.0, 9.0, 50.0, -0.5, -2.3, -40.6]])),
    "running_extremes": (
        lambda x: x.cummax(0)[0] - x.cummin(0)[0] ** 2,
        torch.tensor([[1.0, 1.0, 3.0, 3.0, 2.0, 0.0, 0.0]]),
    ),
    "logaddexp": (torch.logaddexp, pairs([0.0, 1.0, -1.0, -800.0])),
    "log2": (torch.log2, torch.tensor([[0.25, 3.0, 8.0]])),
    "xlogy": (torch.xlogy, pairs([0.0, 1.0, -2.0], [0.5, 1.0, 3.0])),
    "sinc": (torch.sinc, torch.tensor([[0.0, 0.5, 2.0]])),
    "softplus": (lambda x: F.softplus(x, 2.0, 3.0), torch.tensor([[1.0, 1.6, 2.0, -9.0]])),
    "threshold": (lambda x: F.threshold(x, 0.5, 7.0), torch.tensor([[0.0, 0.5, 1.0]])),
    "selu": (F.selu, torch.tensor([[1.0, -1.0]])),
    "copysign": (torch.copysign, pairs([2.0, -3.0], [1.0, -1.0])),
    "hypot": (torch.hypot, pairs([0.0, 3.0, -4.0, 1e-30])),
    "lerp": (torch.lerp, torch.cartesian_prod(*map(torch.tensor, [[0.0, -3.0], [1.0, 4.0], WEIGHTS])).t()),
    "hardshrink": (F.hardshrink, torch.tensor([[0.25, -0.25, 0.6, -0.6, 0.0]])),
    "median": (lambda x: x.median(1)[0], torch.tensor([[[1.0, 7.0, 3.0, 2.0], [5.0, 4.0, 3.0, 6.0]]])),
    "binary_cross_entropy": (lambda p: F.binary_cross_entropy(p, torch.tensor([0.0, 1, 0, 1, 0.3]).to(p.dtype)),
                             torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.6]])),
}

# torch 1.13 has no log1p in its cross-entropies, hence atol. float32 has functions of its own kernels, which round once more.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 3e-6}
TYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=["float64", "float32"])


def _put(x, i, j, **how):
    x = x.clone()
    x.index_put_((i, j), torch.tensor(1.0), **how)
    return x


#: Of a tensor [3, 4] and an index that neither end of any axis reaches.
PAST_THE_END = {
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: x[:, i],
    "elements": lambda x, i: x[i % 3, i],
    "elements_by_rows": lambda x, i: x[i, i % 4],
    "put": lambda x, i: _put(x, i % 3, i),
    "put_row": lambda x, i: _put(x, i, i % 4),
    "accumulate": lambda x, i: _put(x, i % 3, i, accumulate=True),
    "one_hot": lambda x, i: F.one_hot(i, 4) + 0 * x.sum().long(),
}


@pytest.mark.parametrize("i", [4, -5])
@pytest.mark.parametrize("name", PAST_THE_END)
def test_an_index_past_the_end_is_an_error(name, i):
    x, function = torch.arange(12.0).reshape(3, 4), PAST_THE_END[name]
    with pytest.raises(sluice.InvalidArgument, match=f"index {i} is out of range for an axis"):
        run(function, x, torch.tensor([1, i]))


def test_a_gradient_by_an_index_past_the_end_is_an_error():
    class Picked(torch.nn.Linear):
        def forward(self, i):
            return self.weight[i % 3, i].sum()

    model = sluice.trainingModel(Picked(4, 3))
    with pytest.raises(sluice.InvalidArgument, match="index 4 is out of range"):
        model(torch.tensor([1, 4]))


def in_type(inputs, dtype):
    return [x.to(dtype) if x.is_floating_point() else x for x in inputs]


@TYPES
@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_that_of_torch(name, dtype):
    function, inputs = VALUES[name]
    inputs = in_type(inputs, dtype)
    found, expected = run(function, *inputs), function(*inputs)
    torch.testing.assert_close(found, expected, rtol=TOLERANCES[dtype], atol=1e-19, equal_nan=True)


class Total(torch.nn.Module):
    def __init__(self, function, inputs):
        super().__init__()
        self.function = as_module(function)
        self.inputs = torch.nn.ParameterList(torch.nn.Parameter(x.clone()) for x in inputs)

    def forward(self):
        return self.function(*self.inputs).sum()


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_is_that_of_torch(name):
    function, inputs = GRADIENTS[name]
    inputs = in_type(inputs, torch.float64)
    module = Total(function, inputs)
    expected = torch.autograd.grad(module(), [*module.parameters()])
    train(module)
    for before, after, gradient in zip(inputs, module.parameters(), expected):
        torch.testing.assert_close(before - after.detach(), gradient, rtol=1e-8, atol=1e-12, equal_nan=True)


# torch's own float32 loses digits of these, hence the comparison with float64.
CONFIDENT = torch.tensor([[8.0, -8.0, 30.0, -30.0, 8.0, 0.0, -3.0], [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.25]])
LOST = {
    "bce_with_logits": (lambda x: F.binary_cross_entropy_with_logits(x[0], x[1].detach(), reduction="none"), CONFIDENT),
    "bce_with_weights": (
        lambda x: F.binary_cross_entropy_with_logits(
            x[0], x[1].detach(), reduction="none", weight=x[1].detach() + 1, pos_weight=x[1].detach() + 2
        ),
        CONFIDENT,
    ),
    "erfc": (torch.erfc, torch.tensor([[-3.0, 0.0, 0.4, 0.6, 2.0, 4.0, 6.0, 9.0]])),
    "erfinv": (torch.erfinv, torch.tensor([[1e-30, 0.3, 0.9999, 1 - 2**-24]])),
    "lgamma": (torch.lgamma, torch.tensor([[0.999, 1.001, 1.999, 2.001, 5.0, -2.4570, -2.7476]])),
}


@pytest.mark.parametrize("name", LOST)
def test_a_result_of_float32_and_its_gradient_keep_their_digits(name):
    function, inputs = LOST[name]
    double = inputs.double().requires_grad_()
    if name in ("erfc", "erfinv", "lgamma"):
        expected = function(double)
    else:  # the parts of the loss, none of which cancels
        x, t = double[0], double[1].detach()
        hit, miss = t * F.softplus(-x, threshold=1e9), (1 - t) * F.softplus(x, threshold=1e9)
        expected = hit + miss if name == "bce_with_logits" else (t + 1) * ((t + 2) * hit + miss)
    found = run(function, inputs)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected.detach(), rtol=1e-6, atol=0)
    # A step so large that the weight that it leaves has the digits of the gradient.
    scale = 2.0**30 / expected.detach().abs().clamp(min=1e-20)
    (slopes,) = torch.autograd.grad((expected * scale).sum(), double)
    module = Total(lambda x: function(x) * scale.float(), [inputs])
    train(module)
    step = inputs - module.inputs[0].detach()
    torch.testing.assert_close(step.double(), slopes, rtol=1e-5, atol=1e-5)


def test_erfinv_keeps_the_digits_of_small_numbers():
    x = torch.tensor([1e-300, 1e-10, -1e-6, 1e-3, 0.4999, 0.5001], dtype=torch.float64)
    torch.testing.assert_close(run(torch.erfinv, x), torch.erfinv(x), rtol=1e-14, atol=0)


SPREADS = {
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(1),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, 1)),
    "std_mean": lambda x: torch.stack(torch.std_mean(x, (0, 1), keepdim=True)),
    "norm": lambda x: x.norm(dim=1),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, 3, 1),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SPREADS)
def test_a_spread_of_16_bits_is_rounded_once(name, dtype):
    """The squares of the first row are too large for float16, those of the last too small."""
    function = SPREADS[name]
    x = (torch.randn(3, 500, generator=torch.Generator().manual_seed(1)) + 1) * torch.tensor([[250.0], [1.0], [1e-5]])
    x = x.to(dtype)
    expected = function(x.double()).to(dtype)
    found = run(function, x)
    assert found.dtype == dtype
    near = torch.finfo(dtype).eps
    torch.testing.assert_close(found, expected, rtol=near, atol=torch.finfo(dtype).smallest_normal * near)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_erfinv_of_16_bits_is_rounded_once(dtype):
    x = torch.linspace(-0.99, 0.99, 101).to(dtype)
    assert torch.equal(run(torch.erfinv, x), torch.erfinv(x.double()).to(dtype))
