// What the device uses of NCCL: copies between GPUs of several processes. Its sums are not used,
// because their order is its own. The library is opened when the first group is made, by the
// loader's rules or beside the toolkit; it need not be there, neither to build nor to run. Private
// to the device.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/device/peer_group.h"

namespace sluice::devices::cuda::nccl {

/// Why a version of the library cannot be used; empty: it can. Versions are numbered as the library
/// does it: 22809 is 2.28.9.
std::string whyTooOld(int version);
/// Why the library cannot be used here; empty: it can.
std::string whyUnusable();
/// The error of a call; `detail` is what the library last had to say, if anything.
std::string textOf(std::string_view call, std::string_view error, std::string_view detail);

/// Makes groups with other GPUs.
std::unique_ptr<device::PeerPort> makePort(int gpu);

}  // namespace sluice::devices::cuda::nccl
