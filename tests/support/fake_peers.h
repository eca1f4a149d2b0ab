// Groups of devices whose members are threads of one process: what NCCL does for GPUs, with the
// same rules. Copies between two members arrive in the order in which they were given, whatever
// they were meant for, a send need not wait for its receive, and nobody may use a group twice at a
// time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/device/device.h"
#include "sluice/device/peer_group.h"

namespace sluice::testing {

/// Where all fake groups of a test meet.
struct FakePeers {
  using Bytes = std::vector<std::byte>;
  struct Meeting {
    std::int32_t joined = 0;
    std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Bytes>> copies;  // by ends
  };

  std::mutex mutex;  // guards meetings and what they hold
  std::condition_variable changed;
  std::map<std::string, Meeting> meetings;
  std::atomic<int> groups{0};            ///< that have been made
  std::atomic<int> copies{0};            ///< that were sent
  std::atomic<int> asked{0};             ///< for a place
  std::atomic<int> ended{0};             ///< waits that ended by an exception
  std::atomic<int> usedTwice{0};         ///< calls to a group that was in use
  std::function<void(int copy)> onCopy;  ///< before each copy is sent; it may throw
  std::function<void()> onLoss;          ///< if set, nothing arrives, and this is called instead
};

class FakeGroup final : public device::PeerGroup {
 public:
  FakeGroup(FakePeers& peers,
            std::string name,
            std::int32_t rank,
            std::int32_t size,
            device::PeerWait wait)
      : PeerGroup(rank, size), peers_(peers), name_(std::move(name)) {
    std::unique_lock lock(peers_.mutex);
    ++peers_.meetings[name_].joined;
    peers_.changed.notify_all();
    await(lock, wait, [&] { return peers_.meetings[name_].joined == size; });
  }

 private:
  void doExchange(device::Queue& queue,
                  std::span<const device::PeerMove> moves,
                  device::PeerWait wait) override {
    const Use use(*this);
    queue.finish();
    for (const device::PeerMove& move : moves) {
      if (move.way == device::PeerMove::Way::Send) {
        send(queue, move.peer, move.at, move.bytes);
      }
    }
    for (const device::PeerMove& move : moves) {
      if (move.way == device::PeerMove::Way::Receive) {
        receive(queue, move.peer, move.at, move.bytes, wait);
      }
    }
  }

  void doGather(device::Queue& queue,
                device::Address part,
                device::Address whole,
                std::size_t bytes,
                device::PeerWait wait) override {
    const Use use(*this);
    queue.finish();
    for (std::int32_t other = 0; other < size(); ++other) {
      send(queue, other, part, bytes);
    }
    for (std::int32_t other = 0; other < size(); ++other) {
      receive(queue, other, whole + static_cast<std::size_t>(other) * bytes, bytes, wait);
    }
  }

  struct Use {
    explicit Use(FakeGroup& used) : group(used) {
      if (group.inUse_.exchange(true)) {
        ++group.peers_.usedTwice;
      }
    }
    ~Use() { group.inUse_.store(false); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    FakeGroup& group;
  };

  void send(device::Queue& queue, std::int32_t to, device::Address at, std::size_t bytes) {
    const int copy = peers_.copies.fetch_add(1);
    if (peers_.onCopy) {
      peers_.onCopy(copy);
    }
    if (peers_.onLoss) {
      peers_.onLoss();
      return;
    }
    FakePeers::Bytes sent(bytes);
    device::copyOut(queue, sent.data(), at, bytes);
    const std::scoped_lock lock(peers_.mutex);
    peers_.meetings[name_].copies[{rank(), to}].push_back(std::move(sent));
    peers_.changed.notify_all();
  }

  void receive(device::Queue& queue,
               std::int32_t from,
               device::Address at,
               std::size_t bytes,
               device::PeerWait wait) {
    FakePeers::Bytes found;
    {
      std::unique_lock lock(peers_.mutex);
      auto& copies = peers_.meetings[name_].copies[{from, rank()}];
      await(lock, wait, [&] { return !copies.empty(); });
      found = std::move(copies.front());
      copies.pop_front();
    }
    SLUICE_CHECK(found.size() == bytes, "{} bytes where {} were expected", found.size(), bytes);
    device::copyIn(queue, at, found.data(), bytes);
  }

