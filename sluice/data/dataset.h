// Datasets: where samples come from. A sample is a list of tensors; their types are the same in all
// samples of a dataset. A map-style Dataset returns any sample by its index and may be read by
// several threads at once. An IterableDataset returns one sample after the other, to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {

// Batch: a batch as loaders and queues pass it on.

struct Batch {
  std::vector<HostTensor> tensors;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< in its epoch
};

// The order in which an epoch visits the samples: a permutation that depends only on the number of
// samples, the seed and the epoch.

enum class Shuffle : std::uint8_t { No, Yes };

/// The indices 0, 1, ..., or a permutation of them if they are shuffled.
std::vector<std::int64_t> sampleOrder(std::int64_t samples,
                                      Shuffle shuffle,
                                      std::uint64_t seed,
                                      std::int64_t epoch);

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

// Functions that make a dataset from another. A map-style dataset gives a map-style one: nothing is
// computed before a sample is read, and several threads may read it if the given functions allow
// that. An iterable dataset is taken over: nothing else may read it afterwards.

/// What happens to samples that do not fill a batch.
enum class Remainder : std::uint8_t { Drop, Keep };

/// Converts images of bytes to floats from 0 to 1 with the channels first: u8[h, w] to f32[1, h,
/// w], u8[h, w, c] to f32[c, h, w]. Throws InvalidArgument if tensor number `tensor` is not such an
/// image.
DatasetPtr toTensor(DatasetPtr dataset, std::size_t tensor = 0);
/// Computes (x - mean) / deviation of a float32 tensor; several values are one per channel (the
/// first dimension). After toTensor, both transforms are one step with one rounding. Throws
/// InvalidArgument for another type, another number of channels, and a deviation of 0.
DatasetPtr normalize(DatasetPtr dataset,
                     std::vector<double> mean,
                     std::vector<double> deviation,
                     std::size_t tensor = 0);
/// Applies a function to every sample. Its results must have the same types for all samples.
DatasetPtr map(DatasetPtr dataset, SampleFunction function);
/// Visits the samples in a random order that depends only on the seed. A DataLoader can itself
/// shuffle, in another order in each epoch.
DatasetPtr shuffle(DatasetPtr dataset, std::uint64_t seed);
/// Repeats the dataset `times` times.
DatasetPtr repeat(DatasetPtr dataset, std::int64_t times);
/// The first `count` samples, or all if there are fewer.
DatasetPtr take(DatasetPtr dataset, std::int64_t count);
/// Stacks every `size` consecutive samples into one.
DatasetPtr batch(DatasetPtr dataset, std::int64_t size, Remainder remainder = Remainder::Drop);
/// Joins the tensors of the samples of all datasets into one sample. Throws InvalidArgument unless
/// all datasets have the same size.
DatasetPtr zip(std::vector<DatasetPtr> datasets);

/// The samples of a map-style dataset in their order.
IterablePtr iterate(DatasetPtr dataset);
IterablePtr map(IterablePtr dataset, SampleFunction function);
/// Draws samples from a buffer of `bufferSize`. Every restart gives another order; all orders
/// depend only on the seed.
IterablePtr shuffle(IterablePtr dataset, std::int64_t bufferSize, std::uint64_t seed);
/// Repeats the dataset `times` times; without end if `times` is negative.
IterablePtr repeat(IterablePtr dataset, std::int64_t times = -1);
IterablePtr take(IterablePtr dataset, std::int64_t count);
IterablePtr batch(IterablePtr dataset, std::int64_t size, Remainder remainder = Remainder::Drop);
/// Ends when the first of the datasets ends.
IterablePtr zip(std::vector<IterablePtr> datasets);

// Loader: turns a dataset into batches, epoch by epoch. Which samples a batch has, and in which
// order, depends only on the seed, the epoch and the number of the batch: not on the mode, the
// number of workers, or what was loaded before. sluice::DataLoader makes one from a model's
// Options.

enum class LoaderMode : std::uint8_t {
  Sync,           ///< next() reads the samples
  Async,          ///< a thread reads them ahead of time; each worker reads an equal part of a batch
  AsyncRebatched  ///< the same, but idle workers take parts of rebatchedWorkerSize
};

/// The part of the samples that one of several processes gets. Samples are dealt out in blocks:
/// block k goes to process k % count.
struct Shard {
  std::int64_t count = 1;
  std::int64_t index = 0;
  std::int64_t block = 1;  ///< samples per block; must divide the batch size
};

struct LoaderOptions {
  std::optional<std::int64_t> batchSize = 1;  ///< not set: every sample is a batch already
  std::vector<std::int64_t> tail = {};        ///< sizes of further batches at the end of an epoch
  Shuffle shuffle = Shuffle::No;
  std::uint64_t seed = 0;
  std::int64_t workers = 0;  ///< threads that read samples; 0 or 1: the thread that needs them
  LoaderMode mode = LoaderMode::Sync;
  std::int64_t rebatchedWorkerSize = 0;  ///< 0: a quarter of a worker's equal part
  std::int64_t bufferSize = 3;           ///< batches that are prepared in advance
  bool loadIndefinitely = true;          ///< loads the next epoch before it is asked for
  bool earlyPreload = false;             ///< starts loading before the first batch is asked for
  Shard shard = {};
};

/// How the samples of several workers become batches.
enum class Batching : std::uint8_t {
  PerWorker,  ///< each from its own ceil(n / workers) consecutive samples, with its own remainder
  Joined      ///< from the samples of all workers together, as in a Loader
};
/// How many of `samples` samples are in full batches.
std::int64_t samplesUsed(std::int64_t samples,
                         std::int64_t batchSize,
                         std::int64_t workers,
                         Batching batching);

class Assembler;
class Prefetcher;

class Loader {
 public:
  /// Throws InvalidArgument for options that make no sense. Logs how many samples an epoch leaves
  /// out.
  Loader(DatasetPtr dataset, const LoaderOptions& options);
  /// Makes batches of consecutive samples of a stream, which nothing else may read. Every process
  /// reads all samples, prepares only its own, and leaves out the same remainder. Throws
  /// InvalidArgument for options that need the number of samples: Shuffle::Yes and a tail.
  Loader(Stream stream, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch of the epoch, or nullopt once at its end; the call after that begins the next
  /// epoch. The dataset's errors name the sample; after an error the loader cannot be used any
  /// more. One thread at a time may call it.
  std::optional<Batch> next();

  /// Batches of this process per epoch. This and the next two functions throw InvalidArgument for a
  /// stream, whose length is not known.
  std::int64_t batches() const;
  /// Samples of the dataset.
  std::int64_t samples() const;
  /// Samples that no process reads in an epoch.
  std::int64_t leftOver() const;
  /// Whether the three numbers above are known.
  bool hasLength() const;
  const LoaderOptions& options() const;
  /// The epoch of the batch that next() will return, and the batch's position in it.
  std::int64_t epoch() const { return epoch_; }
  std::int64_t position() const { return position_; }

  /// The loader's position as a JSON object: epoch, position and seed, and what they refer to.
  std::string state() const;
  /// Continues at the position of another loader. Throws InvalidArgument for text that is not a
  /// state, and for the state of other samples or batches.
  void restore(std::string_view state);

 private:
  void begin();
  void startPrefetching();

  std::unique_ptr<Assembler> assembler_;
  std::unique_ptr<Prefetcher> prefetcher_;  // null: Sync, or not started
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace sluice::data

#pragma GCC visibility pop
