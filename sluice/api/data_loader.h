// DataLoader: cuts a dataset into the batches that a model takes per call. Every batch has
// batchSize x deviceIterations x gradientAccumulation x replicas samples, in the order in which the
// model distributes them, so model.run(batch) is all there is to do. The samples of a batch depend
// only on the seed, the epoch and the number of the batch, not on the mode or the workers.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/api/options.h"
#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice {

using DataLoaderMode = data::LoaderMode;

/// What happens to the samples at the end of an epoch that do not fill a call.
enum class LastBatch : std::uint8_t {
  Drop,  ///< they are left out, and their number is logged
  /// Whole updates, then one update from the rest; every sample has the same weight. A warning says
  /// how many samples get calls of other shapes.
  Exact
};

struct DataLoaderOptions {
  data::Shuffle shuffle = data::Shuffle::No;
  std::optional<std::uint64_t> seed = {};  ///< not set: randomSeed of the options, or 0
  std::int64_t workers = 0;                ///< threads that read samples
  DataLoaderMode mode = DataLoaderMode::Sync;
  LastBatch lastBatch = LastBatch::Drop;
  std::int64_t rebatchedWorkerSize = 0;  ///< samples per turn of a worker; AsyncRebatched only
  std::int64_t bufferSize = 3;           ///< batches that are prepared in advance
  bool loadIndefinitely = true;          ///< loads the next epoch before it is asked for
  bool earlyPreload = false;             ///< starts loading before the first batch is asked for
};

class DataLoader {
 public:
  /// Freezes the options. Without a batch size, every sample of the dataset is a whole call. With
  /// several processes (options.distributed), each process gets its own samples. Throws
  /// InvalidArgument for options that make no sense, for shuffling over processes without a seed,
  /// and for LastBatch::Exact with several processes, with the reduction Sum, or with a remainder
  /// that the replicas cannot share evenly.
  DataLoader(const Options& options,
             data::DatasetPtr dataset,
             std::optional<std::int64_t> batchSize = 1,
             const DataLoaderOptions& loading = {});

  /// Loads the samples of a stream in their order. LastBatch::Exact and Shuffle::Yes are not
  /// allowed; data::shuffle makes a shuffled stream.
  DataLoader(const Options& options,
             data::Stream stream,
             std::optional<std::int64_t> batchSize = 1,
             const DataLoaderOptions& loading = {});

  /// See data::Loader::next.
  std::optional<Batch> next();

  /// Calls per epoch. This, samples() and leftOver() throw InvalidArgument for a stream, whose
  /// length is not known.
  std::int64_t length() const { return loader_.batches(); }
  bool hasLength() const { return loader_.hasLength(); }
  /// Samples per call.
  std::int64_t combinedBatchSize() const { return combined_; }
  std::int64_t samples() const { return loader_.samples(); }
  std::int64_t leftOver() const { return loader_.leftOver(); }
  std::int64_t epoch() const { return loader_.epoch(); }
  std::int64_t position() const { return loader_.position(); }

  /// The loader's position as text, and how to continue from there; see data::Loader.
  std::string state() const { return loader_.state(); }
  void restore(std::string_view state) { loader_.restore(state); }

  /// for (const Batch& batch : loader) visits what is left of the epoch.
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;
    Iterator() = default;
    explicit Iterator(DataLoader* loader) : loader_(loader), batch_(loader->next()) {}
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_.reset();  // its memory may be needed for the next batch
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  Iterator begin() { return Iterator(this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  struct Plan;
  static Plan planOf(const Options& options,
                     std::optional<std::int64_t> samples,
                     std::optional<std::int64_t> batchSize,
                     const DataLoaderOptions& loading);
  DataLoader(const Plan& plan, data::DatasetPtr dataset);
  DataLoader(const Plan& plan, data::Stream stream);

  std::int64_t combined_;
  std::vector<CallShape> tail_;  // the last calls of an epoch
  data::Loader loader_;
};

}  // namespace sluice

#pragma GCC visibility pop
