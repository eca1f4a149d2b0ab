"""Loaders: the batches of torch's own loader, in every mode."""

import gc
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

import sluice
from sluice import AsynchronousDataAccessor, DataLoader, DataLoaderMode
from sluice.data import _rebatched

MODES = list(DataLoaderMode)


class Squares(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return torch.tensor([float(i)]), i * i


class Stream(torch.utils.data.IterableDataset):
    """Divided among the workers in runs, as torch's documentation does."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        if info is None:
            return iter(torch.arange(self.size))
        per = -(-self.size // info.num_workers)
        return iter(torch.arange(self.size)[info.id * per : (info.id + 1) * per])


def options(iterations=1, replicas=1, accumulation=1):
    made = sluice.Options().deviceIterations(iterations).replicationFactor(replicas)
    made.Training.gradientAccumulation(accumulation)
    return made


def equal(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert all(torch.equal(torch.as_tensor(p), torch.as_tensor(q)) for p, q in zip(x, y))


def test_a_batch_is_what_a_call_takes():
    loader = DataLoader(options(2, 3, 4), Squares(100), batch_size=2)
    assert loader.combinedBatchSize == 48 and len(loader) == 2
    assert [len(x) for x, _ in loader] == [48, 48]
    assert isinstance(loader, torch.utils.data.DataLoader)
    grouped = options(1, 4).inputReplicaGrouping(2, sluice.CommGroupType.Consecutive)
    assert DataLoader(grouped, Squares(8), batch_size=2).combinedBatchSize == 4


def test_a_loader_freezes_its_options():
    given = options()
    loader = DataLoader(given, Squares(4))
    assert loader.options is given
    with pytest.raises(Exception, match="frozen"):
        given.deviceIterations(2)
    with pytest.raises(TypeError, match="expected Options"):
        DataLoader(Squares(4), 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_batches_are_torchs_in_every_epoch(mode, workers, shuffle):
    torch.manual_seed(3)
    reference = torch.utils.data.DataLoader(
        Squares(50),
        batch_size=8,
        shuffle=shuffle,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,  # decides how many seeds torch draws
    )
    expected = [list(reference) for _ in range(3)]
    torch.manual_seed(3)
    more = {"rebatched_worker_size": 3} if mode is DataLoaderMode.AsyncRebatched else {}
    more.update(shuffle=shuffle, num_workers=workers, mode=mode)
    loader = DataLoader(options(2), Squares(50), batch_size=4, **more)
    for epoch in expected:
        equal(list(loader), epoch)
    loader.terminate()


@pytest.mark.parametrize("mode", MODES)
def test_samplers_generators_and_collate_functions_are_used(mode):
    dataset, sampler = Squares(20), [3, 1, 4, 1, 5, 9, 2, 6]
    loader = DataLoader(options(), dataset, batch_size=4, sampler=sampler, mode=mode)
    assert [x.flatten().tolist() for x, _ in loader] == [[3, 1, 4, 1], [5, 9, 2, 6]]

    def stacked(samples):
        return torch.stack([x for x, _ in samples])

    def seeded():
        return torch.Generator().manual_seed(5)

    arguments = dict(shuffle=True, collate_fn=stacked)
    reference = torch.utils.data.DataLoader(dataset, 5, generator=seeded(), **arguments)
    loader = DataLoader(
        options(), dataset, batch_size=5, mode=mode, generator=seeded(), **arguments
    )
    for _ in range(2):
        equal(list(loader), list(reference))


@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_a_sampler_need_not_know_its_length(mode):
    class Endless(torch.utils.data.Sampler):
        def __init__(self):
            pass

        def __iter__(self):
            return iter([3, 1, 4, 1, 5, 9])

    loader = DataLoader(options(), Squares(20), batch_size=2, sampler=Endless(), mode=mode)
    expected = torch.utils.data.DataLoader(Squares(20), batch_size=2, sampler=Endless())
    assert [each.tolist() for each, *_ in loader] == [each.tolist() for each, *_ in expected]


@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_batch_samplers_and_whole_samples(mode):
    loader = DataLoader(options(2), Squares(9), batch_sampler=[[0, 8], [4]], mode=mode)
    assert [x.flatten().tolist() for x, _ in loader] == [[0, 8], [4]]
    assert loader.combinedBatchSize is None and len(loader) == 2
    whole = DataLoader(options(), Squares(3), batch_size=None, mode=mode)
    assert [float(x) for x, _ in whole] == [0, 1, 2]
    with pytest.raises(ValueError, match="batch_sampler excludes"):
        DataLoader(options(), Squares(9), batch_sampler=[[0]], shuffle=True, mode=mode)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_that_each_make_batches_lose_samples_and_rebatching_does_not():
    def count(mode):
        loader = DataLoader(options(), Stream(100), batch_size=4, num_workers=7, mode=mode)
        seen = torch.cat(list(loader)).tolist()
        loader.terminate()
        return len(seen), len(set(seen))

    assert count(DataLoaderMode.Sync) == (80, 80)
    assert count(DataLoaderMode.AsyncRebatched) == (100, 100)


@pytest.mark.parametrize("mode", MODES)
def test_the_last_batch_is_dropped_or_warned_of(mode):
    assert len(list(DataLoader(options(), Squares(10), batch_size=4, mode=mode))) == 2
    with pytest.warns(UserWarning, match="the last batch has 2 samples and not 4"):
        loader = DataLoader(options(), Squares(10), batch_size=4, drop_last=False, mode=mode)
    assert [len(x) for x, _ in loader] == [4, 4, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(options(), Squares(8), batch_size=4, drop_last=False, mode=mode)
    with pytest.warns(UserWarning, match="3 samples and a call takes 4.*no batch"):
        assert list(DataLoader(options(), Squares(3), batch_size=4, mode=mode)) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_that_ends_early_begins_a_new_epoch(mode):
    loader = DataLoader(options(), Squares(40), batch_size=2, num_workers=2, mode=mode)
    for x, _ in loader:
        break
    assert [float(x[0]) for x, _ in loader] == list(range(0, 40, 2))
    loader.terminate()
    assert len(list(loader)) == 20
    loader.terminate()


class Broken(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("sample five")
        return super().__getitem__(i)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 1])
def test_errors_of_a_dataset_come_after_the_batches_before_them(mode, workers):
    loader = DataLoader(options(), Broken(12), batch_size=2, num_workers=workers, mode=mode)
    batches = iter(loader)
    assert float(next(batches)[0][0]) == 0 and float(next(batches)[0][0]) == 2
    with pytest.raises(KeyError, match="sample five"):
        next(batches)
    loader.terminate()
    with pytest.raises(KeyError):
        list(loader)
    loader.terminate()


# Several processes.


def shares(processes, **arguments):
    all_shares = []
    for process in range(processes):
        made = options(2, 2).randomSeed(11)
        made.Distributed.configureProcessId(process, processes)
        loader = DataLoader(made, Squares(100), batch_size=3, **arguments)
        all_shares.append([x.flatten().tolist() for x, _ in loader])
        assert len(all_shares[-1]) == len(loader) == 100 // (12 * processes)
    return all_shares


def test_processes_get_blocks_of_one_order():
    first, second = shares(2)
    # Blocks of batch size x replicas in turn: 0-5 to the first process, 6-11 to the second.
    assert first[0] == [*range(0, 6), *range(12, 18)]
    assert second[0] == [*range(6, 12), *range(18, 24)]


def test_processes_that_shuffle_agree():
    parts = shares(3, shuffle=True)
    flat = [x for part in parts for batch in part for x in batch]
    assert len(flat) == len(set(flat)) == 72 and flat != sorted(flat)


def test_what_processes_cannot_divide_is_refused():
    def made():
        result = options()
        result.Distributed.configureProcessId(0, 2)
        return result

    with pytest.raises(ValueError, match="Options.randomSeed"):
        DataLoader(made(), Squares(8), shuffle=True)
    with pytest.raises(ValueError, match="iterable dataset cannot be divided"):
        DataLoader(made(), Stream(8))
    with pytest.raises(ValueError, match="a batch_size is"):
        DataLoader(made(), Squares(8), batch_size=None)
    own = DataLoader(made(), Squares(8), auto_distributed_partitioning=False, batch_size=2)
    assert len(list(own)) == 4


@pytest.mark.parametrize("mode", list(DataLoaderMode)[:2])
def test_a_loop_over_an_iterator_goes_on_where_it_is(mode):
    loader = DataLoader(options(), Squares(8), batch_size=2, mode=mode)
    iterator = iter(loader)
    first = next(iterator)
    assert len([first, *iterator]) == 4 and list(iterator) == []
    assert len(list(loader)) == 4


def test_an_asynchronous_loader_has_one_loop_at_a_time():
    loader = DataLoader(options(), Squares(8), batch_size=2, mode=DataLoaderMode.Async)
    first = iter(loader)
    next(first)
    assert len(list(loader)) == 4
    with pytest.raises(RuntimeError, match="another loop"):
        next(first)


# Asynchronous access.


def test_an_accessor_gives_an_iterables_elements_epoch_by_epoch():
    accessor = AsynchronousDataAccessor([1, 2, 3])
    assert list(accessor) == [1, 2, 3] and list(accessor) == [1, 2, 3] and len(accessor) == 3
    accessor.terminate()
    assert list(accessor) == [1, 2, 3]
    with pytest.raises(StopIteration):
        next(accessor)


class Watched:
    """An iterable that tells what was read of it, and by whom."""

    def __init__(self, size):
        self.size, self.read, self.begun = size, threading.Semaphore(0), 0
        self.threads = set()

    def __iter__(self):
        self.begun += 1
        for i in range(self.size):
            self.threads.add(threading.current_thread().name)
            self.read.release()
            yield i

    def wait_for(self, count):
        assert all(self.read.acquire(timeout=60) for _ in range(count))

    @property
    def nothing_more(self):
        return not self.read.acquire(blocking=False)


def test_loading_runs_ahead_as_far_as_the_buffer():
    data = Watched(10)
    accessor = AsynchronousDataAccessor(data, buffer_size=2)
    assert data.begun == 0
    elements = iter(accessor)
    data.wait_for(3)  # two in the buffer, one in the hand of the thread
    assert data.nothing_more and data.threads == {"sluice-loader"}
    assert next(elements) == 0
    data.wait_for(1)
    assert data.nothing_more
    accessor.terminate()


def test_an_early_preload_begins_with_the_object():
    data = Watched(3)
    accessor = AsynchronousDataAccessor(data, early_preload=True)
    data.wait_for(3)
    assert list(accessor) == [0, 1, 2]
    accessor.terminate()


def test_the_next_epoch_is_loaded_when_one_ends_unless_told_otherwise():
    data = Watched(3)
    accessor = AsynchronousDataAccessor(data)
    assert list(accessor) == [0, 1, 2]
    data.wait_for(6)
    assert list(accessor) == [0, 1, 2]
    accessor.terminate()
    data = Watched(3)
    accessor = AsynchronousDataAccessor(data, load_indefinitely=False)
    assert list(accessor) == [0, 1, 2]
    data.wait_for(3)
    assert data.nothing_more and data.begun == 1


def loading_threads():
    return [t for t in threading.enumerate() if t.name == "sluice-loader"]


def test_a_collected_accessor_ends_its_thread():
    gc.collect()
    before = len(loading_threads())
    loader = DataLoader(options(), Squares(1000), batch_size=2, mode=DataLoaderMode.Async)
    next(iter(loader))
    thread = [t for t in loading_threads()][-1]
    del loader
    gc.collect()
    thread.join(timeout=60)
    assert len(loading_threads()) == before


def test_a_program_ends_while_its_loaders_load():
    code = """
        import itertools, torch, sluice
        endless = sluice.AsynchronousDataAccessor(itertools.count())
        assert next(iter(endless)) == 0
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 1000
            def __getitem__(self, i): return torch.tensor(i)
        loader = sluice.DataLoader(sluice.Options(), Data(), num_workers=2,
                                   mode=sluice.DataLoaderMode.Async)
        print(int(next(iter(loader))))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stdout.strip()) == (0, "0"), run.stderr
    assert "Error" not in run.stderr and "Traceback" not in run.stderr


