// Trained networks through ONNX files: the standard's checker accepts them, they import as the same
// graph, and what runs is the same to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include "sluice/ir/printer.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using testing::makeInputs;

/// Trains a little, so that weights and running statistics are no longer what they started from.
template <class Net>
void expectTheSameThroughAFile() {
  Net net;
  auto training = trainingModel(net, Options(), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(Net::inputs(), 0, 1);
  training.run(inputs);
  training.run(inputs);
  auto inference = inferenceModel(net, Options());
  const std::vector<HostTensor> expected = inference.run(inputs);

  const std::string bytes = inference.getModelProto();
  ::onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(bytes));
  ASSERT_NO_THROW(::onnx::checker::check_model(proto));
  Builder builder(onnx::importModelBytes(std::as_bytes(std::span(bytes))));
  const std::string again = builder.getModelProto();
  const onnx::ImportedModel twice = onnx::importModelBytes(std::as_bytes(std::span(again)));
  EXPECT_TRUE(ir::structurallyEqual(twice.graph, builder.graph())) << ir::print(twice.graph);

  auto imported = inferenceModel(builder, Options());
  const std::vector<HostTensor> got = imported.run(inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].sameBits(expected[i])) << "output " << i;
  }
}

TEST(OnnxFile, KeepsAnMlp) {
  expectTheSameThroughAFile<testing::Mlp>();
}
TEST(OnnxFile, KeepsAConvolutionalNetworkWithBatchNorm) {
  expectTheSameThroughAFile<testing::Cnn>();
}
TEST(OnnxFile, KeepsAnLstm) {
  expectTheSameThroughAFile<testing::Lstm>();
}
TEST(OnnxFile, KeepsATransformer) {
  expectTheSameThroughAFile<testing::Gpt>();
}

TEST(OnnxFile, NeedsACompiledModel) {
  testing::Mlp net;
  const auto model = inferenceModel(net, Options());
  EXPECT_THAT(testing::messageOf([&] { static_cast<void>(model.getModelProto()); }),
              ::testing::HasSubstr("compile the model first"));
}

TEST(OnnxFile, OfANetworkOfLayersUsesTheStandardsOps) {
  testing::Cnn net;
  auto model = inferenceModel(net, Options());
  model.compile(makeInputs(testing::Cnn::inputs(), 0, 1));
  ::onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model.getModelProto()));
  for (const ::onnx::NodeProto& node : proto.graph().node()) {
    // Only the loss has a form of its own.
    EXPECT_TRUE(node.domain().empty() || node.op_type() == "cross_entropy") << node.op_type();
  }
}

}  // namespace
}  // namespace sluice
