#include "sluice/data/dataset.h"

#include <cstring>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/data/sample_rows.h"

namespace sluice::data {
namespace {

std::string typesText(std::span<const HostTensor> tensors) {
  std::vector<std::string> texts;
  for (const HostTensor& tensor : tensors) {
    texts.push_back(tensor.type().str());
  }
  return fmt::format("({})", fmt::join(texts, ", "));
}

class TensorDataset : public Dataset {
 public:
  explicit TensorDataset(std::vector<HostTensor> tensors) : tensors_(std::move(tensors)) {
    if (tensors_.empty()) {
      raise<InvalidArgument>("a dataset of tensors needs at least one");
    }
    for (const HostTensor& tensor : tensors_) {
      if (tensor.shape().rank() == 0 || tensor.shape()[0] != tensors_[0].shape()[0]) {
        raise<InvalidArgument>(
            "the tensors of a dataset must have one number of samples, got {} and {}",
            tensors_[0].type().str(),
            tensor.type().str());
      }
      std::vector<std::int64_t> dims(tensor.shape().dims().begin() + 1,
                                     tensor.shape().dims().end());
      types_.push_back({tensor.dtype(), Shape(std::move(dims))});
    }
  }

  std::int64_t size() const override { return tensors_[0].shape()[0]; }
  Types types() const override { return types_; }

  Sample get(std::int64_t index) const override {
    requireIndex(index);
    Sample sample;
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      sample.push_back(tensors_[k].rows(index, 1).reshaped(types_[k].shape));
    }
    return sample;
  }

  void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const override {
    for (const std::int64_t index : indices) {
      requireIndex(index);
    }
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      const std::size_t bytes = types_[k].bytes();
      const std::byte* from = tensors_[k].bytes();
      std::byte* to = rows[k].bytes();
      for (std::size_t i = 0; i < indices.size() && bytes > 0; ++i) {
        std::memcpy(to + bytes * i, from + bytes * static_cast<std::size_t>(indices[i]), bytes);
      }
    }
  }

 private:
  std::vector<HostTensor> tensors_;
  Types types_;
};

}  // namespace

void writeRow(std::span<const HostTensor> sample, std::span<HostTensor> rows, std::int64_t at) {
  bool fits = sample.size() == rows.size();
  for (std::size_t k = 0; fits && k < rows.size(); ++k) {
    fits = batchType(sample[k].type(), rows[k].shape()[0]) == rows[k].type();
  }
  if (!fits) {
    raise<InvalidArgument>(
        "the sample is {}, the others of the batch make {}", typesText(sample), typesText(rows));
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const std::size_t bytes = sample[k].byteCount();
    if (bytes > 0) {
      std::memcpy(rows[k].bytes() + bytes * static_cast<std::size_t>(at), sample[k].bytes(), bytes);
    }
  }
}

Types Dataset::types() const {
  if (size() == 0) {
    raise<InvalidArgument>("an empty dataset has no sample whose types could be seen");
  }
  Types types;
  ofSample(0, [&] {
    for (const HostTensor& tensor : get(0)) {
      types.push_back(tensor.type());
    }
  });
  return types;
}

void Dataset::read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ofSample(indices[i], [&] { writeRow(get(indices[i]), rows, static_cast<std::int64_t>(i)); });
  }
}

void Dataset::requireIndex(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    raise<InvalidArgument>("there is no sample {} in a dataset of {}", index, size());
  }
}

std::int64_t IterableDataset::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && next()) {
    ++skipped;
  }
  return skipped;
}

DatasetPtr tensorDataset(std::vector<HostTensor> tensors) {
  return std::make_shared<TensorDataset>(std::move(tensors));
}

TensorType batchType(const TensorType& sample, std::int64_t count) {
  std::vector<std::int64_t> dims = {count};
  dims.insert(dims.end(), sample.shape.dims().begin(), sample.shape.dims().end());
  return {sample.dtype, Shape(std::move(dims))};
}

std::vector<HostTensor> makeBatch(const Types& types, std::int64_t count) {
  std::vector<HostTensor> batch;
  for (const TensorType& type : types) {
    batch.emplace_back(batchType(type, count));
  }
  return batch;
}

std::vector<HostTensor> stack(std::span<const Sample> samples, std::int64_t first) {
  Types types;
  for (const HostTensor& tensor : samples.empty() ? Sample() : samples[0]) {
    types.push_back(tensor.type());
  }
  std::vector<HostTensor> batch = makeBatch(types, static_cast<std::int64_t>(samples.size()));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    ofSample(first + at, [&] { writeRow(samples[i], batch, at); });
  }
  return batch;
}

}  // namespace sluice::data
