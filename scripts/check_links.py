#!/usr/bin/python3
"""Checks the links of all documents: files that exist, and headings that exist in them.

    scripts/check_links.py              check
    scripts/check_links.py --self-test  check this script with made-up cases

Links to other sites are not followed.
"""
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchor(heading):
    """As pages have it: small letters, hyphens for spaces, nothing else."""
    words = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[ ]", "-", re.sub(r"[^\w\- ]", "", words))


def problems(page):
    text = FENCED.sub("", page.read_text())
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif heading and heading not in map(anchor, HEADING.findall(target.read_text())):
            yield f"{link}: {target.name} has no such heading"


def pages():
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), ROOT / "tests" / "coverage.md"]
    return [page for page in found if page.exists()]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        (Path(folder) / "other.md").write_text("# A `b` c\n")
        page.write_text("# One\n[x](other.md) [y](#one) [z](other.md#a-b-c) https://[no](https://a.b)\n```\n[q](q.md)\n```\n")
        assert list(problems(page)) == []
        page.write_text("[x](gone.md) [y](other.md#none) ![p](pictures/p.svg)\n")
        assert len(list(problems(page))) == 3
    print("links: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    found = [f"{page.relative_to(ROOT)}: {text}" for page in pages() for text in problems(page)]
    print("\n".join(found) or f"links: {len(pages())} pages, all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
