#!/usr/bin/python3
"""Builds the documents as a site in build/site, with Doxygen's reference of the public headers.

    scripts/site.py             gather, build and check
    scripts/site.py --gather    only gather the pages in build/site_source (needs no other program)
    scripts/site.py --self-test check this script with made-up cases

Pages are those of docs/ and the documents in the root, which get a place beside them; links are changed to
match. A page that the navigation of mkdocs.yml does not have, and a link of the site that leads nowhere, are
errors. Nothing on a page comes from another site.
"""
import html.parser
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

import python_page

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build" / "site_source"
SITE = ROOT / "build" / "site"
MOVED = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
         "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md", "tests/coverage.md": "coverage.md"}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
REFERENCE = """# C++ reference

Made by Doxygen from the comments of the public headers, those that `sluice/sluice.h` includes.

- [Classes](cpp/annotated.html)
- [Files](cpp/files.html)
- [Namespaces](cpp/namespaces.html)
"""
DOXYGEN = """PROJECT_NAME = Sluice
OUTPUT_DIRECTORY = {source}
HTML_OUTPUT = cpp
GENERATE_LATEX = NO
INPUT = {headers}
STRIP_FROM_PATH = {root}
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = YES
QUIET = YES
WARNINGS = NO
ENABLE_PREPROCESSING = YES
HAVE_DOT = NO
CLASS_GRAPH = NO
WARN_LOGFILE = /dev/null
MACRO_EXPANSION = YES
EXCLUDE_SYMBOLS = sluice::detail*
HTML_COLORSTYLE_HUE = 174
"""


# Lines of code have up to 100 letters, and pictures are 1000 units wide with text of 12: narrow screens scroll both.
STYLE = """.md-typeset table:not([class]) code { word-break: normal; overflow-wrap: anywhere; }
.md-grid { max-width: 72rem; }
.md-typeset pre > code { font-size: .6rem; }
.md-typeset h1, .md-typeset h2 { font-weight: 400; }
.md-typeset p:has(> img) { overflow-x: auto; }
.md-typeset table:not([class]) th:first-child { min-width: 7.5rem; }
[data-md-color-scheme="slate"] { --md-typeset-a-color: #4db6ac; --md-primary-fg-color: #00695c; }
[data-md-color-scheme="slate"] .md-typeset h1 { color: var(--md-default-fg-color); }
[data-md-color-scheme="slate"] .md-typeset img[src$=".svg"] { filter: invert(.87) hue-rotate(180deg); }
@media screen and (max-width: 44.9375em) {
  .md-typeset p > img { max-width: none; width: 36rem; }
  .md-typeset table:not([class]) th { min-width: 0; }
  .md-typeset table:not([class]) th:first-child { min-width: 6.5rem; }
  .md-typeset table:not([class]) th, .md-typeset table:not([class]) td { padding: .6em .7em; }
  .md-typeset table:not([class]) code { overflow-wrap: break-word; }
  .md-typeset table:not([class]) td:first-child code { overflow-wrap: anywhere; }
}
"""


