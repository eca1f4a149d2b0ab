#include "sluice/runtime/lane_devices.h"

#include "sluice/base/error.h"
#include "sluice/program/lower.h"

namespace sluice::runtime {
namespace {

/// Who copies into the memory of `to` from that of `from`.
device::Device& copier(device::Device& to, device::Device& from) {
  if (from.info().hostReadable || from.info().kind == to.info().kind) {
    return to;
  }
  if (!to.info().hostReadable) {
    raise<Unsupported>(
        "devices of kinds '{}' and '{}' cannot send data to each other: neither can read the "
        "memory "
        "of the other",
        from.info().kind,
        to.info().kind);
  }
  return from;
}

}  // namespace

device::Device& queueDevice(const program::Lane& lane, std::span<device::Device* const> devices) {
  device::Device& own = *devices[static_cast<std::size_t>(lane.device)];
  const bool copies = lane.kind == program::LaneKind::Exchange && lane.peer >= 0;
  return copies ? copier(own, *devices[static_cast<std::size_t>(lane.peer)]) : own;
}

void requireStaged(const program::Program& program, std::span<device::Device* const> devices) {
  for (const std::vector<program::Port>* streams : {&program.feeds, &program.drains}) {
    for (const program::Port& stream : *streams) {
      const auto device = static_cast<std::size_t>(program.buffer(stream.buffer).device);
      SLUICE_CHECK(stream.staging || !program::targetOf(*devices[device]).staged,
                   "'{}' of a program for other devices than those of the engine: a device of kind "
                   "'{}' takes it from staging memory",
                   stream.name,
                   devices[device]->info().kind);
    }
  }
}

}  // namespace sluice::runtime
