#!/usr/bin/python3
"""Checks what libsluice.so shows to others, and that programs use it and no static copy.

    tests/shared/check_exports.py LIBRARY PROGRAM...
    tests/shared/check_exports.py --self-test

Every name that the library exports must be in namespace sluice, as the demangler reads it and not by
the patterns of the version script; what programs cannot do without must be among them; the library has
a versioned name, its insides are hidden, and no name of its own is left to be found elsewhere.
"""
import re
import subprocess
import sys

# A name without types and parameters, perhaps with what the compiler makes for it.
OURS = re.compile(r"^((vtable|VTT|typeinfo|typeinfo name|guard variable|reference temporary #\d+|"
                  r"TLS init function|TLS wrapper function) for |(non-virtual |virtual |covariant return )"
                  r"thunk to )*sluice::")
NEEDED = ["typeinfo for sluice::Error", "typeinfo name for sluice::Error", "vtable for sluice::Error",
          "typeinfo for sluice::nn::Module", "vtable for sluice::nn::Module", "sluice::Error::Error",
          "sluice::ir::kInput", "sluice::ops::loadCustomOps"]
# Insides: a public header says that its names are exported, and these have none.
HIDDEN = re.compile(r"sluice::(compiler|devices|program|runtime)::\w*(compileGraph|makeDevice|verify|Engine::)")


def problems(exported, undefined, soname, needed=NEEDED):
    """What is wrong, a line each; names are readable."""
    found = [f"exported, but not in namespace sluice: {name}" for name in exported if not OURS.match(name)]
    found += [f"not exported: {name}" for name in needed if name not in exported]
    found += [f"exported, but not public: {name}" for name in exported if HIDDEN.search(name)]
    found += [f"left undefined: {name}" for name in undefined if OURS.match(name)]
    if not re.fullmatch(r"libsluice\.so\.\d+\.\d+", soname):
        found.append(f"its name is '{soname}', without a version")
    return found


def output(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def readable(mangled):
    return output("c++filt", "-p", text="\n".join(mangled)).splitlines()


def names(file, which):
    """Dynamic symbols without their versions; the node of the version script is none."""
    rows = [line.split() for line in output("nm", "-D", which, file).splitlines()]
    return readable([row[-1].split("@")[0] for row in rows if row[-2] != "A"])


def dynamic(file, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-dW", file))


def self_test():
    good = ["_ZN6sluice1fEi", "_ZTIN6sluice5ErrorE", "_ZN6sluice1gIN3fmt1AEEEvT_", "_ZNK6sluice1X1mEv",
            "_ZGVZN6sluice1fEvE1x", "_ZThn16_N6sluice1X1mEv", "_ZN6sluice1XcvSsEv"]
    bad = ["_ZN3fmt1fEN6sluice1XE", "_ZNSt6vectorIN6sluice1XEED1Ev", "_ZTIN4onnx1YE", "main", "sluice_fake",
           "_ZSt1fIN6sluice1XEEvT_", "_ZN6sluice7program6verifyERKNS0_7ProgramE"]
    soname = "libsluice.so.0.1"
    wrong = problems(readable(good), readable(["_ZSt1fv"]), soname, [])
    cases = [problems(readable([name]), [], soname, []) for name in bad]
    cases += [problems([], [], "libsluice.so", []), problems([], ["sluice::f"], soname, []),
              problems([], [], soname, ["sluice::f"])]
    wrong += [f"expected one problem: {case}" for case in cases if len(case) != 1]
    print("\n".join(wrong) or "exports: self-test passed")
    return 1 if wrong else 0


def main():
    library, programs = sys.argv[1], sys.argv[2:]
    exported = names(library, "--defined-only")
    soname = (dynamic(library, "SONAME") or [""])[0]
    found = problems(exported, names(library, "--undefined-only"), soname)
    for program in programs:
        if soname not in dynamic(program, "NEEDED"):
            found.append(f"{program} does not use {soname}")
        if not any(OURS.match(name) for name in names(program, "--undefined-only")):
            found.append(f"{program} takes nothing from {soname}")
    print("\n".join(found[:40]))
    print(f"exports: {len(exported)} names of {soname}, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else main())
