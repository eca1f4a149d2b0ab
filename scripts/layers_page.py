"""Writes docs/layers.md from the public headers of sluice/nn.

    layers_page.py          the page on standard output
    layers_page.py --check  exit status 1 unless docs/layers.md is that page

Functions and layers are described by the comments above them; a layer without a comment is named for
what it does. What a header declares and this script does not find would be missing on the page, so the
numbers of declarations are compared with the numbers of rows (`unread`).
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NN = ROOT / "sluice" / "nn"
PAGE = ROOT / "docs" / "layers.md"
FUNCTION_HEADERS = ["functional.h", "helpers.h", "sequence.h"]
LAYER_HEADERS = ["layers.h", "norm.h", "sequence.h", "module.h"]
INNER = {"Conv", "ConvTranspose", "Layer", "Module", "Recurrent", "RecurrentCell", "SettingsLayer", "TransformerLayer", "StateLink"}

HEAD = """# Layers and functions

Written by `./dev docs` from the headers of `sluice/nn`; all of this comes with `#include "sluice/sluice.h"`
in namespace `sluice::nn`. Names, shapes, defaults and the names of weights are PyTorch's, so that weights
can be exchanged ([state.md](state.md)). A layer names its parent and itself:
`nn::Linear fc{*this, "fc", 784, 10};`. Values and gradients are compared with PyTorch by
`tests/torch/functions_test.cpp` and `torch_test.cpp`.

