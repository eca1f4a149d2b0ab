"""Loading data: ``DataLoader`` and ``AsynchronousDataAccessor``.

    loader = sluice.DataLoader(options, dataset, batch_size=16, shuffle=True,
                               mode=sluice.DataLoaderMode.Async, num_workers=4)
    for images, labels in loader:
        model(images, labels)

The loader is a torch.utils.data.DataLoader: samplers, workers and collate functions work as usual.
A batch of it is what one call of a model takes.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, Iterable, Iterator, List, Optional

import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from ._option_base import warn_no_effect
from ._prefetch import Prefetcher
from ._sampling import Order, ProcessShare
from .args import flatten, unflatten
from .enums import DataLoaderMode, SharingStrategy
from .options import Options

__all__ = ["AsynchronousDataAccessor", "DataLoader"]


class AsynchronousDataAccessor:
    """Reads any iterable ahead, in a thread, into a buffer of ``buffer_size`` elements.

    Elements belong to the caller; nothing needs to be cloned. An error of the iterable reaches the
    caller after the elements before it. With ``load_indefinitely`` the next epoch is loaded as soon
    as one ends; with ``early_preload`` loading begins with the object and not with the first loop.
    ``rebatched_size`` joins the elements' tensors along their first dimension and cuts them into
    parts of this size; a remainder at the end is left out.
    """

    def __init__(
        self,
        dataset: Iterable[Any],
        buffer_size: int = 3,
        miss_sleep_time_in_ms: Optional[float] = None,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: Optional[SharingStrategy] = None,
        rebatched_size: Optional[int] = None,
    ) -> None:
        if buffer_size < 1:
            raise ValueError(f"buffer_size: expected at least 1 element, got {buffer_size}")
        if miss_sleep_time_in_ms is not None:
            warn_no_effect("AsynchronousDataAccessor.miss_sleep_time_in_ms")
        if sharing_strategy is not None:
            warn_no_effect("AsynchronousDataAccessor.sharing_strategy")
        self._dataset = dataset
        self._load_indefinitely = load_indefinitely
        self._rebatched_size = rebatched_size
        self._drop_rest = True
        self._prefetcher = Prefetcher(buffer_size)
        self._fresh = False  # whether an epoch is being loaded that nobody has begun to read
        self._ended = True
        self._passes = 0  # how often someone began to read
        if early_preload:
            self._begin_epoch()

    def terminate(self) -> None:
        """Ends the thread. The next loop begins a new epoch."""
        self._prefetcher.stop()
        self._fresh, self._ended = False, True

    def __len__(self) -> int:
        length = len(self._dataset)  # type: ignore[arg-type]
        if self._rebatched_size is None:
            return length
        raise TypeError("an accessor with rebatched_size does not know its length")

    def __iter__(self) -> "AsynchronousDataAccessor":
        if not self._fresh:
            self._begin_epoch()
        self._fresh, self._ended = False, False
        self._passes += 1
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        try:
            return self._prefetcher.next()
        except StopIteration:
            self._ended = True
            if self._load_indefinitely:
                self._begin_epoch()
            raise
        except BaseException:
            self._ended = True
            raise

    def _begin_epoch(self) -> None:
        # The iterator is made in this thread: seeds are drawn and workers forked here, so that
        # the order does not depend on how fast the thread is.
        self._prefetcher.stop()
        self._prefetcher.start(self._elements())
        self._fresh = True

    def _elements(self) -> Iterator[Any]:
        elements = iter(self._dataset)
        if self._rebatched_size is None:
            return elements
        return _rebatched(elements, self._rebatched_size, self._drop_rest)


class _Pass:
    """One pass over the data of an accessor. As of any iterator, a second loop over it goes on."""

    def __init__(self, accessor: AsynchronousDataAccessor) -> None:
        self._accessor = iter(accessor)
        self._number = accessor._passes

    def __iter__(self) -> "_Pass":
        return self

    def __next__(self) -> Any:
        if self._accessor._passes != self._number:
            raise RuntimeError(
                "another loop over this DataLoader has begun, and in the asynchronous modes only the newest "
                "one gets data; use the mode Sync, or a loader for each loop"
            )
        return next(self._accessor)


def _rebatched(parts: Iterator[Any], size: int, drop_rest: bool) -> Iterator[Any]:
    """Joins the tensors of structures along their first dimension and cuts parts of one size."""
    waiting: List[Any] = []  # lists of leaves
    spec, rows = None, 0
    for part in parts:
        leaves, part_spec = flatten(part)
        if not leaves:
            raise TypeError("AsyncRebatched joins tensors, and an element of the data has none")
        if spec is not None and part_spec != spec:
            raise TypeError(
                "AsyncRebatched joins the tensors of elements whose structure and all that is no tensor are the same; "
                f"the data has {spec} and then {part_spec}, where a * is a tensor"
            )
        spec = part_spec
        waiting.append(leaves)
        rows += len(leaves[0])
        while rows >= size:
            joined = [torch.cat(column) for column in zip(*waiting)]
            yield unflatten(spec, [column[:size] for column in joined])
            rows -= size
            waiting = [[column[size:] for column in joined]] if rows else []
    if rows and not drop_rest:
        yield unflatten(spec, [torch.cat(column) for column in zip(*waiting)])


class DataLoader(torch.utils.data.DataLoader):
    """Batches for whole calls of a model.

    A batch has ``combinedBatchSize`` samples: batch_size x deviceIterations x replicationFactor x
    gradientAccumulation, in the order in which the model deals them out. (Replicas that share an
    input count once.) The loader freezes the options. Without a batch size, each sample is a whole
    call; a ``batch_sampler`` gives the samples of whole calls.

    ``mode`` says who reads: see ``DataLoaderMode``. All modes give the same batches, in orders
    drawn from torch's seed or from ``generator``; an asynchronous loader draws the next order when
    an epoch ends. ``async_options`` are arguments of ``AsynchronousDataAccessor``.

    With several processes (``options.Distributed``) each gets its share of the samples, in an order
    that all agree on; ``auto_distributed_partitioning=False`` leaves that to the sampler.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: Optional[int] = 1,
        shuffle: Optional[bool] = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: Optional[bool] = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: Optional[Dict[str, Any]] = None,
        rebatched_worker_size: Optional[int] = None,
        batch_sampler: Optional[Any] = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(options, Options):
            raise TypeError(f"DataLoader: expected Options as the first argument, got {options!r}")
        options.freeze()
        if batch_sampler is not None and (shuffle or batch_size not in (None, 1)):
            raise ValueError("DataLoader: a batch_sampler excludes batch_size and shuffle")
        self._options = options
        self._mode = DataLoaderMode(mode)
        self._accessor: Optional[AsynchronousDataAccessor] = None
        self._epochs: Optional[_Epochs] = None
        self._combined = None if batch_size is None else batch_size * calls_share(options)
        self._iterable = isinstance(dataset, IterableDataset)
        self._loading = dict(kwargs, num_workers=num_workers, persistent_workers=num_workers > 0)
        if persistent_workers is not None:
            self._loading["persistent_workers"] = persistent_workers
        shards = options.Distributed.numProcesses > 1 and not options.Distributed.sharesModel
        if shards and auto_distributed_partitioning:
            batch_size = None if batch_sampler is not None else batch_size
            kwargs["sampler"] = self._process_share(dataset, shuffle, batch_size, kwargs)
            shuffle = None
        if batch_sampler is not None:
            self._combined = None
            kwargs["batch_sampler"] = batch_sampler
        else:
            kwargs.update(batch_size=self._combined, drop_last=drop_last and batch_size is not None)
            kwargs["shuffle"] = None if self._iterable and not shuffle else bool(shuffle)
        super().__init__(
            dataset,
            num_workers=num_workers,
            persistent_workers=self._loading["persistent_workers"],
            **kwargs,
        )
        self._warn_of_rest(drop_last)
        self._make_accessor(async_options, rebatched_worker_size, drop_last)

    @property
    def combinedBatchSize(self) -> Optional[int]:
        """The samples of one batch, which is what one call of a model takes; None: unknown."""
        return self._combined

    @property
    def options(self) -> Options:
        """The options that the loader was made with."""
        return self._options

    def terminate(self) -> None:
        """Ends the thread of an asynchronous loader and its workers; a new loop begins anew."""
        if self._accessor is not None and self._epochs is not None:
            self._accessor.terminate()
            self._epochs.close()

    def __iter__(self) -> Iterator[Any]:
        if self._accessor is None:
            return super().__iter__()
        return _Pass(self._accessor)

    # Several processes.

    def _process_share(
        self, dataset: Any, shuffle: Optional[bool], batch_size: Optional[int], kwargs: Any
    ) -> "ProcessShare":
        if self._iterable:
            raise ValueError(
                "DataLoader: an iterable dataset cannot be divided among processes: divide it in "
                "its __iter__ and set auto_distributed_partitioning=False"
            )
        if batch_size is None:
            raise ValueError(
                "DataLoader: samples are divided among processes by batches, so a batch_size is "
                "needed; or set auto_distributed_partitioning=False"
            )
        sampler = kwargs.get("sampler")
        if shuffle:
            seed = self._options.random_seed
            if seed is None:
                raise ValueError(
                    "DataLoader: processes that shuffle need one order: set Options.randomSeed"
                )
            sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(seed))
        processes = self._options.Distributed
        return ProcessShare(
            SequentialSampler(dataset) if sampler is None else sampler,
            batch_size * _input_groups(self._options),
            processes.numProcesses,
            processes.processId,
        )

    # Samples that fill no call.

    def _warn_of_rest(self, drop_last: bool) -> None:
        if self._combined is None or self._iterable or not hasattr(self.sampler, "__len__"):
            return
        samples = len(self.sampler)
        rest = samples % self._combined
        if drop_last and 0 < samples < self._combined:
            warnings.warn(
                f"DataLoader: there are {samples} samples and a call takes {self._combined}, so that the loader "
                "gives no batch at all: use a smaller batch_size, or less deviceIterations",
                stacklevel=3,
            )
        elif rest and not drop_last:
            warnings.warn(
                f"DataLoader: the last batch has {rest} samples and not {self._combined}: a model compiles a second "
                "program for it, or refuses it if its micro-batches would not be equal; set drop_last=True, or pad the data",
                stacklevel=3,
            )

    # Asynchronous modes.

    def _make_accessor(
        self, async_options: Optional[Dict[str, Any]], worker_size: Optional[int], drop_last: bool
    ) -> None:
        if self._mode is DataLoaderMode.Sync:
            if async_options or worker_size is not None:
                raise ValueError(
                    "DataLoader: async_options and rebatched_worker_size need the mode Async or "
                    "AsyncRebatched"
                )
            return
        arguments = dict(async_options or {})
        size = None
        if self._mode is DataLoaderMode.AsyncRebatched:
            size = self._rebatched_worker_size(worker_size)
            arguments["rebatched_size"] = self._combined
        elif worker_size is not None:
            raise ValueError("DataLoader: rebatched_worker_size needs the mode AsyncRebatched")
        preload = arguments.pop("early_preload", False)
        self._epochs = _Epochs(self, size)
        accessor = AsynchronousDataAccessor(self._epochs, **arguments)
        accessor._drop_rest = drop_last
        if preload:
            accessor._begin_epoch()
        self._accessor = accessor

    def _rebatched_worker_size(self, size: Optional[int]) -> int:
        if self._combined is None:
            raise ValueError("DataLoader: AsyncRebatched needs a batch_size")
        size = self._combined if size is None else size
        if not 1 <= size <= self._combined:
            raise ValueError(
                f"DataLoader: rebatched_worker_size must be from 1 to the combined batch size "
                f"{self._combined}, got {size}"
            )
        return size


