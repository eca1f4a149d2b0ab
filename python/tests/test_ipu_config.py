"""IPUConfig and the scopes of sluice.ipu: devices, replicas and shards."""

import contextlib
import warnings

import numpy as np
import pytest

from sluice import _core, ipu, nn
from sluice.ipu import loops, scopes, utils


@pytest.fixture(autouse=True)
def graph():
    with nn.Graph().as_default() as made:
        yield made
    ipu.utils.reset_ipu_configuration()


def numbers(*values):
    return [np.float32([value]) for value in values]


class TestConfig:
    def test_selects_replicas_by_devices(self):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
        infeed = ipu.IPUInfeedQueue(numbers(1, 2, 3, 4))
        outfeed = ipu.IPUOutfeedQueue()
        ipu.compile(lambda: loops.repeat(2, lambda x: outfeed.enqueue(x), [], infeed))()
        assert outfeed.dequeue().tolist() == [[[1], [2]], [[3], [4]]]

    def test_counts_the_devices_of_shards(self):
        config = utils.create_ipu_config()
        utils.auto_select_ipus(config, 4)
        utils.configure_ipu_system(config)
        infeed = ipu.IPUInfeedQueue([np.float32([i]) for i in range(8)])
        outfeed = ipu.IPUOutfeedQueue()

        def body(x):
            y = x * 2
            with scopes.ipu_shard(1):
                return outfeed.enqueue(y + 1)

        run = ipu.compile(lambda: loops.repeat(2, body, [], infeed))
        run()
        assert outfeed.dequeue().shape == (2, 2, 1)  # two replicas of two devices

    def test_shards_compute_what_one_device_computes(self):
        def trained(shard):
            graph = nn.Graph()
            infeed = ipu.IPUInfeedQueue([np.float32([i, 1]) for i in range(6)])

            def body(x):
                w = nn.get_variable("w", [3, 2])
                h = nn.tanh(nn.linear(nn.expand_dims(x, 0), w))
                with shard(1):
                    loss = nn.sum(nn.square(nn.linear(h, nn.get_variable("v", [4, 3]))))
                    return ipu.optimizers.MomentumOptimizer(0.1, 0.5).minimize(loss)

            ipu.compile(lambda: loops.repeat(6, body, [], infeed), graph=graph)()
            return [v.numpy().tobytes() for v in graph.variables()]

        assert trained(scopes.ipu_shard) == trained(lambda i: contextlib.nullcontext())

    def test_refuses_what_it_does_not_know(self):
        config = ipu.config.IPUConfig()
        for change, error, word in (
            (lambda: setattr(config, "auto_select_ipu", 1), AttributeError, "mean 'auto_select_ipus'"),
            (lambda: setattr(config, "auto_select_ipus", 1.5), TypeError, "auto_select_ipus is an int"),
            (lambda: setattr(config, "auto_select_ipus", 0), ValueError, "at least 1"),
            (lambda: setattr(config, "select_ipus", "a"), TypeError, "device number"),
            (lambda: setattr(config.io_tiles, "tiles", 1), AttributeError, "io_tiles.tiles"),
            (lambda: setattr(config.floating_point_behaviour, "esr", 1), TypeError, "True or False"),
            (lambda: setattr(config.device_connection, "type", "soon"), ValueError, "ON_DEMAND"),
            (lambda: config.something, AttributeError, "something"),
        ):
            with pytest.raises(error, match=word):
                change()
        config.auto_select_ipus = 2
        config.select_ipus = [0, 1]
        with pytest.raises(_core.InvalidArgument, match="not both"):
            config.configure_ipu_system()

    def test_puts_its_settings_into_the_options(self):
        config = ipu.config.IPUConfig()
        config.floating_point_behaviour.esr = True
        config.floating_point_behaviour.inv = True
        config.allow_recompute = True
        config.io_tiles.num_io_tiles = 64
        config.device_connection.type = "ON_DEMAND"
        config.select_ipus = [1, 0]
        config.configure_ipu_system()
        options = ipu.config.options_for(None).for_devices(1)
        for name, text in (
            ("precision.enableStochasticRounding", "true"),
            ("precision.enableFloatingPointExceptions", "true"),
            ("recomputation", "All"),
            ("tensorLocations.numIOTiles", "64"),
            ("connectionType", "OnDemand"),
            ("useDeviceIds", "1, 0"),
            ("replicationFactor", "2"),
        ):
            assert text in options.text(name), name

    def test_floating_point_exceptions_end_a_call(self):
        config = ipu.config.IPUConfig()
        config.floating_point_behaviour.div0 = True
        config.configure_ipu_system()
        run = ipu.compile(lambda x: loops.repeat(1, lambda x: 1 / x, [x]))
        assert run(np.float32([2]))[0].tolist() == [0.5]
        with pytest.raises(_core.Error, match="inf|NaN|infinit"):
            run(np.float32([0]))


class TestScopes:
    def test_of_tensorflows_port_are_there(self):
        one = np.ones(1, np.float32)

        def body(x):
            with scopes.ipu_jit_scope(), scopes.frontend_attribute("a", "b"), scopes.partials_type("half"):
                return x + 1

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert ipu.compile(lambda: ipu.loops.repeat(2, body, [one]))()[0] == 3
        assert {str(each.message).split(" ")[0] for each in caught} <= {
            "scopes.frontend_attribute", "scopes.partials_type"}

    def test_that_have_no_counterpart_say_what_to_use(self):
        with pytest.raises(NotImplementedError, match="enableStochasticRounding"):
            scopes.stochastic_rounding(True)
        with pytest.raises(NotImplementedError, match="IPUOutfeedQueue"):
            scopes.outside_compilation_scope()
        with pytest.raises(ValueError, match="inside a function"):
            with scopes.ipu_jit_scope():
                pass
