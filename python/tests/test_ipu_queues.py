"""The queues of sluice.ipu: datasets, results, threads, exceptions and interrupts."""

import gc
import itertools
import json
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

from sluice import _core, ipu, nn
from sluice.ipu import dataset_benchmark, loops


@pytest.fixture(autouse=True)
def graph():
    with nn.Graph().as_default() as made:
        yield made
    ipu.utils.reset_ipu_configuration()


def numbers(*values):
    return [np.float32([value]) for value in values]


class TestInfeed:
    def summing(self, infeed, count):
        return ipu.compile(lambda s: loops.repeat(count, lambda s, x: s + x, [s], infeed))

    @pytest.mark.parametrize(
        "dataset",
        [
            np.float32([[1], [2], [3]]),
            (np.float32([[1], [2], [3]]),),
            numbers(1, 2, 3),
            lambda: iter(numbers(1, 2, 3)),
            (x for x in numbers(1, 2, 3)),
            ipu.Dataset.from_tensor_slices(np.float32([1, 2, 3])).batch(1),
        ],
        ids=["array", "tuple", "list", "function", "generator", "Dataset"],
    )
    def test_reads_arrays_iterables_and_functions(self, dataset):
        run = self.summing(ipu.IPUInfeedQueue(dataset), 3)
        assert run(np.float32([0]))[0].tolist() == [6]

    def test_copies_arrays_that_the_dataset_uses_again(self):
        def reused():
            buffer = np.zeros(1, np.float32)
            for value in (1, 2, 3, 4):
                buffer[0] = value
                yield buffer

        run = self.summing(ipu.IPUInfeedQueue(reused), 4)
        assert run(np.float32([0]))[0].tolist() == [10]

    def test_gives_python_numbers_their_usual_types(self):
        infeed = ipu.IPUInfeedQueue([(1, 2.5, [1, 2])])
        whole, real, several = infeed.dequeue()
        assert (whole.dtype, real.dtype, several.dtype) == (np.int32, np.float32, np.int32)
        assert several.tolist() == [1, 2]

    def test_says_when_the_data_ends(self):
        run = self.summing(ipu.IPUInfeedQueue(numbers(1, 2, 3)), 2)
        run(np.float32([0]))
        with pytest.raises(_core.InvalidArgument, match="infeed has ended"):
            run(np.float32([0]))
        with pytest.raises(_core.InvalidArgument, match="infeed has ended"):
            self.summing(ipu.IPUInfeedQueue([]), 1)(np.float32([0]))

    def test_an_exception_of_the_dataset_reaches_the_caller_as_it_is(self):
        def failing():
            yield from numbers(1, 2)
            raise LookupError("no such file")

        infeed = ipu.IPUInfeedQueue(failing)
        run = self.summing(infeed, 1)
        assert run(np.float32([0]))[0].tolist() == [1]
        assert run(np.float32([0]))[0].tolist() == [2]
        for _ in range(2):
            with pytest.raises(LookupError, match="no such file") as caught:
                run(np.float32([0]))
            names = [entry.name for entry in caught.traceback]
            assert "failing" in names
        assert "element 2" in caught.value.__notes__[0] and len(caught.value.__notes__) == 1
        # Everything else goes on: the variables, and functions with other queues.
        assert self.summing(ipu.IPUInfeedQueue(numbers(5)), 1)(np.float32([0]))[0].tolist() == [5]

    def test_an_exception_that_cannot_be_copied_becomes_an_error_with_its_text(self):
        class Odd(Exception):
            def __init__(self, a, b):
                super().__init__(f"odd {a} {b}")

        def failing():
            raise Odd(1, 2)
            yield

        with pytest.raises(_core.Error, match="odd 1 2"):
            ipu.IPUInfeedQueue(failing).dequeue()

    def test_an_exception_keeps_nothing_alive(self):
        def failing():
            yield np.float32([1])
            raise LookupError("no such file") from KeyError("inner")

        def make():
            infeed = ipu.IPUInfeedQueue(failing)
            run = self.summing(infeed, 2)
            with pytest.raises(LookupError) as caught:
                run(np.float32([0]))
            assert isinstance(caught.value.__cause__, KeyError)
            return [weakref.ref(infeed), weakref.ref(run), weakref.ref(infeed._queue)]

        ends = make()
        gc.collect()
        assert [end() for end in ends] == [None] * 3

    def test_an_exception_in_the_first_element_reaches_the_caller(self):
        def failing():
            raise LookupError("at once")
            yield

        with pytest.raises(LookupError, match="at once"):
            self.summing(ipu.IPUInfeedQueue(failing), 1)(np.float32([0]))

    def test_refuses_elements_that_differ(self):
        infeed = ipu.IPUInfeedQueue([np.float32([1]), np.float32([1, 2])])
        with pytest.raises(_core.InvalidArgument, match="the first was"):
            self.summing(infeed, 2)(np.float32([0]))
        infeed = ipu.IPUInfeedQueue([{"x": np.float32([1])}, {"y": np.float32([1])}])
        infeed.dequeue()
        with pytest.raises(_core.InvalidArgument, match=r"\['y'\], the first had \['x'\]"):
            infeed.dequeue()

    def test_says_what_is_no_dataset(self):
        with pytest.raises(TypeError, match="iterable"):
            ipu.IPUInfeedQueue(3)
        with pytest.raises(TypeError, match="prefetch_depth"):
            ipu.IPUInfeedQueue([], prefetch_depth=1.5)
        with pytest.raises(_core.InvalidArgument, match="at least 1"):
            ipu.IPUInfeedQueue([], prefetch_depth=0)
        with pytest.raises(_core.InvalidArgument, match="as many rows"):
            ipu.IPUInfeedQueue((np.zeros(2), np.zeros(3)))
        with pytest.raises(_core.InvalidArgument, match="array of numbers"):
            ipu.IPUInfeedQueue([object()]).dequeue()

    def test_is_initialized_once_and_deleted(self):
        infeed = ipu.IPUInfeedQueue(itertools.cycle(numbers(1)))
        run = self.summing(infeed, 1)
        run(np.float32([0]))
        with pytest.raises(_core.InvalidArgument, match="once"):
            infeed.initializer.run()
        infeed.deleter.run()
        with pytest.raises(_core.InvalidArgument, match="closed|deleted"):
            run(np.float32([0]))
        with pytest.raises(_core.InvalidArgument, match="deleted"):
            infeed.dequeue()

    def test_ends_with_its_last_reference(self):
        infeed = ipu.IPUInfeedQueue(itertools.cycle(numbers(1)))
        run = self.summing(infeed, 2)
        run(np.float32([0]))
        ends = [weakref.ref(infeed), weakref.ref(run), weakref.ref(infeed._queue)]
        del infeed, run
        gc.collect()
        assert [end() for end in ends] == [None] * 3

    def test_the_function_keeps_queues_that_it_made_itself(self):
        def net(s):
            return loops.repeat(1, lambda s, x: s + x, [s], ipu.IPUInfeedQueue(numbers(1, 2, 3)))

        run = ipu.compile(net)
        first = run(np.float32([0]))
        gc.collect()
        assert first[0].tolist() == [1] and run(np.float32([0]))[0].tolist() == [2]

    def test_two_threads_share_a_queue(self):
        infeed = ipu.IPUInfeedQueue([np.float32([i]) for i in range(200)])
        seen = []

        def read():
            for _ in range(100):
                seen.append(int(infeed.dequeue()[0]))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list(range(200)) and infeed.dequeued == 200