def test_arguments_of_the_asynchronous_modes_are_checked():
    with pytest.raises(ValueError, match="at least 1 element, got 0"):
        AsynchronousDataAccessor([1], buffer_size=0)
    with pytest.raises(ValueError, match="need the mode Async"):
        DataLoader(options(), Squares(4), async_options={"buffer_size": 2})
    with pytest.raises(ValueError, match="needs the mode AsyncRebatched"):
        DataLoader(options(), Squares(4), mode=DataLoaderMode.Async, rebatched_worker_size=2)
    rebatched = dict(mode=DataLoaderMode.AsyncRebatched)
    with pytest.raises(ValueError, match="from 1 to the combined batch size 4, got 5"):
        DataLoader(options(), Squares(8), batch_size=4, rebatched_worker_size=5, **rebatched)
    with pytest.raises(ValueError, match="AsyncRebatched needs a batch_size"):
        DataLoader(options(), Squares(8), batch_size=None, **rebatched)


def test_options_of_the_accessor_are_passed_on():
    given = {"buffer_size": 1, "early_preload": True, "load_indefinitely": False}
    loader = DataLoader(options(), Squares(6), 2, mode=DataLoaderMode.Async, async_options=given)
    assert len(list(loader)) == 3 and len(list(loader)) == 3


