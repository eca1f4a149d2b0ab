// Devices that have no kernels for fused ops, beside others that do: which device runs a part of a
// model changes its kernels, and no bit.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/compile/compile.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_device.h"
#include "sluice/ir/parser.h"
#include "sluice/ops/op_list.h"
#include "tests/support/machine.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using testing::MapFeed;
using testing::MapSink;

/// Two layers with activations, on devices 0 and 1.
constexpr std::string_view kNetwork = R"(graph "g" {
  var "w0": f32[8, 8] weight init uniform(-1, 1)
  var "w1": f32[8, 8] weight init uniform(-1, 1)
  %0 = input() "x" : f32[4, 8] stage=0 device=0
  %1 = variable() {var="w0"} : f32[8, 8] stage=0 device=0
  %2 = matmul(%0, %1) : f32[4, 8] stage=0 device=0
  %3 = tanh(%2) : f32[4, 8] stage=0 device=0
  %4 = mul(%3, %3) : f32[4, 8] stage=0 device=0
  %5 = variable() {var="w1"} : f32[8, 8] stage=1 device=1
  %6 = matmul(%4, %5) : f32[4, 8] stage=1 device=1
  %7 = sigmoid(%6) : f32[4, 8] stage=1 device=1
  %8 = mul(%7, %7) : f32[4, 8] stage=1 device=1
  %9 = softmax(%8) {axis=1} : f32[4, 8] stage=1 device=1
  %10 = exp(%9) : f32[4, 8] stage=1 device=1
  %11 = neg(%10) : f32[4, 8] stage=1 device=1
  output "y" = %11
})";

enum class Kind { Fusing, Plain };

std::unique_ptr<device::Device> make(Kind kind, int index) {
  return kind == Kind::Fusing ? devices::cpu::makeCpuDevice({.index = index})
                              : devices::far::makeFarDevice({.index = index, .fuses = false});
}

struct Ran {
  std::vector<std::set<std::string>> ops;  ///< by device
  HostTensor y;
};

Ran run(Kind first, Kind second) {
  const std::unique_ptr<device::Device> devices[] = {make(first, 0), make(second, 1)};
  compiler::CompileRequest request{.graph = ir::parse(kNetwork, ops::opSet()),
                                   .usesAnnotations = true};
  request.lower.targets = {program::targetOf(*devices[0]), program::targetOf(*devices[1])};
  compiler::Compiled made = compiler::compileGraph(std::move(request));
  EXPECT_TRUE(made.proven);
  Ran ran{.ops = std::vector<std::set<std::string>>(2), .y = {}};
  for (const program::Segment& segment : made.program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      ran.ops.at(static_cast<std::size_t>(segment.device)).insert(std::string(call.def->name));
    }
  }
  runtime::ModelState state({devices[0].get(), devices[1].get()}, 7);
  runtime::Engine engine(state);
  state.adopt(made.state);
  const auto loaded = engine.load(std::move(made.program));
  std::vector<ops::TensorMap> inputs(1);
  inputs[0].emplace("x", testing::randomTensor(3, {DType::F32, Shape{4, 8}}, -1, 1));
  MapFeed feed(loaded->program(), std::move(inputs));
  MapSink sink(loaded->program());
  engine.run(*loaded, {.feed = feed, .sink = sink});
  ran.y = std::move(sink.results.at("y").at(0).second);
  return ran;
}

TEST(Unfused, OpsOfADeviceWithoutFusedKernelsHaveTheSameBits) {
  const Ran fused = run(Kind::Fusing, Kind::Fusing);
  for (const Kind first : {Kind::Fusing, Kind::Plain}) {
    for (const Kind second : {Kind::Fusing, Kind::Plain}) {
      const Ran ran = run(first, second);
      EXPECT_EQ(ran.ops[0].contains("fused"), first == Kind::Fusing);
      EXPECT_EQ(ran.ops[0].contains("tanh"), first == Kind::Plain);
      EXPECT_EQ(ran.ops[1].contains("fused"), second == Kind::Fusing);
      EXPECT_EQ(ran.ops[1].contains("sigmoid"), second == Kind::Plain);
      EXPECT_TRUE(ran.y.sameBits(fused.y));
    }
  }
}

}  // namespace
}  // namespace sluice
