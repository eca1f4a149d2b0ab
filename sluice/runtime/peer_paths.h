// PeerPaths: copies between devices of several ranks without the host, for a Communicator. Before
// each copy its ranks meet: the lowest of them, the host of the meeting, hears from all others that
// they are there and tells them to begin. So nothing waits on a device for a rank that does other
// work first, and the ranks of a group give it their calls in one order. If one of the devices
// cannot take part, all ranks hear so, and never ask again for that number. Private to the runtime.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/device/peer_group.h"
#include "sluice/device/queue.h"

namespace sluice::runtime {

class Communicator;

/// A wait on a device for other ranks. A call throws DeviceError once the ranks were told to stop
/// or the time is over.
class PeerDeadline {
 public:
  PeerDeadline(const Communicator& communicator,
               std::span<const std::int32_t> ranks,
               std::chrono::milliseconds patience);
  void operator()() const;

 private:
  const Communicator& communicator_;
  std::span<const std::int32_t> ranks_;
  std::chrono::milliseconds patience_;
  std::chrono::steady_clock::time_point end_;
};

class PeerPaths {
 public:
  PeerPaths(Communicator& communicator, std::chrono::milliseconds patience)
      : communicator_(communicator), patience_(patience) {}

  // All ranks of a copy get the same answer. False: the bytes must go through the host.

  bool send(device::Queue& queue,
            std::int32_t to,
            std::int64_t number,
            device::Address from,
            std::size_t bytes);
  bool receive(device::Queue& queue,
               std::int32_t from,
               std::int64_t number,
               device::Address to,
               std::size_t bytes);
  /// `ranks` are in the order of their parts.
  bool gather(device::Queue& queue,
              std::span<const std::int32_t> ranks,
              std::int64_t number,
              device::Address part,
              device::Address whole,
              std::size_t bytes);

 private:
  using Ranks = std::vector<std::int32_t>;
  using Places = std::vector<std::string>;  // by rank of a group
  using Copy = FunctionRef<void(device::PeerGroup&, device::PeerWait)>;
  /// What is known of some ranks.
  struct Circle {
    std::mutex order;               // of their copies; only their host has it
    std::set<std::int64_t> staged;  // numbers whose bytes go through the host
    std::map<Places, std::unique_ptr<device::PeerGroup>> groups;
  };
  struct Grant;

  bool move(device::Queue& queue, std::int32_t other, std::int64_t number, device::PeerMove move);
  bool meet(
      device::Queue& queue, const Ranks& ranks, std::int64_t number, std::size_t bytes, Copy copy);
  bool hostMeeting(device::Queue& queue,
                   const Ranks& ranks,
                   std::int64_t number,
                   const std::string& request,
                   Copy copy);
  bool joinMeeting(device::Queue& queue,
                   const Ranks& ranks,
                   std::int64_t number,
                   const std::string& request,
                   Copy copy);
  Circle& circleOf(const Ranks& ranks);
  bool isStaged(const Ranks& ranks, std::int64_t number);
  void noteStaged(const Ranks& ranks, std::int64_t number);
  device::PeerGroup* find(const Ranks& ranks, const Places& places);
  device::PeerGroup& join(device::Queue& queue,
                          const Ranks& ranks,
                          const Places& places,
                          const device::PeerPort::Invitation& invitation);

  Communicator& communicator_;
  std::chrono::milliseconds patience_;
  std::mutex mutex_;  // guards circles_, and all of them but their order
  std::map<Ranks, Circle> circles_;
};

}  // namespace sluice::runtime
