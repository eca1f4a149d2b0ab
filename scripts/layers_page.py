"""Writes docs/layers.md from the public headers of sluice/nn.

    layers_page.py          the page on standard output
    layers_page.py --check  exit status 1 unless docs/layers.md is that page

Functions and layers are described by the comments above them; a layer without a comment is named for
what it does. What a header declares and this script does not find would be missing on the page, so the
numbers of declarations are compared with the numbers of rows (`unread`). Structs of settings that a layer or
function takes are listed with their members, and enumerations with their values.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NN = ROOT / "sluice" / "nn"
PAGE = ROOT / "docs" / "layers.md"
FUNCTION_HEADERS = ["functional.h", "helpers.h", "sequence.h"]
LAYER_HEADERS = ["layers.h", "norm.h", "sequence.h", "module.h"]
SETTING_HEADERS = [NN / name for name in ("functional.h", "layers.h", "norm.h", "sequence.h", "helpers.h")]
SETTING_HEADERS.append(ROOT / "sluice" / "ops" / "op_options.h")
INNER = {"Conv", "ConvTranspose", "Layer", "Module", "Recurrent", "RecurrentCell", "SettingsLayer", "TransformerLayer", "StateLink"}

HEAD = """# Layers and functions

Written by `./dev docs` from the headers of `sluice/nn`; all of this comes with `#include "sluice/sluice.h"`
in namespace `sluice::nn`. Names, shapes, defaults and the names of weights are PyTorch's, so that weights
can be exchanged ([state.md](state.md)). A layer names its parent and itself:
`nn::Linear fc{*this, "fc", 784, 10};`. Settings come last, by name: `nn::Conv2d conv{*this, "conv", 1, 8, 3,
{.stride = {2}, .padding = {1}}};` ([their lists](#settings)). Values and gradients are compared with PyTorch by
`tests/torch/functions_test.cpp` and `torch_test.cpp`.

Tensors have operators (`+ - * /`, `+=`, comparisons, `& | !` of bool tensors), `x.shape(i)`, `x.dtype()`,
rows and slices (`x[0]`, `x[{1, 4}]`, `x.index({0, nn::Slice{1, 4}, nn::kNewAxis})`) and methods for the
functions that are common in chains: `view flatten transpose permute squeeze unsqueeze expand sum mean max
min softmax matmul to`.

Settings in braces stand in the order of their lists: C++ wants the order of declaration. Parameters are members with
PyTorch's names (`fc.weight`, `tokens.weight`) and can be used as tensors, also of other layers: `nn::linear(x, tokens.weight)`
ties the head to the embedding, and the gradients of both uses are added. A parameter of your own is a member
`nn::Parameter& scale = addParameter("scale", {DType::F32, Shape{4}}, ir::Initializer::constant(1));` (or `uniform(low, high)`,
`normal(mean, deviation)`, `of(tensor)`). `net.freeze()`, also of one layer, keeps weights as they are in the models made
afterwards; `net.eval()` switches dropout off and lets batch norm use its running statistics also in a training model.

A part of a model is a module with a parent and a name. A `Sequential` applies layers, a `ModuleList` holds modules
of one type:

```cpp
#include "sluice/sluice.h"

using namespace sluice;

struct Part : nn::Module {
  nn::Linear fc{*this, "fc", 64, 64};

  Part(nn::Module& parent, std::string name) : nn::Module(parent, std::move(name)) {}
  nn::Tensor forward(const nn::Tensor& x) { return x + nn::tanh(fc(x)); }
};

struct Deep : nn::Module {
  nn::ModuleList<Part> parts{*this, "parts"};   // "parts.0.fc.weight" ...
  nn::Sequential head{*this, "head"};           // "head.0.weight" ...

  Deep() {
    for (int i = 0; i < 8; ++i) {
      parts.emplace();                          // further arguments go to Part
    }
    head.add<nn::Linear>(64, 16).add<nn::ReLU>().add<nn::Linear>(16, 1);
  }
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const nn::Block block("part" + std::to_string(i));
      x = parts[i].forward(x);
    }
    const nn::Block block("head");
    return nn::mseLoss(head(x), y);
  }
};
```

Most layers are called with one tensor and give one: `y = fc(x)`. Those of sequences may take and give more:

```cpp
#include "sluice/sluice.h"

using namespace sluice;

struct Sequences : nn::Module {
  nn::LSTM lstm{*this, "lstm", 16, 16, {.numLayers = 2, .batchFirst = true}};
  nn::MultiheadAttention attention{*this, "attention", 16, 4, {.batchFirst = true}};
  nn::TransformerDecoderLayer decoder{*this, "decoder", 16, 4, {.batchFirst = true}};

  nn::Tensor forward(nn::Tensor x, nn::Tensor memory, nn::Tensor padding) {
    const nn::Tensor all = lstm(x);                          // the outputs alone; the state begins with zeros
    const nn::RecurrentOutput more = lstm(all, {});          // {}: zeros, or {.h = h, .c = c}
    const nn::RecurrentState last = more.last();             // of all layers, for the next call
    const nn::AttentionResult seen =                         // queries, keys, values; masks by name
        attention(x, memory, memory, {.keyPadding = padding});
    return decoder(more.output + seen.output, memory, {.target = {.causal = true}}) +
           nn::mean(last.h) + nn::mean(last.c);
  }
};

int main() {
  Sequences net;
  auto model = inferenceModel(net, Options());
  const HostTensor x(DType::F32, Shape{2, 5, 16});           // [batch, steps, features]
  const HostTensor memory(DType::F32, Shape{2, 7, 16});
  const HostTensor padding(DType::Bool, Shape{2, 7});        // false: nothing is padding
  return model(x, memory, padding).shape() == x.shape() ? 0 : 1;
}
```

| call | gives |
|---|---|
| `lstm(x)`, `gru(x)`, `rnn(x)` | the output of every step |
| `lstm(x, state)` | a `RecurrentOutput`: `output`, `h` and `c` of each layer and direction, `last()` |
| `cell(x, state)` | the next state: an `LstmState` of an `LSTMCell`, a tensor of the others |
| `attention(query, key, value, masks = {}, needWeights = false)` of `MultiheadAttention` | an `AttentionResult`: `output`, and `weights` if asked for |
| `attention(x)`, `attention.attend(query, key, value, mask = {})` of `MultiHeadAttention` | a tensor; a bool mask keeps the positions where it is true (those of `MultiheadAttention`, as PyTorch's, leave them out) |
| `encoder(x)`, `encoder(x, masks)` | a tensor; `masks` is an `AttentionMasks` |
| `decoder(x, memory, masks = {})` | a tensor; `masks` is a `DecoderMasks` |
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


def structs():
    """(name, comment, members) of every struct of settings, and (name, "", values) of enumerations."""
    found = {}
    for header in SETTING_HEADERS:
        text = header.read_text()
        for match in re.finditer(r"((?:^///[^\n]*\n)*)^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S):
            members, last = [], ""
            for line in re.sub(r";[ ]*\n[ ]+///<", ";  ///<", match[3]).split("\n"):
                code, _, note = line.strip().partition("///")
                last = f"{last} {code.strip()}".strip() if code.strip() and not code.startswith("//") else last
                if last.endswith(";") and "(" not in last.split("=")[0]:
                    members.append((plain(last[:-1]), note.lstrip("< ")))
                last = "" if last.endswith((";", "}")) else last
            about = " ".join(line[3:].strip() for line in match[1].strip().split("\n") if line)
            found.setdefault(match[2], (about, members))
        for match in re.finditer(r"^enum class (\w+) : [\w:]+ \{(.*?)\};", text, re.M | re.S):
            values = re.findall(r"^\s*(\w+)(?=\s*(?:,|$))", re.sub(r"//.*|,", lambda m: "\n" if m[0] == "," else "", match[2]), re.M)
            found.setdefault(match[1], ("", [(f"{match[1]}::{value}", "") for value in values]))
    return found


def settings(text):
    """Rows of all settings that the page mentions, and of those that these have."""
    rows, known = {}, structs()
    while True:
        more = [name for name in known if name not in rows and re.search(r"\b%s\b" % name, text)]
        if not more:
            return [(name, *rows[name]) for name in known if name in rows]
        for name in more:
            rows[name] = known[name]
            text += " ".join(member for member, _ in known[name][1])


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
    lines += ["", "## Settings\n", "In namespace `sluice::nn`, with their defaults. `Extents` is a list of numbers: `{2}` is"
              " 2 on all axes, `{2, 1}` one number per axis.\n", "| settings | members |", "| --- | --- |"]
    for name, comment, members in settings("\n".join(lines)):
        listed_members = "; ".join(f"`{cell(member)}`" + (f" {cell(note)}" if note else "") for member, note in members)
        lines.append(f"| `{name}` | {cell(comment) + ' ' if comment else ''}{listed_members} |")
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
