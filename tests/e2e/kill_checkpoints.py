"""Ends a training run with SIGKILL at random moments while it writes checkpoints.

    kill_checkpoints.py <checkpoint_worker> [kills]

Every new start must resume from a checkpoint that is whole and no older than the last one that was
reported as saved, and the last run must end with the weights of an undisturbed one.
"""
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS_PER_KILL = 2  # at most


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


def main():
    worker, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    steps = STEPS_PER_KILL * kills + 5
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        calm = to_end(worker, Path(name) / "calm", steps)
        seconds = sorted(calm.seconds)[len(calm.seconds) // 2]
        folder = Path(name) / "killed"
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
    print(f"{kills} kills, {in_the_middle} of them in the middle of a file; the same weights")
    check(in_the_middle > 0, "no kill met a file that was being written")


main()
