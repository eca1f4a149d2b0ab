// The iterable half of transforms.h.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/philox.h"
#include "sluice/data/dataset.h"
#include "sluice/data/given.h"

namespace sluice::data {
namespace {

class Iterated : public IterableDataset {
 public:
  explicit Iterated(DatasetPtr inner) : inner_(std::move(inner)) {}
  std::optional<Sample> next() override {
    return at_ < inner_->size() ? std::optional(inner_->get(at_++)) : std::nullopt;
  }
  void restart() override { at_ = 0; }
  std::int64_t skip(std::int64_t count) override {
    const std::int64_t before = at_;
    at_ = std::min(inner_->size(), at_ + count);
    return at_ - before;
  }

 private:
  DatasetPtr inner_;
  std::int64_t at_ = 0;
};

class MappedStream : public IterableDataset {
 public:
  MappedStream(IterablePtr inner, SampleFunction function)
      : inner_(std::move(inner)), function_(std::move(function)) {}
  std::optional<Sample> next() override {
    std::optional<Sample> sample = inner_->next();
    return sample ? std::optional(function_(*std::move(sample))) : std::nullopt;
  }
  void restart() override { inner_->restart(); }
  void setEpoch(std::int64_t epoch) override { inner_->setEpoch(epoch); }
  std::int64_t skip(std::int64_t count) override { return inner_->skip(count); }

 private:
  IterablePtr inner_;
  SampleFunction function_;
};

class ShuffledStream : public IterableDataset {
 public:
  ShuffledStream(IterablePtr inner, std::int64_t bufferSize, std::uint64_t seed)
      : inner_(std::move(inner)), capacity_(static_cast<std::size_t>(bufferSize)), seed_(seed) {
    if (bufferSize < 1) {
      raise<InvalidArgument>("shuffle: the buffer must have room for samples, got {}", bufferSize);
    }
  }
  std::optional<Sample> next() override {
    while (buffer_.size() < capacity_) {
      std::optional<Sample> sample = inner_->next();
      if (!sample) {
        break;
      }
      buffer_.push_back(*std::move(sample));
    }
    if (buffer_.empty()) {
      return std::nullopt;
    }
    const RandomStream stream{Hasher().add(seed_).add(epoch_).digest(), 0, 0};
    const std::uint64_t word = stream.word(drawn_++);
    std::swap(buffer_[(word * buffer_.size()) >> 32], buffer_.back());
    Sample sample = std::move(buffer_.back());
    buffer_.pop_back();
    return sample;
  }
  void restart() override {
    inner_->restart();
    begin(epoch_ + 1);
  }
  void setEpoch(std::int64_t epoch) override {
    inner_->setEpoch(epoch);
    begin(epoch);
  }

 private:
  void begin(std::int64_t epoch) {
    buffer_.clear();
    drawn_ = 0;
    epoch_ = epoch;
  }

  IterablePtr inner_;
  std::size_t capacity_;
  std::uint64_t seed_;
  std::vector<Sample> buffer_;
  std::uint64_t drawn_ = 0;
  std::int64_t epoch_ = 0;
};

class RepeatedStream : public IterableDataset {
 public:
  RepeatedStream(IterablePtr inner, std::int64_t times)
      : inner_(std::move(inner)), times_(times), left_(times) {}
  std::optional<Sample> next() override {
    if (left_ == 0) {
      return std::nullopt;
    }
    if (std::optional<Sample> sample = inner_->next()) {
      return sample;
    }
    left_ -= left_ > 0 ? 1 : 0;
    if (left_ == 0) {
      return std::nullopt;
    }
    inner_->restart();
    std::optional<Sample> sample = inner_->next();
    left_ = sample ? left_ : 0;  // an empty dataset stays empty however often it is repeated
    return sample;
  }
  void restart() override {
    inner_->restart();
    left_ = times_;
  }
  void setEpoch(std::int64_t epoch) override {
    // Every round before was an epoch of the inner one; rounds without end have no second epoch.
    inner_->setEpoch(epoch * std::max<std::int64_t>(times_, 1));
    left_ = times_;
  }