def calls_share(options: Options) -> int:
    """The micro-batches that one call of a model takes."""
    accumulation = options.Training.gradient_accumulation
    return options.device_iterations * _input_groups(options) * accumulation


def _input_groups(options: Options) -> int:
    return options.replication_factor // options.input_group_size


class _Epochs:
    """What the thread of a loader reads: torch's loader with the same samples.

    ``part`` is the number of samples that a worker reads at a time; None: a whole batch. It must
    not know the loader: workers of a loader in a cycle of references are slow to end.
    """

    def __init__(self, loader: DataLoader, part: Optional[int]) -> None:
        self._order: Optional[Order] = None
        arguments = dict(loader._loading)
        arguments.pop("sampler", None)
        if loader._iterable:
            size = loader._combined if part is None else part
            drops = part is None and loader.drop_last
            arguments.update(batch_size=size, drop_last=drops)
        elif loader.batch_sampler is None:
            self._order = Order(loader.sampler)
            arguments.update(batch_size=None, sampler=self._order)
        else:
            batches = loader.batch_sampler
            if part is not None:
                batches = BatchSampler(loader.sampler, part, drop_last=False)
            self._order = Order(batches)
            arguments.update(batch_sampler=self._order)
        self._dataset, self._arguments = loader.dataset, arguments
        self._reader: Optional[torch.utils.data.DataLoader] = None

    def __iter__(self) -> Iterator[Any]:
        if self._reader is None:
            self._reader = torch.utils.data.DataLoader(self._dataset, **self._arguments)
        epoch = iter(self._reader)
        if self._order is not None:
            self._order.begin()
        return epoch

    def close(self) -> None:
        """Ends workers that wait for the next epoch."""
        self._reader = None