class TestOutfeed:
    def test_has_the_form_of_what_was_enqueued(self):
        for make, check in (
            (lambda x: x, lambda r: r.tolist() == [[1], [2]]),
            (lambda x: [x], lambda r: [a.tolist() for a in r] == [[[1], [2]]]),
            (lambda x: (x, x + 1), lambda r: [a.tolist() for a in r] == [[[1], [2]], [[2], [3]]]),
            (lambda x: {"b": x, "a": x + 1}, lambda r: r["a"].tolist() == [[2], [3]]),
        ):
            outfeed = ipu.IPUOutfeedQueue()
            infeed = ipu.IPUInfeedQueue(numbers(1, 2))
            body = lambda x: outfeed.enqueue(make(x))
            ipu.compile(lambda: loops.repeat(2, body, [], infeed))()
            assert len(outfeed) == 2
            assert check(outfeed.dequeue())
            assert len(outfeed) == 0

    def test_is_iterated_by_iterations(self):
        outfeed = ipu.IPUOutfeedQueue()
        infeed = ipu.IPUInfeedQueue(numbers(1, 2))
        body = lambda x: outfeed.enqueue({"x": x, "y": x * 2})
        run = ipu.compile(lambda: loops.repeat(2, body, [], infeed))
        run()
        assert [(e["x"].tolist(), e["y"].tolist()) for e in outfeed] == [([1], [2]), ([2], [4])]
        assert list(outfeed) == []

    def test_says_what_is_wrong(self):
        outfeed = ipu.IPUOutfeedQueue()
        with pytest.raises(_core.InvalidArgument, match="nothing was enqueued"):
            outfeed.dequeue()
        with pytest.raises(_core.InvalidArgument, match="ALL or LAST"):
            ipu.IPUOutfeedQueue("first")
        with pytest.raises(_core.InvalidArgument, match="negative"):
            ipu.IPUOutfeedQueue(capacity=-1)
        with pytest.raises(_core.InvalidArgument, match="mode LAST"):
            iter(ipu.IPUOutfeedQueue("LAST"))

        def twice(x):
            outfeed.enqueue(x)
            outfeed.enqueue(x)
            return x

        with pytest.raises(_core.InvalidArgument, match="enqueues once"):
            ipu.compile(lambda x: loops.repeat(1, twice, [x]))(np.float32([1]))
        numbered = lambda x: outfeed.enqueue({1: x})
        with pytest.raises(TypeError, match="keys"):
            ipu.compile(lambda x: loops.repeat(1, numbered, [x]))(np.float32([1]))
        with pytest.raises(TypeError, match="part of a compiled function"):
            ipu.Operation("enqueue").run()

    def test_another_thread_reads_while_the_function_runs(self):
        """With a capacity of 2 the function ends only because the other thread dequeues."""
        count = 50
        infeed = ipu.IPUInfeedQueue([np.float32([i]) for i in range(count)])
        outfeed = ipu.IPUOutfeedQueue(capacity=2)
        run = ipu.compile(lambda: loops.repeat(count, lambda x: outfeed.enqueue(x), [], infeed))
        run.compile()
        seen = []

        def read():
            while len(seen) < count and outfeed.wait():
                seen.extend(outfeed.dequeue()[:, 0].tolist())

        reader = threading.Thread(target=read)
        reader.start()
        run()
        reader.join()
        assert seen == list(range(count))

    def test_waiting_ends_when_the_queue_is_deleted(self):
        outfeed = ipu.IPUOutfeedQueue()
        found = []
        waiter = threading.Thread(target=lambda: found.append(outfeed.wait()))
        waiter.start()
        outfeed.deleter.run()
        waiter.join()
        assert found == [False]


