"""What the PyTorch sides of the benchmarks share: one thread, timing, the JSON line."""
import json
import sys
import time


def import_torch():
    """PyTorch set to one thread; prints why and ends if it is not there."""
    try:
        import torch
    except ImportError as error:
        print(json.dumps({"unavailable": str(error)}))
        sys.exit(0)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    return torch


def blas():
    """The folder of the BLAS library in use, such as openblas-openmp."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "blas" in line and ".so" in line}
    return sorted({path.split("/")[-2] for path in paths})


def report(call, updates, warm_up, calls):
    """Medians over single calls of `updates` updates each, as one JSON object."""
    wall, cpu = [], []
    for i in range(warm_up + calls):
        start, cpu_start = time.perf_counter(), time.process_time()
        call()
        if i >= warm_up:
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - cpu_start)
    wall.sort()
    cpu.sort()
    middle = wall[len(wall) // 2]
    print(json.dumps({
        "us_per_update": 1e6 * middle / updates,
        "cpu_us_per_update": 1e6 * cpu[len(cpu) // 2] / updates,
        "spread": (wall[3 * len(wall) // 4] - wall[len(wall) // 4]) / middle,
        "blas": blas(),
    }))
