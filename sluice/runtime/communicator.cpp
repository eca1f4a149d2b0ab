#include "sluice/runtime/communicator.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "sluice/base/error.h"

namespace sluice::runtime {
namespace {

/// Where the ranks of one process meet.
class Meeting {
 public:
  struct Key {
    std::int32_t from;
    std::int32_t to;
    std::int64_t number;
    auto operator<=>(const Key&) const = default;
  };

  /// Shared: whoever takes them may be at it still when the other end is told to stop.
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;

  /// Shows bytes and waits until they were taken.
  void offer(const Key& key, const Bytes& bytes) {
    std::unique_lock lock(mutex_);
    await(lock, [&] { return !offers_.contains(key); });  // of the round before
    offers_.emplace(key, Offer{bytes});
    moved_.notify_all();
    await(lock, [&] { return offers_.at(key).taken; });
    offers_.erase(key);
    moved_.notify_all();
  }

  /// Waits until there are bytes, lets `copy` have them, and tells whoever offers them.
  template <class F>
  void take(const Key& key, std::size_t bytes, F copy) {
    Bytes data;
    {
      std::unique_lock lock(mutex_);
      await(lock, [&] {
        const auto found = offers_.find(key);
        return found != offers_.end() && !found->second.taken;
      });
      const Offer& offer = offers_.at(key);
      if (offer.bytes->size() != bytes) {
        raise<DeviceError>("message {} from rank {} to rank {} has {} bytes, {} were expected",
                           key.number,
                           key.from,
                           key.to,
                           offer.bytes->size(),
                           bytes);
      }
      data = offer.bytes;
    }
    copy(data->data());
    const std::scoped_lock lock(mutex_);
    offers_.at(key).taken = true;
    moved_.notify_all();
  }

  void interrupt(std::string_view reason) {
    const std::scoped_lock lock(mutex_);
    if (reason_.empty()) {
      reason_ = reason;
    }
    moved_.notify_all();
  }

 private:
  struct Offer {
    Bytes bytes;
    bool taken = false;
  };

  template <class F>
  void await(std::unique_lock<std::mutex>& lock, F isThere) {
    moved_.wait(lock, [&] { return !reason_.empty() || isThere(); });
    if (!reason_.empty()) {
      raise<DeviceError>("the other owners of the program were told to stop: {}", reason_);
    }
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable moved_;
  std::map<Key, Offer> offers_;
  std::string reason_;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Meeting> meeting, std::int32_t rank, std::int32_t size)
      : Communicator(rank, size), meeting_(std::move(meeting)) {}

 private:
  /// Through memory of the host: the receiver may be of another kind.
  void doSend(device::Queue& queue,
              std::int32_t to,
              std::int64_t number,
              device::Address from,
              std::size_t bytes) override {
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes);
    if (bytes > 0) {
      device::copyOut(queue, copy->data(), from, bytes);
    } else {
      queue.finish();
    }
    meeting_->offer({rank(), to, number}, copy);
  }
  void doReceive(device::Queue& queue,
                 std::int32_t from,
                 std::int64_t number,
                 device::Address to,
                 std::size_t bytes) override {
    queue.finish();
    meeting_->take({from, rank(), number}, bytes, [&](const std::byte* data) {
      if (bytes > 0) {
        device::copyIn(queue, to, data, bytes);
      }
    });
  }
  void doInterrupt(std::string_view reason) override { meeting_->interrupt(reason); }

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

Communicator::Communicator(std::int32_t rank, std::int32_t size) : rank_(rank), size_(size) {
  SLUICE_CHECK(rank >= 0 && rank < size, "rank {} of {}", rank, size);
}

void Communicator::requireOther(std::int32_t rank) const {
  SLUICE_CHECK(rank >= 0 && rank < size_ && rank != rank_,
               "rank {} of {} has a message from or to rank {}",
               rank_,
               size_,
               rank);
}

void Communicator::send(device::Queue& queue,
                        std::int32_t to,
                        std::int64_t number,
                        device::Address from,
                        std::size_t bytes) {
  requireOther(to);
  doSend(queue, to, number, from, bytes);
}

void Communicator::receive(device::Queue& queue,
                           std::int32_t from,
                           std::int64_t number,
                           device::Address to,
                           std::size_t bytes) {
  requireOther(from);
  doReceive(queue, from, number, to, bytes);
}

void Communicator::broadcast(device::Queue& queue,
                             std::int32_t root,
                             std::int64_t number,
                             device::Address data,
                             std::size_t bytes) {
  if (rank_ != root) {
    receive(queue, root, number, data, bytes);
    return;
  }
  for (std::int32_t other = 0; other < size_; ++other) {
    if (other != root) {
      send(queue, other, number, data, bytes);
    }
  }
}

/// Every part in its turn: nobody sends while the other end sends, too.
void Communicator::gather(device::Queue& queue,
                          std::int64_t number,
                          device::Address part,
                          device::Address whole,
                          std::size_t bytes) {
  for (std::int32_t root = 0; root < size_; ++root) {
    const device::Address place = whole + static_cast<std::size_t>(root) * bytes;
    if (root == rank_) {
      queue.copy(place, part, bytes);
    }
    broadcast(queue, root, number, place, bytes);
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
    receive(queue, root, number, part, bytes);
    return;
  }
  for (std::int32_t other = 0; other < size_; ++other) {
    const device::Address place = whole + static_cast<std::size_t>(other) * bytes;
    if (other == root) {
      queue.copy(part, place, bytes);
    } else {
      send(queue, other, number, place, bytes);
    }
  }
  queue.finish();
}

// NOLINTNEXTLINE(readability-function-size): what Queue::sum takes, and the room for the terms
void Communicator::sum(device::Queue& queue,
                       std::int64_t number,
                       device::Address from,
                       device::Address to,
                       device::Address room,
                       DType type,
                       std::int64_t elements) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * byteSize(type);
  gather(queue, number, from, room, bytes);
  std::vector<device::Address> terms;
  terms.reserve(static_cast<std::size_t>(size_));
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    terms.push_back(room + static_cast<std::size_t>(rank) * bytes);
  }
  queue.sum(to, terms, type, elements);
  queue.finish();
}

std::vector<std::unique_ptr<Communicator>> makeLocalCommunicators(std::int32_t size) {
  const auto meeting = std::make_shared<Meeting>();
  std::vector<std::unique_ptr<Communicator>> all;
  all.reserve(static_cast<std::size_t>(size));
  for (std::int32_t rank = 0; rank < size; ++rank) {
    all.push_back(std::make_unique<LocalCommunicator>(meeting, rank, size));
  }
  return all;
}

}  // namespace sluice::runtime
