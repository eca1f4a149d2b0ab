#!/usr/bin/python3
"""Checks that no tracked file mentions a path of one machine or a package registry's host.

Such words make the repository depend on where it was written. Untracked files
that git does not ignore are checked too.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Written in pieces so that this file passes its own check.
WORDS = [
    "/" + "work/",
    "/" + "root/",
    r"/home/\w+/",
    r"registry\." + r"[\w.-]+\.\w+",
    "npmjs" + r"\.(com|org)",
    "pypi" + r"\.(org|io)",
    "deb" + r"\.debian\.org",
    "artifact" + "ory",
]
PATTERN = re.compile("|".join(WORDS), re.IGNORECASE)


def tracked_files():
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        print("text: not a git checkout, nothing to check")
        return []
    return sorted({ROOT / name for name in result.stdout.split("\0") if name})


def main():
    found = files = 0
    for file in tracked_files():
        if not file.is_file():
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        files += 1
        for number, line in enumerate(text.splitlines(), 1):
            match = PATTERN.search(line)
            if match:
                print(f"{file.relative_to(ROOT)}:{number}: mentions '{match[0]}'")
                found += 1
    print(f"text: {files} files, {found} offences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
