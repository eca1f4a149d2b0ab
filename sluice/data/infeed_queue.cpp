#include <span>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/data/given.h"
#include "sluice/data/prefetcher.h"
#include "sluice/data/queues.h"

namespace sluice::data {
namespace {

std::string textOf(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) {
    text += (text.empty() ? "" : ", ") + type.str();
  }
  return text;
}

std::optional<Batch> elementOf(IterableDataset& dataset, std::int64_t number) {
  try {
    std::optional<Sample> sample = dataset.next();
    return sample ? std::optional(Batch{*std::move(sample), 0, number}) : std::nullopt;
  } catch (Error& error) {
    error.at(fmt::format("element {} of the infeed", number));
    throw;
  } catch (const std::exception& error) {
    raise<Error>("element {} of the infeed: {}", number, error.what());
  }
}

}  // namespace

InfeedQueue::InfeedQueue(IterablePtr dataset,
                         std::int64_t prefetchDepth,
                         std::vector<std::string> names)
    : dataset_(given(std::move(dataset), "infeed")),
      names_(std::move(names)),
      prefetcher_(std::make_unique<Prefetcher>(
          [this] { return elementOf(*dataset_, produced_++); }, prefetchDepth, AtEnd::Stop)) {}

InfeedQueue::~InfeedQueue() = default;

void InfeedQueue::close() {
  prefetcher_->close();
}

void InfeedQueue::interrupt() {
  prefetcher_->interrupt();
}

void InfeedQueue::resume() {
  prefetcher_->resume();
}

const Types& InfeedQueue::types() {
  const std::scoped_lock lock(mutex_);
  if (types_.empty()) {
    first_ = take();
  }
  return types_;
}

bool InfeedQueue::awaitTypes(std::chrono::milliseconds atMost) {
  {
    const std::scoped_lock lock(mutex_);
    if (!types_.empty()) {
      return true;
    }
  }
  return prefetcher_->await(atMost);
}

std::vector<HostTensor> InfeedQueue::take() {
  std::optional<Batch> batch = prefetcher_->take();
  if (!batch) {
    raise<InvalidArgument>(
        "the infeed has ended: its dataset has {} elements; repeat() gives it no end", dequeued_);
  }
  Types found;
  for (const HostTensor& tensor : batch->tensors) {
    found.push_back(tensor.type());
  }
  if (types_.empty()) {
    if (found.empty() || (!names_.empty() && names_.size() != found.size())) {
      raise<InvalidArgument>("the infeed has {} names for {} tensors", names_.size(), found.size());
    }
    types_ = found;
  }
  if (found != types_) {
    raise<InvalidArgument>(
        "element {} of the infeed is {}, the first was {}: all must be alike, so a batch that is "
        "not full has to be dropped",
        batch->index,
        textOf(found),
        textOf(types_));
  }
  return std::move(batch->tensors);
}

std::vector<HostTensor> InfeedQueue::dequeue() {
  const std::scoped_lock lock(mutex_);
  std::vector<HostTensor> element = first_ ? *std::move(first_) : take();
  first_.reset();
  ++dequeued_;
  return element;
}

std::int64_t InfeedQueue::dequeued() const {
  const std::scoped_lock lock(mutex_);
  return dequeued_;
}

}  // namespace sluice::data