def title_of(page, name):
    """A page's title, for links that only say its file."""
    found = re.search(r"^# (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    return found.group(1).replace("`", "") if found else name


def moved(text, page):
    """The text of a page with the links that it needs beside all others. `page` is relative to the root."""
    def change(match):
        before, path, after = match.groups()
        if re.match(r"[a-z]+:", path):
            return match.group(0)
        target = (ROOT / page).parent / path
        try:
            name = str(target.resolve().relative_to(ROOT))
        except ValueError:
            return match.group(0)
        there = MOVED.get(name) or (name[len("docs/"):] if name.startswith("docs/") else None)
        if there and before == f"[{Path(path).name}](" and target.exists():
            before = f"[{title_of(name, path)}]("
        if there:
            return before + there + after
        return before.lstrip("!")[1:-2] + ("" if after == ")" else "")  # a source file: its name alone
    return LINK.sub(change, text)


def gather():
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    pages = {f"docs/{page.name}": page.name for page in (ROOT / "docs").glob("*.md")}
    for page, name in {**pages, **MOVED}.items():
        (SOURCE / name).write_text(moved((ROOT / page).read_text(), page))
    (SOURCE / "reference.md").write_text(REFERENCE)
    (SOURCE / "python_reference.md").write_text(python_page.page())
    (SOURCE / "site.css").write_text(STYLE)
    shutil.copytree(ROOT / "docs" / "pictures", SOURCE / "pictures")
    shown = set(re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {page.name for page in SOURCE.glob("*.md")}
    if shown != made:
        sys.exit(f"site: mkdocs.yml and the pages differ: {', '.join(sorted(shown ^ made))}")
    return sorted(made)


def public_headers():
    """The headers that sluice/sluice.h reaches."""
    found, left = set(), ["sluice/sluice.h"]
    while left:
        header = left.pop()
        if header not in found and (ROOT / header).exists():
            found.add(header)
            left += re.findall(r'#include "(sluice/[^"]+)"', (ROOT / header).read_text())
    return sorted(str(ROOT / header) for header in found)


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.ids = [], set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        for key in ("href", "src"):
            if values.get(key):
                self.found.append((tag, values[key]))


def read(page):
    links = Links()
    links.feed(page.read_text())
    return links


def broken(site):
    """What links of the pages, without those of the reference, lead nowhere or elsewhere."""
    pages = {page: read(page) for page in site.glob("*.html")}
    for page, links in pages.items():
        for tag, link in links.found:
            if re.match(r"(https?:)?//", link):
                if tag != "a":
                    yield f"{page.name}: {link} is fetched from another site"
                continue
            path, _, fragment = link.partition("#")
            if re.match(r"[a-z]+:", path) or path.startswith("/"):
                continue
            target = (page.parent / unquote(path)).resolve() if path not in ("", ".") else page
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                yield f"{page.name}: {link} leads nowhere"
            elif fragment and target in pages and unquote(fragment) not in pages[target].ids:
                yield f"{page.name}: {link}: no such place"


def build():
    pages = gather()
    doxyfile = DOXYGEN.format(source=SOURCE, root=ROOT, headers=" ".join(public_headers()))
    subprocess.run(["doxygen", "-"], input=doxyfile, text=True, cwd=ROOT, check=True)
    subprocess.run(["mkdocs", "build", "--quiet", "--strict"], cwd=ROOT, check=True)
    problems = sorted(set(broken(SITE)))
    print("\n".join(problems) or f"site: {len(pages)} pages and the C++ reference in build/site, all links lead somewhere")
    return 1 if problems else 0


def self_test():
    text = "[a](pipelining.md) [b](../ARCHITECTURE.md#layers) [c](../tests/coverage.md) [d](https://a.b) [e](../dev)"
    assert moved(text, "docs/memory.md") == \
        "[a](pipelining.md) [b](architecture.md#layers) [c](coverage.md) [d](https://a.b) e", moved(text, "docs/memory.md")
    assert moved("[memory.md](memory.md)", "docs/why.md") == "[Memory](memory.md)"
    assert moved("[x](docs/onnx.md) ![p](docs/pictures/p.svg)", "README.md") == "[x](onnx.md) ![p](pictures/p.svg)"
    assert any(header.endswith("sluice/api/model.h") for header in public_headers())
    palette = (ROOT / "mkdocs.yml").read_text()
    for scheme, name in (("light", "default"), ("dark", "slate")):
        assert re.search(rf'"\(prefers-color-scheme: {scheme}\)"\n +scheme: {name}\n', palette), "the site follows the system's scheme"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.html").write_text('<p id="x"></p><a href="b.html#y"></a><a href="#x"></a><a href="https://c.d"></a>')
        (folder / "b.html").write_text('<p id="y"></p><a href="c.html"></a><a href="a.html#z"></a><img src="//c.d/e.png">')
        assert sorted(broken(folder)) == ["b.html: //c.d/e.png is fetched from another site", "b.html: a.html#z: no such place",
                                          "b.html: c.html leads nowhere"], sorted(broken(folder))
    print("site: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if sys.argv[1:] == ["--gather"]:
        print(f"site: {len(gather())} pages in build/site_source")
        return 0
    return build()


if __name__ == "__main__":
    sys.exit(main())
