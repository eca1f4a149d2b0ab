"""sluice.nn: functions against NumPy, gradients against finite differences, variables, refusals."""

import math
import threading

import numpy as np
import pytest

from sluice import _core, ipu, nn

RANDOM = np.random.default_rng(7)


def floats(*shape):
    return RANDOM.uniform(-2, 2, shape).astype(np.float32)


def positive(*shape):
    return RANDOM.uniform(0.25, 2, shape).astype(np.float32)


def evaluate(function, *arrays, options=None):
    """What a function of tensors computes."""

    def forward(tensors):
        result = function(*tensors)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    names = [f"x{i}" for i in range(len(arrays))]
    model = _core.Model(nn.Graph().module, forward, names, options or _core.Options())
    hosts = [_core.HostTensor(np.expand_dims(a, 0) if a.ndim == 0 else a) for a in arrays]
    results = [r.array() for r in model.run(hosts)]
    return results[0] if len(results) == 1 else results


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


erf = np.vectorize(math.erf)
UNARY = {
    "abs": np.abs, "acos": np.arccos, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "erf": erf,
    "erfc": np.vectorize(math.erfc), "exp": np.exp, "expm1": np.expm1, "floor": np.floor, "neg": np.negative, "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0), "round": np.round, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign, "silu": lambda x: x / (1 + np.exp(-x)), "sin": np.sin, "sinh": np.sinh,
    "softplus": lambda x: np.log1p(np.exp(x)), "softsign": lambda x: x / (1 + np.abs(x)),
    "square": np.square, "tan": np.tan, "tanh": np.tanh,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
}
POSITIVE = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "atan2": np.arctan2, "equal": np.equal, "not_equal": np.not_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "less": np.less,
    "less_equal": np.less_equal,
}


class TestElementwise:
    @pytest.mark.parametrize("name", UNARY)
    def test_unary_functions_are_numpys(self, name):
        x = floats(3, 5) / (2.1 if name in ("acos", "asin", "atanh") else 1)
        close(evaluate(getattr(nn, name), x), UNARY[name](x.astype(np.float64)))

    @pytest.mark.parametrize("name", POSITIVE)
    def test_unary_functions_of_positive_numbers_are_numpys(self, name):
        x = positive(3, 5)
        close(evaluate(getattr(nn, name), x), POSITIVE[name](x.astype(np.float64)))
        close(evaluate(nn.acosh, x + 1), np.arccosh(x + 1))

    @pytest.mark.parametrize("name", BINARY)
    def test_binary_functions_broadcast_as_numpys(self, name):
        x, y = floats(4, 1, 3), floats(5, 1)
        x[0], y[0] = 1, 1
        close(evaluate(getattr(nn, name), x, y), BINARY[name](x, y))

    def test_pow_mod_and_logic(self):
        x, y = positive(2, 3), positive(2, 3)
        close(evaluate(nn.pow, x, y), x**y)
        close(evaluate(lambda a: nn.mod(a, 0.5), x), np.mod(x, np.float32(0.5)))
        a, b = np.array([[True, False, True]]), np.array([[True, True, False]])
        logic = ((nn.logical_and, a & b), (nn.logical_or, a | b), (nn.logical_xor, a ^ b))
        for function, expected in logic:
            assert np.array_equal(evaluate(function, a, b), expected)
        assert np.array_equal(evaluate(nn.logical_not, a), ~a)
        assert np.array_equal(evaluate(nn.is_nan, np.float32([1, np.nan])), [False, True])

    def test_cast_clamp_where_and_detach(self):
        x = floats(3, 4)
        assert np.array_equal(evaluate(lambda a: nn.cast(a, np.int32), x), x.astype(np.int32))
        assert evaluate(lambda a: nn.cast(a, "float64"), x).dtype == np.float64
        close(evaluate(lambda a: nn.clamp(a, -1, 0.5), x), np.clip(x, -1, 0.5))
        close(evaluate(lambda a: nn.where(a > 0, a, -1.5), x), np.where(x > 0, x, -1.5))
        close(evaluate(nn.detach, x), x)


