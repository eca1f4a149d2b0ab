// The shipped tuning tables hold no shape that a benchmark runs.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/support/shapes.h"
#include "sluice/api/compiled_program.h"
#include "sluice/devices/cpu/tune.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"

namespace sluice {
namespace {

/// As devices/cpu/tuning.cpp reads the tables; a device only has that of its processor.
struct ShippedTable {
  std::string_view instructionSet;
  std::string_view text;
};

#include "sluice/devices/cpu/tuning_table.inc"

/// The keys of all kernels that training this network runs.
template <class Net>
std::vector<std::string> keysOf(Net& net, const std::vector<TensorType>& inputs) {
  auto model = trainingModel(
      net, Options().connectionType(ConnectionType::Never).device("cpu"), optim::SGD(0.1));
  model.compile(std::span<const TensorType>(inputs));
  std::vector<std::string> keys;
  for (const program::Segment& segment : model.program().segments) {
    const std::vector<std::string> found = devices::cpu::tuningKeys(segment.calls);
    keys.insert(keys.end(), found.begin(), found.end());
  }
  return keys;
}

/// Three layers: the first needs no gradient of its input, the others have all of them.
struct Stack : nn::Module {
  explicit Stack(std::int64_t width) {
    for (int i = 0; i < 3; ++i) {
      layers.emplace(width, width);
    }
  }
  nn::Tensor forward(nn::Tensor x, nn::Tensor target) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = nn::relu(layers[i](x));
    }
    return nn::mseLoss(x, target);
  }
  nn::ModuleList<nn::Linear> layers{*this, "layers"};
};

std::set<std::string> keysOfBenchmarks() {
  std::set<std::string> all;
  const auto add = [&](auto&& net, const std::vector<TensorType>& inputs) {
    const std::vector<std::string> keys = keysOf(net, inputs);
    EXPECT_FALSE(keys.empty());
    all.insert(keys.begin(), keys.end());
  };
  add(testing::MnistNetwork(),
      {{DType::F32, Shape{bench::kMnistBatch, 1, 28, 28}},
       {DType::I64, Shape{bench::kMnistBatch}}});
  for (const auto& [name, shape] : bench::kGptShapes) {
    add(testing::Gpt(shape),
        std::vector<TensorType>(2, {DType::I64, Shape{shape.batchSize, shape.context}}));
  }
  add(testing::ResNet({}),
      {{DType::F32, Shape{bench::kResNetBatch, 3, 224, 224}},
       {DType::I64, Shape{bench::kResNetBatch}}});
  for (const bench::StackShape& stack : {bench::kStack, bench::kTinyStack, bench::kCompiledStack}) {
    add(Stack(stack.width),
        std::vector<TensorType>(2, {DType::F32, Shape{stack.batch, stack.width}}));
  }
  add(testing::TiedGpt(bench::kCutGpt), std::vector<TensorType>(2, bench::kCutTokens));
  add(testing::ResNet(bench::kCutResNet), {bench::kCutImage, bench::kCutLabels});
  add(testing::DenseNet(bench::kCutDenseNet), {bench::kCutImage, bench::kCutLabels});
  add(testing::UNet(bench::kCutUNet), {bench::kCutImage, bench::kCutMask});
  return all;
}

TEST(TuningTable, HoldsNoShapeOfABenchmark) {
  const std::set<std::string> keys = keysOfBenchmarks();
  // Shapes that were in the tables once, so that the list above is known to see such entries.
  for (const char* known : {"matmul/f32/1x1024x192x64/nt",
                            "matmul/f32/1x1024x1024x256/nn",
                            "matmul/f32/1x40x256x10/nn",
                            "conv/n4g1c512o512i7x7k3x3s1x1d1x1p1x1q1x1"}) {
    EXPECT_TRUE(keys.contains(known)) << known;
  }
  for (const ShippedTable& table : kShippedTables) {
    for (const auto& [key, value] : device::parseTuning(table.text)) {
      EXPECT_FALSE(keys.contains(key)) << table.instructionSet << ": " << key << " " << value;
    }
  }
}

}  // namespace
}  // namespace sluice
