"""sluice.ipu.optimizers against their equations, computed by hand."""

import gc
import math
import weakref

import numpy as np
import pytest

from sluice import _core, ipu, nn
from sluice.ipu import loops, optimizers, pipelining_ops
from sluice.ipu.optimizers import (
    cross_replica_optimizer,
    gradient_accumulation_optimizer,
    map_gradient_optimizer,
)


@pytest.fixture(autouse=True)
def graph():
    with nn.Graph().as_default() as made:
        yield made
    ipu.utils.reset_ipu_configuration()


def train(rule, elements, dtype="float32", start=1.0, replicas=None):
    """w after training the loss w x, whose gradient is the element."""
    ipu.utils.reset_ipu_configuration()
    if replicas is not None:
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = replicas
        config.configure_ipu_system()
    graph = nn.Graph()
    infeed = ipu.IPUInfeedQueue([np.float32([e]) for e in elements])

    def body(x):
        w = nn.get_variable("w", [1], dtype, initializer=start)
        return rule.minimize(nn.sum(w * nn.cast(x, dtype)))

    count = len(elements) // (replicas or 1)
    run = ipu.compile(lambda: loops.repeat(count, body, [], infeed), graph=graph)
    run()
    train.last = run
    return float(graph.variable("w").numpy()[0])


def close(actual, expected):
    assert actual == pytest.approx(expected, rel=1e-5)


class TestRules:
    def test_gradient_descent(self):
        close(train(optimizers.GradientDescentOptimizer(0.1), [1, 2, 3]), 1 - 0.6)

    def test_momentum(self):
        w, v = 1.0, 0.0
        for g in (1, 2, 3):
            v = 0.5 * v + g
            w -= 0.1 * v
        close(train(optimizers.MomentumOptimizer(0.1, 0.5), [1, 2, 3]), w)

    def test_nesterov(self):
        w, v = 1.0, 0.0
        for g in (1, 2, 3):
            v = 0.5 * v + g
            w -= 0.1 * (g + 0.5 * v)
        close(train(optimizers.MomentumOptimizer(0.1, 0.5, use_nesterov=True), [1, 2, 3]), w)

    def adam(self, decay=0.0):
        w, m, v = 1.0, 0.0, 0.0
        for t, g in enumerate((1, 2, 3), 1):
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            step = (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.99**t)) + 1e-6)
            w -= 0.1 * (step + decay * w)
        return w

    def test_adam(self):
        close(train(optimizers.AdamOptimizer(0.1, 0.9, 0.99, 1e-6), [1, 2, 3]), self.adam())

    def test_adam_with_weight_decay(self):
        close(train(optimizers.AdamWOptimizer(0.2, 0.1, 0.9, 0.99, 1e-6), [1, 2, 3]), self.adam(0.2))

    def test_rmsprop_in_tensorflows_form(self):
        w, v, u = 1.0, 1.0, 0.0  # TensorFlow begins with a mean square of 1
        for g in (1, 2, 3):
            v = 0.8 * v + 0.2 * g * g
            u = 0.5 * u + 0.1 * g / math.sqrt(v + 1e-3)
            w -= u
        close(train(optimizers.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-3), [1, 2, 3]), w)

    def test_lamb_scales_by_the_norms(self):
        # The first step of a single weight: |w| / |step| times the step, whatever the gradient.
        close(train(optimizers.LAMBOptimizer(0.1, weight_decay=0.0), [3], start=2.0), 2 - 0.1 * 2)

    def test_want_numbers_for_learning_rates(self):
        with pytest.raises(TypeError, match="learning rate is a number"):
            optimizers.GradientDescentOptimizer("fast")
        with pytest.raises(NotImplementedError, match="no update rule"):
            train(optimizers.Optimizer(), [1])


