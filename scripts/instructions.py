#!/usr/bin/python3
"""Counts the instructions of compiling and running small networks, and compares them with a record.

    scripts/instructions.py PROGRAM [workloads]      fails where a count has grown by more than 5 %
    scripts/instructions.py PROGRAM --record         writes bench/instructions.json anew
    scripts/instructions.py --self-test

PROGRAM is bench_instructions. It runs in valgrind, whose processor has AVX2 and no AVX-512, so that
counts do not depend on the machine or on what else runs there. Counted are the compiler and the kernels
of Sluice. Left out are libraries, and `runtime` and `base`, whose threads look for work as long as they
have none.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / "bench" / "instructions.json"
ALLOWED = 0.05
PARTS = {"kernels": re.compile(r"\bsluice::devices::"),
         "compiler": re.compile(r"\bsluice::(compile|program|parallel|schedule|transforms|optim|ops|ir|nn|tensor)::")}


def part_of(function):
    """A template or a lambda belongs to the first part that its name has."""
    found = [(m.start(), part) for part, names in PARTS.items() if (m := names.search(function))]
    return min(found)[1] if found else None


def counts_in(lines):
    """Instructions by part in the text of a profile; those of calls stand with the function called."""
    counts = dict.fromkeys(PARTS, 0)
    part, after_call = None, False
    for line in lines:
        if line.startswith("fn="):
            part = part_of(line[3:])
        elif line.startswith("calls="):
            after_call = True
        elif line[:1].isdigit() or line[:1] in "+-*":
            if part and not after_call:
                counts[part] += int(line.split()[1])
            after_call = False
    return counts


def count(program, workload):
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        command = ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                   f"--callgrind-out-file={profile}", program, workload]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
        with profile.open(errors="replace") as lines:
            return counts_in(lines)


def self_test():
    """A profile of a kernel that calls a library and a pass, with the costs of calls after `calls=`."""
    text = """events: Ir
fn=void sluice::devices::cpu::N_AVX2::product<float>(float const*)
10 100
cfn=memcpy
calls=3 20
11 900
+1 20
fn=sluice::transforms::fold(std::vector<sluice::devices::Choice> const&)
5 7
fn=memcpy
20 900
fn=sluice::runtime::EngineThreads::runTasks()
1 5000
totals: 6927
"""
    expected = {"kernels": 120, "compiler": 7}
    found = counts_in(text.splitlines(keepends=True))
    if found != expected:
        sys.exit(f"instructions: expected {expected}, counted {found}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    program, words = sys.argv[1], sys.argv[2:]
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    recording = "--record" in words
    chosen = [word for word in words if word != "--record"] or ["mnist", "gpt", "resnet"]
    worse = []
    for workload in chosen:
        now = count(program, workload)
        for part, instructions in now.items():
            before = known.get(workload, {}).get(part, 0)
            change = instructions / before - 1 if before else 0
            print(f"{workload:8} {part:9} {instructions / 1e6:10.2f} million  {100 * change:+.1f} %", flush=True)
            if not recording and (before == 0 or change > ALLOWED):
                worse.append(f"{workload} {part}")
        known[workload] = now
    if recording:
        RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    elif worse:
        sys.exit(f"more than {100 * ALLOWED:.0f} % above {RECORD.name}: {', '.join(worse)}. If that is meant, "
                 "run scripts/instructions.py with --record and say why in the commit")


if __name__ == "__main__":
    main()
