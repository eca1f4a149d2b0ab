#!/usr/bin/python3
"""Compiles the C++ of the documents, runs what is a program, and redraws the pictures of schedules.

    check_pages.py code LIBRARY       LIBRARY: libsluice.so
    check_pages.py pictures PROGRAM   PROGRAM: sluice

Every ```cpp block of README.md and docs/*.md is compiled, and every indented block in which a line ends with a
semicolon. A block with a main() is linked and run, and must end with 0. One that includes headers is a file of
its own. All others are the bodies of functions in one file, inside of the lines that CONTEXT has for their
page. Commands of a shell, lines of options files and a line "..." are left out. SKETCHES are the blocks that are
no whole code: members of a class beside calls, or with an ellipsis inside.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRELUDE = """#include <fmt/format.h>
#include "sluice/sluice.h"
using namespace sluice;
struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 2, 2};
  nn::Linear conv2{*this, "conv2", 2, 2};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(fc(x), y); }
};
"""
MODEL = """Net net; Options options; auto model = trainingModel(net, options, optim::SGD(0.1));
std::vector<HostTensor> inputs; HostTensor images, labels, bytes, classes; (void)model;"""
TENSORS = """using nn::Tensor; Tensor out, target, first, second, a, b, x, y, start, update, condition, state, sequence;
std::int64_t axis = 0, size = 1, batch = 1; auto left = [](Tensor t) { return t; }; auto right = left;
(void)axis; (void)size; (void)batch; (void)left; (void)right;"""
CONTEXT = {
    "custom_ops.md": "nn::Tensor x;",
    "data.md": MODEL + " data::DatasetPtr train; int count = 0; (void)count;",
    "helper_ops.md": TENSORS,
    "loops.md": """Net net; data::IterablePtr dataset; HostTensor zero; data::InfeedQueue infeed(dataset);
data::OutfeedQueue losses; auto encode = [](const Tensors& in) { return in; }; auto decode = encode; auto left = encode;
auto right = encode;""",
    "models.md": MODEL,
    "onnx.md": "HostTensor images; HostTensor classes;",
    "optimizers.md": MODEL + " optim::AdamW adam(1e-3);",
    "planning.md": "Net net; std::vector<TensorType> types; Options other;",
    "precision.md": MODEL + " using Network = Net; nn::Tensor x; nn::Linear& fc = net.fc; (void)fc;",
    "state.md": MODEL + " DataLoader loader(options, data::tensorDataset({}), 1);",
}
RESULT = {"helper_ops.md": "std::vector<nn::Tensor>"}
SKETCHES = {("data.md", 2), ("helper_ops.md", 6), ("helper_ops.md", 8), ("models.md", 1), ("models.md", 2),
            ("models.md", 4), ("phased.md", 1), ("models.md", 5), ("models.md", 3)}
SCHEDULES = ("sequential", "grouped", "interleaved", "popart", "gpipe", "1f1b", "zb-h1", "zero-bubble", "chunked")


def indented(text):
    """(start, code) of the indented blocks of a page that are C++."""
    for found in re.finditer(r"(?:^(?:    .*|)\n)+", FENCED.sub(lambda m: "\n" * m[0].count("\n"), text), re.MULTILINE):
        code = found[0]
        if code.lstrip("\n").startswith("    ") and re.search(r";\s*(//.*)?$", code, re.MULTILINE):
            yield found.start(), re.sub(r"^ +(sluice |_Popart|--costs).*$", "", code, flags=re.MULTILINE)


def blocks():
    """(page, line, code) of every block that is C++."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        for found in BLOCK.finditer(text):
            yield page.name, text.count("\n", 0, found.start(1)) + 1, found[1]
        for number, (start, code) in enumerate(indented(text) if page.parent != ROOT else []):
            if (page.name, number + 1) not in SKETCHES:
                yield page.name, FENCED.sub(lambda m: "\n" * m[0].count("\n"), text).count("\n", 0, start) + 1, code


def run(command, what):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=400)
    if result.returncode != 0:
        sys.exit(f"check_pages: {what}\n{result.stdout}{result.stderr}")
    return result.stdout


def fragments(parts):
    text = PRELUDE
    for number, (page, line, code) in enumerate(parts):
        code = re.sub(r"^\.\.\.$", "", code, flags=re.MULTILINE)
        text += f"{RESULT.get(page, 'void')} fragment{number}() {{\n{CONTEXT.get(page, MODEL)}\n{{\n"
        text += f'#line {line} "{page}"\n{code}\n}}\n{"return {};" if page in RESULT else ""}}}\n'
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
