// Datasets: where samples come from. A sample is a list of tensors, of the same types in all
// samples of a dataset. A map-style Dataset gives any sample by its index and may be read by
// several threads at once; an IterableDataset gives one after the other to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

using Sample = std::vector<HostTensor>;
using Types = std::vector<TensorType>;

class Dataset {
 public:
  Dataset() = default;
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual std::int64_t size() const = 0;
  /// Sample `index` of [0, size()). Called by several threads at once.
  virtual Sample get(std::int64_t index) const = 0;
  /// Of the tensors of a sample; those of sample 0 unless a dataset knows better. Throws
  /// InvalidArgument for an empty dataset.
  virtual Types types() const;
  /// Writes the samples behind each other: rows[k] has shape [indices.size(), tensor k of a
  /// sample]. Datasets that can do so without a tensor per sample override it. Errors name the
  /// sample; one of other types than the rows is an error.
  virtual void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const;

 protected:
  /// Throws InvalidArgument.
  void requireIndex(std::int64_t index) const;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

class IterableDataset {
 public:
  IterableDataset() = default;
  virtual ~IterableDataset() = default;
  IterableDataset(const IterableDataset&) = delete;
  IterableDataset& operator=(const IterableDataset&) = delete;

  /// Nothing at the end.
  virtual std::optional<Sample> next() = 0;
  /// Starts again from the first sample.
  virtual void restart() = 0;
  /// Starts again with the samples that `epoch` restarts would bring, which matters where their
  /// order changes from epoch to epoch.
  virtual void setEpoch(std::int64_t /*epoch*/) { restart(); }
  /// Leaves out the next samples and returns how many there were, fewer than `count` at the end.
  virtual std::int64_t skip(std::int64_t count);
};

using IterablePtr = std::shared_ptr<IterableDataset>;
using SampleFunction = std::function<Sample(Sample)>;

/// Samples one after the other, and what the threads of a loader do with each of them: decode it,
/// say. The dataset is read in order by one thread, `prepare` runs in several.
struct Stream {
  IterablePtr dataset;
  SampleFunction prepare = {};  ///< empty: nothing
};

/// Tensors in memory, one row of each per sample. Throws InvalidArgument unless there are some and
/// their first dimensions agree.
DatasetPtr tensorDataset(std::vector<HostTensor> tensors);

/// `count` rows of this type, with the row's extents behind.
TensorType batchType(const TensorType& sample, std::int64_t count);
/// Tensors for `count` samples, not shared with anything.
std::vector<HostTensor> makeBatch(const Types& types, std::int64_t count);
/// Stacks samples of equal types. Throws InvalidArgument naming sample `first` + i that differs.
std::vector<HostTensor> stack(std::span<const Sample> samples, std::int64_t first);

}  // namespace sluice::data
