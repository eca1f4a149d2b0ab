#include "sluice/program/host_ops.h"

#include <fmt/format.h>

#include "sluice/program/memory_plan.h"

namespace sluice::program {

std::vector<std::string> hostOpWarnings(const Program& program) {
  std::vector<std::string> warnings;
  for (const Segment& segment : program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      if (call.choice.implementation != device::kOnHost) {
        continue;
      }
      std::size_t out = 0;
      std::size_t in = 0;
      for (const TensorType& type : call.inputTypes) {
        out += type.bytes();
      }
      for (const TensorType& type : call.outputTypes) {
        in += type.bytes();
      }
      warnings.push_back(fmt::format(
          "{} '{}' runs on the host: each time device {} stands still while {} travel to the host "
          "and {} back",
          call.def->name,
          call.name,
          segment.device,
          formatBytes(out),
          formatBytes(in)));
    }
  }
  return warnings;
}

}  // namespace sluice::program
