"""How fast a dataset can be read, without a model."""

from __future__ import annotations

from typing import Any

from .. import _core
from .dataset import Dataset
from .ipu_infeed_queue import IPUInfeedQueue, hosts_of


def dataset_benchmark(
    dataset: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> str:
    """Reads so many elements of a dataset per epoch, each time from its start. Returns JSON: for each
    of the "epochs" "elements_processed", "total_bytes_processed", "time_elapsed" (s),
    "elements_per_second" and "bandwidth" (GB/s)."""
    if isinstance(dataset, IPUInfeedQueue):
        raise TypeError("dataset_benchmark takes a dataset; infeed_benchmark takes a queue")
    _require_counts(number_of_epochs, elements_per_epochs)
    source = Dataset.of(dataset)
    return _core.dataset_benchmark(
        lambda: (hosts_of(element) for element in source),
        number_of_epochs,
        elements_per_epochs,
        print_stats,
        do_memcpy,
    )


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> str:
    """The same for the elements of a queue; an epoch continues where the one before ended."""
    if not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(f"infeed_benchmark takes an IPUInfeedQueue, got {type(infeed_queue).__name__}")
    _require_counts(number_of_epochs, elements_per_epochs)
    return _core.infeed_benchmark(
        infeed_queue._started(), number_of_epochs, elements_per_epochs, print_stats, do_memcpy
    )


def _require_counts(epochs: Any, elements: Any) -> None:
    for what, value in (("number_of_epochs", epochs), ("elements_per_epochs", elements)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{what} is an int, got {type(value).__name__}")
        if value < 1:
            raise _core.InvalidArgument(f"{what} must be at least 1, got {value}")
