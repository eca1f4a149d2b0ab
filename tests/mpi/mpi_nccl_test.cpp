// SLUICE_NCCL in several processes without GPUs: they agree that their bytes go through the host,
// and all else stays as it is.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/runtime/process_world.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::ResidualMlp;

/// Sets SLUICE_NCCL while it lives.
class NcclVariable {
 public:
  explicit NcclVariable(const char* value) { ::setenv("SLUICE_NCCL", value, 1); }
  ~NcclVariable() { ::unsetenv("SLUICE_NCCL"); }
  NcclVariable(const NcclVariable&) = delete;
  NcclVariable& operator=(const NcclVariable&) = delete;
};

/// The bits of the losses of three steps.
std::vector<std::uint64_t> lossesOf(bool shares, const std::string& device) {
  Options options;
  options.device(device);
  options.distributed.shareModel(shares);
  options.training.gradientAccumulation(4);
  options.outputMode(OutputMode::All);
  const auto parts = TensorLocationSettings()
                         .useReplicatedTensorSharding(true)
                         .minElementsForReplicatedTensorSharding(1);
  options.tensorLocations.setOptimizerLocation(parts).setWeightLocation(parts);  // gathered
  if (shares) {
    options.setExecutionStrategy(
        parallel::PipelinedExecution({parallel::Stage("b0", "b1"), "b2", "b3", "b4"}));
  }
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  std::vector<std::uint64_t> losses;
  for (std::int64_t step = 0; step < 3; ++step) {
    losses.push_back(model.run(makeInputs(ResidualMlp::inputs(), 4 * step, 4)).back().hash());
  }
  return losses;
}

TEST(MpiNccl, WithoutGpusTheBytesGoThroughTheHost) {
  for (const bool shares : {true, false}) {
    for (const std::string device : {"cpu", "far"}) {
      const std::vector<std::uint64_t> expected = lossesOf(shares, device);
      const NcclVariable asks("1");
      EXPECT_EQ(lossesOf(shares, device), expected) << device;
    }
  }
}

TEST(MpiNccl, AllProcessesMustAskForIt) {
  const runtime::ProcessWorld& world = *runtime::ProcessWorld::open();
  const NcclVariable asks(world.rank() == 1 ? "on" : "off");
  EXPECT_THAT(testing::messageOf<InvalidArgument>([] { lossesOf(true, "cpu"); }),
              AllOf(HasSubstr("has another program or options than rank 0"),
                    HasSubstr("+ SLUICE_NCCL: on")));
}

TEST(MpiNccl, TheVariableIsOnOrOff) {
  const NcclVariable asks("perhaps");
  EXPECT_THAT(testing::messageOf<InvalidArgument>([] { lossesOf(true, "cpu"); }),
              AllOf(HasSubstr("SLUICE_NCCL"), HasSubstr("perhaps")));
}

}  // namespace
}  // namespace sluice