class TestInterrupts:
    def stuck(self):
        """A function that takes two elements of its three and waits for the next, an event that is set
        when it does so, and one that makes the dataset go on."""
        begun, release = threading.Event(), threading.Event()

        def slow():
            yield from numbers(1, 2)
            begun.set()  # with a depth of 1, the second element was taken by the running function
            release.wait()
            yield from numbers(3, 4, 5)

        infeed = ipu.IPUInfeedQueue(slow, prefetch_depth=1)
        run = ipu.compile(
            lambda s: loops.repeat(3, lambda s, x: s + x, [s], infeed), [np.float32([0])]
        )
        return run.compile(), begun, release

    def interrupt_after(self, begun):
        """Sends this process Ctrl-C once the event is set."""
        main = threading.main_thread().ident

        def send():
            begun.wait()
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=send)
        thread.start()
        return thread

    def test_ctrl_c_ends_a_call_that_waits_for_data(self):
        run, begun, release = self.stuck()
        sender = self.interrupt_after(begun)
        with pytest.raises(KeyboardInterrupt):
            run()
        sender.join()
        release.set()
        assert run()[0].tolist() == [12]

    def test_ctrl_c_ends_the_wait_for_the_first_element(self):
        begun, release = threading.Event(), threading.Event()

        def slow():
            begun.set()
            release.wait()
            yield np.float32([1])

        infeed = ipu.IPUInfeedQueue(slow)
        run = ipu.compile(lambda s: loops.repeat(1, lambda s, x: s + x, [s], infeed))
        sender = self.interrupt_after(begun)
        with pytest.raises(KeyboardInterrupt):
            run(np.float32([0]))
        sender.join()
        release.set()
        assert run(np.float32([0]))[0].tolist() == [1]

    def test_cancel_ends_a_call_of_another_thread(self):
        run, begun, release = self.stuck()
        found = []

        def call():
            try:
                run()
            except _core.Cancelled as error:
                found.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        begun.wait()
        assert run.cancel()
        thread.join()
        release.set()
        assert len(found) == 1 and run()[0].tolist() == [12]

    def test_a_process_ends_while_a_dataset_waits_for_ever(self):
        script = """
            import threading, numpy as np
            from sluice import ipu
            waits = threading.Event()
            def never():
                yield np.float32([1])
                waits.set()
                threading.Event().wait()
            infeed = ipu.IPUInfeedQueue(never)
            assert infeed.dequeue().tolist() == [1]
            waits.wait()
            print("done")
        """
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
        )
        assert (result.stdout, result.returncode) == ("done\n", 0), result.stderr


