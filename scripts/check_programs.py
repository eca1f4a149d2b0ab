#!/usr/bin/python3
"""Checks that the build makes every program that ./dev, the README and the documents name, there.

    scripts/check_programs.py              list the programs that would not be found
    scripts/check_programs.py --self-test  check this script with made-up cases

A program is build/bin/NAME, build/release/tools/NAME (a TOOL) or build/fuzz/bin/NAME; libraries
(NAME.so) are no programs. A name that ends with _ stands for all programs that begin with it (build/bin/bench_$name).
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"\b(build/(?:bin|release/tools|fuzz/bin))/([a-z]\w*)(?!\.so\b)\b")
CALL = re.compile(r"^\s*sluice_(program|fuzz)\(\s*([^)]*)\)", re.MULTILINE)
OUTPUT = re.compile(r"set_target_properties\((\w+) PROPERTIES OUTPUT_NAME (\w+)\)")


def made(folder, text):
    """The programs of the CMakeLists.txt in this folder, as paths."""
    names = dict(OUTPUT.findall(text))
    paths = set()
    for _, call in CALL.findall(text):
        words = call.split()
        name = words[words.index("NAME") + 1]
        place = "build/fuzz/bin" if folder == "fuzz" else "build/bin"
        place = "build/release/tools" if "TOOL" in words else place
        paths.add(f"{place}/{names.get(name, name)}")
    return paths


def missing(text, programs):
    """The programs that the text names and nothing makes."""
    found = []
    for place, name in NAMED.findall(text):
        path = f"{place}/{name}"
        known = any(each.startswith(path) for each in programs) if name.endswith("_") else path in programs
        if not known and path not in found:
            found.append(path)
    return found


def self_test():
    programs = made("tests", "if(A)\n  sluice_program(NAME worker SOURCES a.cpp TOOL)\nendif()\n"
                             "sluice_program(\n  NAME cli\n  SOURCES a.cpp)\n"
                             "set_target_properties(cli PROPERTIES OUTPUT_NAME sluice)\n"
                             "sluice_program(NAME bench_a SOURCES a.cpp)\n")
    assert programs == {"build/release/tools/worker", "build/bin/sluice", "build/bin/bench_a"}
    assert made("fuzz", "sluice_fuzz(NAME fuzz_a SOURCES a.cpp)\n") == {"build/fuzz/bin/fuzz_a"}
    assert missing('run build/bin/sluice; "build/bin/bench_$name"', programs) == []
    assert missing("run build/bin/worker 5, build/bin/worker", programs) == ["build/bin/worker"]
    assert missing("build/release/tools/library.so", programs) == []
    assert missing("build/fuzz/bin/fuzz_$1", programs) == ["build/fuzz/bin/fuzz_"]
    print("programs: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    programs = set()
    for path in ROOT.glob("*/**/CMakeLists.txt"):
        folder = path.relative_to(ROOT).parts[0]
        if folder != "build":
            programs |= made(folder, path.read_text())
    failed = 0
    for path in [ROOT / "dev", *sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]:
        for program in missing(path.read_text(), programs):
            print(f"{path.relative_to(ROOT)}: {program} is made by no CMakeLists.txt")
            failed = 1
    if not failed:
        print(f"programs: {len(programs)} are made, all that are named are among them")
    return failed


if __name__ == "__main__":
    sys.exit(main())
