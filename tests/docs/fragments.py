"""What surrounds the C++ of a page that is no whole program, so that it compiles and runs.

A fragment is the body of a function. It finds a small network, options, a model and data that fit each other; some
pages need other ones. `TRACED` pages are the body of a forward function, but for their `UNTRACED` blocks.
"""
import re

PRELUDE = """#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include "sluice/sluice.h"
using namespace sluice;
struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 2, 2};
  nn::Linear conv2{*this, "conv2", 2, 2};
  nn::Tensor forward(nn::Tensor x, nn::Tensor labels) {
    x = x.flatten(1);
    for (int i = 0; i < 4; ++i) {
      const nn::Block block("b" + std::to_string(i));
      x = i == 0 ? fc(x) : i == 3 ? conv2(x) : nn::tanh(x);
    }
    return nn::crossEntropy(x, labels);
  }
};
using Network = Net;
struct Traced : nn::Module {
  std::function<std::vector<nn::Tensor>(nn::Tensor)> body;
  std::vector<nn::Tensor> forward(nn::Tensor x) { return body(x); }
};
"""
DATA = """HostTensor images(DType::F32, Shape{80, 2}), labels(DType::I64, Shape{80}), classes = labels, bytes(DType::U8, Shape{80, 1, 1, 2});
std::vector<HostTensor> inputs = {images, labels}; (void)inputs;
Net net; Options options; data::DatasetPtr train = data::tensorDataset({images, labels}); int count = 0; (void)count;
"""
MODEL = DATA + "auto model = trainingModel(net, options, optim::AdamW(0.1)); optim::AdamW adam(1e-3); (void)model;\n"
LOADED = MODEL + "DataLoader loader(options, train, 8); (void)model.run({images, labels});\n"
TENSORS = """using nn::Tensor; std::int64_t axis = 0, size = 1, batch = 1;
Tensor out = x, target = x, first = x, second = x, a = x, b = x, start = nn::constant(HostTensor::scalar<std::int64_t>(0)), update = x[{0, 1}];
auto left = [](Tensor t) { return nn::conv2d(t.view({1, 1, 4, 4}), nn::ones(Shape{1, 1, 2, 2})); }; auto right = left;
(void)axis; (void)size; (void)batch; (void)left; (void)right;
"""
LOOPS = """HostTensor zero = HostTensor::scalar(0.0F), rows(DType::F32, Shape{4, 2}); Net net;
data::IterablePtr dataset = data::repeat(data::iterate(data::tensorDataset({rows, rows})));
data::InfeedQueue infeed(dataset); data::OutfeedQueue losses;
auto encode = [&](const Tensors& in) { return Tensors{net.fc(in[0]), in[1]}; };
auto left = [](const Tensors& in) { return Tensors{nn::tanh(in[0])}; };
auto right = [](const Tensors& in) { return Tensors{nn::relu(in[0]), in[1]}; };
auto decode = [](const Tensors& in) { return Tensors{nn::mseLoss(in[0] + in[1], in[2])}; };
"""
# By page, or by page and number of the block there; `train` is declared by some blocks themselves.
CONTEXT = {
    "data.md": MODEL,
    ("data.md", 4): DATA,
    ("helper_ops.md", 8): DATA,
    "helper_ops.md": TENSORS,
    ("helper_ops.md", 6): """using nn::Tensor; struct Lstm : nn::Module { nn::LstmCell cell{*this, "cell", 4, 2}; } lstm; auto& cell = lstm.cell;
const Tensor y = x, state = nn::zeros(Shape{1, 4}), sequence = x.view({4, 1, 4}), condition = nn::sum(x) > 0.0; const std::int64_t batch = 1;
""",
    "custom_ops.md": "",
    "loops.md": LOOPS,
    "models.md": DATA,
    ("models.md", 3): "HostTensor a(DType::F32, Shape{2, 2}), b = a, c = a, d = a;",
    ("models.md", 5): "HostTensor tokens(DType::F32, Shape{2, 2}), scale = HostTensor::scalar(3.0F);",
    ("models.md", 2): "HostTensor images(DType::F32, Shape{8, 16}), labels(DType::I64, Shape{8});",
    "onnx.md": "HostTensor images(DType::F32, Shape{128, 4}), classes(DType::I64, Shape{128});",
    ("onnx.md", 3): 'Builder builder(onnx::importModel("model.onnx", {.dims = {{"N", 8}}}));',
    "planning.md": "Net net; Options other;",
    "state.md": LOADED,
    "executable.md": "struct : nn::Module { nn::Linear fc{*this, \"fc\", 4, 2}; nn::Tensor forward(nn::Tensor x) { return fc(x); } } net;"
                     " Options options; HostTensor images(DType::F32, Shape{8, 4});",
    ("precision.md", 1): DATA,
    ("precision.md", 2): "Net net; nn::Linear& fc = net.fc;",
    ("optimizers.md", 1): DATA,
    ("optimizers.md", 2): DATA,
    ("state.md", 5): DATA,
    ("precision.md", 3): DATA,
    "simulation.md": DATA,
    "phased.md": DATA, "profiling.md": DATA, "memory.md": DATA, "cuda.md": DATA,
}
AFTER = {("loops.md", 1): "(void)sum;", ("loops.md", 2): "train();"}
UNTRACED = {("helper_ops.md", 8)}
TRACED = {"helper_ops.md", "custom_ops.md", ("precision.md", 2)}
REPLICAS = {("helper_ops.md", 5): 4}
# Declarations, and what uses them.
DECLARED = {
    ("models.md", 4): "Boxes<HostTensor> boxes; (void)boxes;",
    ("models.md", 6): "makeModel().run({HostTensor(DType::F32, Shape{4, 2}), HostTensor(DType::I64, Shape{4})});",
}
NOT_RUN = {
    ("cuda.md", 1): "needs a GPU",
    ("distributed.md", 1): "is for several processes; tests/mpi runs them",
}


