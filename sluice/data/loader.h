// Loader: turns a dataset into batches, epoch by epoch. Which samples a batch has, and in which
// order, depends only on the seed, the epoch and the number of the batch: not on the mode, the
// number of workers, or what was loaded before. sluice::DataLoader makes one from a model's
// Options.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/data/batch.h"
#include "sluice/data/dataset.h"
#include "sluice/data/sample_order.h"

#pragma GCC visibility push(default)

namespace sluice::data {

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
