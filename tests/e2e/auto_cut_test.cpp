// VirtualGraphMode::Auto on networks that are hard to cut: how even the cut is, against the best of
// all cuts, and that what it makes runs with the bits of one device.
#include <algorithm>

#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/nn/tracer.h"
#include "sluice/parallel/leaf.h"
#include "sluice/parallel/strategy.h"
#include "sluice/parallel/work.h"
#include "tests/e2e/networks.h"
#include "tests/support/cut_networks.h"
#include "tests/support/resnet.h"

namespace sluice {
namespace {

using testing::makeInputs;

/// The forward graph of a module; its last output is the loss.
template <class Net>
ir::Graph graphOf(Net& net, const std::vector<TensorType>& inputs) {
  ir::Graph graph("cut");
  nn::Tracer tracer(graph, nn::TraceMode::Training);
  const auto [y, loss] =
      net.forward(tracer.input("input0", inputs[0]), tracer.input("input1", inputs[1]));
  graph.addOutput("y", y.value());
  graph.addOutput("loss", loss.value());
  return graph;
}

std::vector<ir::OpId> forwardOps(const ir::Graph& graph) {
  std::vector<ir::OpId> ops;
  std::ranges::copy_if(graph.order(), std::back_inserter(ops), [&](ir::OpId id) {
    return !parallel::isLeaf(graph.op(id));
  });
  return ops;
}

std::int64_t totalOf(const std::vector<std::int64_t>& work) {
  std::int64_t total = 0;
  for (const std::int64_t each : work) {
    total += each;
  }
  return total;
}

/// The least work that the largest of `parts` contiguous parts can have, over all cuts: the least
/// bound for which filling parts one after the other needs no more of them.
std::int64_t leastLargest(const std::vector<std::int64_t>& work, std::int64_t parts) {
  std::int64_t low = *std::ranges::max_element(work);
  std::int64_t high = totalOf(work);
  while (low < high) {
    const std::int64_t bound = (low + high) / 2;
    std::int64_t used = 1;
    std::int64_t part = 0;
    for (const std::int64_t each : work) {
      used += part + each > bound ? 1 : 0;
      part = part + each > bound ? each : part + each;
    }
    (used <= parts ? high : low) = used <= parts ? bound : bound + 1;
  }
  return low;
}

double useOf(std::int64_t total, std::int64_t largest, std::int64_t devices) {
  return static_cast<double>(total) / static_cast<double>(devices * largest);
}

/// Work of the busiest device after an automatic cut of a copy; checks that data flows forward.
std::int64_t largestAfterCut(ir::Graph graph,
                             const std::vector<std::int64_t>& work,
                             const parallel::PartitionOptions& options) {
  parallel::annotateStages(graph, options);
  std::map<std::int32_t, std::int64_t> byDevice;
  std::int32_t last = 0;
  const std::vector<ir::OpId> ops = forwardOps(graph);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::int32_t device = graph.op(ops[i]).place.device;
    EXPECT_GE(device, last);
    last = device;
    byDevice[device] += work[i];
  }
  std::int64_t largest = 0;
  for (const auto& [device, sum] : byDevice) {
    largest = std::max(largest, sum);
  }
  return largest;
}

template <class Net>
void expectEvenCut(Net& net, const std::vector<TensorType>& inputs) {
  const ir::Graph graph = graphOf(net, inputs);
  const ir::Value loss = graph.outputs().back().value;
  for (const ir::Value minimised : {loss, ir::Value()}) {
    const std::vector<std::int64_t> work = parallel::workOfOps(graph, forwardOps(graph), minimised);
    for (const std::int32_t devices : {3, 4}) {
      const double best = useOf(totalOf(work), leastLargest(work, devices), devices);
      const std::int64_t largest = largestAfterCut(graph,
                                                   work,
                                                   {.mode = parallel::VirtualGraphMode::Auto,
                                                    .pipelining = true,
                                                    .devices = devices,
                                                    .training = minimised.valid(),
                                                    .loss = minimised});
      const double use = useOf(totalOf(work), largest, devices);
      EXPECT_GE(use, 0.8 * best) << devices << " devices, " << work.size() << " ops";
      EXPECT_LE(use, best * (1 + 1e-9));
      EXPECT_GE(use, 0.6) << "best " << best;
    }
  }
}

TEST(AutoCut, OfAGptWithTiedEmbeddingsIsEven) {
  testing::TiedGpt net({});
  expectEvenCut(net, {{DType::I64, Shape{4, 64}}, {DType::I64, Shape{4, 64}}});
}

TEST(AutoCut, OfResNet18IsEven) {
  testing::ResNet net({});
  expectEvenCut(net, {{DType::F32, Shape{2, 3, 64, 64}}, {DType::I64, Shape{2}}});
}

TEST(AutoCut, OfADenseNetIsEven) {
  testing::DenseNet net({});
  expectEvenCut(net, {{DType::F32, Shape{2, 3, 64, 64}}, {DType::I64, Shape{2}}});
}

TEST(AutoCut, OfAUNetIsEven) {
  testing::UNet net({});
  expectEvenCut(net, {{DType::F32, Shape{2, 3, 64, 64}}, {DType::F32, Shape{2, 1, 64, 64}}});
}

TEST(AutoCut, ObeysSharesOfThreeAndFourDevices) {
  testing::TiedGpt net({.depth = 12});
  const ir::Graph graph = graphOf(net, {{DType::I64, Shape{4, 64}}, {DType::I64, Shape{4, 64}}});
  const ir::Value loss = graph.outputs().back().value;
  const std::vector<ir::OpId> ops = forwardOps(graph);
  const std::vector<std::int64_t> work = parallel::workOfOps(graph, ops, loss);
  for (const std::vector<double>& ratios :
       {std::vector{0.5, 0.3, 0.2}, std::vector{0.1, 0.2, 0.3, 0.4}}) {
    ir::Graph cut = graph;
    parallel::annotateStages(cut,
                             {.mode = parallel::VirtualGraphMode::Auto,
                              .pipelining = true,
                              .ratios = ratios,
                              .training = true,
                              .loss = loss});
    std::vector<std::int64_t> byDevice(ratios.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      byDevice.at(static_cast<std::size_t>(cut.op(ops[i]).place.device)) += work[i];
    }
    for (std::size_t d = 0; d < ratios.size(); ++d) {
      const double share = static_cast<double>(byDevice[d]) / static_cast<double>(totalOf(work));
      EXPECT_LE(share, ratios[d] / 0.8) << d;  // what is over sets the time of all
      EXPECT_GT(share, 0.0) << d;
    }
  }
}

/// The bytes of the variables that a device's ops read, and of what they make.
std::vector<std::int64_t> bytesByDevice(const ir::Graph& graph, std::size_t devices) {
  std::vector<std::int64_t> bytes(devices);
  std::vector<std::set<std::string>> seen(devices);
  for (const ir::OpId id : forwardOps(graph)) {
    const ir::Op& op = graph.op(id);
    const auto device = static_cast<std::size_t>(op.place.device);
    for (const TensorType& type : op.outputs) {
      bytes.at(device) += static_cast<std::int64_t>(type.bytes());
    }
    for (const ir::Value v : op.inputs) {
      const ir::Op& read = graph.op(v.op);
      if (read.is(ir::kVariable) && seen[device].insert(read.attrs.text("var")).second) {
        bytes[device] += static_cast<std::int64_t>(graph.type(v).bytes());
      }
    }
  }
  return bytes;
}

TEST(AutoCut, BalancesBytesUnderABudget) {
  // Most work is in the first layers, most weights are in the last ones.
  testing::ResNet net({.width = 64, .classes = 10});
  const ir::Graph graph = graphOf(net, {{DType::F32, Shape{2, 3, 32, 32}}, {DType::I64, Shape{2}}});
  const auto largest = [&](std::size_t budget) {
    ir::Graph cut = graph;
    parallel::annotateStages(cut,
                             {.mode = parallel::VirtualGraphMode::Auto,
                              .devices = 3,
                              .training = true,
                              .loss = graph.outputs().back().value,
                              .memoryBytes = budget});
    return std::ranges::max(bytesByDevice(cut, 3));
  };
  const std::int64_t free = largest(0);
  const std::int64_t tight = largest(1);
  EXPECT_LT(tight, free);
  EXPECT_EQ(largest(std::size_t{1} << 40U), free);
  // A budget that the evenest cut in bytes fits is kept.
  const auto between = static_cast<std::size_t>((tight + free) / 2);
  EXPECT_LE(largest(between), static_cast<std::int64_t>(between));
}

/// The export of a module's inference graph.
template <class Net>
std::string exported(Net& net, const std::vector<TensorType>& inputs) {
  auto model = inferenceModel(net, Options());
  model.compile(makeInputs(inputs, 0, 1));
  return model.getModelProto(onnx::Exact::Yes);
}

TEST(AutoCut, OfAGptWithTiedEmbeddingsRunsWithTheBitsOfOneDevice) {
  const std::vector<TensorType> inputs = {{DType::I64, Shape{2, 4}}, {DType::I64, Shape{2, 4}}};
  testing::TiedGpt net({.depth = 3, .width = 8, .vocabulary = 11});
  const std::string bytes = exported(net, inputs);
  const auto run = [&](const Options& options, std::size_t devices) {
    Builder b(onnx::importModelBytes(std::as_bytes(std::span(bytes))));
    const TensorId loss = b.graph().outputs().back().name;
    testing::Bits bits;
    {
      auto inference = inferenceModel(b, options);
      const auto results = inference.run(makeInputs(inputs, 5, 1));
      EXPECT_EQ(inference.program().devices.size(), devices);
      bits["inference"] = results.back().hash();
    }
    Options training = options;
    training.training.gradientAccumulation(4);
    auto model = trainingModel(b, loss, training, optim::AdamW(0.01));
    for (std::int64_t step = 0; step < 2; ++step) {
      model.run(makeInputs(inputs, 4 * step, 4));
    }
    EXPECT_EQ(model.program().devices.size(), devices);
    for (const auto& [name, value] : model.stateDict()) {
      bits[name] = value.hash();
    }
    return bits;
  };
  const testing::Bits one = run(Options(), 1);
  for (const std::int64_t devices : {2, 3, 4}) {
    const Options automatic =
        Options().virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(devices);
    EXPECT_EQ(testing::difference(one, run(automatic, static_cast<std::size_t>(devices))), "");
    EXPECT_EQ(
        testing::difference(
            one, run(Options(automatic).enablePipelining(true), static_cast<std::size_t>(devices))),
        "");
  }
}

}  // namespace
}  // namespace sluice
