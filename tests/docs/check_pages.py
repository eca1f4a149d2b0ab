#!/usr/bin/python3
"""Compiles the C++ of the documents, runs what is a program, and redraws the pictures of schedules.

    check_pages.py code LIBRARY       LIBRARY: libsluice.so
    check_pages.py pictures PROGRAM   PROGRAM: sluice

Every ```cpp block of README.md and docs/*.md is compiled. A block with a main() is linked and run, and must
end with 0. One that includes headers is a file of its own. All others are the bodies of functions in one file,
after the lines that CONTEXT has for their page; a line "..." is left out.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRELUDE = """#include "sluice/sluice.h"
using namespace sluice;
struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 2, 2};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(fc(x), y); }
};
"""
MODEL = "Net net; Options used; auto model = trainingModel(net, used, optim::SGD(0.1));"
CONTEXT = {
    "custom_ops.md": "auto apply = [](nn::Tensor x) {",
    "onnx.md": "HostTensor images; HostTensor classes;",
    "state.md": MODEL + " DataLoader loader(used, data::tensorDataset({}), 1);",
    "planning.md": "Net net; std::vector<TensorType> types; Options other;",
}
CLOSE = {"custom_ops.md": "return y; }; (void)apply;"}
SCHEDULES = ("sequential", "grouped", "interleaved", "popart", "gpipe", "1f1b", "zb-h1", "zero-bubble", "chunked")


def blocks():
    """(page, line, code) of every block."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        for found in BLOCK.finditer(text):
            yield page.name, text.count("\n", 0, found.start(1)) + 1, found[1]


def run(command, what):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=400)
    if result.returncode != 0:
        sys.exit(f"check_pages: {what}\n{result.stdout}{result.stderr}")
    return result.stdout


def fragments(parts):
    text = PRELUDE
    for number, (page, line, code) in enumerate(parts):
        code = re.sub(r"^\.\.\.$", "", code, flags=re.MULTILINE)
        text += f"void fragment{number}() {{\n{CONTEXT.get(page, '')}\n"
        text += f'#line {line} "{page}"\n{code}{CLOSE.get(page, "")}\n}}\n'
    return text


def check_code(library):
    library = Path(library).resolve()
    flags = ["c++", "-std=c++20", "-O0", "-DFMT_SHARED", f"-I{ROOT}"]
    programs, files, parts = [], [], []
    for block in blocks():
        kind = programs if "int main(" in block[2] else files if "#include" in block[2] else parts
        kind.append(block)
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "block.cpp", Path(folder) / "block"
        for page, line, code in programs:
            source.write_text(f'#line {line} "{page}"\n{code}')
            run([*flags, source, library, "-lfmt", f"-Wl,-rpath,{library.parent}", "-o", made], f"{page}:{line}")
            run([made], f"{page}:{line}: the program fails")
        for page, line, code in [*files, ("fragments", 1, fragments(parts))]:
            source.write_text(f'#line {line} "{page}"\n{code}')
            run([*flags, "-fsyntax-only", source], f"{page}:{line}")
    print(f"check_pages: {len(programs)} programs ran, {len(files) + len(parts)} other blocks compile")


def check_pictures(program):
    table = dict(re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \|", (ROOT / "docs" / "schedules.md").read_text(), re.MULTILINE))
    if set(table) != set(SCHEDULES):
        sys.exit(f"check_pages: docs/schedules.md has {sorted(table)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in SCHEDULES:
            picture = Path(folder) / f"schedule_{name}.svg"
            text = run([program, "schedule", "--stages", 4, "--micro-batches", 8, "--schedule", name,
                        *(["--chunks", 2] if name == "chunked" else []), "--svg", picture], name)
            if picture.read_bytes() != (ROOT / "docs" / "pictures" / picture.name).read_bytes():
                sys.exit(f"check_pages: docs/pictures/{picture.name} is not what `sluice schedule` draws")
            if re.search(r"^makespan +([\d.]+)", text, re.MULTILINE)[1] != table[name]:
                sys.exit(f"check_pages: docs/schedules.md: the step of {name} is not {table[name]}")
    print(f"check_pages: {len(SCHEDULES)} pictures are current")


if __name__ == "__main__":
    {"code": check_code, "pictures": check_pictures}[sys.argv[1]](sys.argv[2])
