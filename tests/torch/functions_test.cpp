// Functions and layers give what PyTorch gives, in value and gradient. One process of PyTorch
// computes all cases of a test.
#include <cstdlib>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/support/random_tensor.h"
#include "tests/support/temp_folder.h"
#include "tests/torch/function_cases.h"
#include "tests/torch/peer.h"

namespace sluice::testing {

HostTensor numbers(const Shape& shape, double low, double high) {
  static std::uint64_t seed = 1000;
  return randomTensor(++seed, {DType::F32, shape}, low, high);
}

namespace {

using nlohmann::json;

bool isTrained(const HostTensor& tensor) {
  return tensor.dtype() == DType::F32;
}

/// The case with its float inputs as parameters, so that they get gradients.
struct CaseModel : nn::Module {
  explicit CaseModel(const FunctionCase& given) : case_(given) {
    for (std::size_t i = 0; i < given.inputs.size(); ++i) {
      const HostTensor& input = given.inputs[i];
      operands.push_back(
          isTrained(input)
              ? &addParameter(fmt::format("x{}", i), input.type(), ir::Initializer::of(input))
              : nullptr);
    }
    call = given.make(*this);
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor unused) {
    std::vector<nn::Tensor> tensors;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      tensors.push_back(operands[i] != nullptr ? operands[i]->use()
                                               : nn::constant(case_.inputs[i]));
    }
    nn::Tensor y = call(tensors);
    y = y.dtype() == DType::F32 ? y : nn::cast(y, DType::F32);
    HostTensor weights(DType::F32, y.shape());
    for (std::int64_t i = 0; i < y.shape().elements(); ++i) {
      weights.set(i, std::sin(0.7 + 1.3 * static_cast<double>(i)));
    }
    return {y, nn::sum(y * nn::constant(weights)) + nn::sum(unused) * 0.0};
  }

  const FunctionCase& case_;
  std::vector<nn::Parameter*> operands;
  Call call;
};

/// What was computed: y, and the gradients by name.
struct Computed {
  HostTensor y;
  std::map<std::string, HostTensor> gradients = {};
};

void write(const std::string& path, const HostTensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(tensor.bytes()),
             static_cast<std::streamsize>(tensor.byteCount()));
}

HostTensor readNumbers(const std::string& path, const Shape& shape) {
  HostTensor tensor(DType::F32, shape);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(tensor.bytes()),
            static_cast<std::streamsize>(tensor.byteCount()));
  if (!file || file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error("PyTorch wrote no " + path + " of shape " + shape.str());
  }
  return tensor;
}

json described(const HostTensor& tensor) {
  return {{"dtype", std::string(name(tensor.dtype()))}, {"shape", tensor.shape().dims()}};
}

/// A parameter's name in PyTorch: that of an input, or seen from the module m.
std::string torchName(const std::string& full) {
  return full.starts_with("m.") ? full.substr(2) : full;
}

json manifestOf(const FunctionCase& c, const CaseModel& net, const std::string& prefix) {
  json entry = {{"call", c.call},
                {"module", c.module},
                {"gradient", c.gradient},
                {"inputs", json::object()},
                {"state", json::object()}};
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    entry["inputs"][name] = described(c.inputs[i]);
    write(prefix + name + ".bin", c.inputs[i]);
  }
  for (const auto& list : {net.parameters(), net.buffers()}) {
    for (const nn::Parameter* parameter : list) {
      if (parameter->fullName().starts_with("m.")) {
        const std::string name = torchName(parameter->fullName());
        entry["state"][name] = described(parameter->value());
        write(prefix + name + ".bin", parameter->value());
      }
    }
  }
  return entry;
}

/// With one step of SGD with learning rate 1, whose change is the gradient.
Computed compute(CaseModel& net, const FunctionCase& c) {
  const HostTensor unused = HostTensor::full({DType::F32, Shape{1}}, 0.0);
  if (!c.gradient) {
    auto model = inferenceModel(net, Options());
    return {model.run({unused})[0]};
  }
  std::map<std::string, HostTensor> before;
  for (const nn::Parameter* parameter : net.parameters()) {
    before.emplace(parameter->fullName(), parameter->value().clone());
  }
  auto model = trainingModel(net, Options(), optim::SGD(1.0));
  Computed result{model.run({unused})[0]};
  for (const nn::Parameter* parameter : net.parameters()) {
    const HostTensor& start = before.at(parameter->fullName());
    const HostTensor after = parameter->value();
    HostTensor gradient(start.type());
    for (std::int64_t i = 0; i < start.shape().elements(); ++i) {
      gradient.set(i, start.at(i) - after.at(i));
    }
    result.gradients.emplace(torchName(parameter->fullName()), std::move(gradient));
  }
  return result;
}

std::string shown(const FunctionCase& c) {
  return c.module.empty() ? c.call : c.module + ": " + c.call;
}

void expectLike(const FunctionCase& c, CaseModel& net, const std::string& out) {
  SCOPED_TRACE(shown(c));
  std::ifstream file(out + "shape.json");
  const Shape shape(json::parse(file).get<std::vector<std::int64_t>>());
  const Computed ours = compute(net, c);
  ASSERT_EQ(ours.y.shape(), shape);
  EXPECT_LE(relativeDifference(ours.y, readNumbers(out + "y.bin", shape)), c.tolerance);
  for (const auto& [name, gradient] : ours.gradients) {
    const HostTensor theirs = readNumbers(out + "grad." + name + ".bin", gradient.shape());
    EXPECT_LE(relativeDifference(gradient, theirs), c.tolerance) << "gradient of " << name;
  }
}

void expectLikeTorch(const std::vector<FunctionCase>& cases) {
  const TempFolder folder;
  std::vector<std::unique_ptr<CaseModel>> nets;
  json manifest = json::array();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    nets.push_back(std::make_unique<CaseModel>(cases[i]));
    std::uint64_t seed = 100;
    for (nn::Parameter* parameter : nets.back()->parameters()) {
      if (parameter->fullName().starts_with("m.") && parameter->type().shape.rank() == 1) {
        parameter->setValue(randomTensor(++seed, parameter->type(), 0.2, 1.0));
      }
    }
    manifest.push_back(
        manifestOf(cases[i], *nets.back(), (folder / fmt::format("in.{}.", i)).string()));
  }
  std::ofstream(folder / "manifest.json") << manifest;
  const std::string command = std::string("/usr/bin/python3 '") + SLUICE_TORCH_FUNCTIONS_PEER +
                              "' '" + folder.path().string() + "'";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTorch) {
    GTEST_SKIP() << "PyTorch cannot be imported by /usr/bin/python3: install python3-torch";
  }
  ASSERT_EQ(status, 0);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    expectLike(cases[i], *nets[i], (folder / fmt::format("out.{}.", i)).string());
  }
}

TEST(FunctionsLikeTorch, ElementByElement) {
  expectLikeTorch(elementwiseCases());
}

TEST(FunctionsLikeTorch, ShapesReductionsAndIndices) {
  expectLikeTorch(shapeCases());
}

TEST(FunctionsLikeTorch, ConvolutionsPoolsAndImages) {
  expectLikeTorch(imageCases());
}

TEST(FunctionsLikeTorch, LossesAndProducts) {
  expectLikeTorch(lossCases());
}

TEST(FunctionsLikeTorch, Layers) {
  expectLikeTorch(layerCases());
}

}  // namespace
}  // namespace sluice::testing
