#include "sluice/data/prefetcher.h"

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/wait_watch.h"

namespace sluice::data {

Prefetcher::Prefetcher(Producer producer, std::int64_t depth, AtEnd atEnd)
    : producer_(std::move(producer)), depth_(static_cast<std::size_t>(depth)), atEnd_(atEnd) {
  if (depth < 1) {
    raise<InvalidArgument>("batches are prefetched at least 1 ahead, got {}", depth);
  }
  thread_ = startThread("the thread that prefetches batches", [this] { loop(); });
}

Prefetcher::~Prefetcher() {
  close();
  thread_.join();
}

void Prefetcher::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Prefetcher::interrupt() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

void Prefetcher::resume() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = false;
}

std::int64_t Prefetcher::ready() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(items_.size());
}

bool Prefetcher::awaitRoom() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || (items_.size() < depth_ && !paused_); });
  return !closed_;
}

void Prefetcher::loop() {
  bool more = true;
  while (more && awaitRoom()) {
    auto item = std::make_unique<Item>();
    try {
      item->batch = producer_();
    } catch (...) {
      item->error = std::current_exception();
    }
    const bool end = !item->batch && !item->error;
    more = !item->error && !(end && atEnd_ == AtEnd::Stop);
    const std::scoped_lock lock(mutex_);
    paused_ = end && atEnd_ == AtEnd::Pause;
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
}

bool Prefetcher::await(std::chrono::milliseconds atMost) {
  std::unique_lock lock(mutex_);
  if (items_.empty() && paused_) {
    paused_ = false;
    changed_.notify_all();
  }
  const auto over = [&] { return closed_ || interrupted_ || !items_.empty(); };
  if (atMost.count() == 0) {
    waitWatched(changed_, lock, over);
  } else if (!changed_.wait_for(lock, atMost, over)) {
    return false;
  }
  requireGoing();
  return true;
}

void Prefetcher::requireGoing() const {
  if (interrupted_) {
    raise<Cancelled>("the run that takes from this source of batches was stopped");
  }
}

std::optional<Batch> Prefetcher::take() {
  std::unique_lock lock(mutex_);
  if (items_.empty() && paused_) {
    paused_ = false;
    changed_.notify_all();
  }
  waitWatched(changed_, lock, [&] { return closed_ || interrupted_ || !items_.empty(); });
  requireGoing();
  if (closed_) {
    raise<InvalidArgument>("the source of batches was closed while somebody takes from it");
  }
  if (items_.front()->error) {
    std::rethrow_exception(items_.front()->error);
  }
  if (!items_.front()->batch && atEnd_ == AtEnd::Stop) {
    return std::nullopt;  // the mark stays for the next call
  }
  const std::unique_ptr<Item> item = std::move(items_.front());
  items_.pop_front();
  changed_.notify_all();
  return std::move(item->batch);
}

}  // namespace sluice::data