class TestOperators:
    def test_work_with_tensors_numbers_and_arrays_on_both_sides(self):
        x, y = positive(2, 3), positive(2, 3)
        cases = [
            (lambda a, b: a + b, x + y), (lambda a, b: a - 2, x - 2), (lambda a, b: 2 - a, 2 - x),
            (lambda a, b: 3 * a / b, 3 * x / y), (lambda a, b: 1 / a, 1 / x), (lambda a, b: -a, -x),
            (lambda a, b: a**2, x**2), (lambda a, b: 2**a, 2**x), (lambda a, b: abs(-a), x),
            (lambda a, b: a @ nn.transpose(b), x @ y.T), (lambda a, b: y + a, x + y),
            (lambda a, b: a * [1, 2, 3], x * [1, 2, 3]), (lambda a, b: np.float32(2) * a, 2 * x),
            (lambda a, b: (a > b) & ~(a >= 1), (x > y) & ~(x >= 1)),
            (lambda a, b: (a < b) | (a <= 1), (x < y) | (x <= 1)),
        ]
        for function, expected in cases:
            close(evaluate(function, x, y), expected)

    def test_give_numbers_the_type_of_the_tensor(self):
        whole = np.array([3, 4], np.int64)
        result = evaluate(lambda a: a * 2 + 1, whole)
        assert result.dtype == np.int64 and result.tolist() == [7, 9]
        assert evaluate(lambda a: a * 0.5, floats(2).astype(np.float16)).dtype == np.float16
        assert evaluate(lambda a: a + 2**53 + 1, whole).tolist() == [3 + 2**53 + 1, 4 + 2**53 + 1]

    def test_refuse_fractions_for_integers(self):
        with pytest.raises(_core.InvalidArgument, match="cannot hold"):
            evaluate(lambda a: a + 0.5, np.array([1], np.int32))

    def test_mix_half_and_float_as_the_options_say(self):
        half, full = np.float16([1]), np.float32([2])
        assert evaluate(nn.add, half, full).dtype == np.float16
        options = _core.Options()
        options.apply("precision.halfFloatCasting", _core.Name("HalfFloatCasting.HalfUpcastToFloat"))
        assert evaluate(nn.add, half, full, options=options).dtype == np.float32

    def test_indexing_is_numpys(self):
        x = floats(4, 5, 6)
        for key in (
            1, -1, np.s_[1:3], np.s_[:, 2], np.s_[..., -1], np.s_[::2, 1:-1, None], np.s_[None],
            np.s_[1, 2, 3:], np.s_[3:1], (), np.s_[0, ..., 2],
        ):
            expected = x[key]
            result = evaluate(lambda a: a[key] + 0.0, x)
            assert result.shape == expected.shape, key
            close(result, expected)
        close(evaluate(lambda a: a[[2, 0]], x), x[[2, 0]])
        first, second = evaluate(lambda a: [row for row in a[:2]], x)
        close(first, x[0]), close(second, x[1])

    def test_indexing_says_what_is_wrong(self):
        x = floats(2, 3)
        for key, error, word in (
            (5, IndexError, "out of range"),
            ((0, 0, 0), ValueError, "3 indices for 2 axes"),
            (np.s_[::-1], ValueError, "reverse"),
            ("a", ValueError, "gather"),
        ):
            with pytest.raises(error, match=word):
                evaluate(lambda a: a[key], x)

    def test_a_tensor_decides_no_if(self):
        with pytest.raises(_core.InvalidArgument, match="nn.where"):
            evaluate(lambda a: a if a > 0 else -a, floats(1))

    def test_other_things_are_no_tensors(self):
        with pytest.raises(_core.InvalidArgument, match="got object"):
            evaluate(lambda a: a + object(), floats(1))
        with pytest.raises(_core.InvalidArgument, match="array of numbers"):
            evaluate(lambda a: a + np.array(["x"]), floats(1))


