#!/usr/bin/python3
"""Writes python/sluice/_core.pyi from the compiled module, for editors and type checkers.

    scripts/stubs.py           write it
    scripts/stubs.py --check   fail if it is out of date

Needs the built package on PYTHONPATH. Signatures come from the first lines of the module's own
documentation.
"""
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python/sluice/_core.pyi"
WRITTEN_WITH = (3, 11)  # the version of Debian 12

SIGNATURE = re.compile(r"^(?:\d+\. )?(\w+)\((.*)\) -> (.+)$", re.MULTILINE)
KNOWN = re.compile(r"\b(int|float|bool|str|bytes|object|None|List|Dict|Tuple|Optional|Callable)\b")


def clean(text):
    """A type or default as a stub may have it."""
    text = re.sub(r"\bsluice(\._core)?(\.functions)?\.", "", text)
    text = re.sub(r"(sluice::)?\w+::\S+", "Any", text)
    text = re.sub(r"<[^<>]*>", "...", text)
    return text.replace("numpy.ndarray", "Any").replace("handle", "Any").replace("function", "Callable")


def arguments(text):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "([{<") - (c in ")]}>" and text[i - 1:i] != "-")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    found = []
    for part in filter(None, parts):
        name, _, rest = part.partition(":")
        if not rest:
            found.append(part)
            continue
        kind, _, default = rest.partition(" = ")
        found.append(f"{name}: {clean(kind.strip())}" + (" = ..." if default else ""))
    return ", ".join(found)


def functions(name, doc, indent, decorator=""):
    lines = []
    matches = [m for m in SIGNATURE.finditer(doc or "") if m[1] == name and "*args" not in m[2][:5]]
    for m in matches:
        overload = "@overload\n" if len(matches) > 1 else ""
        lines.append(f"{indent}{overload and overload[:-1]}".rstrip() if overload else "")
        lines.append(f"{indent}{decorator}".rstrip() if decorator else "")
        lines.append(f"{indent}def {name}({arguments(m[2])}) -> {clean(m[3])}: ...")
    return [line for line in lines if line] or [f"{indent}def {name}(*args: Any, **kwargs: Any) -> Any: ..."]


def class_lines(cls):
    bases = [b.__name__ for b in cls.__bases__ if b is not object and not b.__name__.startswith("pybind11")]
    lines = [f"class {cls.__name__}({', '.join(bases)}):" if bases else f"class {cls.__name__}:"]
    body = []
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, property):
            found = re.search(r"-> (.+)$", (member.fget.__doc__ or "").split("\n")[0])
            body += ["    @property", f"    def {name}(self) -> {clean(found[1]) if found else 'Any'}: ..."]
            if member.fset:
                body += [f"    @{name}.setter", f"    def {name}(self, value: Any) -> None: ..."]
        elif name in ("__init__", "__enter__", "__exit__", "__call__") or not name.startswith("_"):
            if callable(member) or isinstance(member, staticmethod):
                static = isinstance(member, staticmethod)
                target = member.__func__ if static else member
                body += functions(name, target.__doc__, "    ", "@staticmethod" if static else "")
    return lines + (body or ["    ..."])


def stub(core):
    lines = ['"""The compiled part of sluice. Written by `./dev docs`."""', "",
             "from typing import Any, Callable, Dict, List, Optional, Tuple, overload", ""]
    members = sorted(vars(core).items())
    for name, member in members:
        if inspect.isclass(member):
            lines += class_lines(member) + [""]
    for name, member in members:
        if inspect.isbuiltin(member) or inspect.isroutine(member):
            if not name.startswith("_"):
                lines += functions(name, member.__doc__, "")
    lines += ["", "class functions:"]
    for name, member in sorted(vars(core.functions).items()):
        if not name.startswith("_"):
            lines += functions(name, member.__doc__, "    ", "@staticmethod")
    return "\n".join(lines) + "\n"


def main(check):
    if check and sys.version_info[:2] != WRITTEN_WITH:
        print("other versions of Python and pybind11 word signatures otherwise: not compared")
        return 77
    from sluice import _core
    text = stub(_core)
    compile(text, str(STUB), "exec")
    if not check:
        STUB.write_text(text)
        print(f"{STUB.relative_to(ROOT)}: written")
        return 0
    if not STUB.exists() or STUB.read_text() != text:
        print(f"{STUB.relative_to(ROOT)} is out of date: run ./dev docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
