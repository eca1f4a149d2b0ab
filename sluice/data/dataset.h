// Datasets: where samples come from. A sample is a list of tensors; their types are the same in all
// samples of a dataset. A map-style Dataset returns any sample by its index and may be read by
// several threads at once. An IterableDataset returns one sample after the other, to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

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
  /// The sample at `index`, which is in [0, size()). Several threads may call it at once.
  virtual Sample get(std::int64_t index) const = 0;
  /// The types of a sample's tensors. The default reads sample 0 and throws InvalidArgument for an
  /// empty dataset.
  virtual Types types() const;
  /// Writes the samples one after the other: rows[k] has shape [indices.size(), tensor k of a
  /// sample]. Datasets that need no tensor per sample for this override it. Errors name the sample;
  /// a sample whose types differ from those of the rows is an error.
  virtual void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const;

 protected:
  /// Throws InvalidArgument if the index is out of range.
  void requireIndex(std::int64_t index) const;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

class IterableDataset {
 public:
  IterableDataset() = default;
  virtual ~IterableDataset() = default;
  IterableDataset(const IterableDataset&) = delete;
  IterableDataset& operator=(const IterableDataset&) = delete;

  /// The next sample; nullopt at the end.
  virtual std::optional<Sample> next() = 0;
  /// Starts again from the first sample.
  virtual void restart() = 0;
  /// Starts again as if restart() had been called `epoch` times on a new dataset. This matters if
  /// the order changes from epoch to epoch.
  virtual void setEpoch(std::int64_t /*epoch*/) { restart(); }
  /// Skips the next `count` samples. Returns how many were skipped: fewer if the dataset ends
  /// first.
  virtual std::int64_t skip(std::int64_t count);
};

using IterablePtr = std::shared_ptr<IterableDataset>;
using SampleFunction = std::function<Sample(Sample)>;

/// A sequence of samples, and a function that a loader applies to each of them, for instance to
/// decode it. One thread reads the dataset in order; several threads run `prepare`.
struct Stream {
  IterablePtr dataset;
  SampleFunction prepare = {};  ///< empty: samples stay as they are
};

/// A dataset of tensors in memory; a sample is one row of each. Throws InvalidArgument for an empty
/// list and for first dimensions that differ.
DatasetPtr tensorDataset(std::vector<HostTensor> tensors);

/// The type of `count` samples of this type stacked: [count, extents of the sample].
TensorType batchType(const TensorType& sample, std::int64_t count);
/// New tensors with room for `count` samples.
std::vector<HostTensor> makeBatch(const Types& types, std::int64_t count);
/// Stacks samples of equal types. Throws InvalidArgument for a sample i that differs and names it
/// as sample `first` + i.
std::vector<HostTensor> stack(std::span<const Sample> samples, std::int64_t first);

}  // namespace sluice::data

#pragma GCC visibility pop
