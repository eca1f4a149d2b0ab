#!/usr/bin/python3
"""Draws the plots of docs/performance.md from the tables of that page.

    scripts/plots.py             write docs/pictures/performance_*.svg
    scripts/plots.py --check     exit status 1 unless they are current
    scripts/plots.py --self-test check this script with made-up cases

The last column of a table has the peer's time over Sluice's, which is the length of a bar: beyond the line at 1,
Sluice is faster. A cell may have several, "1.32, 1.58" with 1 and 2 threads; each is a bar. The tables are the only
place that has the figures.
"""
import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
# Heading, picture, peer, what the bars of a row are.
PLOTS = (("16 cores", "performance_16_cores.svg", "PyTorch", ("",)),
         ("ONNX Runtime on 16 cores", "performance_onnx_runtime.svg", "ONNX Runtime", ("",)),
         ("2 cores", "performance_2_cores.svg", "PyTorch", ("1 thread", "2 threads")),
         ("One H200", "performance_h200.svg", "PyTorch", ("",)))
COLOURS = ("#3b82f6", "#f59e0b")
INK, FAINT, LANE = "#17202e", "#5d6b7e", "#f1f3f6"
WIDTH, LEFT, RIGHT, BAR, GAP = 1000, 400, 60, 16, 12
LINE_LETTERS = 58


def ratios_of(cell, title):
    """The ratios of a cell: "1.32, 1.58", or in a column without a title "1.20x, 153,000 images/s"."""
    text = cell.strip() if title == "ratio" else cell.strip().partition("x")[0] if "x" in cell else ""
    return [float(each) for each in text.split(", ")] if re.fullmatch(r"[\d.]+(?:, [\d.]+)*", text) else []


def rows_of(text, heading):
    """(name, ratios) of the first table below a heading."""
    table = re.split(rf"\n##+ {re.escape(heading)}\n", text, maxsplit=1)[1].split("\n|", 1)[1].split("\n\n", 1)[0]
    lines = [line.strip("|").split("|") for line in table.split("\n")]
    titles = [cell.strip() for cell in lines[0]]
    threads = titles.index("threads") if "threads" in titles else None
    rows, before = [], ""
    for cells in lines[2:]:
        name = re.sub(r"^the same", before.split(",")[0] or "the same", cells[0].strip())
        before = name
        if threads is not None:
            count = cells[threads].strip()
            name += f", {count} thread{'' if count == '1' else 's'}"
        rows.append((name, ratios_of(cells[-1], titles[-1])))
    return rows


def wrapped(name):
    """A name on at most two lines."""
    lines = [""]
    for word in name.split():
        if len(lines[-1]) + len(word) + 1 > LINE_LETTERS and len(lines) < 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines[-1]) > LINE_LETTERS:
        lines[-1] = lines[-1][:LINE_LETTERS - 3].rstrip(" ,") + "..."
    return lines


def drawn(heading, peer, rows, legend):
    bars = len(legend)
    lane = max(bars * BAR, 30) + GAP
    top = 60 if bars > 1 else 44
    height = top + lane * len(rows) + 34
    most = max(max(ratios) for _, ratios in rows)
    scale = (WIDTH - LEFT - RIGHT) / most
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="system-ui, sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
           f'<text x="16" y="26" font-weight="600" fill="{INK}">{html.escape(heading)}: '
           f"{peer}'s time over Sluice's; longer is better</text>"]
    for i, name in enumerate(legend if bars > 1 else ()):
        out.append(f'<rect x="{LEFT + 110 * i}" y="36" width="12" height="12" rx="3" fill="{COLOURS[i]}"/>')
        out.append(f'<text x="{LEFT + 110 * i + 18}" y="47" fill="{FAINT}">{name}</text>')
    for number, (name, ratios) in enumerate(rows):
        y = top + lane * number
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{lane - GAP}" fill="{LANE}"/>')
        lines = wrapped(name)
        for i, line in enumerate(lines):
            at = y + (lane - GAP) / 2 + 4.5 + 15 * (i - (len(lines) - 1) / 2)
            out.append(f'<text x="{LEFT - 12}" y="{at:.1f}" text-anchor="end" font-size="12" fill="{FAINT}">'
                       f'{html.escape(line)}</text>')
        for i, value in enumerate(ratios):
            size = (lane - GAP) / bars
            at = y + size * i
            out.append(f'<rect x="{LEFT}" y="{at:.1f}" width="{scale * value:.1f}" height="{size - 1:.1f}" rx="3" '
                       f'fill="{COLOURS[i]}"/>')
            out.append(f'<text x="{LEFT + scale * value + 6:.1f}" y="{at + size / 2 + 4:.1f}" font-size="12" '
                       f'fill="{INK}">{value:.2f}</text>')
    end = top + lane * len(rows) - GAP
    one = LEFT + scale
    out.append(f'<line x1="{one:.1f}" y1="{top - 6}" x2="{one:.1f}" y2="{end + 6}" stroke="{INK}" stroke-width="1.5"/>')
    out.append(f'<text x="{one:.1f}" y="{end + 24}" text-anchor="middle" font-size="12" fill="{INK}">'
               f'as fast as {peer}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def pictures():
    text = PAGE.read_text()
    for heading, name, peer, legend in PLOTS:
        rows = [row for row in rows_of(text, heading) if len(row[1]) == len(legend)]
        yield name, drawn(heading, peer, rows, legend)


def self_test():
    text = "\n## A\n\n| w | threads | Sluice | PyTorch's best | ratio |\n|---|---|---|---|---|\n" \
           "| GPT, small | 16 | 2.0 | 5, eager | 2.5 |\n| the same | 1 | 8 | 4.0, foreach | 0.5 |\n\n" \
           "| kernel | before | ratio |\n|---|---|---|\n| b | 1 | 9 |\n\n## B\n"
    assert rows_of(text, "A") == [("GPT, small, 16 threads", [2.5]), ("GPT, 1 thread", [0.5])], rows_of(text, "A")
    assert ratios_of(" 1.32, 1.58 ", "ratio") == [1.32, 1.58] and ratios_of(" none ", "ratio") == []
    assert ratios_of("0.70x, 153,000 images/s", "") == [0.7] and ratios_of("0.97 of its time", "") == []
    svg = drawn("A", "PyTorch", rows_of(text, "A"), ("",))
    # The longer bar fills the width, and the other is a fifth of it: 2.5 against 0.5.
    widths = [float(each) for each in re.findall(r'width="([\d.]+)" height="[\d.]+" rx="3"', svg)]
    assert widths == [540.0, 108.0], widths
    assert ">2.50<" in svg and ">0.50<" in svg
    assert all(len(line) <= LINE_LETTERS for line in wrapped("word " * 60)) and len(wrapped("word " * 60)) == 2
    print("plots: self-test passed")


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    old = []
    for name, svg in pictures():
        path = PICTURES / name
        if "--check" not in sys.argv:
            path.write_text(svg)
        elif not path.exists() or path.read_text() != svg:
            old.append(name)
    if old:
        print(f"docs/pictures: {', '.join(old)}: out of date, run ./dev docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
