#include "sluice/program/program.h"

namespace sluice::program {

Table<RemoteTraffic> remoteTraffic(const Program& program) {
  Table<RemoteTraffic> traffic(program.devices.size());
  for (const Transfer& transfer : program.transfers) {
    const Buffer& from = program.buffer(transfer.from);
    const Buffer& to = program.buffer(transfer.to);
    const std::int32_t times = transfer.oncePerRound ? 1 : program.microBatchesPerRound;
    const std::size_t bytes = transfer.bytes * static_cast<std::size_t>(times);
    if (from.isRemote()) {
      traffic[to.device].fetched += bytes;
    } else if (to.isRemote()) {
      traffic[from.device].flushed += bytes;
    }
  }
  return traffic;
}

std::size_t remoteBytesPerRound(const Program& program) {
  std::size_t bytes = 0;
  for (const RemoteTraffic& device : remoteTraffic(program)) {
    bytes += device.fetched + device.flushed;
  }
  return bytes;
}

}  // namespace sluice::program
