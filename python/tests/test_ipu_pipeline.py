"""sluice.ipu.pipelining_ops: pipelines train to the bits of one device, and what is refused."""

import numpy as np
import pytest

from sluice import _core, ipu, nn
from sluice.ipu import loops, pipelining_ops
from sluice.ipu.pipelining_ops import (
    OptimizerFunctionOutput,
    PipelineSchedule,
    PipelineStageOptions,
    RecomputationMode,
)

RANDOM = np.random.default_rng(11)
X = RANDOM.uniform(-1, 1, (48, 2, 4)).astype(np.float32)
Y = RANDOM.uniform(-1, 1, (48, 2, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def system():
    with nn.Graph().as_default():
        yield
    ipu.utils.reset_ipu_configuration()


def layer(name, x):
    with ipu.variable_scope(name):
        bias = ipu.get_variable("b", [4], initializer=0.1)
        return nn.tanh(nn.linear(x, ipu.get_variable("w", [4, 4]), bias))


def first(x, y):
    return layer("first", x), y


def second(x, y):
    return layer("second", x), y


def third(x, y):
    return nn.dropout(layer("third", x), 0.25), y


def last(x, y):
    with ipu.variable_scope("last"):
        prediction = nn.linear(x, ipu.get_variable("w", [4, 4]))
    return nn.mse_loss(prediction, y), prediction


STAGES = [first, second, third, last]


def momentum(loss, *_):
    return OptimizerFunctionOutput(ipu.optimizers.MomentumOptimizer(0.25, 0.75), loss)


def state(graph):
    return {v.name: v.numpy().tobytes() for v in graph.variables()}


def pipelined(count=12, stages=STAGES, **options):
    """The variables and losses that a pipeline over all data leaves."""
    graph, outfeed = nn.Graph(), ipu.IPUOutfeedQueue()
    infeed = ipu.IPUInfeedQueue((X, Y))
    given = dict(
        infeed_queue=infeed,
        outfeed_queue=outfeed,
        optimizer_function=momentum,
        repeat_count=48 // count,
    )
    given.update(options)

    def net():
        return pipelining_ops.pipeline(stages, count, **given)

    run = ipu.compile(net, graph=graph)
    assert run() == []
    assert given["optimizer_function"] is None or run.updates == 48 // count
    return state(graph), outfeed.dequeue()


def looped(count=12):
    """The same on one device, without a pipeline."""
    graph, outfeed = nn.Graph(), ipu.IPUOutfeedQueue()
    infeed = ipu.IPUInfeedQueue((X, Y))

    def body(x, y):
        values = (x, y)
        for stage in STAGES:
            values = stage(*values)
        rule = ipu.optimizers.GradientAccumulationOptimizerV2(
            ipu.optimizers.MomentumOptimizer(0.25, 0.75), count
        )
        return outfeed.enqueue(values), rule.minimize(values[0])

    ipu.compile(lambda: loops.repeat(48, body, [], infeed), graph=graph)()
    return state(graph), outfeed.dequeue()


def by_name(stage):
    """The stage with its results as a dict, in another order."""
    return lambda x, y: dict(zip("yx", reversed(stage(x, y))))


class TestDicts:
    STAGES = [by_name(first), by_name(second), by_name(third)]

    @staticmethod
    def last(*, y, x):
        loss, prediction = last(x, y)
        return {"prediction": prediction, "loss": loss}

    @staticmethod
    def optimizer(prediction, loss):
        return momentum(loss)

    def test_pass_results_by_name_with_the_same_bits(self):
        variables, results = pipelined(stages=[*self.STAGES, self.last], optimizer_function=self.optimizer)
        expected, (losses, predictions) = pipelined()
        assert variables == expected and sorted(results) == ["loss", "prediction"]
        assert np.array_equal(results["loss"], losses)
        assert np.array_equal(results["prediction"], predictions)

    def test_may_come_from_the_infeed(self):
        infeed = ipu.IPUInfeedQueue({"x": X, "y": Y})
        variables, _ = pipelined(stages=[*self.STAGES, last], infeed_queue=infeed)
        assert variables == pipelined()[0]

    def test_of_functions_at_the_same_time_are_joined(self):
        def one(x, y):
            return {"x": layer("one", x)}

        def two(x, y):
            return {"y": layer("two", y)}

        def both(x, y):
            return layer("one", x), layer("two", y)

        options = dict(optimizer_function=None, device_mapping=[[0, 1], 2])
        _, joined = pipelined(stages=[[one, two], lambda y, x: x - y], **options)
        _, expected = pipelined(stages=[both, lambda x, y: x - y], optimizer_function=None)
        assert np.array_equal(joined, expected)
        with pytest.raises(ValueError, match="all dicts or none, with different names"):
            pipelined(stages=[[one, lambda x, y: {"x": y}], lambda x: x], **options)

    def test_hold_one_tensor_for_each_name(self):
        with pytest.raises(ValueError, match="stage 0 of the pipeline: a dict has one tensor"):
            pipelined(stages=[lambda x, y: {"x": [x, y]}, lambda x: x], optimizer_function=None)


class TestPipeline:
    @pytest.mark.parametrize("schedule", PipelineSchedule)
    def test_of_four_stages_trains_to_the_bits_of_one_device(self, schedule):
        variables, (losses, predictions) = pipelined(pipeline_schedule=schedule)
        expected, (loop_losses, loop_predictions) = looped()
        assert variables == expected and len(variables) == 7
        assert np.array_equal(losses, loop_losses)
        assert np.array_equal(predictions, loop_predictions)
        assert losses.shape == (48,)
        untrained, _ = pipelined(optimizer_function=None)
        assert all(variables[name] != untrained[name] for name in variables)

    def test_computes_the_same_wherever_things_are(self):
        expected, _ = pipelined()
        for options in (
            {"device_mapping": [0, 1, 1, 0]},
            {"device_mapping": [3, 2, 1, 0]},
            {"recomputation_mode": RecomputationMode.RecomputeThenBackpropagate},
            {"recomputation_mode": RecomputationMode.RecomputeAndBackpropagateInterleaved},
            {"offload_weight_update_variables": False},
            {"offload_activations": True},
            {"offload_gradient_accumulation_buffers": True, "offload_weights": True},
            {"forward_propagation_stages_poplar_options": [PipelineStageOptions(0.5)] * 4},
            {"name": "mine"},
        ):
            assert pipelined(**options)[0] == expected, options

    def test_puts_losses_or_sums_into_the_outfeed(self):
        _, (losses, _) = pipelined()
        _, (only,) = pipelined(outfeed_loss=True)
        assert np.array_equal(only, losses)
        _, (sums,) = pipelined(outfeed_loss=True, accumulate_outfeed=True)
        assert sums.shape == (4,)
        np.testing.assert_allclose(sums, losses.reshape(4, 12).sum(1), rtol=1e-6)

    def test_runs_without_an_optimizer(self):
        variables, (losses, _) = pipelined(optimizer_function=None)
        assert losses.shape == (48,) and len(variables) == 7

    def test_passes_inputs_before_the_infeed(self):
        outfeed = ipu.IPUOutfeedQueue()
        infeed = ipu.IPUInfeedQueue([np.float32([i]) for i in range(4)])
        run = ipu.compile(
            lambda scale: pipelining_ops.pipeline(
                [lambda scale, x: x * scale, lambda y: y + 1],
                4,
                inputs=[scale],
                infeed_queue=infeed,
                outfeed_queue=outfeed,
            )
        )
        run(np.float32([10]))
        assert outfeed.dequeue()[0].tolist() == [[1], [11], [21], [31]]

    def test_runs_concurrent_stages_on_the_same_arguments(self):
        outfeed = ipu.IPUOutfeedQueue()
        infeed = ipu.IPUInfeedQueue([{"x": np.float32([i])} for i in range(4)])
        run = ipu.compile(
            lambda: pipelining_ops.pipeline(
                [lambda x: x + 1, [lambda x: x * 2, lambda x: (x * 3, x)], lambda a, b, c: a + b + c],
                4,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                device_mapping=[0, [1, 2], 0],
            )
        )
        run()
        assert outfeed.dequeue()[0].tolist() == [[6], [12], [18], [24]]

    def test_replicas_follow_from_the_number_of_devices(self):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 4
        config.configure_ipu_system()
        outfeed = ipu.IPUOutfeedQueue()
        infeed = ipu.IPUInfeedQueue([np.float32([i]) for i in range(8)])
        stages = [lambda x: x * 2, lambda x: x + 1]
        run = ipu.compile(
            lambda: pipelining_ops.pipeline(stages, 4, infeed_queue=infeed, outfeed_queue=outfeed)
        )
        run()
        (values,) = outfeed.dequeue()
        assert values.shape == (4, 2, 1)  # two replicas of two stages
        assert values[:, :, 0].tolist() == [[1, 3], [5, 7], [9, 11], [13, 15]]

    def test_a_new_learning_rate_needs_no_new_function(self):
        graph, infeed = nn.Graph(), ipu.IPUInfeedQueue([np.float32([1])] * 8)
        optimizer = ipu.optimizers.GradientDescentOptimizer(0.5)
        stages = [
            lambda x: x * 1,
            lambda x: nn.sum(x * ipu.get_variable("w", [1], initializer=10.0)),
        ]
        train = ipu.compile(
            lambda: pipelining_ops.pipeline(
                stages,
                4,
                infeed_queue=infeed,
                optimizer_function=lambda loss: OptimizerFunctionOutput(optimizer, loss),
            ),
            graph=graph,
        )
        train()
        assert graph.variable("w").numpy().tolist() == [8]
        optimizer.learning_rate = 0.25
        train.set_optimizer(optimizer)
        train()
        assert graph.variable("w").numpy().tolist() == [7]


class TestRefusals:
    def message(self, error=_core.InvalidArgument, **options):
        with pytest.raises(error) as caught:
            pipelined(**options)
        return str(caught.value)

    def test_name_what_does_not_go_together(self):
        assert "two stages" in self.message(stages=[first])
        assert "3 entries for 4 stages" in self.message(device_mapping=[0, 1, 2])
        assert "stage 0 has 1 functions and 2 devices" in self.message(device_mapping=[[0, 1], 1, 2, 3])
        assert "outfeedLoss" in self.message(optimizer_function=None, outfeed_loss=True)
        assert "mode All" in self.message(
            outfeed_queue=ipu.IPUOutfeedQueue("LAST"), accumulate_outfeed=True
        )
        assert "options for 1 stages" in self.message(
            forward_propagation_stages_poplar_options=[PipelineStageOptions()]
        )
        assert "one device" in self.message(batch_serialization_iterations=2)
        assert "SUM or MEAN" in self.message(reduction_method="max")
        with pytest.raises(_core.InvalidArgument, match="from 0 to 1"):
            PipelineStageOptions(2)

    def test_name_arguments_of_other_types(self):
        assert "PipelineSchedule" in self.message(TypeError, pipeline_schedule="Grouped")
        assert "RecomputationMode" in self.message(TypeError, recomputation_mode=1)
        assert "OptimizerFunctionOutput" in self.message(
            TypeError, optimizer_function=lambda *outputs: outputs[0]
        )
        assert "expected an optimizer" in self.message(
            TypeError, optimizer_function=lambda loss, _: OptimizerFunctionOutput("SGD", loss)
        )
        assert "tensor as loss" in self.message(
            TypeError,
            optimizer_function=lambda loss, _: OptimizerFunctionOutput(momentum(loss).opt, 1.0),
        )
        assert "float scalar" in self.message(
            optimizer_function=lambda _, values: OptimizerFunctionOutput(momentum(values).opt, values)
        )
        assert "expected a function" in self.message(TypeError, stages=[first, 3])

    def test_name_wrapped_optimizers(self):
        def wrapped(loss, _):
            return OptimizerFunctionOutput(
                ipu.optimizers.CrossReplicaOptimizer(ipu.optimizers.AdamOptimizer()), loss
            )

        assert "CrossReplicaOptimizer is for repeat()" in self.message(optimizer_function=wrapped)

    def test_want_a_count(self):
        with pytest.raises(_core.InvalidArgument, match="gradient_accumulation_count"):
            ipu.compile(lambda: pipelining_ops.pipeline(STAGES))()
        with pytest.raises(_core.InvalidArgument, match="inside a function"):
            pipelining_ops.pipeline(STAGES, 4)
        with pytest.raises(_core.Unsupported, match="accumulate_outfeed_dtype"):
            pipelined(accumulate_outfeed_dtype=np.float32)

    def test_want_different_names_for_different_variables(self):
        stages = [first, lambda x, y: (layer("first", x), y), third, last]
        assert "'first/b' exists already" in self.message(stages=stages)
