#!/usr/bin/python3
"""Prints lines per module and the longest files and functions, so that growth is seen.

    scripts/size.py                the whole report
    scripts/size.py --limits-only  only files above the limit

Fails for a source above 800 lines that is not in ALLOWED with a reason.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["sluice", "cli", "python", "examples", "bench", "tests", "fuzz"]
LIMIT = 800

# path: why it may be longer
ALLOWED = {}

# Comments and literals hold braces that are not code.
NOISE = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
                   re.DOTALL)
NOT_A_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|"
                            r"else|do|try|catch|return)\b|[=]\s*$|^\s*$")


def functions(text):
    """(lines, name) of every outermost function body; a good guess, not a parser."""
    text = NOISE.sub(lambda m: "\n" * m[0].count("\n"), text)
    found, stack, start, line, first = [], [], 0, 1, 1
    inside = 0  # how many open braces belong to functions
    for at, char in enumerate(text):
        if char == "\n":
            line += 1
        if char in "{};":
            header = re.sub(r"^\s*#.*$", "", text[start:at], flags=re.MULTILINE)
            first = line - header.strip().count("\n")
            start = at + 1
        if char == "{":
            is_function = "(" in header and not NOT_A_FUNCTION.search(header)
            stack.append((is_function, first, header))
            inside += is_function
        elif char == "}" and stack:
            is_function, first, header = stack.pop()
            inside -= is_function
            if is_function and inside == 0:
                found.append((line - first + 1, re.search(r"(\S*)\s*\(", header)[1]))
    return found


def is_test(path):
    return path.startswith("tests/") or path.endswith("_test.cpp")


def module_of(path):
    parts = path.split("/")
    depth = 1 if parts[0] != "sluice" else 3 if parts[1] == "devices" else 2
    return "/".join(parts[:depth])


def main():
    files, longest = [], []
    modules = defaultdict(lambda: [0, 0])
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".inc", ".cu"):
                continue
            path, text = file.relative_to(ROOT).as_posix(), file.read_text()
            lines = text.count("\n")
            files.append((lines, path))
            modules[module_of(path)][is_test(path)] += lines
            if not is_test(path):
                longest += [(length, f"{path}: {name}") for length, name in functions(text)]

    if "--limits-only" not in sys.argv[1:]:
        print("lines per module (library, tests)")
        for module, (code, tests) in sorted(modules.items()):
            print(f"  {code:6} {tests:6}  {module}")
        print(f"  {sum(c for c, _ in modules.values()):6} {sum(t for _, t in modules.values()):6}  all")
        for title, items in (("files", files), ("functions", longest)):
            print(f"longest {title}")
            for length, name in sorted(items, reverse=True)[:10]:
                print(f"  {length:6}  {name}")

    too_long = [(n, path) for n, path in files if n > LIMIT and path not in ALLOWED]
    for length, path in too_long:
        print(f"{path}: {length} lines, more than {LIMIT}: split it or list it with a reason")
    print(f"size: {len(files)} files, {len(too_long)} above {LIMIT} lines")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
