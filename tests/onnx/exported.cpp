#include "tests/onnx/exported.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/sluice.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

constexpr double kOutputTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;

/// What the script writes of the safetensors format.
NamedTensors readSafetensors(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    raise<FileError>("'{}' cannot be read", path.string());
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof length, length));
  NamedTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    HostTensor tensor(entry.at("dtype") == "F32" ? DType::F32 : DType::I64,
                      Shape(entry.at("shape").get<std::vector<std::int64_t>>()));
    const std::size_t begin = entry.at("data_offsets").at(0);
    std::memcpy(tensor.bytes(), bytes.data() + sizeof length + length + begin, tensor.byteCount());
    tensors.insert_or_assign(name, std::move(tensor));
  }
  return tensors;
}

/// Differences are measured against the largest element: small ones are sums that cancel.
void expectClose(const std::string& name,
                 const HostTensor& found,
                 const HostTensor& expected,
                 double tolerance) {
  ASSERT_EQ(found.shape().elements(), expected.shape().elements()) << name;
  double largest = 1.0;
  for (const double value : expected.toDoubles()) {
    largest = std::max(largest, std::abs(value));
  }
  for (std::int64_t i = 0; i < expected.shape().elements(); ++i) {
    ASSERT_NEAR(found.at(i), expected.at(i), tolerance * largest) << name << " element " << i;
  }
}

/// The part behind "<kind>." if the tensor is of that kind.
std::string without(std::string_view kind, const std::string& name) {
  return name.starts_with(kind) ? name.substr(kind.size()) : "";
}

}  // namespace

NamedTensors exportedTensors(const fs::path& folder, const std::string& network) {
  return readSafetensors(folder / (network + ".safetensors"));
}

NamedTensors exportedInputs(const NamedTensors& tensors) {
  NamedTensors inputs;
  for (const auto& [name, tensor] : tensors) {
    if (const std::string input = without("input.", name); !input.empty()) {
      inputs.insert_or_assign(input, tensor);
    }
  }
  return inputs;
}

void compareWithTorch(onnx::ImportedModel imported, const NamedTensors& tensors) {
  Builder builder(std::move(imported));
  const TensorId c = builder.addInputTensor(tensors.at("c").type(), "c");
  auto ops = builder.aiOnnx();
  const TensorId loss = ops.reducesum(ops.mul("output", c), {}, false);
  Options options;
  NamedTensors inputs = exportedInputs(tensors);
  inputs.insert_or_assign("c", tensors.at("c"));
  for (const auto& [name, tensor] : tensors) {
    if (const std::string weight = without("grad.", name); !weight.empty()) {
      options.anchorTensor(weight, "Gradient___" + weight, OutputMode::All);
    }
  }
  auto model = trainingModel(builder, loss, options, optim::SGD(0.1));
  const NamedTensors outputs = model.run(inputs);
  expectClose("output", outputs.at("output"), tensors.at("output"), kOutputTolerance);
  for (const auto& [name, tensor] : tensors) {
    if (const std::string weight = without("grad.", name); !weight.empty()) {
      expectClose(name, model.getAnchoredTensor(weight), tensor, kGradientTolerance);
    }
  }
}

void compareExported(const fs::path& folder, const std::string& network, int opset) {
  compareWithTorch(onnx::importModel(folder / fmt::format("{}.{}.onnx", network, opset)),
                   exportedTensors(folder, network));
}

}  // namespace sluice::testing
