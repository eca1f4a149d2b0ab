// Finds work of far queues that is not ordered: two uses of the same bytes, at least one of them a
// write, without a chain of queue order and events between them. It looks at what was issued, not
// at when it ran, and keeps the vector clocks of race detectors. Host memory is checked only if it
// is pinned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/device/memory.h"

namespace sluice::devices::far {

/// With Count, work that the host issues after it saw an event or a whole queue done comes after
/// that work. The host may have seen it in time only by luck. With Ignore, only the end of all
/// queues counts, so that no missing wait stays hidden; but devices of other kinds wait through the
/// host and need Count.
enum class HostWaits : std::uint8_t { Count, Ignore };

class OrderCheck {
 public:
  /// By queue: how many of its commands come before.
  using Known = std::vector<std::int64_t>;

  struct Use {
    device::Address at;
    std::size_t bytes = 0;
    bool writes = false;
  };

  explicit OrderCheck(HostWaits hostWaits = HostWaits::Count) : hostWaits_(hostWaits) {}

  /// Returns a number for a new queue; the number of an ended queue is used again.
  std::size_t addQueue();
  /// The queue has no work left.
  void endQueue(std::size_t queue);

  /// Adds the next command of a queue. Throws InternalError if another queue uses the same bytes
  /// and is ordered neither before nor after it.
  void use(std::size_t queue, std::string_view command, std::span<const Use> uses);
  /// Returns what an event recorded now stands for.
  std::shared_ptr<const Known> record(std::size_t queue);
  /// Later commands of the queue come after everything in `known`.
  void wait(std::size_t queue, const Known& known);
  /// The host has seen that an event, or all work of a queue, is done.
  void see(const Known& known);
  void finish(std::size_t queue);
  /// The memory ends, and with it what is known of its bytes: another one may get its address.
  void forget(const device::Memory& memory);
  /// Whether the bytes of a memory at this address were used.
  bool knows(const device::Memory* memory);

 private:
  struct Command {
    std::size_t queue;
    std::string_view name;
  };
  /// Adjacent bytes with the same history of uses; their begin is the key in `Bytes`.
  struct Alike {
    std::size_t end = 0;
    std::size_t writer = 0;
    std::int64_t written = 0;                       // number of the command; 0: never written
    std::map<std::size_t, std::int64_t> read = {};  // since then, by queue: the last read
  };
  using Bytes = std::map<std::size_t, Alike>;  // by begin

  /// Splits the bytes around this place, if any, so that a part begins here.
  static void split(Bytes& memory, std::size_t at);
  /// Checks that command `number` of queue `other` comes before this one.
  void require(const Command& command,
               std::size_t other,
               std::int64_t number,
               const Use& use) const;

  HostWaits hostWaits_;
  std::mutex mutex_;  // guards all below
  std::vector<Known> queues_;
  std::vector<std::int64_t> finished_;  // by queue: how many of its commands the host saw done
  std::vector<std::size_t> ended_;
  Known host_;
  std::map<const device::Memory*, Bytes> memories_;
};

}  // namespace sluice::devices::far
