#!/usr/bin/python3
"""Writes docs/errors.md: every error that the code raises, by type and module.

    scripts/list_errors.py           write the page
    scripts/list_errors.py --check   fail if the page is not what the code says

A message says what was expected, what was found and what to do; {} stands for a value. Bugs of Sluice
itself (InternalError) are left out: no user causes them.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
FOLDERS = ["sluice", "cli", "python/core"]
HEADERS = ["sluice/base/error.h", "sluice/base/recoverable_error.h", "sluice/base/error.h",
           "sluice/runtime/non_finite.h"]
RAISED = re.compile(r"\b(?:raise<(\w+)>\s*\(|throw\s+(\w*(?:Error|Argument|Unsupported|OutOfMemory|Cancelled))\s*\()")
LITERAL = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
SKIPPED = {"InternalError", "Error"}


def literals(text, start):
    """The string literals that follow one another from the first one inside of a call on."""
    begin = text.find('"', start)
    end = text.find(";", start)
    if begin < 0 or (0 <= end < begin) or begin - start > 160:
        return ""
    parts = []
    match = LITERAL.match(text, begin)
    while match:
        parts.append(match.group(1))
        match = LITERAL.match(text, match.end())
    return "".join(parts).replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")


def raised():
    """(type, module, message) of each place that raises an error with a text of its own."""
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.name
            if path.suffix not in (".cpp", ".h") or name.endswith("_test.cpp"):
                continue
            text = path.read_text(encoding="utf-8")
            module = path.relative_to(ROOT).parent.as_posix().removeprefix("sluice/")
            for match in RAISED.finditer(text):
                kind = match.group(1) or match.group(2)
                message = " ".join(literals(text, match.end()).split())
                if kind not in SKIPPED and len(message) > 3 and message != "{}":
                    found.add((kind, module, message))
    return found


def meanings():
    """What the headers say about each type."""
    known = {}
    for header in HEADERS:
        path = ROOT / header
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for comment, kind in re.findall(r"((?:^///.*\n)+)class (\w+)", text, re.MULTILINE):
            known[kind] = " ".join(re.sub(r"^/// ?", "", line) for line in comment.splitlines())
    return known


def page():
    found, known = raised(), meanings()
    lines = [
        "# Errors",
        "",
        "Every error that Sluice raises, by type and module. `scripts/list_errors.py` makes this page from the code.",
        "A message says what was expected, what was found and what to do; `{}` stands for a value. An `InternalError`",
        "is a bug of Sluice: please report it.",
        "",
    ]
    for kind in sorted({each[0] for each in found}):
        lines += [f"## {kind}", ""]
        if kind in known:
            lines += [known[kind], ""]
        for module in sorted({m for k, m, _ in found if k == kind}):
            lines += [f"### {kind} of {module}", ""]
            lines += [f"- {escaped(text)}" for k, m, text in sorted(found) if (k, m) == (kind, module)]
            lines.append("")
    return "\n".join(lines)


def escaped(text):
    return "`" + text.replace("`", "'") + "`"


def main():
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print("docs/errors.md is not what the code says: run scripts/list_errors.py")
            return 1
        print(f"errors: {text.count(chr(10) + '- ')} messages, the page is up to date")
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
