#!/usr/bin/python3
"""Runs clang-tidy over files and remembers which are clean.

    scripts/tidy.py [-j JOBS] FILES...

Files that are compiled as one are checked as one: most of the time goes into
headers. Such a unit is clean if nothing it sees has changed since clang-tidy last
found nothing in it: its preprocessed text, the settings and the version of the
tool make the key of an empty file in build/tidy. Exit code 1 if there are findings.
"""
import argparse
import concurrent.futures
import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from join_sources import hidden_names

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
CLEAN = ROOT / "build" / "tidy"
AT_ONCE = 12
TOOL = "clang-tidy"


def commands():
    """The compiler's arguments for each unit, without launchers in front of the compiler, without
    the precompiled header, which is another compiler's and hides missing includes, and without
    settings that only that compiler has."""
    result = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        first = next(i for i, word in enumerate(words) if Path(word).name in ("c++", "g++", "clang++"))
        words = words[first:]
        for option in ("-include", "--param"):
            while option in words:
                at = words.index(option)
                del words[at:at + 2]
        words = [word for word in words if word != "-Winvalid-pch"]
        for unit in unjoined(entry["file"]):
            result[unit] = ([unit if word == entry["file"] else word for word in words], entry["directory"])
    return result


def unjoined(unit):
    """What to check instead of a file that scripts/join_sources.py made and whose names it changed: files
    that include its parts as they are, as many at once as share no name; or the file itself."""
    if "/joined/" not in unit or not Path(unit).exists():
        return [str(Path(unit))]
    groups = []
    for name in re.findall(r'^#line 1 "(.*)"$', Path(unit).read_text(), re.MULTILINE):
        names = hidden_names((ROOT / name).read_text())
        group = next((g for g in groups if len(g[0]) < AT_ONCE and not g[1] & names), None)
        if not group:
            groups.append(group := ([], set()))
        group[0].append(f'#include "{ROOT / name}"\n')
        group[1].update(names)
    folder = CLEAN / "units"
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{Path(unit).stem}_{number}.cpp" for number in range(len(groups))]
    for file, (lines, _) in zip(made, groups):
        file.write_text("".join(lines))
    return [str(file) for file in made]


def units(known):
    """Which unit each file is part of: of itself, or of the one that includes it."""
    result = {}
    for unit in known:
        result[unit] = unit
        if Path(unit).parent == CLEAN / "units":
            for file in re.findall(r'^#include "(.*\.cpp)"$', Path(unit).read_text(), re.MULTILINE):
                result[file] = unit
    return result


def write_commands(known):
    """The same for clang-tidy, which reads them from a file."""
    entries = [{"file": file, "directory": directory, "command": shlex.join(words)}
               for file, (words, directory) in known.items()]
    (CLEAN / "compile_commands.json").write_text(json.dumps(entries))


def key(words, directory, settings):
    """What the verdict depends on."""
    out = words.index("-o")
    preprocess = words[:out] + words[out + 2:]
    preprocess[preprocess.index("-c")] = "-E"
    text = subprocess.run(preprocess, cwd=directory, capture_output=True, check=True).stdout
    return hashlib.sha256(settings + text).hexdigest()


def check(unit, files, command, settings):
    """(unit, findings): findings is None if the unit was known to be clean. A unit of tests may have
    been asked for by one of its files only."""
    words, directory = command
    only = [] if files == [unit] else ["-line-filter=" + json.dumps([{"name": f} for f in files + [".h"]])]
    mark = CLEAN / key(words, directory, settings + "".join(only).encode())
    if mark.exists():
        return unit, None
    run = subprocess.run([TOOL, "-quiet", "-p", str(CLEAN), *only, unit], capture_output=True, text=True)
    if run.returncode == 0 and not run.stdout.strip():
        mark.touch()
    return unit, run.stdout.strip() or ("" if run.returncode == 0 else run.stderr.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", type=int, default=2, metavar="JOBS")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    CLEAN.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([TOOL, "--version"], capture_output=True, check=True).stdout
    settings = version + (ROOT / ".clang-tidy").read_bytes()
    known = commands()
    write_commands(known)
    unit_of = units(known)
    files = [str(ROOT / f) for f in args.files]
    missing = [f for f in files if f not in unit_of]
    if missing:
        sys.exit("tidy: not part of the build: " + ", ".join(missing))
    todo = {}
    for file in sorted(files):
        todo.setdefault(unit_of[file], []).append(file)
    bad = fresh = 0
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        jobs = [pool.submit(check, unit, wanted, known[unit], settings) for unit, wanted in todo.items()]
        for job in concurrent.futures.as_completed(jobs):
            _, findings = job.result()
            fresh += findings is not None
            if findings:
                bad += 1
                print(findings, flush=True)
    print(f"tidy: {len(files)} files in {len(todo)} units, {fresh} checked anew, {bad} with findings")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