class TestBenchmarks:
    def test_report_elements_and_bytes(self):
        dataset = ipu.Dataset.from_tensors(np.zeros((4, 8), np.float32)).repeat()
        for report in (
            dataset_benchmark.dataset_benchmark(dataset, 2, 5),
            dataset_benchmark.infeed_benchmark(ipu.IPUInfeedQueue(dataset), 2, 5, do_memcpy=False),
        ):
            epochs = json.loads(report)["epochs"]
            assert len(epochs) == 2
            for epoch in epochs:
                assert epoch["elements_processed"] == 5
                assert epoch["total_bytes_processed"] == 5 * 4 * 8 * 4
                assert epoch["time_elapsed"] > 0

    def test_say_what_is_wrong(self):
        data = ipu.Dataset.from_tensors(np.zeros(1)).repeat()
        queue = ipu.IPUInfeedQueue(data)
        bench = dataset_benchmark
        for call, error, word in (
            (lambda: bench.dataset_benchmark(data, 1.5, 1), TypeError, "number_of_epochs"),
            (lambda: bench.dataset_benchmark(data, 1, "2"), TypeError, "elements_per_epochs"),
            (lambda: bench.dataset_benchmark(data, 0, 1), ValueError, "at least 1"),
            (lambda: bench.dataset_benchmark(queue, 1, 1), TypeError, "infeed_benchmark"),
            (lambda: bench.infeed_benchmark(data, 1, 1), TypeError, "IPUInfeedQueue"),
            (lambda: bench.dataset_benchmark(numbers(1), 1, 2), ValueError, "ends before"),
        ):
            with pytest.raises(error, match=word):
                call()
