// Communicator: connects the owners of a Program's parts (program/owners.h). Owners are ranks from
// 0 on. Both ends of a message know it by the same number; messages with the same number arrive in
// the order in which they were posted, others do not disturb each other. What kinds of
// communicators share is written once, on three functions: post, which never waits, await, which
// waits for a limited time, and fetch. Sums are in group.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/device/queue.h"
#include "sluice/runtime/inbox.h"

namespace sluice::runtime {

class PeerPaths;

class Communicator {
 public:
  /// `patience`: how long a wait for another rank may take.
  Communicator(std::int32_t rank, std::int32_t size, std::chrono::milliseconds patience);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator();

  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }

  /// Sends bytes of the host and does not wait.
  void post(std::int32_t to, std::int64_t number, MessageBytes bytes);
  /// Waits for bytes that another rank has posted. Throws DeviceError if their count differs, and
  /// whatever Inbox::take throws.
  MessageBytes take(std::int32_t from, std::int64_t number, std::size_t bytes);
  /// The same for as many bytes as come.
  MessageBytes take(std::int32_t from, std::int64_t number);
  /// The same; calls `look`, which may throw, every WaitWatch::kPeriod meanwhile.
  MessageBytes take(std::int32_t from, std::int64_t number, FunctionRef<void()> look);

  // Work that the queue was given before comes first.

  /// Returns once the bytes may change again. A sender gets a few messages ahead, not more.
  void send(device::Queue& queue,
            std::int32_t to,
            std::int64_t number,
            device::Address from,
            std::size_t bytes);
  /// Whether the next such send would wait for nobody.
  bool leavesAtOnce(std::int32_t to, std::int64_t number);
  void receive(device::Queue& queue,
               std::int32_t from,
               std::int64_t number,
               device::Address to,
               std::size_t bytes);

  /// From now on devices copy to each other without the host in send, receive and gather, where
  /// they can (device::PeerPort). All ranks call it before their first message, or none does.
  void connectDevices();
  /// `gather` among some ranks, in the order of their parts, if their devices are so connected. All
  /// of them get the same answer; false: nothing was done.
  bool gatherDirectly(device::Queue& queue,
                      std::span<const std::int32_t> ranks,
                      std::int64_t number,
                      device::Address part,
                      device::Address whole,
                      std::size_t bytes);

  // All ranks call these with the same arguments except for addresses.

  /// Copies the bytes of `root` to all ranks.
  void broadcast(device::Queue& queue,
                 std::int32_t root,
                 std::int64_t number,
                 device::Address data,
                 std::size_t bytes);
  /// Puts the parts of all ranks, one after the other, on all ranks.
  void gather(device::Queue& queue,
              std::int64_t number,
              device::Address part,
              device::Address whole,
              std::size_t bytes);
  /// Copies part r of the bytes of `root` to rank r.
  void scatter(device::Queue& queue,
               std::int32_t root,
               std::int64_t number,
               device::Address whole,
               device::Address part,
               std::size_t bytes);

  /// Ends every wait of all ranks, now and later, with a DeviceError that gives the reason.
  void interrupt(std::string_view reason) { doInterrupt(reason); }
  /// Throws what a wait that was ended so throws.
  void requireGoing() const { doRequireGoing(); }

 private:
  /// By rank and number of messages.
  using Counts = std::map<std::pair<std::int32_t, std::int64_t>, std::int64_t>;

  void requireOther(std::int32_t rank) const;
  /// Counts one more.
  std::int64_t countOf(Counts& counts, std::int32_t rank, std::int64_t number);
  void postFrom(device::Queue& queue,
                std::int32_t to,
                std::int64_t number,
                device::Address from,
                std::size_t bytes);
  void takeTo(device::Queue& queue,
              std::int32_t from,
              std::int64_t number,
              device::Address to,
              std::size_t bytes);

  virtual void doPost(std::int32_t to, std::int64_t number, MessageBytes bytes) = 0;
  /// Waits until there is a message or will never be one; false: it took too long.
  virtual bool doAwait(std::int32_t from,
                       std::int64_t number,
                       std::chrono::milliseconds atMost) = 0;
  /// Inbox::fetch.
  virtual MessageBytes doFetch(std::int32_t from,
                               std::int64_t number,
                               std::chrono::milliseconds patience) = 0;
  virtual bool doHas(std::int32_t from, std::int64_t number) = 0;
  virtual void doInterrupt(std::string_view reason) = 0;
  virtual void doRequireGoing() const = 0;

  std::int32_t rank_;
  std::int32_t size_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<PeerPaths> paths_;  // null: all bytes go through the host
  std::mutex mutex_;                  // guards all below
  Counts sent_;
  Counts received_;
};

inline constexpr std::chrono::minutes kPatience{10};

/// Makes a communicator for each owner in one process; their engines run in threads of their own.
std::vector<std::unique_ptr<Communicator>> makeLocalCommunicators(
    std::int32_t size, std::chrono::milliseconds patience = kPatience);

}  // namespace sluice::runtime