def test_arguments_without_effect_warn_once():
    sluice._option_base._warned.clear()
    strategy = sluice.SharingStrategy.SharedMemory
    with pytest.warns(UserWarning, match="sharing_strategy has no effect"):
        AsynchronousDataAccessor([1], sharing_strategy=strategy)
    with pytest.warns(UserWarning, match="miss_sleep_time_in_ms has no effect"):
        AsynchronousDataAccessor([1], miss_sleep_time_in_ms=0, sharing_strategy=strategy)


def test_parts_are_joined_with_their_structure():
    rows = [torch.arange(a, b) for a, b in [(0, 3), (3, 4), (4, 9)]]
    parts = [{"x": each, "y": [each * 2]} for each in rows]
    joined = list(_rebatched(iter(parts), 4, drop_rest=False))
    assert [each["x"].tolist() for each in joined] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert joined[1]["y"][0].tolist() == [8, 10, 12, 14]
    assert len(list(_rebatched(iter(parts), 4, drop_rest=True))) == 2
    with pytest.raises(TypeError, match="has none"):
        list(_rebatched(iter([3]), 4, True))
    with pytest.raises(TypeError, match=r"has \* and then \[\*\]"):
        list(_rebatched(iter([torch.ones(1), [torch.ones(1)]]), 4, True))
    with pytest.raises(TypeError, match=r"has \(\*, 'a'\) and then \(\*, 'b'\), where a \* is a tensor"):
        list(_rebatched(iter([(torch.ones(1), "a"), (torch.ones(1), "b")]), 4, True))
    with pytest.raises(TypeError, match="does not know its length"):
        len(AsynchronousDataAccessor([1], rebatched_size=2))