class TestShapes:
    def test_change_as_in_numpy(self):
        x = floats(2, 3, 4)
        cases = [
            (lambda a: nn.reshape(a, [4, -1]), x.reshape(4, -1)),
            (lambda a: nn.flatten(a, 1), x.reshape(2, 12)),
            (lambda a: nn.expand_dims(a, -1), x[..., None]),
            (lambda a: nn.squeeze(a[:1]), x[0]),
            (lambda a: nn.squeeze(nn.expand_dims(a[:1], 0), 0), x[:1]),
            (lambda a: nn.permute(a, [2, 0, -2]), x.transpose(2, 0, 1)),
            (nn.transpose, x.swapaxes(-2, -1)),
            (lambda a: nn.transpose(a, 0, 2), x.swapaxes(0, 2)),
            (lambda a: nn.concat([a, a * 2], axis=-1), np.concatenate([x, x * 2], -1)),
            (lambda a: nn.stack([a, a], axis=1), np.stack([x, x], 1)),
            (lambda a: nn.slice(a, 1, -2, 3), x[:, -2:3]),
            (lambda a: nn.tile(a, [1, 2, 1]), np.tile(x, (1, 2, 1))),
            (lambda a: nn.broadcast_to(a, [5, 2, 3, 4]), np.broadcast_to(x, (5, 2, 3, 4))),
            (lambda a: nn.pad(a, [0, 1, 0], [0, 0, 2], value=7),
             np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=7)),
            (lambda a: nn.cumsum(a, 1), np.cumsum(x, 1)),
        ]
        for function, expected in cases:
            close(evaluate(function, x), expected)

    def test_split_into_sizes_or_equal_parts(self):
        x = floats(6, 2)
        for sizes, expected in (([1, 2, 3], np.split(x, [1, 3])), (3, np.split(x, 3))):
            for part, wanted in zip(evaluate(lambda a: nn.split(a, sizes), x), expected):
                close(part, wanted)

    def test_pick_elements(self):
        x, at = floats(5, 3), np.array([[4, 0], [2, 2]], np.int64)
        close(evaluate(nn.gather, x, at), x[at])
        close(evaluate(lambda a, i: nn.gather(a, i, 1), x, np.array([2, 0])), x[:, [2, 0]])
        close(evaluate(nn.embedding, at, x), x[at])
        assert np.array_equal(evaluate(lambda i: nn.one_hot(i, 6), at), np.eye(6)[at])
        values, places = evaluate(lambda a: nn.top_k(a, 2), x)
        close(values, np.sort(x)[:, :0:-1]), close(places, np.argsort(x)[:, :0:-1])

    def test_reduce_as_numpy_does(self):
        x = floats(2, 3, 4)
        for name, expected in (
            ("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min), ("prod", np.prod),
        ):
            function = getattr(nn, name)
            for axis in (None, 1, (0, -1)):
                for keepdims in (False, True):
                    got = evaluate(lambda a: function(a, axis, keepdims), x)
                    close(got, expected(x, axis=axis, keepdims=keepdims))
        close(evaluate(lambda a: nn.logsumexp(a, -1), x), np.log(np.exp(x).sum(-1)))
        assert np.array_equal(evaluate(lambda a: nn.argmax(a, 1), x), x.argmax(1))

    def test_say_what_is_wrong(self):
        x = floats(2, 3)
        for function, word in (
            (lambda a: nn.reshape(a, [4, -1]), "6 elements"),
            (lambda a: nn.sum(a, 2), "axis 2 is out of range"),
            (lambda a: nn.squeeze(a, 1), "extent 1"),
            (lambda a: nn.split(a, 2, 1), "equal parts"),
            (lambda a: nn.concat([]), "nothing to join"),
        ):
            with pytest.raises(_core.InvalidArgument, match=word):
                evaluate(function, x)


def normalized(x, axes, eps=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def convolved(x, w, stride=1, padding=0):
    """By definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding))).astype(np.float64)
    rows = (x.shape[2] - w.shape[2]) // stride + 1
    columns = (x.shape[3] - w.shape[3]) // stride + 1
    y = np.zeros((x.shape[0], w.shape[0], rows, columns))
    for i in range(rows):
        for j in range(columns):
            part = x[:, :, i * stride : i * stride + w.shape[2], j * stride : j * stride + w.shape[3]]
            y[:, :, i, j] = np.einsum("bchw,ochw->bo", part, w)
    return y


class TestLayers:
    def test_products(self):
        x, w, b = floats(2, 3, 4), floats(5, 4), floats(5)
        close(evaluate(nn.linear, x, w, b), x @ w.T + b)
        close(evaluate(nn.linear, x, w), x @ w.T)
        close(evaluate(lambda a, c: nn.matmul(a, nn.transpose(c)), x, w), x @ w.T)
        letters = "bij,kj->bki"
        close(evaluate(lambda a, c: nn.einsum(letters, a, c), x, w), np.einsum(letters, x, w))

    def test_convolutions(self):
        x, w, b = floats(2, 3, 7, 6), floats(4, 3, 3, 2), floats(4)
        got = evaluate(lambda *a: nn.conv2d(*a, stride=2, padding=1), x, w, b)
        close(got, convolved(x, w, 2, 1) + b[:, None, None], 1e-4)
        one = evaluate(nn.conv1d, x[:, :, 0], w[:, :, 0])
        close(one, convolved(x[:, :, :1], w[:, :, :1])[:, :, 0], 1e-4)
        three = evaluate(nn.conv3d, x[:, :, None], w[:, :, None])
        close(three[:, :, 0], convolved(x, w), 1e-4)

    def test_pools(self):
        x = floats(2, 3, 4, 6)
        windows = x.reshape(2, 3, 2, 2, 3, 2)
        close(evaluate(lambda a: nn.max_pool2d(a, 2), x), windows.max((3, 5)))
        close(evaluate(lambda a: nn.avg_pool2d(a, 2), x), windows.mean((3, 5)))
        padded = evaluate(lambda a: nn.avg_pool2d(a, 2, stride=2, padding=1), x)
        close(padded[:, :, 0, 0], x[:, :, 0, 0] / 4)
        close(evaluate(nn.global_avg_pool, x), x.mean((2, 3)))

    def test_normalizations(self):
        x, w, b = floats(4, 6, 5), floats(5), floats(5)
        close(evaluate(nn.layer_norm, x, w, b), normalized(x, -1) * w + b, 1e-4)
        rms = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
        close(evaluate(nn.rms_norm, x, w), rms * w, 1e-4)
        w, b = floats(6), floats(6)
        groups = normalized(x.reshape(4, 2, 3, 5), (2, 3)).reshape(x.shape)
        got = evaluate(lambda *a: nn.group_norm(*a, groups=2), x, w, b)
        close(got, groups * w[:, None] + b[:, None], 1e-4)

    def test_batch_norm_with_own_and_given_statistics(self):
        x, w, b = floats(4, 3, 5), floats(3), floats(3)
        y, mean, variance = evaluate(nn.batch_norm, x, w, b)
        close(y, normalized(x, (0, 2)) * w[:, None] + b[:, None], 1e-4)
        close(mean, x.mean((0, 2))), close(variance, x.var((0, 2)), 1e-4)
        m, v = floats(3), positive(3)
        given = evaluate(lambda *a: nn.batch_norm(*a), x, w, b, m, v)
        column = lambda a: a[:, None]
        close(given, (x - column(m)) / np.sqrt(column(v) + 1e-5) * column(w) + column(b), 1e-4)
        with pytest.raises(_core.InvalidArgument, match="both"):
            evaluate(lambda *a: nn.batch_norm(*a), x, w, b, m)

    def test_softmax_and_attention(self):
        x = floats(2, 3, 4)
        weights = np.exp(x) / np.exp(x).sum(1, keepdims=True)
        close(evaluate(lambda a: nn.softmax(a, 1), x), weights)
        close(evaluate(lambda a: nn.log_softmax(a, 1), x), np.log(weights))
        scores = np.exp(x @ x.swapaxes(1, 2) / 2)
        scores = scores * np.tril(np.ones((3, 3)))
        expected = scores / scores.sum(-1, keepdims=True) @ x
        close(evaluate(lambda a: nn.attention(a, a, a, causal=True), x), expected, 1e-4)

    def test_dropout_does_nothing_where_nothing_is_trained(self):
        x = floats(3, 3)
        assert np.array_equal(evaluate(lambda a: nn.dropout(a, 0.9), x), x)

    def test_say_what_is_wrong(self):
        x = floats(2, 3, 4, 4)
        for function, word in (
            (lambda a: nn.conv1d(a, a), "conv1d: expected an input of rank 3"),
            (lambda a: nn.max_pool2d(a[0], 2), r"height, width"),
            (lambda a: nn.max_pool2d(a, [1, 2, 3]), "one number or two"),
            (lambda a: nn.global_avg_pool(a[0, 0]), "spatial"),
            (lambda a: nn.linear(a, a), "linear|matmul"),
            (lambda a: nn.mse_loss(a, a, "all"), "reduction"),
        ):
            with pytest.raises(_core.InvalidArgument, match=word):
                evaluate(function, x)


class TestLosses:
    def test_are_those_of_their_formulas(self):
        x, y, p = floats(4, 5), floats(4, 5), RANDOM.uniform(0.1, 0.9, (4, 5)).astype(np.float32)
        t = RANDOM.integers(0, 2, (4, 5)).astype(np.float32)
        labels = np.array([1, 0, 4, 2], np.int64)
        logs = np.log(np.exp(x) / np.exp(x).sum(1, keepdims=True))
        picked = -logs[np.arange(4), labels]
        cases = [
            (nn.mse_loss, (x, y), (x - y) ** 2),
            (nn.l1_loss, (x, y), np.abs(x - y)),
            (nn.bce_loss, (p, t), -(t * np.log(p) + (1 - t) * np.log(1 - p))),
            (nn.bce_with_logits, (x, t), np.log1p(np.exp(x)) - t * x),
            (nn.cross_entropy, (x, labels), picked),
            (nn.nll_loss, (logs.astype(np.float32), labels), picked),
        ]
        for loss, arguments, expected in cases:
            close(evaluate(loss, *arguments), expected.mean(), 1e-4)
            close(evaluate(lambda *a: loss(*a, reduction="sum"), *arguments), expected.sum(), 1e-4)
            close(evaluate(lambda *a: loss(*a, reduction="none"), *arguments), expected, 1e-4)
        close(evaluate(lambda a: nn.identity_loss(a, "sum"), x), x.sum(), 1e-4)


class TestOpsByName:
    def test_reach_every_op_of_the_table(self):
        x = floats(2, 3)
        close(evaluate(lambda a: nn.op("softmax", a, axis=0), x), np.exp(x) / np.exp(x).sum(0))
        values, places = evaluate(lambda a: nn.op("top_k", a, k=1), x)
        assert places.shape == (2, 1)
        assert np.array_equal(
            evaluate(lambda a: nn.op("iota", shape=(3,), dtype=np.int32) + nn.cast(a[0], "int32"), x),
            np.arange(3) + x[0].astype(np.int32),
        )
        close(evaluate(lambda a: nn.op("add", a, nn.op("constant", value=np.float32([1, 2, 3]))), x),
              x + [1, 2, 3])
        noise = evaluate(lambda a: a * 0 + nn.op("random_uniform", shape=[2, 3]), x)
        assert 0 <= noise.min() < noise.max() <= 1

    def test_have_help_for_each(self):
        assert nn.op_help("softmax") == "op('softmax', *tensors, axis: int = -1)"
        assert nn.op_help("dropout") == "op('dropout', *tensors, p: real)"
        for name in nn.op_names():
            assert nn.op_help(name).startswith(f"op('{name}'")

    def test_say_what_is_wrong(self):
        for function, word in (
            (lambda a: nn.op("sofmax", a), "there is no op 'sofmax'; there are softmax"),
            (lambda a: nn.op("softmax", a, dim=1), "no attribute 'dim'.*axis: int"),
            (lambda a: nn.op("concat", a), "needs the attribute 'axis'"),
            (lambda a: nn.op("cast", a, dtype="float8"), "there is no element type 'float8'"),
        ):
            with pytest.raises(_core.InvalidArgument, match=word):
                evaluate(function, floats(2))

    def test_outside_of_a_trace_there_are_no_tensors(self):
        with pytest.raises(_core.InvalidArgument, match="trace"):
            nn.constant(1.0)


def gradient_of(loss, start):
    """The gradient that training uses: one step of gradient descent with the rate 1."""
    graph = nn.Graph()

    def body(_):
        w = nn.get_variable("w", initializer=start)
        return ipu.optimizers.GradientDescentOptimizer(1.0).minimize(loss(w))

    infeed = ipu.IPUInfeedQueue([np.zeros(1, np.float32)])
    ipu.compile(lambda: ipu.loops.repeat(1, body, [], infeed), graph=graph)()
    return start - graph.variable("w").numpy()


def differences(loss, start, step=1e-2):
    result = np.zeros_like(start)
    for i in np.ndindex(start.shape):
        both = []
        for sign in (1, -1):
            moved = start.copy()
            moved[i] += sign * step
            both.append(float(evaluate(loss, moved)))
        result[i] = (both[0] - both[1]) / (2 * step)
    return result


class TestGradients:
    CASES = {
        "elementwise": lambda w: nn.sum(nn.tanh(w) * nn.exp(w * 0.5) / (2 + nn.square(w))),
        "indexing": lambda w: nn.sum(nn.square(w[1:, ::2]) * 3 + w[0, 1]),
        "softmax": lambda w: nn.sum(nn.softmax(w) * np.arange(4, dtype=np.float32)),
        "layer_norm": lambda w: nn.sum(
            nn.layer_norm(w, np.float32([1, 2, 3, 4]), np.zeros(4, np.float32))
            * np.arange(12, dtype=np.float32).reshape(3, 4)
        ),
        "conv2d": lambda w: nn.mean(
            nn.square(nn.conv2d(np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5) / 25,
                                nn.reshape(w, [1, 1, 3, 4]), padding=1))
        ),
        "cross_entropy": lambda w: nn.cross_entropy(w, np.array([1, 3, 0], np.int64)),
        "matmul": lambda w: nn.mean(nn.square(w @ nn.transpose(w))),
        "gather": lambda w: nn.sum(nn.square(nn.gather(w, np.array([2, 2, 0])))),
    }

    @pytest.mark.parametrize("name", CASES)
    def test_are_the_finite_differences(self, name):
        start = np.random.default_rng(3).uniform(-1, 1, (3, 4)).astype(np.float32)
        loss = self.CASES[name]
        close(gradient_of(loss, start), differences(loss, start), 5e-3)

    def test_do_not_pass_detach(self):
        start = np.float32([2, 3])
        close(gradient_of(lambda w: nn.sum(w * nn.detach(w)), start), start)


class TestVariables:
    def setup_method(self):
        self.graph = nn.Graph(seed=3)

    def test_have_names_by_scope_and_values(self):
        with self.graph.as_default():
            with nn.variable_scope("a", initializer=2.5):
                with nn.variable_scope("b") as prefix:
                    assert prefix == "a/b/"
                    w = nn.get_variable("w", [2, 3])
            half = nn.get_variable("half", [2], "float16", initializer=[1, 2])
            brain = nn.get_variable("brain", dtype="bfloat16", initializer=[1.00390625, -3])
        assert (w.name, w.shape, w.dtype) == ("a/b/w", (2, 3), "float32")
        assert np.array_equal(w.numpy(), np.full((2, 3), 2.5))
        assert half.numpy().dtype == np.float16 and half.numpy().tolist() == [1, 2]
        assert brain.dtype == "bfloat16" and brain.numpy().tolist() == [1, -3]  # ties go to even
        assert self.graph.variable("a/b/w") is w
        assert [v.name for v in self.graph.variables()] == ["a/b/w", "half", "brain"]
        w.assign(1)
        assert w.numpy().sum() == 6
        w.assign_add(np.ones((2, 3)))
        assert w.numpy().sum() == 12

    def test_are_shared_only_where_that_is_said(self):
        with self.graph.as_default():
            w = nn.get_variable("w", [2])
            with pytest.raises(_core.InvalidArgument, match="exists already.*AUTO_REUSE"):
                nn.get_variable("w", [2])
            assert nn.get_variable("w", [2], reuse=True) is w
            with nn.variable_scope("s", reuse=nn.AUTO_REUSE, use_resource=True):
                assert nn.get_variable("w", [2]) is nn.get_variable("w", [2])
            with pytest.raises(_core.InvalidArgument, match="no variable 'x' to reuse"):
                nn.get_variable("x", [2], reuse=True)
            with pytest.raises(_core.InvalidArgument, match=r"shape \(2,\), asked for"):
                nn.get_variable("w", [3], reuse=True)

    def test_are_resources_as_tensorflows_scripts_say(self):
        with self.graph.as_default(), nn.variable_scope("s", use_resource=True):
            assert nn.get_variable("w", [2], use_resource=True).name == "s/w"
            with pytest.raises(_core.InvalidArgument, match="use_resource"):
                nn.get_variable("v", [2], use_resource=False)

    def test_say_what_is_wrong(self):
        with self.graph.as_default():
            for arguments, word in (
                (("a.b", [1]), "without dots"),
                (("a//b", [1]), "empty parts"),
                (("w",), "needs a shape"),
                (("w", [2], None, np.zeros(3)), r"shape \(2,\), its first value \(3,\)"),
                (("w", [2], "float33"), "no element type 'float33'"),
            ):
                with pytest.raises(_core.InvalidArgument, match=word):
                    nn.get_variable(*arguments)
            with pytest.raises(_core.InvalidArgument, match="there is no variable 'q'"):
                self.graph.variable("q")

    def test_first_values_follow_their_initializers(self):
        limit = math.sqrt(6 / 30)
        cases = {
            "glorot": (None, lambda v: np.abs(v).max() <= limit and np.abs(v).max() > 0.8 * limit),
            "zeros": (nn.zeros_initializer(), lambda v: not v.any()),
            "ones": (nn.ones_initializer(), lambda v: (v == 1).all()),
            "uniform": (nn.random_uniform_initializer(1, 2), lambda v: 1 <= v.min() < v.max() <= 2),
            "seeded": (
                nn.random_uniform_initializer(1, 2, seed=5),
                lambda v: 1 <= v.min() < v.max() <= 2,
            ),
            "normal": (nn.random_normal_initializer(5, 0.1), lambda v: abs(v.mean() - 5) < 0.1),
            "truncated": (nn.truncated_normal_initializer(0, 1), lambda v: 1 < np.abs(v).max() <= 2),
            "function": (lambda shape, dtype: np.full(shape, 7), lambda v: (v == 7).all()),
        }
        with self.graph.as_default():
            for name, (initializer, holds) in cases.items():
                values = nn.get_variable(name, [10, 20], initializer=initializer).numpy()
                assert values.shape == (10, 20) and values.dtype == np.float32 and holds(values), name

    def test_random_values_depend_on_the_seed_and_the_name_alone(self):
        def values(seed, *names):
            with nn.Graph(seed).as_default():
                return [nn.get_variable(name, [4]).numpy().tolist() for name in names]

        assert values(1, "a", "b")[1] == values(1, "b")[0]
        assert values(1, "a") != values(2, "a")
        assert values(1, "a")[0] != values(1, "b")[0]

    def test_threads_have_scopes_and_default_graphs_of_their_own(self):
        found = []

        def other():
            found.append(nn.get_default_graph())
            with nn.Graph().as_default(), nn.variable_scope("x"):
                found.append(nn.get_variable("w", [1]).name)

        with self.graph.as_default(), nn.variable_scope("outer"):
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        assert found[0] is not self.graph and found[1] == "x/w"