class TestWrappers:
    def test_accumulate_sums_or_means(self):
        sgd = optimizers.GradientDescentOptimizer(0.1)
        close(train(optimizers.GradientAccumulationOptimizerV2(sgd, 2), [1, 2, 3, 4]), 1 - 0.1 * 10)
        assert train.last.updates == 2
        mean = optimizers.GradientAccumulationOptimizerV2(sgd, 2, reduction_method="mean")
        close(train(mean, [1, 2, 3, 4]), 1 - 0.1 * 5)
        momentum = optimizers.MomentumOptimizer(0.1, 0.5)
        old = gradient_accumulation_optimizer.GradientAccumulationOptimizer(momentum, 2)
        close(train(old, [1, 2, 3, 4]), 1 - 0.1 * 3 - 0.1 * (0.5 * 3 + 7))

    def test_average_over_replicas(self):
        sgd = optimizers.GradientDescentOptimizer(0.1)
        cross = cross_replica_optimizer.CrossReplicaOptimizer(sgd)
        close(train(cross, [1, 2, 3, 4], replicas=2), 1 - 0.1 * (1.5 + 3.5))
        for both in (
            optimizers.CrossReplicaGradientAccumulationOptimizerV2(sgd, 2),
            optimizers.CrossReplicaGradientAccumulationOptimizer(sgd, 2),
            optimizers.CrossReplicaOptimizer(optimizers.GradientAccumulationOptimizerV2(sgd, 2)),
        ):
            close(train(both, [1, 2, 3, 4], replicas=2), 1 - 0.1 * 5)
            assert train.last.updates == 1

    def test_have_their_limits(self):
        sgd = optimizers.GradientDescentOptimizer(0.1)
        for rule, count, replicas, word in (
            (sgd, 4, 2, "CrossReplicaOptimizer"),
            (optimizers.GradientAccumulationOptimizerV2(sgd, 3), 4, None, "no multiple of the 3"),
            (optimizers.GradientAccumulationOptimizerV2(sgd, 0), 4, None, "at least 1"),
            (
                optimizers.GradientAccumulationOptimizer(optimizers.AdamOptimizer(), 2),
                4, None, "takes SGD",
            ),
            (
                optimizers.GradientAccumulationOptimizerV2(
                    optimizers.GradientAccumulationOptimizerV2(sgd, 2), 2
                ),
                4, None, "accumulates already",
            ),
        ):
            with pytest.raises(_core.InvalidArgument, match=word):
                train(rule, [1] * count, replicas=replicas)
        with pytest.raises(TypeError, match="expected an optimizer"):
            optimizers.CrossReplicaOptimizer(0.1)
        with pytest.raises(_core.InvalidArgument, match="SUM or MEAN"):
            optimizers.GradientAccumulationOptimizerV2(sgd, 2, reduction_method="max")


class CastGradientsSGD(optimizers.GradientDescentOptimizer):
    """The guide's example."""

    def apply_gradients(self, grads_and_vars, name=None):
        cast_grads_and_vars = [(nn.cast(g, v.dtype), v) for (g, v) in grads_and_vars]
        return super().apply_gradients(cast_grads_and_vars, name)


class TestAccumulationTypes:
    """2049 + 1 is 2048 in float16 and 2050 in float32."""

    ELEMENTS = [2048, 1, 1]

    def trained(self, optimizer, dtype):
        rule = optimizers.GradientAccumulationOptimizerV2(optimizer, 3, dtype=dtype)
        return train(rule, self.ELEMENTS, "float16", start=0.0)

    def test_are_the_variables_own_by_default(self):
        assert self.trained(optimizers.GradientDescentOptimizer(1.0), None) == -2048
        assert self.trained(optimizers.GradientDescentOptimizer(1.0), lambda var: var.dtype) == -2048

    @pytest.mark.parametrize("dtype", ["float32", np.float32, lambda var: "float32"])
    def test_of_another_kind_need_an_optimizer_that_casts(self, dtype):
        with pytest.raises(_core.InvalidArgument, match="type mismatch"):
            self.trained(optimizers.GradientDescentOptimizer(1.0), dtype)
        assert self.trained(CastGradientsSGD(1.0), dtype) == -2050

    def test_may_be_chosen_for_each_variable(self):
        seen = []

        def choose(variable):
            seen.append((variable.name, variable.shape, variable.dtype))
            return None

        self.trained(optimizers.GradientDescentOptimizer(1.0), choose)
        assert set(seen) == {("w", (1,), "float16")}

    def test_say_what_they_are_not(self):
        with pytest.raises(_core.InvalidArgument, match="no element type 'float31'"):
            self.trained(optimizers.GradientDescentOptimizer(1.0), "float31")
        with pytest.raises(_core.InvalidArgument, match="expected a float"):
            self.trained(CastGradientsSGD(1.0), "int32")
        with pytest.raises(ZeroDivisionError):
            self.trained(optimizers.GradientDescentOptimizer(1.0), lambda var: 1 / 0)


