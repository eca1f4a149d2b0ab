#!/usr/bin/python3
"""Kills, stops and cuts off processes of a training at any moment.

    ranks.py <sluice> <mpi_worker> <rounds>

A round draws a number of processes, how they share the model, a fault and its moment: SIGKILL, SIGSTOP, or a cable
that is pulled out of a host, which is a network namespace of this machine (two of three faults where there are no
namespaces). The training must not hang, the lost process must be named, and what is started again from the newest
checkpoint, on as many processes or on fewer, must end with the weights of an undisturbed run. SLUICE_SEED repeats
a run.
"""
import os
import random
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mpi"))
import faults  # noqa: E402
import hosts  # noqa: E402


def expected_weights(sluice, worker, count, share, known):
    """One model has the same weights over any number of processes."""
    key = "one" if share else count
    if key not in known:
        known[key] = faults.undisturbed(sluice, worker, 1 if share else count, share)
    return known[key]


def signal_round(sluice, worker, draw, known):
    count, share = draw.choice([2, 3, 4]), draw.choice([[], ["share"]])
    sign = draw.choice([signal.SIGKILL, signal.SIGSTOP])
    victim, step, delay = draw.randrange(count), draw.randrange(faults.STEPS - 1), draw.choice([0, draw.random() / 50])
    fewer = ["--fewer", "2,1"] if share and draw.random() < 0.5 else []
    expected = expected_weights(sluice, worker, count, share, known)
    what = f"{sign.name} to rank {victim} of {count} {share + fewer}, {1e3 * delay:.1f} ms after step {step}"
    code, out, err = faults.disturb(sluice, worker, count, share, sign, victim, step, fewer, delay)
    context = f"{what}\n{out}\n{err}"
    assert code == 0, context
    # A process may have ended before the signal came, or say its last words without the others; the launcher alone
    # misses one that is stopped after the training, when the others have ended.
    if "restart 1 of 1" in err:
        named = [faults.lost_line(victim), f"rank {victim} was ended by signal", f"rank {victim} gives no sign of life"]
        assert any(re.search(line, err) for line in named), context
    assert faults.weights_of(out) == expected, context
    return what


def cut_round(sluice, worker, draw, known):
    count, step = draw.choice([2, 3]), draw.randrange(faults.STEPS - 3)
    hosts.cut_a_host(sluice, worker, count, ["share"], step, expected_weights(sluice, worker, count, ["share"], known))
    return f"cut one of {count} hosts after step {step}"


def main():
    sluice, worker = map(os.path.abspath, sys.argv[1:3])
    seed = int(os.environ.get("SLUICE_SEED", random.randrange(1 << 30)))
    print(f"SLUICE_SEED={seed}", flush=True)
    kinds = [signal_round, signal_round] + ([cut_round] if hosts.can_make_hosts() else [])
    known = {}
    for number in range(int(sys.argv[3])):
        draw = random.Random(f"{seed}/{number}")
        begin = time.monotonic()
        what = draw.choice(kinds)(sluice, worker, draw, known)
        print(f"round {number}: {what}; {time.monotonic() - begin:.1f} s", flush=True)
    print(f"{sys.argv[3]} rounds, seed {seed}")


if __name__ == "__main__":
    main()
