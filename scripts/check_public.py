#!/usr/bin/python3
"""Checks which headers are public: those that sluice/sluice.h reaches, and the interface of custom ops.

    scripts/check_public.py              check the tree, print each offence
    scripts/check_public.py --self-test  check this script with made-up cases

A public header stands among the HEADERS of its module, which are installed, and makes its names
visible in libsluice.so; every other one is in PRIVATE_HEADERS or in no list. sluice.h may not reach
more headers than the limit: lower it when you can.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 61
APART = {"sluice/custom/abi.h", "sluice/custom/op.h"}  # libraries of custom ops include these alone
PUSH = "#pragma GCC visibility push(default)"
POP = "#pragma GCC visibility pop"
INCLUDE = re.compile(r'^#include "(sluice/[^"]+\.h)"', re.MULTILINE)


def reached(start, text_of):
    """The headers that one includes, itself and indirect ones among them."""
    found, waiting = {start}, [start]
    while waiting:
        for header in INCLUDE.findall(text_of(waiting.pop())):
            if header not in found:
                found.add(header)
                waiting.append(header)
    return found


def listed(folder, text):
    """The HEADERS of the module that a CMakeLists.txt declares, as paths."""
    match = re.search(r"(?<![A-Z_])HEADERS((?:\s+[\w./]+\.h)+)", text)
    names = match[1].split() if match else []
    return {(Path(folder) / name).as_posix().replace("/frontends/..", "") for name in names}


def problems(public, in_lists, text_of, limit=LIMIT):
    found = [f"{h}: sluice.h reaches it: it belongs to the HEADERS of its module" for h in sorted(public - in_lists)]
    found += [f"{h}: sluice.h does not reach it: it belongs to PRIVATE_HEADERS"
              for h in sorted(in_lists - public - APART)]
    for header in sorted(public - {"sluice/sluice.h"}):
        lines = text_of(header).splitlines()
        marks = (lines.count(PUSH), lines.count(POP))
        if marks != (1, 1) and (marks != (0, 0) or "namespace" in text_of(header)):  # macros need none
            found.append(f"{header}: a public header has '{PUSH}' before its names and '{POP}' after them")
    if len(public) - 1 > limit:
        found.append(f"sluice/sluice.h reaches {len(public) - 1} headers, more than {limit}")
    return found


def check_tree():
    text_of = lambda header: (ROOT / header).read_text()
    in_lists = set()
    for file in sorted((ROOT / "sluice").rglob("CMakeLists.txt")):
        in_lists |= listed(file.parent.relative_to(ROOT).as_posix(), file.read_text())
    public = reached("sluice/sluice.h", text_of)
    found = problems(public, in_lists, text_of)
    print("\n".join(found + [f"public headers: sluice.h reaches {len(public) - 1}, {len(found)} offences"]))
    return 1 if found else 0


def self_test():
    good = f"{PUSH}\n{POP}\n"
    files = {"sluice/sluice.h": '#include "sluice/a.h"\n', "sluice/a.h": '#include "sluice/b.h"\n' + good,
             "sluice/b.h": good}
    public = reached("sluice/sluice.h", files.get)
    wrong = [] if public == set(files) else [f"reached {public}"]
    cases = [(public, 0), (public - {"sluice/b.h"}, 1), (public | {"sluice/c.h"}, 1)]
    wrong += [f"expected {count} problems: {problems(public, lists, files.get)}"
              for lists, count in cases if len(problems(public, lists, files.get)) != count]
    if len(problems(public, public, files.get, 1)) != 1:
        wrong.append("the limit is not checked")
    files["sluice/b.h"] = PUSH
    if len(problems(public, public, files.get)) != 1:
        wrong.append("a missing pop is not found")
    files["sluice/b.h"] = "namespace sluice {}"
    if len(problems(public, public, files.get)) != 1:
        wrong.append("a header that hides its names is not found")
    files["sluice/b.h"] = "#define SLUICE_B 1"
    if problems(public, public, files.get):
        wrong.append("a header of macros is refused")
    if listed("sluice/x", "NAME x\n  HEADERS a.h b.h\n  PRIVATE_HEADERS c.h") != {"sluice/x/a.h", "sluice/x/b.h"}:
        wrong.append("the list of a module is read wrongly")
    print("\n".join(wrong) or "public headers: self-test passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else check_tree())
