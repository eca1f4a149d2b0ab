#!/usr/bin/python3
"""Writes docs/options.md from the table of options and the comments of their setters.

    options_page.py          the page on standard output
    options_page.py --check  exit status 1 unless docs/options.md is that page

Names come from sluice/api/options_table.cpp, which files of options are read by. An option whose setter is
not found in the headers is an error, so none can be missing on the page.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
API = ROOT / "sluice" / "api"
PAGE = ROOT / "docs" / "options.md"
HEADERS = ("options.h", "option_groups.h")
NAME = re.compile(r'^    \{"([\w.]+)",', re.MULTILINE)
SETTER = re.compile(r"((?:^ *///.*\n)*)^ *(?:\w+)& (\w+)\(((?:[^;{}]|\{\})*?)\)\s*(?:;|\{|const)", re.MULTILINE)

HEAD = """# Options

Written by `./dev docs` from the table of options, which also reads files (`Options::loadFromFile`) and
`SLUICE_DEFAULT_OPTIONS`: a line there is a call as below. In Python the names are the same; the groups are
`options.Training`, `options.Precision` and `options.TensorLocations`. Setters chain, check their values,
and throw once a model uses the options.

| option | meaning |
|---|---|
"""


def plain(text):
    """C++ as a reader of the page wants it."""
    text = re.sub(r"\s+", " ", text).strip()
    for long, short in (("std::string_view", "text"), ("std::string", "text"), ("std::int64_t", "int"),
                        ("std::size_t", "int"), ("std::optional", "optional"), ("std::vector", "list"),
                        ("std::map", "map"), ("std::uint64_t", "int"), ("std::initializer_list", "list")):
        text = text.replace(long, short)
    return re.sub(r"const (\w[\w:<>, ]*)&", r"\1", text)


def setters():
    """Name: (parameters, comment) of the first setter that has a comment, else of the first."""
    found = {}
    for header in HEADERS:
        for comment, name, parameters in SETTER.findall((API / header).read_text()):
            words = " ".join(line.strip()[3:].strip() for line in comment.strip().splitlines())
            words = re.sub(r"\s*///<?\s*", " ", words)
            if name not in found or (words and not found[name][1]):
                found[name] = (plain(parameters), words)
    return found


def enumerations():
    """The comment of each enumeration of option_types.h."""
    text = (API / "option_types.h").read_text()
    return {name: " ".join(line.strip()[3:].strip() for line in comment.strip().splitlines())
            for comment, name in re.findall(r"((?:^///.*\n)+)enum class (\w+)", text, re.MULTILINE)}


def page():
    types = enumerations()
    names = NAME.findall((API / "options_table.cpp").read_text())
    known = setters()
    rows, missing = [], []
    for name in names:
        setter = name.rsplit(".", 1)[-1]
        if setter not in known:
            missing.append(name)
            continue
        parameters, comment = known[setter]
        comment = comment or types.get(parameters.split(" ")[0], "As the option before.")
        call = f"{name}({parameters})".replace("|", "\\|")
        rows.append(f"| `{call}` | {comment.replace('|', chr(92) + '|')} |")
    if missing:
        sys.exit(f"options_page: no setter found for {', '.join(missing)}")
    return HEAD + "\n".join(rows) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            print("docs/options.md is out of date: run ./dev docs")
            return 1
        print(f"options: docs/options.md has all {len(NAME.findall((API / 'options_table.cpp').read_text()))} options")
        return 0
    print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