 private:
  IterablePtr inner_;
  std::int64_t times_;
  std::int64_t left_;  // rounds that have not ended; negative: no end
};

class TakenStream : public IterableDataset {
 public:
  TakenStream(IterablePtr inner, std::int64_t count) : inner_(std::move(inner)), count_(count) {
    if (count < 0) {
      raise<InvalidArgument>("take: the count must not be negative, got {}", count);
    }
  }
  std::optional<Sample> next() override {
    return taken_ < count_ ? (++taken_, inner_->next()) : std::nullopt;
  }
  void restart() override {
    inner_->restart();
    taken_ = 0;
  }
  void setEpoch(std::int64_t epoch) override {
    inner_->setEpoch(epoch);
    taken_ = 0;
  }
  std::int64_t skip(std::int64_t count) override {
    const std::int64_t skipped = inner_->skip(std::min(count, count_ - taken_));
    taken_ += skipped;
    return skipped;
  }

 private:
  IterablePtr inner_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
};

class BatchedStream : public IterableDataset {
 public:
  BatchedStream(IterablePtr inner, std::int64_t size, Remainder remainder)
      : inner_(std::move(inner)), size_(static_cast<std::size_t>(size)), remainder_(remainder) {
    if (size < 1) {
      raise<InvalidArgument>("batch: the size must be positive, got {}", size);
    }
  }
  std::optional<Sample> next() override {
    std::vector<Sample> samples;
    while (samples.size() < size_) {
      std::optional<Sample> sample = inner_->next();
      if (!sample) {
        break;
      }
      samples.push_back(*std::move(sample));
    }
    if (samples.empty() || (samples.size() < size_ && remainder_ == Remainder::Drop)) {
      return std::nullopt;
    }
    const std::int64_t first = read_;
    read_ += static_cast<std::int64_t>(samples.size());
    return stack(samples, first);
  }
  void restart() override {
    inner_->restart();
    read_ = 0;
  }
  void setEpoch(std::int64_t epoch) override {
    inner_->setEpoch(epoch);
    read_ = 0;
  }

 private:
  IterablePtr inner_;
  std::size_t size_;
  Remainder remainder_;
  std::int64_t read_ = 0;
};

class ZippedStream : public IterableDataset {
 public:
  explicit ZippedStream(std::vector<IterablePtr> parts) : parts_(std::move(parts)) {
    if (parts_.empty()) {
      raise<InvalidArgument>("zip: needs at least one dataset");
    }
  }
  std::optional<Sample> next() override {
    Sample all;
    for (const IterablePtr& part : parts_) {
      const std::optional<Sample> sample = part->next();
      if (!sample) {
        return std::nullopt;
      }
      all.insert(all.end(), sample->begin(), sample->end());
    }
    return all;
  }
  void restart() override {
    for (const IterablePtr& part : parts_) {
      part->restart();
    }
  }
  void setEpoch(std::int64_t epoch) override {
    for (const IterablePtr& part : parts_) {
      part->setEpoch(epoch);
    }
  }

 private:
  std::vector<IterablePtr> parts_;
};

}  // namespace

IterablePtr iterate(DatasetPtr dataset) {
  return std::make_shared<Iterated>(given(std::move(dataset), "iterate"));
}

IterablePtr map(IterablePtr dataset, SampleFunction function) {
  return std::make_shared<MappedStream>(given(std::move(dataset), "map"),
                                        given(std::move(function), "map", "function"));
}

IterablePtr shuffle(IterablePtr dataset, std::int64_t bufferSize, std::uint64_t seed) {
  return std::make_shared<ShuffledStream>(given(std::move(dataset), "shuffle"), bufferSize, seed);
}

IterablePtr repeat(IterablePtr dataset, std::int64_t times) {
  return std::make_shared<RepeatedStream>(given(std::move(dataset), "repeat"), times);
}

IterablePtr take(IterablePtr dataset, std::int64_t count) {
  return std::make_shared<TakenStream>(given(std::move(dataset), "take"), count);
}

IterablePtr batch(IterablePtr dataset, std::int64_t size, Remainder remainder) {
  return std::make_shared<BatchedStream>(given(std::move(dataset), "batch"), size, remainder);
}

IterablePtr zip(std::vector<IterablePtr> datasets) {
  return std::make_shared<ZippedStream>(givenEach(std::move(datasets), "zip"));
}

}  // namespace sluice::data
