"""sluice.ipu: compiled functions and loops, against results computed by hand."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from sluice import _core, ipu, nn
from sluice.ipu import ipu_compiler, ipu_infeed_queue, ipu_outfeed_queue, loops, scopes


@pytest.fixture(autouse=True)
def graph():
    with nn.Graph().as_default() as made:
        yield made
    ipu.utils.reset_ipu_configuration()


def numbers(*values):
    return [np.float32([value]) for value in values]


class TestTheTrivialExample:
    """Ten iterations over two vectors of ones: their sums are 2 and their differences 0."""

    @pytest.mark.parametrize("mode", ["ALL", "LAST"])
    def test_gives_what_the_guide_says(self, mode):
        dataset = ipu.Dataset.from_tensors(np.ones([800], np.float32)).map(lambda v: (v, v)).repeat()
        infeed_queue = ipu_infeed_queue.IPUInfeedQueue(dataset)
        outfeed_queue = ipu_outfeed_queue.IPUOutfeedQueue(ipu.IPUOutfeedMode[mode])

        def body(x1, x2):
            d1 = x1 + x2
            d2 = x1 - x2
            return outfeed_queue.enqueue({"d1": d1, "d2": d2})

        def my_net():
            return loops.repeat(10, body, [], infeed_queue)

        with scopes.ipu_scope("/device:IPU:0"):
            run_loop = ipu_compiler.compile(my_net, inputs=[])
        infeed_queue.initializer.run()
        assert run_loop() == []
        result = outfeed_queue.dequeue()
        shape = (10, 800) if mode == "ALL" else (800,)
        assert np.array_equal(result["d1"], np.full(shape, 2, np.float32))
        assert np.array_equal(result["d2"], np.zeros(shape, np.float32))
        assert result["d1"].dtype == np.float32


class TestRepeat:
    def test_carries_values_and_returns_the_last_ones(self):
        def net(a, b, other):
            last = loops.repeat(10, lambda a, b: (b, a + b), [a, b])
            return last[1], last[0], other

        run = ipu.compile(net, [np.float32([0, 0]), np.float32([1, 2]), np.float32([7])])
        fibonacci = run()
        assert fibonacci[0].tolist() == [89, 178] and fibonacci[1].tolist() == [55, 110]
        assert fibonacci[2].tolist() == [7]
        assert run(np.float32([0, 0]), np.float32([2, 0]), np.float32([1]))[0].tolist() == [178, 0]

    def test_gives_the_body_carried_values_then_the_infeed(self):
        infeed = ipu.IPUInfeedQueue(itertools.cycle(numbers(1, 2, 3, 4)))
        outfeed = ipu.IPUOutfeedQueue()

        def body(total, x):
            return total * 10 + x, outfeed.enqueue((total, x))

        run = ipu.compile(lambda start: loops.repeat(3, body, [start], infeed))
        assert run(np.float32([5]))[0].tolist() == [5123]
        totals, elements = outfeed.dequeue()
        assert totals.tolist() == [[5], [51], [512]] and elements.tolist() == [[1], [2], [3]]
        assert run(np.float32([0]))[0].tolist() == [412]  # the infeed goes on
        assert infeed.dequeued == 6

    def test_computes_once_what_is_outside_of_the_loop(self):
        def net(x):
            doubled = x * 2
            (last,) = loops.repeat(3, lambda v: v + doubled, [doubled])
            return last + 0.5

        assert ipu.compile(net)(np.float32([1]))[0].tolist() == [8.5]

    def test_passes_dicts_by_name(self):
        infeed = ipu.IPUInfeedQueue({"x": np.float32([[1], [2]]), "y": np.float32([[10], [20]])})
        run = ipu.compile(
            lambda s: loops.repeat(2, lambda s, y, x: s + y / x * 1, [s], infeed)
        )
        assert run(np.float32([0]))[0].tolist() == [20]

    def test_counts_in_numbers_of_python(self):
        run = ipu.compile(lambda: loops.repeat(5, lambda i: i + 1, [0]))
        (count,) = run()
        assert count.dtype == np.int32 and count == 5

    def test_results_are_kept_when_the_next_call_runs(self):
        infeed = ipu.IPUInfeedQueue(itertools.cycle(numbers(1, 2)))
        outfeed = ipu.IPUOutfeedQueue()

        def body(s, x):
            outfeed.enqueue(x)
            return s + x

        run = ipu.compile(lambda s: loops.repeat(1, body, [s], infeed))
        first, kept = run(np.float32([10])), outfeed.dequeue()
        second, other = run(np.float32([20])), outfeed.dequeue()
        assert first[0].tolist() == [11] and second[0].tolist() == [22]
        assert kept.tolist() == [[1]] and other.tolist() == [[2]]
        given = np.float32([30])
        through = ipu.compile(lambda x, y: (loops.repeat(1, lambda v: v + 1, [x]), y))
        same = through(np.float32([0]), given)[1]
        given[0] = 0
        assert same.tolist() == [30]


class TestRefusals:
    def refusal(self, net, *inputs, error=_core.InvalidArgument):
        with pytest.raises(error) as caught:
            ipu.compile(net)(*inputs)
        return str(caught.value)

    def test_name_what_is_wrong_with_a_loop(self):
        one = np.float32([1])
        same = lambda x: x
        assert "neither repeat() nor pipeline()" in self.refusal(same, one)
        assert "at least 1" in self.refusal(lambda x: loops.repeat(0, same, [x]), one)
        assert "int" in self.refusal(lambda x: loops.repeat(2.0, same, [x]), one, error=TypeError)
        assert "has a repeat already" in self.refusal(
            lambda x: loops.repeat(2, same, loops.repeat(2, same, [x])), one
        )
        assert "the body returns 0 values" in self.refusal(
            lambda x: loops.repeat(2, lambda x: None, [x]), one
        )
        assert "value 0 is f32[1]" in self.refusal(
            lambda x: loops.repeat(2, lambda x: nn.cast(x, "float16"), [x]), one
        )
        assert "dict" in self.refusal(lambda x: loops.repeat(2, lambda x: {"a": x}, [x]), one)
        assert "function" in self.refusal(lambda x: loops.repeat(2, 3, [x]), one, error=TypeError)

    def test_name_the_place_of_calls_outside_of_a_function(self):
        for call in (
            lambda: loops.repeat(1, lambda: None),
            lambda: ipu.IPUOutfeedQueue().enqueue(1.0),
            lambda: ipu.optimizers.GradientDescentOptimizer(0.1).minimize(1.0),
        ):
            with pytest.raises(_core.InvalidArgument, match="inside a function"):
                call()

    def test_name_inputs_of_other_types(self):
        run = ipu.compile(lambda x: loops.repeat(2, lambda x: x + 1, [x]))
        run(np.float32([1]))
        with pytest.raises(_core.InvalidArgument, match="compiled for"):
            run(np.float32([1, 2]))
        assert run(np.float32([1]))[0].tolist() == [3]

    def test_of_options_and_scopes(self):
        with pytest.raises(TypeError, match="sluice.Options"):
            ipu.compile(lambda: None, options={"replicas": 2})
        with pytest.raises(_core.InvalidArgument, match="/device:IPU:0"):
            with scopes.ipu_scope("/device:CPU:0"):
                pass
        with pytest.raises(_core.InvalidArgument, match="device number"):
            with scopes.ipu_shard(-1):
                pass

    def test_of_calls_inside_of_a_trace(self):
        one = np.float32([1])
        inner = ipu.compile(lambda x: loops.repeat(1, lambda x: x + 1, [x]))
        assert "while another is traced" in self.refusal(
            lambda x: loops.repeat(1, lambda x: x + inner(one)[0], [x]), one
        )
        assert inner(one)[0].tolist() == [2]

    def test_an_exception_of_the_function_passes_and_leaves_it_usable(self):
        state = {"fails": True}

        def body(x):
            if state["fails"]:
                raise KeyError("mine")
            return x + nn.get_variable("v", [1], initializer=1.0)

        run = ipu.compile(lambda x: loops.repeat(2, body, [x]))
        with pytest.raises(KeyError, match="mine"):
            run(np.float32([1]))
        assert not _core.tracing()
        state["fails"] = False
        assert run(np.float32([1]))[0].tolist() == [3]


def test_the_package_needs_no_torch():
    script = "import sys, sluice; from sluice import ipu, nn; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
