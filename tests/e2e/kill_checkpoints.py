"""Ends a training run with SIGKILL at random moments while it writes checkpoints.

    kill_checkpoints.py <checkpoint_worker> [kills]

Every new start must resume from a checkpoint that is whole and no older than the last one that was
reported as saved, and the last run must end with the weights of an undisturbed one.

The moments are drawn from a seed, SLUICE_SEED or else a new one, which is printed; the machine's own
timing adds to them. After a failure the folder of the checkpoints stays.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS_PER_KILL = 2  # at most
SURE_KILLS = 30  # so many that one of them has to meet a file that is being written


class Run:
    """A run of the worker; its lines as they come."""

    def __init__(self, worker, folder, steps):
        self.process = subprocess.Popen([worker, folder, str(steps)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.last = {}
        self.seconds = []  # that checkpoints took

    def lines(self):
        begun = 0.0
        for line in self.process.stdout:
            word, value = line.split()
            self.last[word] = value if word == "weights" else int(value)
            if word == "saving":
                begun = time.monotonic()
            elif word == "saved":
                self.seconds.append(time.monotonic() - begun)
            yield word

    def finish(self, killed):
        errors = self.process.stderr.read()
        for line in self.process.stdout:  # what it said before the end came
            word, value = line.split()
            self.last[word] = value
        code = self.process.wait()
        check(code == (-9 if killed else 0), f"exit code {code}\n{errors}")
        check("left out" not in errors, f"a checkpoint was not whole:\n{errors}")


def check(condition, message):
    if not condition:
        sys.exit(f"kill_checkpoints: {message}")


def to_end(worker, folder, steps):
    run = Run(worker, folder, steps)
    for _ in run.lines():
        pass
    run.finish(killed=False)
    return run


def killed(worker, folder, steps, draw, seconds):
    """Kills the run after one of its first checkpoints began, somewhere in it or right behind."""
    run = Run(worker, folder, steps)
    wanted = draw.randint(1, STEPS_PER_KILL)
    for word in run.lines():
        wanted -= word == "saving"
        if wanted == 0:
            break
    try:
        run.process.wait(timeout=draw.uniform(0, 1.3 * seconds))
    except subprocess.TimeoutExpired:
        pass
    run.process.kill()
    run.finish(killed=True)
    return run


def kill_and_resume(worker, kills, draw, name):
    """Returns how many kills met a file that was being written."""
    steps = STEPS_PER_KILL * kills + 5
    calm = to_end(worker, name / "calm", steps)
    seconds = sorted(calm.seconds)[len(calm.seconds) // 2]
    folder = name / "killed"
    saved, begun, in_the_middle = 0, 0, 0
    for kill in range(kills + 1):
        run = killed(worker, folder, steps, draw, seconds) if kill < kills else to_end(
            worker, folder, steps)
        resumed = run.last["resumed"]
        check(saved <= resumed <= begun, f"resumed {resumed}, saved {saved}, begun {begun}")
        saved = int(run.last.get("saved", resumed))
        begun = int(run.last.get("saving", resumed))
        in_the_middle += any(folder.glob("*.part"))
    files = sorted(path.name for path in folder.iterdir())
    check(len(files) == 2 and not any(file.endswith(".part") for file in files), files)
    check(run.last["weights"] == calm.last["weights"], "other weights than undisturbed")
    return in_the_middle


def main():
    worker, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seed = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"seed {seed}", flush=True)
    name = Path(tempfile.mkdtemp(prefix="sluice-kills-"))
    try:
        in_the_middle = kill_and_resume(worker, kills, random.Random(seed), name)
    except BaseException:
        print(f"kill_checkpoints: SLUICE_SEED={seed}, the checkpoints are in {name}", file=sys.stderr)
        raise
    shutil.rmtree(name)
    print(f"{kills} kills, {in_the_middle} of them in the middle of a file; the same weights")
    check(in_the_middle > 0 or kills < SURE_KILLS, "no kill met a file that was being written")


main()
