// onnx_write_exports: writes models as Sluice exports them, with inputs and expected outputs, for
// other tools to run (tests/onnx/run_exports.py) or to check (check_exports.py). A folder for each
// model, laid out like the standard's own cases, so that onnx_node_tests runs them too. The models
// are the conformance case of every op that the standard can say, whose expected outputs come from
// the reference kernels, and the kept networks, whose expected outputs are PyTorch's.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/proto.h"
#include "sluice/tensor/safetensors.h"
#include "tests/conformance/case_graph.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

void writeBytes(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) {
    raise<FileError>("'{}' cannot be written", path.string());
  }
}

void writeTensor(const fs::path& path, const HostTensor& tensor, const std::string& name) {
  writeBytes(path, onnx::toTensorProto(tensor, name).SerializeAsString());
}

bool isStandard(const ::onnx::ModelProto& model) {
  return std::ranges::all_of(model.graph().node(),
                             [](const ::onnx::NodeProto& node) { return node.domain().empty(); });
}

class ExportFolder {
 public:
  explicit ExportFolder(fs::path folder) : folder_(std::move(folder)) {}

  int written() const { return written_; }

  /// Passes over models that have ops outside of the standard.
  void add(const std::string& name,
           const std::string& bytes,
           const NamedTensors& inputs,
           const NamedTensors& expected) {
    const std::unique_ptr<::onnx::ModelProto> model =
        onnx::parseModel(std::as_bytes(std::span(bytes)));
    if (!isStandard(*model)) {
      return;
    }
    const fs::path data = folder_ / name / "test_data_set_0";
    fs::create_directories(data);
    writeBytes(folder_ / name / "model.onnx", bytes);
    for (int i = 0; i < model->graph().input_size(); ++i) {
      const std::string& input = model->graph().input(i).name();
      writeTensor(data / fmt::format("input_{}.pb", i), inputs.at(input), input);
    }
    for (int i = 0; i < model->graph().output_size(); ++i) {
      const std::string& output = model->graph().output(i).name();
      writeTensor(data / fmt::format("output_{}.pb", i), expected.at(output), output);
    }
    ++written_;
  }

 private:
  fs::path folder_;
  int written_ = 0;
};

/// Random numbers and what has an effect cannot be compared.
void writeCases(ExportFolder& folder) {
  for (const OpCase& c : allCases()) {
    if (c.def.traits.effect || c.def.traits.random) {
      continue;
    }
    const ir::Graph graph = caseGraph(c);
    const ops::TensorMap inputs = caseInputs(c);
    ops::TensorMap variables;
    folder.add(caseName(c),
               onnx::exportModelBytes(graph),
               inputs,
               ops::evaluate(graph, inputs, variables));
  }
}

/// <network>.<opset>.onnx and <network>.safetensors, as tests/torch/onnx_export.py writes them.
void writeNetworks(ExportFolder& folder, const fs::path& models) {
  for (const auto& entry : fs::directory_iterator(models)) {
    if (entry.path().extension() != ".onnx") {
      continue;
    }
    const std::string network = entry.path().stem().stem().string();
    const NamedTensors tensors = readSafeTensors(models / (network + ".safetensors")).tensors;
    NamedTensors inputs;
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with("input.")) {
        inputs.insert_or_assign(name.substr(6), tensor);
      }
    }
    folder.add("network_" + network,
               onnx::exportModelBytes(onnx::importModel(entry.path()).graph),
               inputs,
               {{"output", tensors.at("output")}});
  }
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  CLI::App app("Writes exported models with inputs and expected outputs.");
  std::string folder;
  std::string models;
  app.add_option("folder", folder, "where to write, a folder for each model")->required();
  app.add_option("--models", models, "networks of PyTorch, such as those of tests/onnx/models")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  try {
    sluice::testing::ExportFolder out(folder);
    sluice::testing::writeCases(out);
    if (!models.empty()) {
      sluice::testing::writeNetworks(out, models);
    }
    fmt::print("{} models\n", out.written());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "onnx_write_exports: {}\n", error.what());
    return 1;
  }
}