class TestMappedGradients:
    def test_are_what_the_function_makes_of_them(self):
        sgd = optimizers.GradientDescentOptimizer(0.1)
        double = map_gradient_optimizer.MapGradientOptimizer(sgd, lambda grad, var: grad * 2)
        close(train(double, [1, 2]), 1 - 0.1 * 6)
        decay = optimizers.MapGradientOptimizer(sgd, lambda grad, var: grad + 0.5 * var)
        w = 1.0
        for g in (1, 2):
            w -= 0.1 * (g + 0.5 * w)
        close(train(decay, [1, 2]), w)

    @pytest.mark.parametrize(
        "rule",
        [
            optimizers.MomentumOptimizer(0.1, 0.5),
            optimizers.AdamOptimizer(0.1),
            optimizers.AdamWOptimizer(0.1, 0.1),
            optimizers.RMSPropOptimizer(0.1),
            optimizers.LAMBOptimizer(0.1),
        ],
        ids=lambda rule: type(rule).__name__,
    )
    def test_of_every_rule_are_applied(self, rule):
        negative = optimizers.MapGradientOptimizer(rule, lambda grad, var: -grad)
        assert train(negative, [1, -2, 3]) == train(rule, [-1, 2, -3])

    def test_stay_mapped_when_the_learning_rate_changes(self):
        graph, infeed = nn.Graph(), ipu.IPUInfeedQueue([np.float32([1])] * 2)
        sgd = optimizers.GradientDescentOptimizer(0.5)
        rule = optimizers.MapGradientOptimizer(sgd, lambda grad, var: grad * 2)

        def body(x):
            return rule.minimize(nn.sum(nn.get_variable("w", [1], initializer=8.0) * x))

        run = ipu.compile(lambda: loops.repeat(1, body, [], infeed), graph=graph)
        run()
        assert graph.variable("w").numpy().tolist() == [7]
        sgd.learning_rate = 1.0
        run.set_optimizer(rule)
        run()
        assert graph.variable("w").numpy().tolist() == [5]

    def test_nest_and_go_into_other_wrappers(self):
        sgd = optimizers.GradientDescentOptimizer(0.1)
        inner = optimizers.MapGradientOptimizer(sgd, lambda grad, var: grad + 1)
        outer = optimizers.MapGradientOptimizer(inner, lambda grad, var: grad * 10)
        close(train(outer, [1]), 1 - 0.1 * 20)
        rule = optimizers.GradientAccumulationOptimizerV2(outer, 2)
        close(train(rule, [1, 2]), 1 - 0.1 * 40)  # of the accumulated gradient
        with pytest.raises(TypeError, match="put GradientAccumulationOptimizerV2 around it"):
            optimizers.MapGradientOptimizer(rule, lambda grad, var: grad)
        with pytest.raises(TypeError, match="function of gradient"):
            optimizers.MapGradientOptimizer(sgd, 3)

    def test_may_depend_on_all_gradients(self):
        class Clipped(optimizers.GradientDescentOptimizer):
            def apply_gradients(self, grads_and_vars, name=None):
                norm = nn.sqrt(sum(nn.sum(nn.square(g)) for g, _ in grads_and_vars))
                scale = nn.minimum(1.0 / norm, 1.0)
                return super().apply_gradients([(g * scale, v) for g, v in grads_and_vars], name)

        graph = nn.Graph()
        infeed = ipu.IPUInfeedQueue([np.float32([3]), np.float32([0.1])])

        def body(x):
            a = nn.get_variable("a", [1], initializer=0.0)
            b = nn.get_variable("b", [1], initializer=0.0)
            return Clipped(1.0).minimize(nn.sum(a * x + b * (x * 4 / 3)))

        ipu.compile(lambda: loops.repeat(2, body, [], infeed), graph=graph)()
        np.testing.assert_allclose(graph.variable("a").numpy(), [-0.6 - 0.1], rtol=1e-5)
        np.testing.assert_allclose(graph.variable("b").numpy(), [-0.8 - 0.4 / 3], rtol=1e-5)

    def test_say_what_is_wrong_with_the_function(self):
        sgd = optimizers.GradientDescentOptimizer(0.1)
        mapped = optimizers.MapGradientOptimizer

        class Silent(optimizers.GradientDescentOptimizer):
            def apply_gradients(self, grads_and_vars, name=None):
                pass

        class Dropping(optimizers.GradientDescentOptimizer):
            def apply_gradients(self, grads_and_vars, name=None):
                return super().apply_gradients([], name)

        for rule, error, word in (
            (mapped(sgd, lambda g, v: 1 / 0), ZeroDivisionError, "division"),
            (mapped(sgd, lambda g, v: nn.sum(g)), ValueError, "gradient of 'w' is f32"),
            (mapped(sgd, lambda g, v: nn.cast(g, "int32")), ValueError, "i32"),
            (mapped(sgd, lambda g, v: None), ValueError, "no gradient for the variable 'w'"),
            (Silent(0.1), TypeError, "must return"),
            (Dropping(0.1), ValueError, "no gradient"),
        ):
            with pytest.raises(error, match=word):
                train(rule, [1])
        assert not _core.tracing()


