// Trained networks through ONNX files. Exact ones import as the same graph and run with the same
// bits; the usual ones have only ops of the standard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ir/printer.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/runs_on_cpu.h"
#include "tests/support/message_of.h"
#include "tests/support/onnx_check.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using onnx::Exact;
using testing::makeInputs;

/// What a network that was trained a little computes, so that weights and running statistics are no
/// longer what they started from, and what it computes once it was read from a file.
struct Results {
  std::string bytes;
  std::vector<HostTensor> expected;
  std::vector<HostTensor> found;
};

template <class Net>
Results throughAFile(Exact exact) {
  Net net;
  auto training = trainingModel(net, Options(), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(Net::inputs(), 0, 1);
  training.run(inputs);
  training.run(inputs);
  auto inference = inferenceModel(net, Options());
  Results results{.expected = inference.run(inputs)};
  results.bytes = inference.getModelProto(exact);
  Builder builder(onnx::importModelBytes(std::as_bytes(std::span(results.bytes))));
  const std::string again = builder.getModelProto(exact);
  const onnx::ImportedModel twice = onnx::importModelBytes(std::as_bytes(std::span(again)));
  EXPECT_TRUE(ir::structurallyEqual(twice.graph, builder.graph())) << ir::print(twice.graph);
  auto imported = inferenceModel(builder, Options());
  results.found = imported.run(inputs);
  EXPECT_EQ(results.found.size(), results.expected.size());
  return results;
}

/// `rounding`: what the usual file may differ by. Only parts of ops round where the op does not.
template <class Net>
void expectTheSameThroughFiles(double rounding) {
  const Results exact = throughAFile<Net>(Exact::Yes);
  ASSERT_NO_THROW(::onnx::checker::check_model(testing::parseModelBytes(exact.bytes)));
  const Results usual = throughAFile<Net>(Exact::No);
  testing::expectStandard(testing::parseModelBytes(usual.bytes));
  for (std::size_t i = 0; i < exact.found.size(); ++i) {
    EXPECT_TRUE(exact.found[i].sameBits(exact.expected[i])) << "output " << i;
    EXPECT_LE(testing::relativeDifference(usual.found[i], usual.expected[i]), rounding)
        << "output " << i;
  }
}

TEST(OnnxFile, KeepsAnMlp) {
  expectTheSameThroughFiles<testing::Mlp>(0.0);
}
TEST(OnnxFile, KeepsAConvolutionalNetworkWithBatchNorm) {
  expectTheSameThroughFiles<testing::Cnn>(0.0);
}
TEST(OnnxFile, KeepsAnLstm) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kComparesCpuBits;
  }
  expectTheSameThroughFiles<testing::Lstm>(0.0);
}
TEST(OnnxFile, KeepsATransformer) {
  // Its gelu is said in parts, each of which rounds to float32.
  expectTheSameThroughFiles<testing::Gpt>(1e-5);
}

TEST(OnnxFile, NeedsACompiledModel) {
  testing::Mlp net;
  const auto model = inferenceModel(net, Options());
  EXPECT_THAT(testing::messageOf([&] { static_cast<void>(model.getModelProto()); }),
              ::testing::HasSubstr("compile the model first"));
}

}  // namespace
}  // namespace sluice
