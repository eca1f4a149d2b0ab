#include "sluice/devices/far/order_check.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::devices::far {
namespace {

void learn(OrderCheck::Known& known, const OrderCheck::Known& more) {
  known.resize(std::max(known.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) {
    known[i] = std::max(known[i], more[i]);
  }
}

}  // namespace

std::size_t OrderCheck::addQueue() {
  const std::scoped_lock lock(mutex_);
  if (!ended_.empty()) {
    const std::size_t queue = ended_.back();
    ended_.pop_back();
    return queue;
  }
  queues_.emplace_back(queues_.size() + 1);
  finished_.push_back(0);
  return queues_.size() - 1;
}

void OrderCheck::endQueue(std::size_t queue) {
  finish(queue);
  const std::scoped_lock lock(mutex_);
  ended_.push_back(queue);
}

void OrderCheck::split(Bytes& memory, std::size_t at) {
  auto after = memory.upper_bound(at);
  if (after == memory.begin()) {
    return;
  }
  const auto around = std::prev(after);
  if (around->first < at && around->second.end > at) {
    memory.emplace_hint(after, at, around->second);
    around->second.end = at;
  }
}

void OrderCheck::require(const Command& command,
                         std::size_t other,
                         std::int64_t number,
                         const Use& use) const {
  const Known& known = queues_[command.queue];
  const bool ordered =
      other == command.queue || number == 0 || (other < known.size() && known[other] >= number);
  if (!ordered) {
    raise<InternalError>(
        "far device: {} {} bytes {} to {} of a memory that another queue uses, and nothing puts "
        "the two in order",
        command.name,
        use.writes ? "writes" : "reads",
        use.at.offset,
        use.at.offset + use.bytes);
  }
}

void OrderCheck::use(std::size_t queue, std::string_view name, std::span<const Use> uses) {
  const std::scoped_lock lock(mutex_);
  Known& known = queues_[queue];
  learn(known, host_);
  const std::int64_t number = ++known[queue];
  const Command command{queue, name};
  for (const Use& use : uses) {
    if (use.bytes == 0 || use.at.memory == nullptr ||
        use.at.memory->kind() == device::MemoryKind::Host) {
      continue;
    }
    Bytes& memory = memories_[use.at.memory];
    const std::size_t end = use.at.offset + use.bytes;
    split(memory, use.at.offset);
    split(memory, end);
    std::size_t begin = use.at.offset;
    for (auto at = memory.lower_bound(begin); begin < end; ++at) {
      if (at == memory.end() || at->first > begin) {  // not used before
        const std::size_t until = at == memory.end() ? end : std::min(end, at->first);
        at = memory.emplace_hint(at, begin, Alike{.end = until});
      }
      Alike& alike = at->second;
      require(command, alike.writer, alike.written, use);
      if (use.writes) {
        for (const auto& [reader, read] : alike.read) {
          require(command, reader, read, use);
        }
        alike = {.end = alike.end, .writer = queue, .written = number};
      } else {
        alike.read[queue] = number;
      }
      begin = alike.end;
    }
  }
}

std::shared_ptr<const OrderCheck::Known> OrderCheck::record(std::size_t queue) {
  const std::scoped_lock lock(mutex_);
  return std::make_shared<const Known>(queues_[queue]);
}

void OrderCheck::wait(std::size_t queue, const Known& known) {
  const std::scoped_lock lock(mutex_);
  learn(queues_[queue], known);
}

void OrderCheck::see(const Known& known) {
  if (hostWaits_ == HostWaits::Count) {
    const std::scoped_lock lock(mutex_);
    learn(host_, known);
  }
}

void OrderCheck::finish(std::size_t queue) {
  const std::scoped_lock lock(mutex_);
  finished_[queue] = queues_[queue][queue];
  if (hostWaits_ == HostWaits::Count) {
    learn(host_, queues_[queue]);
    return;
  }
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (queues_[i][i] > finished_[i]) {
      return;
    }
  }
  learn(host_, finished_);
}

void OrderCheck::forget(const device::Memory& memory) {
  const std::scoped_lock lock(mutex_);
  memories_.erase(&memory);
}

bool OrderCheck::knows(const device::Memory* memory) {
  const std::scoped_lock lock(mutex_);
  return memories_.contains(memory);
}

}  // namespace sluice::devices::far
