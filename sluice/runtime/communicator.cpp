#include "sluice/runtime/communicator.h"

#include <algorithm>
#include <numeric>

#include "sluice/base/error.h"
#include "sluice/base/wait_watch.h"
#include "sluice/runtime/peer_paths.h"

namespace sluice::runtime {
namespace {

/// Is part of the numbers of answers.
constexpr std::int64_t kAnswer = std::int64_t{1} << 62;
/// So many messages may be on the way before a sender waits; each of these is answered.
constexpr std::int64_t kAhead = 4;
constexpr std::int64_t kAnswered = 2;

/// Whether the sender needs another answer first; the first message counts 1.
bool needsAnswer(std::int64_t count) {
  return count > kAhead && count % kAnswered == 1;
}

class LocalCommunicator final : public Communicator {
 public:
  using Inboxes = std::vector<std::shared_ptr<Inbox>>;
  LocalCommunicator(Inboxes inboxes, std::int32_t rank, std::chrono::milliseconds patience)
      : Communicator(rank, static_cast<std::int32_t>(inboxes.size()), patience),
        inboxes_(std::move(inboxes)) {}

 private:
  void doPost(std::int32_t to, std::int64_t number, MessageBytes bytes) override {
    inboxes_[static_cast<std::size_t>(to)]->deliver({rank(), 0, number}, std::move(bytes));
  }
  bool doAwait(std::int32_t from, std::int64_t number, std::chrono::milliseconds atMost) override {
    return inboxes_[static_cast<std::size_t>(rank())]->await({from, 0, number}, atMost);
  }
  MessageBytes doFetch(std::int32_t from,
                       std::int64_t number,
                       std::chrono::milliseconds patience) override {
    return inboxes_[static_cast<std::size_t>(rank())]->fetch({from, 0, number}, rank(), patience);
  }
  bool doHas(std::int32_t from, std::int64_t number) override {
    return inboxes_[static_cast<std::size_t>(rank())]->has({from, 0, number});
  }
  void doInterrupt(std::string_view reason) override {
    for (const std::shared_ptr<Inbox>& inbox : inboxes_) {
      inbox->interrupt(reason);
    }
  }
  void doRequireGoing() const override {
    inboxes_[static_cast<std::size_t>(rank())]->requireGoing();
  }

  Inboxes inboxes_;  // by rank
};

}  // namespace

Communicator::Communicator(std::int32_t rank, std::int32_t size, std::chrono::milliseconds patience)
    : rank_(rank), size_(size), patience_(patience) {
  SLUICE_CHECK(rank >= 0 && rank < size, "rank {} of {}", rank, size);
}

Communicator::~Communicator() = default;

void Communicator::connectDevices() {
  paths_ = std::make_unique<PeerPaths>(*this, patience_);
}

void Communicator::requireOther(std::int32_t rank) const {
  SLUICE_CHECK(rank >= 0 && rank < size_ && rank != rank_,
               "rank {} of {} has a message from or to rank {}",
               rank_,
               size_,
               rank);
}

void Communicator::post(std::int32_t to, std::int64_t number, MessageBytes bytes) {
  requireOther(to);
  doPost(to, number, std::move(bytes));
}

MessageBytes Communicator::take(std::int32_t from, std::int64_t number) {
  requireOther(from);
  doAwait(from, number, patience_);
  return doFetch(from, number, patience_);
}

MessageBytes Communicator::take(std::int32_t from, std::int64_t number, FunctionRef<void()> look) {
  using Clock = std::chrono::steady_clock;
  requireOther(from);
  const Clock::time_point end = Clock::now() + patience_;
  while (!doAwait(from, number, std::min(WaitWatch::kPeriod, patience_)) && Clock::now() < end) {
    look();
  }
  return doFetch(from, number, patience_);
}

MessageBytes Communicator::take(std::int32_t from, std::int64_t number, std::size_t bytes) {
  MessageBytes taken = take(from, number);
  if (taken.size() != bytes) {
    raise<DeviceError>("message {} from rank {} to rank {} has {} bytes, {} were expected",
                       number,
                       from,
                       rank_,
                       taken.size(),
                       bytes);
  }
  return taken;
}

void Communicator::postFrom(device::Queue& queue,
                            std::int32_t to,
                            std::int64_t number,
                            device::Address from,
                            std::size_t bytes) {
  MessageBytes copy(bytes);
  if (bytes > 0) {
    device::copyOut(queue, copy.data(), from, bytes);
  } else {
    queue.finish();
  }
  post(to, number, std::move(copy));
}

void Communicator::takeTo(device::Queue& queue,
                          std::int32_t from,
                          std::int64_t number,
                          device::Address to,
                          std::size_t bytes) {
  queue.finish();
  const MessageBytes taken = take(from, number, bytes);
  if (bytes > 0) {
    device::copyIn(queue, to, taken.data(), bytes);
  }
}

std::int64_t Communicator::countOf(Counts& counts, std::int32_t rank, std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  return ++counts[{rank, number}];
}

void Communicator::send(device::Queue& queue,
                        std::int32_t to,
                        std::int64_t number,
                        device::Address from,
                        std::size_t bytes) {
  requireOther(to);
  if (paths_ != nullptr && paths_->send(queue, to, number, from, bytes)) {
    return;
  }
  if (needsAnswer(countOf(sent_, to, number))) {
    take(to, number | kAnswer, 0);
  }
  postFrom(queue, to, number, from, bytes);
}

bool Communicator::leavesAtOnce(std::int32_t to, std::int64_t number) {
  if (paths_ != nullptr) {
    return false;  // the ranks of a copy wait for each other
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!needsAnswer(sent_[{to, number}] + 1)) {
      return true;
    }
  }
  return doHas(to, number | kAnswer);
}

