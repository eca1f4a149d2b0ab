"""How long training steps of the MNIST tutorial wait for data, by mode of the loader and number of workers.

    ./dev python bench/python/loader.py [--calls N]

The network, its options and its stages are those of examples/python/mnist_pipeline.py; the pictures are
noise. A wait is the time from the end of a call to the next batch being there. Every row is the median of
the calls of one epoch, the first ones left out; "alone" is the median of calls that are given one batch.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

import sluice

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/python"))
import mnist_pipeline  # noqa: E402

WARM_UP = 3


def median_us(times):
    return 1e6 * statistics.median(times)


def steps(model, batches):
    """Seconds of every wait and of every call."""
    waits, calls = [], []
    batches = iter(batches)
    while True:
        start = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return waits[WARM_UP:], calls[WARM_UP:]
        arrived = time.perf_counter()
        model(*batch)
        waits.append(arrived - start)
        calls.append(time.perf_counter() - arrived)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20, help="measured calls of a row (20)")
    parser.add_argument("--device-iterations", type=int, default=4, help="weight updates of a call (4)")
    settings = parser.parse_args()

    options = sluice.Options().deviceIterations(settings.device_iterations)
    options.Training.gradientAccumulation(8)
    options.setExecutionStrategy(mnist_pipeline.strategy("pipelined", 4))
    options.outputMode(sluice.OutputMode.All).showCompilationProgressBar(False)
    network = mnist_pipeline.Network()
    optimizer = sluice.optim.AdamW(network.parameters(), lr=0.003)
    model = sluice.trainingModel(mnist_pipeline.WithLoss(network), options, optimizer)
    rows = 8 * 8 * settings.device_iterations
    data = mnist_pipeline.synthetic("train", rows * (settings.calls + WARM_UP))

    batch = data[:rows]
    _, alone = steps(model, [batch] * (settings.calls + WARM_UP))
    print(f"a call takes {rows} pictures; alone {median_us(alone):.0f} us")
    print(f"{'mode':16}{'workers':>8}{'wait us':>10}{'call us':>10}{'share':>9}{'of alone':>10}")
    for mode in ("Sync", "Async"):
        for workers in (0, 2):
            loader = sluice.DataLoader(
                options, data, 8, shuffle=True, num_workers=workers, mode=sluice.DataLoaderMode[mode]
            )
            waits, calls = map(median_us, steps(model, loader))
            loader.terminate()
            share = 100 * waits / (waits + calls)
            slower = 100 * (waits + calls) / median_us(alone)
            print(f"{mode:16}{workers:8d}{waits:10.0f}{calls:10.0f}{share:8.2f}%{slower:9.1f}%", flush=True)


if __name__ == "__main__":
    main()