class TestVariablesOfFunctions:
    def test_end_with_their_graph_and_function(self):
        def make():
            graph, infeed = nn.Graph(), ipu.IPUInfeedQueue([np.float32([1])] * 4)
            rule = optimizers.MapGradientOptimizer(
                optimizers.GradientDescentOptimizer(0.5), lambda grad, var: grad * 2
            )
            stages = [
                lambda x: x * nn.get_variable("a", [1]),
                lambda x: nn.sum(x * nn.get_variable("b", [1])),
            ]
            run = ipu.compile(
                lambda: pipelining_ops.pipeline(
                    stages,
                    4,
                    infeed_queue=infeed,
                    optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(rule, loss),
                ),
                graph=graph,
            )
            run()
            return [weakref.ref(each) for each in (graph, run, infeed, graph.variable("a"), rule)]

        ends = make()
        gc.collect()
        assert [end() for end in ends] == [None] * 5

    def test_are_shared_by_functions_of_a_graph(self, graph):
        infeed = ipu.IPUInfeedQueue([np.float32([1])] * 4)
        sgd = optimizers.GradientDescentOptimizer(0.5)

        def model(reuse=None):
            return nn.get_variable("w", [1], initializer=3.0, reuse=reuse)

        learn = ipu.compile(
            lambda: loops.repeat(2, lambda x: sgd.minimize(nn.sum(model() * x)), [], infeed)
        )
        read = ipu.compile(lambda: loops.repeat(1, lambda v: v + model(reuse=True), [[0.0]]))
        clash = ipu.compile(lambda: loops.repeat(1, lambda v: v + model(), [[0.0]]))
        learn()
        assert read()[0].tolist() == [2]
        learn()
        assert read()[0].tolist() == [1] and graph.variable("w").numpy().tolist() == [1]
        graph.variable("w").assign([5])
        assert read()[0].tolist() == [5]
        with pytest.raises(_core.InvalidArgument, match="'w' exists already"):
            clash()

    def test_are_trained_by_one_function_after_the_other(self, graph):
        infeed = ipu.IPUInfeedQueue([np.float32([1])] * 8)

        def learner(rate):
            sgd = optimizers.GradientDescentOptimizer(rate)
            w = lambda: nn.get_variable("w", [1], initializer=8.0, reuse=nn.AUTO_REUSE)
            return ipu.compile(
                lambda: loops.repeat(1, lambda x: sgd.minimize(nn.sum(w() * x)), [], infeed)
            )

        first, second = learner(1.0), learner(3.0)
        first()
        with pytest.raises(_core.InvalidArgument, match="destroy"):
            second()
        first.destroy()
        second()
        assert graph.variable("w").numpy().tolist() == [4]
        second.destroy()
        first()
        assert graph.variable("w").numpy().tolist() == [3]

    def test_that_are_not_trained_may_be_assigned(self, graph):
        infeed = ipu.IPUInfeedQueue([np.float32([i]) for i in (1, 2, 3)])

        def body(x):
            total = nn.get_variable("total", [1], initializer=0.0, trainable=False)
            total.assign_add(x)
            return optimizers.GradientDescentOptimizer(1.0).minimize(
                nn.sum(nn.get_variable("w", [1], initializer=0.0) * total)
            )

        ipu.compile(lambda: loops.repeat(3, body, [], infeed))()
        assert graph.variable("total").numpy().tolist() == [6]
        assert graph.variable("w").numpy().tolist() == [-10]
        assert not graph.variable("total").trainable and graph.variable("w").trainable
        with pytest.raises(_core.InvalidArgument, match="only buffers"):
            ipu.compile(
                lambda: loops.repeat(
                    1, lambda v: nn.get_variable("w", [1], reuse=True).assign(v), [[0.0]]
                )
            )()

    def test_reset_begins_anew(self):
        with pytest.raises(_core.InvalidArgument, match="as_default"):
            ipu.reset_default_graph()
