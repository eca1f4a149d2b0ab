#!/usr/bin/python3
"""Checks that the C++ program of README.md is examples/readme_example.cpp.

    scripts/check_readme.py              compare, print the difference
    scripts/check_readme.py --self-test  check this script with made-up cases

The first ```cpp block counts. Without a README.md there is nothing to check.
"""
import difflib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)


def difference(readme, example):
    """What has to change in the README's block, as lines; None if there is no block."""
    block = BLOCK.search(readme)
    if block is None:
        return None
    return list(difflib.unified_diff(block.group(1).splitlines(), example.splitlines(),
                                     "README.md", "examples/readme_example.cpp", lineterm=""))


def self_test():
    text = "# A\n```sh\n./dev demo\n```\n```cpp\nint a;\nint b;\n```\nmore\n"
    assert difference(text, "int a;\nint b;\n") == []
    changed = difference(text, "int a;\nint c;\n")
    assert "-int b;" in changed and "+int c;" in changed
    assert difference("no block\n", "int a;\n") is None
    print("readme: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    readme = ROOT / "README.md"
    if not readme.exists():
        print("readme: there is no README.md yet, nothing to check")
        return 0
    lines = difference(readme.read_text(), (ROOT / "examples/readme_example.cpp").read_text())
    if lines is None:
        print("readme: README.md has no ```cpp block")
        return 1
    print("\n".join(lines) or "readme: the program of README.md is the example")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
