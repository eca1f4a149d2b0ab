#include "sluice/runtime/written_state.h"

#include "sluice/base/error.h"

namespace sluice::runtime {

WrittenState writtenState(const program::Program& program, const program::StatePlan& plan) {
  WrittenState written;
  std::vector<bool> known(program.buffers.size(), false);
  const auto writes = [&](program::BufferId id) {
    const program::Buffer& buffer = program.buffer(id);
    if (buffer.region != program::Region::State) {
      return false;
    }
    const program::PlacedVariable* placed = plan.find(buffer.name);
    if (placed != nullptr && placed->variable.role == ir::VariableRole::Accumulator) {
      return false;
    }
    if (!known[id.index()]) {
      known[id.index()] = true;
      written.slices.push_back({buffer.name, buffer.device, buffer.offset, buffer.totalBytes()});
      written.bytes += buffer.totalBytes();
    }
    return true;
  };
  for (const program::Segment& segment : program.segments) {
    bool any = false;
    for (const device::KernelCall& call : segment.calls) {
      for (const std::int32_t output : call.outputs) {
        any = writes(program::BufferId(output)) || any;
      }
    }
    written.segments.push_back(any);
  }
  for (const program::Transfer& transfer : program.transfers) {
    written.transfers.push_back(writes(transfer.to));
  }
  for (const program::Collective& collective : program.collectives) {
    SLUICE_CHECK(!writes(collective.to), "'{}' is reduced into a variable", collective.name);
  }
  return written;
}

}  // namespace sluice::runtime