  template <class F>
  void await(std::unique_lock<std::mutex>& lock, device::PeerWait wait, const F& isOver) {
    while (!isOver()) {
      peers_.changed.wait_for(lock, std::chrono::milliseconds(1));
      lock.unlock();
      try {
        wait();
      } catch (...) {
        ++peers_.ended;
        throw;
      }
      lock.lock();
    }
  }

  FakePeers& peers_;
  std::string name_;
  std::atomic<bool> inUse_{false};
};

class FakePort final : public device::PeerPort {
 public:
  FakePort(FakePeers& peers, std::string place) : peers_(peers), place_(std::move(place)) {}

 private:
  std::string place() const override {
    ++peers_.asked;
    return place_;
  }
  Invitation invite() override {
    const std::string name = std::to_string(peers_.groups.fetch_add(1));
    const auto* data = reinterpret_cast<const std::byte*>(name.data());
    return {data, data + name.size()};
  }
  std::unique_ptr<device::PeerGroup> join(const Invitation& invitation,
                                          std::int32_t rank,
                                          std::int32_t size,
                                          device::PeerWait wait) override {
    std::string name(reinterpret_cast<const char*>(invitation.data()), invitation.size());
    return std::make_unique<FakeGroup>(peers_, std::move(name), rank, size, wait);
  }

  FakePeers& peers_;
  std::string place_;
};

/// A queue of a device that has a port; all else is done by the device's own queue.
class PortedQueue final : public device::Queue {
 public:
  PortedQueue(std::unique_ptr<device::Queue> own, device::PeerPort& port)
      : own_(std::move(own)), port_(port) {}

 private:
  void doSetRun(const ir::RunInfo& info) override { own_->setRun(info); }
  void doLaunch(device::Executable& executable, std::span<const device::Address> buffers) override {
    own_->launch(executable, buffers);
  }
  void doReplay(device::Capture& capture) override { own_->replay(capture); }
  void doCopy(device::Address to, device::Address from, std::size_t bytes) override {
    own_->copy(to, from, bytes);
  }
  void doFill(device::Address to, std::byte value, std::size_t bytes) override {
    own_->fill(to, value, bytes);
  }
  void doSum(device::Address to,
             std::span<const device::Address> from,
             DType type,
             std::int64_t elements) override {
    own_->sum(to, from, type, elements);
  }
  void doRecord(device::Event& event) override { own_->record(event); }
  void doWait(const device::Event& event) override { own_->wait(event); }
  void doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) override {
    own_->useClock(clock);
    own_->stamp(stamp, number);
  }
  void doFinish() override { own_->finish(); }
  bool doIsIdle() const override { return own_->isIdle(); }
  std::exception_ptr doFailure() const override { return own_->failure(); }
  device::PeerPort* doPeerPort() override { return &port_; }

  std::unique_ptr<device::Queue> own_;
  device::PeerPort& port_;
};

/// A device with a port; all else is that of the device that it was made of.
class PortedDevice final : public device::Device {
 public:
  PortedDevice(std::unique_ptr<device::Device> own, FakePeers& peers, std::string place)
      : own_(std::move(own)), port_(peers, std::move(place)) {}

  const device::DeviceInfo& info() const override { return own_->info(); }
  const device::KernelTable& kernels() const override { return own_->kernels(); }
  std::unique_ptr<device::Queue> makeQueue() override {
    return std::make_unique<PortedQueue>(own_->makeQueue(), port_);
  }
  std::unique_ptr<device::Event> makeEvent() override { return own_->makeEvent(); }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return own_->allocate(bytes);
  }
  std::unique_ptr<device::Memory> doAllocatePinned(std::size_t bytes) override {
    return own_->allocatePinned(bytes);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return own_->prepare(calls);
  }
  std::unique_ptr<device::Capture> doCapture(device::Executable& executable,
                                             std::span<const device::Address> buffers) override {
    return own_->capture(executable, buffers);
  }

  std::unique_ptr<device::Device> own_;
  FakePort port_;
};

}  // namespace sluice::testing