Tensors have operators (`+ - * /`, `+=`, comparisons, `& | !` of bool tensors), `x.shape(i)`, `x.dtype()`,
rows and slices (`x[0]`, `x[{1, 4}]`, `x.index({0, nn::Slice{1, 4}, nn::kNewAxis})`) and methods for the
functions that are common in chains: `view flatten transpose permute squeeze unsqueeze expand sum mean max
min softmax matmul to`.
"""


def plain(text):
    """C++ as a reader of the page wants it."""
    text = re.sub(r"\s+", " ", text).strip()
    text = text.replace("std::vector<std::int64_t>", "Extents").replace("std::string_view", "string")
    text = text.replace("std::optional<std::int64_t>", "optional<int>").replace("std::int64_t", "int")
    text = text.replace("std::string", "string").replace("std::vector", "vector")
    return re.sub(r"const (\w[\w:<>]*)&", r"\1", text)


def cell(text):
    return text.replace("|", "\\|")


def declarations(text):
    """(comment, declaration) of each statement at the level of the namespace."""
    body = re.sub(r"^(namespace [\w:]+ \{|\}  // namespace .*)$", "", text, flags=re.M)
    body = body[body.index("#pragma GCC visibility push"):]
    comment, joined, statement, depth, used, macro = [], "", [], 0, False, False
    for line in body.split("\n")[1:]:
        stripped = line.strip()
        if macro or stripped.startswith("#define"):
            macro = stripped.endswith("\\")
            continue
        if depth == 0 and not statement:
            if stripped.startswith("///"):
                comment = comment * (not used) + [stripped[3:].strip()]
                used = False
                continue
            if not stripped or stripped.startswith(("//", "#", "SLUICE_")):
                if not stripped.startswith("//"):
                    comment, used = [], False
                continue
        code = re.sub(r"//.*", "", stripped)
        statement.append(code)
        depth += code.count("{") - code.count("}") + code.count("(") - code.count(")")
        if depth == 0 and (code.endswith(";") or code.endswith("}")):
            joined = joined if used else " ".join(comment)
            yield joined, " ".join(statement)
            statement, used = [], True
            if code.endswith("};"):
                comment, used = [], False


def functions():
    rows, last, first = [], None, ""
    for header in FUNCTION_HEADERS:
        for comment, code in declarations((NN / header).read_text()):
            match = re.match(r"(?:std::vector<Tensor>|Tensor|\w+) (\w+)\((.*)\)\s*;$", code)
            if not match or code.startswith(("struct", "class", "using", "template", "enum", "return")):
                continue
            # A comment is that of the first function below it, of its family and of those it names.
            first = match[1] if comment is not last else first
            family = re.sub(r"\d", "", match[1]) == re.sub(r"\d", "", first)
            named = re.search(r"\b%s\b" % match[1], comment)
            last = comment
            rows.append((match[1], plain(match[2]), comment if family or named else ""))
    return rows


def listed():
    text = (NN / "functional.h").read_text()
    return re.findall(r"(ONE|TWO)\(\s*(\w+),\s*\"(\w*)\",\s*(\w+)\)", text)


def constructor(text, name):
    found = []
    for match in re.finditer(r"^ +%s\(Module& parent,\s*std::string name" % name, text, re.M):
        end, depth = match.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append(plain(text[match.end():end - 1].lstrip(",")))
    return " or ".join(dict.fromkeys(f for f in found if f))


def about(text, name):
    """The comment above a class."""
    match = re.search(r"((?:^///.*\n)*)^(?:template <[^>]*>\n)?class %s\b" % name, text, re.M)
    return " ".join(line[3:].strip() for line in match[1].strip().split("\n") if line)


def layers():
    rows = []
    for header in LAYER_HEADERS:
        text = (NN / header).read_text()
        for match in re.finditer(r"^()class (\w+) : public ([\w<>, ]+) \{", text, re.M):
            name = match[2]
            if name in INNER or name.endswith("Nd") or name == "ChannelDropout":
                continue
            rows.append((name, constructor(text, name), about(text, name)))
        for alias in re.finditer(r"using (\w+) = (\w+)(?:<\d>)?;", text):
            if alias[2] in ("Body", "Extents", "RecurrentKind"):
                continue
            rows.append((alias[1], constructor(text, alias[2]), about(text, alias[2])))
        for match in re.finditer(r"^SLUICE_(?:POOL|ADAPTIVE)_LAYER\((\w+), (\w+)\);", text, re.M):
            pool = "PoolWindow window or int kernel, PoolLayerOptions options = {}"
            rows.append((match[1], "Extents size" if "Adaptive" in match[1] else pool, f"`{match[2]}` as a layer."))
        for match in re.finditer(r"^SLUICE_ACTIVATION\((\w+), (\w+)\);", text, re.M):
            rows.append((match[1], "", f"`{match[2]}` as a layer."))
        for match in re.finditer(r"^SLUICE_ACTIVATION_WITH\((\w+), (\w+), ([\w:]+), ([^)]+)\);\s*// (.*)", text, re.M):
            rows.append((match[1], f"{plain(match[3])} {match[5].split()[0]} = {match[4]}", f"`{match[2]}` as a layer; its setting: {match[5]}."))
    return rows


def page():
    lines = [HEAD, "## Layers\n", "| layer | after parent and name | |", "| --- | --- | --- |"]
    for name, arguments, comment in layers():
        lines.append(f"| `{name}` | {'`' + cell(arguments) + '`' if arguments else ''} | {cell(comment)} |")
    lines += ["", "## Functions of one or two tensors\n",
              "Each is one op, element by element (`det`: of matrices); of two, the second may be a number.\n"]
    for kind, title in (("ONE", "One tensor"), ("TWO", "Two")):
        lines.append(f"{title}: " + ", ".join(f"`{name}`" for k, name, _, _ in listed() if k == kind) + ".\n")
    lines += ["## Other functions\n", "| function | |", "| --- | --- |"]
    for name, arguments, comment in functions():
        lines.append(f"| `{name}({cell(arguments)})` | {cell(comment)} |")
    return "\n".join(lines) + "\n"


def unread():
    """Declarations that the page does not have."""
    text = page()
    missing = []
    for header in FUNCTION_HEADERS:
        names = re.findall(r"^(?:std::vector<Tensor>|Tensor|Sorted|Scanned|CtcDecoded|BatchNormResult) (\w+)\(",
                           (NN / header).read_text(), re.M)
        missing += [f"{header}: {name}" for name in names if f"`{name}(" not in text]
    for header in LAYER_HEADERS:
        names = re.findall(r"override \{ return \"(\w+)\"; \}", (NN / header).read_text())
        missing += [f"{header}: {name}" for name in names if f"| `{name}` |" not in text]
    return missing


def main():
    missing = unread()
    if missing:
        sys.exit("layers_page.py does not find: " + ", ".join(missing))
    if "--check" not in sys.argv:
        sys.stdout.write(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/layers.md is out of date: run ./dev docs")


if __name__ == "__main__":
    main()
