#!/usr/bin/python3
"""Several processes use one small cache of executables at the same time.

    cache.py <cache_worker> [seconds] [processes]

No call may fail or get the program of another model, and the folder never has more bytes than it may. Now
and then a process is killed, and another one takes its place. The seed, SLUICE_SEED or else a new one, is
printed.
"""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BYTES = 20_000_000


def start(worker, folder, seconds, seed):
    return subprocess.Popen([worker, folder, f"{seconds:.1f}", str(BYTES), str(seed)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def main():
    worker = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    seed = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 31)))
    print(f"seed {seed}, {processes} processes, {seconds:.0f} s", flush=True)
    draw = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="sluice-cache-")
    end = time.monotonic() + seconds
    running = [start(worker, folder, seconds, draw.randrange(1 << 31)) for _ in range(processes)]
    kills, problems, lines = 0, [], []

    def finish(process, killed):
        out, errors = process.communicate()
        if process.returncode != (-9 if killed else 0) and not (killed and process.returncode == 0):
            problems.append(f"exit code {process.returncode}\n{errors}")
        lines.extend(out.splitlines())

    while time.monotonic() < end - 9:
        time.sleep(draw.uniform(3, 8))
        victim = draw.randrange(processes)
        running[victim].kill()
        finish(running[victim], True)
        kills += 1
        running[victim] = start(worker, folder, end - time.monotonic(), draw.randrange(1 << 31))
    for process in running:
        finish(process, False)
    sums = [tuple(map(int, re.findall(r"\d+", line))) for line in lines]
    for line in lines:
        print(" ", line)
    files = list(Path(folder).glob("*.slc"))
    size = sum(file.stat().st_size for file in files)
    if size > BYTES:
        problems.append(f"{size} bytes in the folder")
    if not sums or not any(hits for _, hits, _, _ in sums) or not any(calls > hits for calls, hits, _, _ in sums):
        problems.append("there were no hits, or no misses: nothing was tested")
    print(f"{kills} kills; {len(files)} entries of {size} bytes stay, allowed are {BYTES}")
    if problems:
        print("\n".join(problems))
        sys.exit(f"cache: SLUICE_SEED={seed}, the folder is {folder}")
    shutil.rmtree(folder)


main()
