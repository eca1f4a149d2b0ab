// What far queues record, and its replays.
#include <utility>

#include "sluice/devices/far/far_queue.h"

namespace sluice::devices::far {

std::int64_t FarRecording::nextSerial() {
  static std::atomic<std::int64_t> last{0};
  return ++last;
}

ir::RunInfo FarRecording::moved(const ir::RunInfo& told, const ir::RunInfo& now) const {
  return {.seed = now.seed,
          .microBatch = now.microBatch + told.microBatch - from_.microBatch,
          .microBatchInRound = told.microBatchInRound,
          .replica = told.replica};
}

device::Address FarRecording::placed(device::Address recorded) const {
  const auto found = places_.find({recorded.memory, recorded.offset});
  return found == places_.end() ? recorded : found->second;
}

std::vector<OrderCheck::Use> FarRecording::uses() const {
  std::vector<OrderCheck::Use> uses = uses_;
  for (OrderCheck::Use& use : uses) {
    use.at = placed(use.at);
  }
  return uses;
}

void FarReplay::begin(const ir::RunInfo& now) {
  const std::scoped_lock lock(mutex_);
  now_ = now;
  state_ = State::Begun;
  moved_.notify_all();
}

void FarReplay::giveUp() {
  const std::scoped_lock lock(mutex_);
  state_ = State::GivenUp;
  moved_.notify_all();
}

bool FarReplay::awaitBegin(ir::RunInfo& now) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return state_ != State::Given; });
  now = now_;
  return state_ == State::Begun;
}

void FarReplay::advance(std::size_t part, std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  done_[part] = number;
  moved_.notify_all();
}

bool FarReplay::await(std::size_t part, std::int64_t number) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return done_[part] >= number || failure_ != nullptr; });
  return failure_ == nullptr;
}

void FarReplay::fail(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (failure_ == nullptr) {
    failure_ = std::move(error);
    failed_.store(true);
    moved_.notify_all();
  }
}

void FarReplay::leave() {
  const std::scoped_lock lock(mutex_);
  ++left_;
  moved_.notify_all();
}

void FarReplay::finish() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return left_ == done_.size(); });
  if (failure_ != nullptr) {
    std::rethrow_exception(failure_);
  }
}

}  // namespace sluice::devices::far