def body(page, number, line, code):
    """A function with the block in it, and whether it may run."""
    code = re.sub(r"^\.\.\.$", "", code, flags=re.MULTILINE)
    context = CONTEXT.get((page, number), CONTEXT.get(page, MODEL))
    lines = f'{{\n#line {line} "{page}"\n{code}\n{AFTER.get((page, number), "")}\n}}\n'
    declared = DECLARED.get((page, number))
    if declared:
        name = f"declared_{page.removesuffix('.md')}_{number}"
        return name, f'#line {line} "{page}"\n{code}\nvoid {name}() {{ {declared} }}\n'
    name = f"fragment_{page.removesuffix('.md')}_{number}"
    if (page, number) in UNTRACED or not TRACED & {page, (page, number)}:
        return name, f"void {name}() {{\n{context}\n{lines}}}\n"
    replicas = REPLICAS.get((page, number), 1)
    return name, (f"void {name}() {{\nTraced net; Options options; options.replicationFactor({replicas});\n"
                  f"net.body = [&](nn::Tensor x) -> std::vector<nn::Tensor> {{\n{context}\n{lines}return {{x}};\n}};\n"
                  f"inferenceModel(net, options).run({{HostTensor(DType::F32, Shape{{4 * {replicas}, 4}})}});\n}}\n")


def program(blocks):
    """All fragments in one program; each runs in a folder of its own that has the files of the first."""
    text, calls = PRELUDE, ""
    for page, number, line, code in blocks:
        name, function = body(page, number, line, code)
        text += function
        if (page, number) not in NOT_RUN:
            calls += f'  run("{page}:{line}", {name});\n'
    return text + """
int failed = 0;
void run(const char* where, void (*fragment)()) {
  try {
    fragment();
  } catch (const std::exception& error) {
    std::printf("%s: %s\\n", where, error.what());
    ++failed;
  }
}
int main() {
""" + calls + "  return failed == 0 ? 0 : 1;\n}\n"