void Communicator::receive(device::Queue& queue,
                           std::int32_t from,
                           std::int64_t number,
                           device::Address to,
                           std::size_t bytes) {
  requireOther(from);
  if (paths_ != nullptr && paths_->receive(queue, from, number, to, bytes)) {
    return;
  }
  takeTo(queue, from, number, to, bytes);
  if (countOf(received_, from, number) % kAnswered == 0) {
    post(from, number | kAnswer, {});
  }
}

void Communicator::broadcast(device::Queue& queue,
                             std::int32_t root,
                             std::int64_t number,
                             device::Address data,
                             std::size_t bytes) {
  if (rank_ != root) {
    takeTo(queue, root, number, data, bytes);
    return;
  }
  for (std::int32_t other = 0; other < size_; ++other) {
    if (other != root) {
      postFrom(queue, other, number, data, bytes);
    }
  }
}

bool Communicator::gatherDirectly(device::Queue& queue,
                                  std::span<const std::int32_t> ranks,
                                  std::int64_t number,
                                  device::Address part,
                                  device::Address whole,
                                  std::size_t bytes) {
  return paths_ != nullptr && paths_->gather(queue, ranks, number, part, whole, bytes);
}

void Communicator::gather(device::Queue& queue,
                          std::int64_t number,
                          device::Address part,
                          device::Address whole,
                          std::size_t bytes) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  if (gatherDirectly(queue, all, number, part, whole, bytes)) {
    return;
  }
  for (std::int32_t other = 0; other < size_; ++other) {
    if (other != rank_) {
      postFrom(queue, other, number, part, bytes);
    }
  }
  for (std::int32_t other = 0; other < size_; ++other) {
    const device::Address place = whole + static_cast<std::size_t>(other) * bytes;
    if (other == rank_) {
      queue.copy(place, part, bytes);
    } else {
      takeTo(queue, other, number, place, bytes);
    }
  }
  queue.finish();
}

void Communicator::scatter(device::Queue& queue,
                           std::int32_t root,
                           std::int64_t number,
                           device::Address whole,
                           device::Address part,
                           std::size_t bytes) {
  if (rank_ != root) {
    takeTo(queue, root, number, part, bytes);
    return;
  }
  for (std::int32_t other = 0; other < size_; ++other) {
    const device::Address place = whole + static_cast<std::size_t>(other) * bytes;
    if (other == root) {
      queue.copy(part, place, bytes);
    } else {
      postFrom(queue, other, number, place, bytes);
    }
  }
  queue.finish();
}

std::vector<std::unique_ptr<Communicator>> makeLocalCommunicators(
    std::int32_t size, std::chrono::milliseconds patience) {
  LocalCommunicator::Inboxes inboxes;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    inboxes.push_back(std::make_shared<Inbox>());
  }
  std::vector<std::unique_ptr<Communicator>> all;
  all.reserve(static_cast<std::size_t>(size));
  for (std::int32_t rank = 0; rank < size; ++rank) {
    all.push_back(std::make_unique<LocalCommunicator>(inboxes, rank, patience));
  }
  return all;
}

}  // namespace sluice::runtime
