#!/usr/bin/python3
"""Writes the reference of the Python package from its sources, for the site; nothing is imported.

    python_page.py    the page on standard output

Public classes and functions of the modules below, with their signatures and the first paragraph of their
documentation. `sluice` itself has the names of the first ones.
"""
import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "sluice"
MODULES = ("model", "options", "option_groups", "strategy", "blocks", "data", "optim", "executable", "schedules",
           "ops", "autocasting", "profiling", "enums", "errors", "helpers", "args", "custom")

HEAD = """# Python reference

Written from the sources of the package. [Python and PyTorch](python.md) explains how to use it.
"""


def first_paragraph(node):
    text = (ast.get_docstring(node) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "`").split())


def signature(function):
    if any(getattr(each, "id", "") == "property" for each in function.decorator_list):
        return function.name
    arguments = ast.unparse(function.args)
    for receiver in ("self", "cls"):
        arguments = arguments.removeprefix(receiver).removeprefix(", ")
    return f"{function.name}({arguments})"


def is_public(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")


def described(node):
    if isinstance(node, ast.FunctionDef):
        return [f"### `{signature(node)}`\n", first_paragraph(node) + "\n"]
    lines = [f"### class `{node.name}`\n", first_paragraph(node) + "\n"]
    rows = [(signature(each), first_paragraph(each)) for each in node.body
            if isinstance(each, ast.FunctionDef) and is_public(each)]
    if rows:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{call.replace('|', chr(92) + '|')}` | {text.replace('|', chr(92) + '|')} |" for call, text in rows]
        lines.append("")
    return lines


def page():
    lines = [HEAD]
    for name in MODULES:
        tree = ast.parse((PACKAGE / f"{name}.py").read_text())
        public = [node for node in tree.body if is_public(node)]
        if public:
            lines += [f"## sluice.{name}\n", first_paragraph(tree) + "\n"]
            for node in public:
                lines += described(node)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
