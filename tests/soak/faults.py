#!/usr/bin/python3
"""Trains through random faults.

    faults.py <fault_worker> <io_faults.so> [faults]

Each fault meets a run of its own: an exception in a kernel, a disk that fails, is full or transfers less
than it is asked for, a process that is killed, a lane that stalls, a file of remote memory that is changed
or cut. The run must end with the weights of an undisturbed one, or with one clear error; then the same run,
without the fault, must find its newest checkpoint whole and end with these weights. Nothing may hang.

Faults are drawn from a seed, SLUICE_SEED or else a new one, which is printed. After a failure the folder of
the run stays.
"""
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 15
SECONDS = 60  # more than that is a hang
IN_PROCESS = ["recoverable", "unrecoverable", "error", "foreign", "stall", "flip", "cut", "kill"]
OF_FILES = ["eio", "full", "short", "broken"]
MOST_TASKS = 900
MOST_CALLS = 400
# Exceptions of functions of the user stay what they are.
CLEAR = {False: re.compile(r"^failed with \w+Error: .{10,}", re.MULTILINE),
         True: re.compile(r"^failed with std::exception: a function of the user", re.MULTILINE)}
STRATEGIES = 15
STREAMED = [5, 8, 9]  # those with remote memory


class Failure(Exception):
    pass


def run(worker, folder, draw, fault, number, library):
    """The exit code and what the run said. Numbers of calls on files count from the first one."""
    environment = dict(os.environ)
    arguments = [worker, str(folder), str(STEPS), str(draw)]
    if fault in OF_FILES:
        environment.update(LD_PRELOAD=library, SLUICE_FAULT_PATH=str(folder), SLUICE_FAULT_KIND=fault,
                           SLUICE_FAULT_AT=str(number))
        arguments += ["none"]
    else:
        arguments += [fault, str(number)]
    try:
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=SECONDS,
                              check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"hangs: {error.stdout} {error.stderr}") from None
    return done


def weights(done):
    found = re.search(r"^updates (\d+)\nweights (\w+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        raise Failure(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return found.groups()


def one(worker, library, draw, fault, number, calm, folder):
    """How the run with the fault ended."""
    done = run(worker, folder, draw, fault, number, library)
    if done.returncode == 0:
        if weights(done) != calm:
            raise Failure(f"other weights than undisturbed\n{done.stdout}{done.stderr}")
        again = done.stderr.count("made again") + done.stderr.count("newest checkpoint:")
        return "goes on after it is made again" if again else "same bits at once"
    if done.returncode == 1 and not CLEAR[fault == "foreign"].search(done.stderr):
        raise Failure(f"no clear error\n{done.stderr}")
    if done.returncode not in (1, -9) or (done.returncode == -9) != (fault == "kill"):
        raise Failure(f"exit code {done.returncode}\n{done.stderr}")
    rest = run(worker, folder, draw, "none", 0, library)
    if "left out" in rest.stderr:
        raise Failure(f"a checkpoint is not whole\n{done.stderr}\nthen\n{rest.stderr}")
    if weights(rest) != calm:
        raise Failure(f"other weights after the run went on\n{done.stderr}\nthen\n{rest.stderr}")
    return "killed, goes on" if fault == "kill" else "an error, goes on"


def main():
    worker, library = str(Path(sys.argv[1]).resolve()), str(Path(sys.argv[2]).resolve())
    faults = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    seed = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"seed {seed}, {faults} faults", flush=True)
    draws = random.Random(seed)
    calm, ends, bad = {}, collections.Counter(), 0
    base = Path(tempfile.mkdtemp(prefix="sluice-faults-"))
    for index in range(faults):
        fault = draws.choice(IN_PROCESS + 2 * OF_FILES)
        draw = STRATEGIES * draws.randrange(1 << 26)
        draw += draws.choice(STREAMED) if fault in ("flip", "cut") else draws.randrange(STRATEGIES)
        number = draws.randint(1, MOST_CALLS if fault in OF_FILES else MOST_TASKS)
        folder = base / str(index)
        folder.mkdir()
        try:
            strategy = draw % STRATEGIES
            if strategy not in calm:
                (base / "calm").mkdir()
                calm[strategy] = weights(run(worker, base / "calm", strategy, "none", 0, library))
                shutil.rmtree(base / "calm")
            ends[f"{fault}: {one(worker, library, draw, fault, number, calm[strategy], folder)}"] += 1
            shutil.rmtree(folder)
        except Failure as failure:
            bad += 1
            print(f"fault {index}, {fault} at {number}, draw {draw}, files in {folder}: {failure}", flush=True)
    for end, count in sorted(ends.items()):
        print(f"  {count:4} {end}")
    print(f"{faults} faults, {bad} failed")
    if bad:
        sys.exit(f"faults: SLUICE_SEED={seed}")
    shutil.rmtree(base)


main()
