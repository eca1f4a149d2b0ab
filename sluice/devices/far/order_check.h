// Finds work of far queues that nothing puts in order: two uses of the same bytes, one of them a
// write at least, without a chain of queue order and events between them. It looks at what was
// issued, not at when it ran. (These are the vector clocks of race detectors.) Memory of the host
// is looked at only where it is pinned.
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

/// What the host issues after it saw an event or a whole queue done comes later than those. It may
/// have seen it in time by luck only, so that with Ignore, where only the end of all queues counts,
/// no missing wait stays hidden; but devices of other kinds wait by the host and need Count.
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

  /// A number for a queue, of one that has ended if there is any.
  std::size_t addQueue();
  /// It has nothing left to do.
  void endQueue(std::size_t queue);

  /// The next command of a queue. Throws InternalError if another queue's use of the same bytes is
  /// neither before nor after it.
  void use(std::size_t queue, std::string_view command, std::span<const Use> uses);
  /// What an event that is recorded now stands for.
  std::shared_ptr<const Known> record(std::size_t queue);
  /// What follows in the queue comes after all that is known.
  void wait(std::size_t queue, const Known& known);
  /// The host has seen an event, or all work of a queue, done.
  void see(const Known& known);
  void finish(std::size_t queue);

 private:
  struct Command {
    std::size_t queue;
    std::string_view name;
  };
  /// Bytes that were used alike, from a key of `Bytes` on.
  struct Alike {
    std::size_t end = 0;
    std::size_t writer = 0;
    std::int64_t written = 0;                       // number of the command; 0: nobody wrote
    std::map<std::size_t, std::int64_t> read = {};  // since then, by queue: the last command
  };
  using Bytes = std::map<std::size_t, Alike>;  // by begin

  /// Makes some of them begin at this place, if there are any around it.
  static void split(Bytes& memory, std::size_t at);
  /// `number` is that of the other queue's command.
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
