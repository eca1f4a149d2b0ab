// Every op on every device: against the reference within tolerance, the same bits for every number
// of threads and in every layout that a kernel follows, and no byte written outside its buffers.
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_device.h"
#include "sluice/devices/sim/sim_device.h"
#include "sluice/devices/sim/target.h"
#include "tests/conformance/case_run.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {
namespace {

using device::Layout;

struct NamedDevice {
  std::string name;
  std::unique_ptr<device::Device> device;
};

/// The first is what the others must equal bit for bit.
const std::vector<NamedDevice>& devices() {
  static const std::vector<NamedDevice> kDevices = [] {
    std::vector<NamedDevice> all;
    for (const int threads : {1, 2, 3}) {
      all.push_back({fmt::format("cpu with {} threads", threads),
                     devices::cpu::makeCpuDevice({.threads = threads})});
    }
    all.push_back({"far", devices::far::makeFarDevice()});
    all.push_back(
        {"sim", devices::sim::makeSimDevice({.target = devices::sim::findTarget("ipu2")})});
    return all;
  }();
  return kDevices;
}

class OpOnDevices : public ::testing::TestWithParam<OpCase> {};

void checkAll(const OpCase& c, DType floats) {
  const ir::RunInfo info{.seed = 42, .microBatch = 3, .microBatchInRound = 1};
  const std::vector<HostTensor> operands = operandsOf(c, floats);
  const auto expected = expectedOf(c, operands, info);
  if (!expected) {
    EXPECT_NE(floats, DType::F32) << "the reference refuses its own case";
    return;
  }
  std::vector<HostTensor> first;
  for (const auto& [name, device] : devices()) {
    if (!supported(*device, c, operands)) {
      EXPECT_NE(c.def.decompose, nullptr) << name << " has no kernel for " << c.def.name;
      continue;
    }
    if (implementationOf(*device, c, operands) == device::kOnHost) {
      continue;  // an engine runs it between two launches
    }
    for (const Layout& layout : {Layout::plain(), Layout::channelsLast()}) {
      const std::vector<HostTensor> results = runOnDevice(
          *device,
          {.def = c.def, .attrs = c.attrs, .inputs = operands, .follow = layout, .info = info});
      ASSERT_EQ(results.size(), expected->size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        const double difference = differenceOf(results[i], (*expected)[i]);
        // The parts of a composite round to the type of its operands, whatever that of a result.
        const DType rounded =
            c.def.reference == nullptr && isFloat(results[i].dtype()) ? floats : results[i].dtype();
        EXPECT_LE(difference, tolerance(rounded, c.terms))
            << name << ", " << sluice::name(floats) << ", output " << i << ", " << layout.str();
        if (!first.empty()) {
          EXPECT_TRUE(results[i].sameBits(first[i]))
              << name << ", " << sluice::name(floats) << ", output " << i << ", " << layout.str();
        }
      }
      first = first.empty() ? results : first;
    }
  }
}

TEST_P(OpOnDevices, MatchesTheReference) {
  checkAll(GetParam(), DType::F32);
}

TEST_P(OpOnDevices, MatchesTheReferenceInOtherFloats) {
  for (const DType floats : {DType::F64, DType::BF16, DType::F16}) {
    checkAll(GetParam(), floats);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps,
                         OpOnDevices,
                         ::testing::ValuesIn(allCases()),
                         [](const auto& param) { return caseName(param.param); });

/// Ops that have no kernel of their own, so that none of their cases needs a line below.
const std::set<std::string_view> kWithoutKernels = {"bucketize",
                                                    "ctc_beam_search_decoder",
                                                    "dynamic_slice",
                                                    "dynamic_update",
                                                    "gather_elements",
                                                    "gather_nd",
                                                    "gradient_statistics",
                                                    "grid_sample",
                                                    "grid_sample_grad",
                                                    "host_call",
                                                    "pow2_scale_then_cast",
                                                    "print_tensor",
                                                    "reverse_sequence",
                                                    "roi_align",
                                                    "roi_align_grad",
                                                    "scatter_elements",
                                                    "scatter_nd",
                                                    "top_k"};

/// What the CPU still runs by plain loops in float32; a kernel for one of them shortens the list.
TEST(CpuKernels, OnlyTheseFloatCasesRunOnTheReference) {
  device::Device& cpu = *devices().front().device;
  std::set<std::string> onReference;
  for (const OpCase& c : allCases()) {
    const std::vector<HostTensor> operands = operandsOf(c, DType::F32);
    const bool floats = operands.empty() || operands[0].dtype() == DType::F32;
    if (floats && supported(cpu, c, operands) &&
        implementationOf(cpu, c, operands) == "reference" &&
        !kWithoutKernels.contains(c.def.name)) {
      onReference.insert(caseName(c));
    }
  }
  const std::set<std::string> expected = {"batch_norm_6_axes",
                                          "conv_grad_input_empty",
                                          "conv_grad_weight_empty",
                                          "ctc_loss",
                                          "ctc_loss_blank",
                                          "ctc_loss_grad",
                                          "det",
                                          "det_empty",
                                          "det_grad",
                                          "det_grad_singular",
                                          "det_one",
                                          "det_singular",
                                          "detach",
                                          "dft",
                                          "dft_empty",
                                          "dft_inverse",
                                          "dft_one",
                                          "dft_prime",
                                          "identity",
                                          "max_pool_empty",
                                          "nop",
                                          "recomputation_checkpoint",
                                          "reduce_prod_grad",
                                          "replica_gather",
                                          "replica_scatter",
                                          "replica_sum",
                                          "replica_sum_scatter",
                                          "reshape",
                                          "tensor_location",
                                          // channels-last storage ends at 5
                                          "conv_empty"};
  EXPECT_EQ(onReference, expected);
}

}  // namespace
}  // namespace sluice::testing
