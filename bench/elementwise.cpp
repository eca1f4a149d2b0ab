// Bandwidth of the element-wise engine, reductions and row kernels against what the machine can
// copy, in the same run. Prints JSON: bytes that must move per second, and the share of the copy.
#include <cstring>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "bench/support/bandwidth.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace): a program of one file
using bench::bestOf;
using bench::timeCopy;
using bench::Timing;

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kColumns = 2048;
const TensorType kType{DType::F32, {kRows, kColumns}};

/// One kernel on zero-filled operands of its own.
Timing timeOp(device::Device& device,
              const ir::OpDef& def,
              ir::Attrs attrs,
              std::vector<TensorType> inputs) {
  device::KernelCall call;
  call.def = &def;
  call.attrs = ir::completeAttrs(def, std::move(attrs));
  call.inputTypes = std::move(inputs);
  call.outputTypes = def.infer({def, call.attrs, call.inputTypes, {}});
  call.name = "bench";
  call.choice = device.kernels().choose(call.view());
  std::vector<std::unique_ptr<device::Memory>> memories;
  std::vector<device::Address> addresses;
  const auto buffer = [&](std::size_t bytes) {
    memories.push_back(device.allocate(bytes));
    std::memset(memories.back()->host(), 0, bytes);
    addresses.push_back(memories.back()->at());
    return static_cast<std::int32_t>(addresses.size() - 1);
  };
  double bytes = 0;
  for (const TensorType& type : call.inputTypes) {
    call.inputs.push_back(buffer(type.bytes()));
    bytes += static_cast<double>(type.bytes());
  }
  for (const TensorType& type : call.outputTypes) {
    call.outputs.push_back(buffer(type.bytes()));
    bytes += static_cast<double>(type.bytes());
  }
  if (call.choice.scratchBytes != 0) {
    call.scratch = buffer(call.choice.scratchBytes);
  }
  const auto executable = device.prepare({&call, 1});
  const auto queue = device.makeQueue();
  return {bestOf([&] { queue->launch(*executable, addresses); }), bytes};
}

// The schema of `fused`, of which kernels read the name and the body.
constexpr std::array<ir::AttrSpec, 1> kBodyAttr = {
    {{.name = "body", .kind = ir::AttrKind::Subgraph, .required = true}}};

std::vector<TensorType> inferBody(const ir::OpView& op) {
  const ir::Graph& body = op.attrs.subgraph("body");
  std::vector<TensorType> types;
  for (const ir::Output& output : body.outputs()) {
    types.push_back(body.type(output.value));
  }
  return types;
}

constexpr ir::OpDef kBody{.name = "fused",
                          .maxInputs = ir::kVariadic,
                          .outputs = ir::kVariadic,
                          .attrs = kBodyAttr,
                          .infer = inferBody};

ir::Graph chainOfSix() {
  ir::Graph graph("chain");
  ir::GraphBuilder b(graph);
  const ir::Value x = b.input("in0", kType);
  const ir::Value y = b.input("in1", kType);
  const ir::Value bias = b.input("in2", {DType::F32, {kColumns}});
  ir::Value v = ops::relu(b, ops::add(b, ops::mul(b, x, y), bias));
  v = ops::sub(b, ops::mul(b, v, b.scalar(DType::F32, 0.5)), y);
  graph.addOutput("out0", ops::maximum(b, v, x));
  return graph;
}

/// p, g, m, v and the bias corrections; 13 ops.
ir::Graph adamW() {
  ir::Graph graph("adamw");
  ir::GraphBuilder b(graph);
  const auto number = [&](double value) { return b.scalar(DType::F32, value); };
  const ir::Value p = b.input("in0", kType);
  const ir::Value g = b.input("in1", kType);
  const ir::Value m = b.input("in2", kType);
  const ir::Value v = b.input("in3", kType);
  const ir::Value c1 = b.input("in4", {DType::F32, Shape{}});
  const ir::Value c2 = b.input("in5", {DType::F32, Shape{}});
  const ir::Value m1 = ops::add(b, ops::mul(b, m, number(0.9)), ops::mul(b, g, number(0.1)));
  const ir::Value v1 =
      ops::add(b, ops::mul(b, v, number(0.999)), ops::mul(b, ops::square(b, g), number(0.001)));
  const ir::Value root = ops::add(b, ops::sqrt(b, ops::mul(b, v1, c2)), number(1e-8));
  const ir::Value step = ops::div(b, ops::mul(b, m1, c1), root);
  graph.addOutput("out0", ops::sub(b, ops::mul(b, p, number(0.9999)), step));
  graph.addOutput("out1", m1);
  graph.addOutput("out2", v1);
  return graph;
}

Timing timeBody(device::Device& device, const ir::Graph& body) {
  std::vector<TensorType> inputs;
  for (const ir::OpId id : body.inputs()) {
    inputs.push_back(body.op(id).outputs[0]);
  }
  return timeOp(device, kBody, {{"body", std::make_shared<const ir::Graph>(body)}}, inputs);
}

void report(int threads) {
  const auto device = devices::cpu::makeCpuDevice({.threads = threads});
  const devices::cpu::OneOmpThread one;
  const Timing copy = timeCopy(kType, threads);
  const TensorType row{DType::F32, {kColumns}};
  const std::map<std::string, Timing> timings = {
      {"adamw_13_ops", timeBody(*device, adamW())},
      {"add", timeOp(*device, ops::kAdd, {}, {kType, kType})},
      {"chain_6_ops", timeBody(*device, chainOfSix())},
      {"column_sum", timeOp(*device, ops::kReduceSum, {{"axes", {0}}}, {kType})},
      {"exp", timeOp(*device, ops::kExp, {}, {kType})},
      {"gelu", timeOp(*device, ops::kGelu, {}, {kType})},
      {"layer_norm", timeOp(*device, ops::kLayerNorm, {}, {kType, row, row})},
      {"row_sum", timeOp(*device, ops::kReduceSum, {{"axes", {1}}}, {kType})},
      {"softmax", timeOp(*device, ops::kSoftmax, {}, {kType})},
      {"tanh", timeOp(*device, ops::kTanh, {}, {kType})},
      {"transpose", timeOp(*device, ops::kTranspose, {{"permutation", {1, 0}}}, {kType})},
  };
  const double limit = copy.bytes / copy.seconds;
  fmt::print("  {{\"threads\": {}, \"copy_gb_per_s\": {:.1f}", threads, limit / 1e9);
  for (const auto& [name, timing] : timings) {
    const double rate = timing.bytes / timing.seconds;
    fmt::print(",\n   \"{}\": {{\"gb_per_s\": {:.1f}, \"of_copy\": {:.2f}}}",
               name,
               rate / 1e9,
               rate / limit);
  }
  fmt::print("}}");
}

}  // namespace

int main() {
  fmt::print("[\n");
  report(1);
  fmt::print(",\n");
  report(2);
  fmt::print("\n]\n");
  return 0;
}
