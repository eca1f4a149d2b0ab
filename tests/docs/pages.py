"""The blocks of README.md and docs/*.md: C++, and commands of a shell."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CPP = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?:    .*|)\n)+", re.MULTILINE)
# A line that runs one of the programs that a build makes.
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(?:build/bin/\w+|sluice|phased_execution|mnist_pipeline|eval \"\$\(sluice)\s")


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def without_fences(text):
    return FENCED.sub(lambda m: "\n" * m[0].count("\n"), text)


def indented(text):
    """(start, code) of the indented blocks of a page that are C++."""
    for found in INDENTED.finditer(without_fences(text)):
        code = found[0]
        if code.lstrip("\n").startswith("    ") and re.search(r";\s*(//.*)?$", code, re.MULTILINE):
            yield found.start(), re.sub(r"^ +(sluice |_Popart|--costs).*$", "", code, flags=re.MULTILINE)


def cpp_blocks():
    """(page, number within the page, line, code) of every block that is C++."""
    for page in pages():
        text, number = page.read_text(), 0
        for found in CPP.finditer(text):
            number += 1
            yield page.name, number, text.count("\n", 0, found.start(1)) + 1, found[1]
        for start, code in indented(text) if page.parent != ROOT else []:
            number += 1
            yield page.name, number, without_fences(text).count("\n", 0, start) + 1, code


def commands():
    """(page, line, command) of every command that runs a program of the build; lines that end with a backslash
    go on."""
    for page in pages():
        fence, whole, first = None, "", 0
        for number, line in enumerate(page.read_text().split("\n"), 1):
            mark = re.match(r"```(\w*)", line)
            if mark:
                fence = mark[1] or "text" if fence is None else None
                continue
            if not (fence == "sh" or (fence is None and line.startswith("    "))):
                continue
            if whole or COMMAND.match(line.strip() + " "):
                first = first if whole else number
                whole += line.strip().removesuffix("\\") + " "
                if not line.endswith("\\"):
                    yield page.name, first, whole.strip()
                    whole = ""
