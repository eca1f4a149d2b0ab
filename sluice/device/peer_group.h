// PeerGroup: devices of one kind, each in a process of its own, that copy to each other without the
// host. A queue whose device can do so has a PeerPort, by which groups are made. The members of a
// group make matching calls in the same order, one at a time. A call comes after the work that its
// queue was given before, and returns when its bytes have arrived or may change again. While it
// waits for the others it calls what it was given, again and again; if that throws, the wait ends,
// and the group can only be destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/device/memory.h"

namespace sluice::device {

class Queue;

/// Is called while others are waited for.
using PeerWait = FunctionRef<void()>;

/// One end of a copy between two members.
struct PeerMove {
  enum class Way : std::uint8_t { Send, Receive };
  Way way = Way::Send;
  std::int32_t peer = 0;
  Address at;
  std::size_t bytes = 0;
};

class PeerGroup {
 public:
  PeerGroup(std::int32_t rank, std::int32_t size);
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;
  virtual ~PeerGroup() = default;

  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }

  /// The moves run side by side. `queue` belongs to the device that has joined.
  void exchange(Queue& queue, std::span<const PeerMove> moves, PeerWait wait);
  /// Puts the parts of all members, one after the other, on all of them.
  void gather(Queue& queue, Address part, Address whole, std::size_t bytes, PeerWait wait);

 private:
  virtual void doExchange(Queue& queue, std::span<const PeerMove> moves, PeerWait wait) = 0;
  virtual void doGather(
      Queue& queue, Address part, Address whole, std::size_t bytes, PeerWait wait) = 0;

  std::int32_t rank_;
  std::int32_t size_;
};

class PeerPort {
 public:
  using Invitation = std::vector<std::byte>;

  PeerPort() = default;
  PeerPort(const PeerPort&) = delete;
  PeerPort& operator=(const PeerPort&) = delete;
  virtual ~PeerPort() = default;

  /// The name that the device has in every process: a device may be in a group once.
  virtual std::string place() const = 0;
  /// By which the members of a new group find each other: one makes it, all join with it.
  virtual Invitation invite() = 0;
  /// Returns when all have joined. Throws DeviceError. The group may outlive the port.
  virtual std::unique_ptr<PeerGroup> join(const Invitation& invitation,
                                          std::int32_t rank,
                                          std::int32_t size,
                                          PeerWait wait) = 0;
};

}  // namespace sluice::device
