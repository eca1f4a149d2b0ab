#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/data/given.h"
#include "sluice/data/image_transforms.h"

namespace sluice::data {
namespace {

class Mapped : public Dataset {
 public:
  Mapped(DatasetPtr inner, SampleFunction function)
      : inner_(std::move(inner)), function_(std::move(function)) {}
  std::int64_t size() const override { return inner_->size(); }
  Sample get(std::int64_t index) const override { return function_(inner_->get(index)); }

 private:
  DatasetPtr inner_;
  SampleFunction function_;
};

/// Samples of another dataset under other numbers: shuffled, repeated, cut short.
class Renumbered : public Dataset {
 public:
  using Number = std::function<std::int64_t(std::int64_t)>;
  Renumbered(DatasetPtr inner, std::int64_t size, Number number)
      : inner_(std::move(inner)), size_(size), number_(std::move(number)) {}

  std::int64_t size() const override { return size_; }
  Types types() const override { return inner_->types(); }
  Sample get(std::int64_t index) const override {
    requireIndex(index);
    return inner_->get(number_(index));
  }
  void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const override {
    std::vector<std::int64_t> inner;
    for (const std::int64_t index : indices) {
      requireIndex(index);
      inner.push_back(number_(index));
    }
    inner_->read(inner, rows);
  }

 private:
  DatasetPtr inner_;
  std::int64_t size_;
  Number number_;
};

class Batched : public Dataset {
 public:
  Batched(DatasetPtr inner, std::int64_t batch, Remainder remainder)
      : inner_(std::move(inner)), batch_(batch) {
    if (batch < 1) {
      raise<InvalidArgument>("batch: the size must be positive, got {}", batch);
    }
    const bool keep = remainder == Remainder::Keep && inner_->size() % batch != 0;
    size_ = inner_->size() / batch + (keep ? 1 : 0);
  }
  std::int64_t size() const override { return size_; }
  Sample get(std::int64_t index) const override {
    requireIndex(index);
    const std::int64_t first = index * batch_;
    std::vector<std::int64_t> indices;
    for (std::int64_t i = first; i < std::min(first + batch_, inner_->size()); ++i) {
      indices.push_back(i);
    }
    Sample rows = makeBatch(inner_->types(), static_cast<std::int64_t>(indices.size()));
    inner_->read(indices, rows);
    return rows;
  }

 private:
  DatasetPtr inner_;
  std::int64_t batch_;
  std::int64_t size_ = 0;
};

class Zipped : public Dataset {
 public:
  explicit Zipped(std::vector<DatasetPtr> parts) : parts_(std::move(parts)) {
    if (parts_.empty()) {
      raise<InvalidArgument>("zip: needs at least one dataset");
    }
    for (const DatasetPtr& part : parts_) {
      if (part->size() != parts_[0]->size()) {
        raise<InvalidArgument>(
            "zip: the datasets have {} and {} samples", parts_[0]->size(), part->size());
      }
    }
  }
  std::int64_t size() const override { return parts_[0]->size(); }
  Types types() const override {
    Types all;
    for (const DatasetPtr& part : parts_) {
      const Types types = part->types();
      all.insert(all.end(), types.begin(), types.end());
    }
    return all;
  }
  Sample get(std::int64_t index) const override {
    Sample all;
    for (const DatasetPtr& part : parts_) {
      const Sample sample = part->get(index);
      all.insert(all.end(), sample.begin(), sample.end());
    }
    return all;
  }

 private:
  std::vector<DatasetPtr> parts_;
};

}  // namespace

DatasetPtr toTensor(DatasetPtr dataset, std::size_t tensor) {
  return std::make_shared<ImageDataset>(given(std::move(dataset), "toTensor"), tensor);
}

DatasetPtr normalize(DatasetPtr dataset,
                     std::vector<double> mean,
                     std::vector<double> deviation,
                     std::size_t tensor) {
  if (const auto* image = dynamic_cast<const ImageDataset*>(dataset.get());
      image != nullptr && image->tensor() == tensor && !image->normalized()) {
    return std::make_shared<ImageDataset>(*image, std::move(mean), std::move(deviation));
  }
  return std::make_shared<NormalizedDataset>(
      given(std::move(dataset), "normalize"), std::move(mean), std::move(deviation), tensor);
}

DatasetPtr map(DatasetPtr dataset, SampleFunction function) {
  return std::make_shared<Mapped>(given(std::move(dataset), "map"),
                                  given(std::move(function), "map", "function"));
}

DatasetPtr shuffle(DatasetPtr dataset, std::uint64_t seed) {
  const std::int64_t size = given(dataset, "shuffle")->size();
  return std::make_shared<Renumbered>(
      std::move(dataset), size, [order = sampleOrder(size, Shuffle::Yes, seed, 0)](std::int64_t i) {
        return order[static_cast<std::size_t>(i)];
      });
}

DatasetPtr repeat(DatasetPtr dataset, std::int64_t times) {
  const std::int64_t size = given(dataset, "repeat")->size();
  std::int64_t total = 0;
  if (times < 0 || __builtin_mul_overflow(size, times, &total)) {
    raise<InvalidArgument>("repeat: cannot have {} samples {} times", size, times);
  }
  return std::make_shared<Renumbered>(
      std::move(dataset), total, [size](std::int64_t i) { return i % size; });
}

DatasetPtr take(DatasetPtr dataset, std::int64_t count) {
  if (count < 0) {
    raise<InvalidArgument>("take: the count must not be negative, got {}", count);
  }
  const std::int64_t size = std::min(given(dataset, "take")->size(), count);
  return std::make_shared<Renumbered>(std::move(dataset), size, [](std::int64_t i) { return i; });
}

DatasetPtr batch(DatasetPtr dataset, std::int64_t size, Remainder remainder) {
  return std::make_shared<Batched>(given(std::move(dataset), "batch"), size, remainder);
}

DatasetPtr zip(std::vector<DatasetPtr> datasets) {
  return std::make_shared<Zipped>(givenEach(std::move(datasets), "zip"));
}

}  // namespace sluice::data
