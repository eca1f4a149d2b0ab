"""Element-wise functions of integers and truth values, at the ends of their types, against torch."""

import pytest

torch = pytest.importorskip("torch")

from capture_support import run  # noqa: E402

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
NUMBERS = [1, 3, -1, 200, 256, 1000, 40000, True, 0.5]  # of which few fit into all types


def ends(dtype):
    info = torch.iinfo(dtype)
    near = [v for v in (-7, -1, 0, 1, 3, 100) if v >= info.min]
    return torch.tensor([[info.min, info.min + 1, *near, info.max]], dtype=dtype)


def same(function, *args):
    expected, found = function(*args), run(function, *args)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0, equal_nan=True)


FLOATS = {
    "div": torch.true_divide,
    "div_swapped": lambda x, n: n / x,
    "xlogy": torch.xlogy,
    "xlogy_swapped": lambda x, n: torch.xlogy(n, x),
    "atan2": lambda x, n: torch.atan2(x, torch.as_tensor(n)),
    "atan2_swapped": lambda x, n: torch.atan2(torch.as_tensor(n), x),
    "copysign": torch.copysign,
    "float_power": torch.float_power,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", FLOATS)
def test_a_float_of_integers_needs_no_number_that_fits(name, dtype):
    function, x = FLOATS[name], ends(dtype)
    if dtype is torch.int64:
        x = x.clamp(-(2**40), 2**40)  # powers of larger ones differ in the last digits of float64
    for number in NUMBERS:
        same(lambda i: function(i, number), x)
        if not isinstance(number, float):
            same(lambda i: function(i, torch.tensor(number)), x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_quotients_of_integers_are_rounded_down_without_leaving_the_type(dtype):
    x = ends(dtype)
    divisors = [3, 7, 100] if dtype is torch.uint8 else [3, -3, 7, -100, 100]
    for divisor in divisors:
        same(lambda i: i // divisor, x)
        same(lambda i: torch.div(i, divisor, rounding_mode="floor"), x)
    y = torch.tensor(divisors, dtype=dtype)[:, None]
    same(torch.floor_divide, x, y)
    same(torch.floor_divide, y[:, :1].expand(-1, 2), torch.full((1, 2), 5, dtype=dtype))


TRUTHS = torch.tensor([[False, False, True, True], [False, True, False, True]])
EXTREMES = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "clamp": lambda x, y: torch.clamp(x, min=y),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_truth_values(name):
    same(EXTREMES[name], *TRUTHS)


def also(x):
    x &= True
    return x


#: Of numbers and truth values; what each gives has truth values where torch's has them.
WITH_TRUTHS = {
    "full": lambda x, m: (~torch.full((2, 3), True), torch.full((2,), True, dtype=torch.int32)),
    "full_like": lambda x, m: (torch.full_like(x, True), torch.full_like(m, True), m.new_full((2,), False)),
    "and": lambda x, m: (m & True, True & m, x.long() & True, torch.bitwise_and(m, False)),
    "or": lambda x, m: (m | False, m.__ior__(True), torch.tensor([True, False]) | False),
    "xor": lambda x, m: (m ^ True, torch.bitwise_xor(torch.tensor([True, False]), True)),
    "in_place": lambda x, m: (also(x > 0), also(torch.tensor([True, False]))),
    "where": lambda x, m: (torch.where(x > 0, m, True), torch.where(m, False, x > 1), torch.where(m, True, False)),
    "where_of_kinds": lambda x, m: (torch.where(m, x.half(), True), torch.where(m, True, 2), torch.where(m, 1.5, False)),
    "where_known": lambda x, m: (torch.where(torch.tensor([True, False]), True, False), torch.where(m[:2], m[:2], 1)),
}


@pytest.mark.parametrize("name", WITH_TRUTHS)
def test_truth_values_of_python_stay_truth_values(name):
    x, mask = torch.tensor([1.0, -2.0, 3.0, 0.0]), torch.tensor([True, False, False, True])
    expected = WITH_TRUTHS[name](x.clone(), mask.clone())
    for found, each in zip(run(WITH_TRUTHS[name], x, mask.clone()), expected):
        assert found.dtype == each.dtype
        assert torch.equal(found, each)
