// Loader: a dataset as batches, epoch by epoch. Which samples make a batch, and in which order,
// depends only on the options' seed, the epoch and the batch number: not on the mode, the number of
// workers, or what was loaded before. sluice::DataLoader makes one from a model's Options.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/data/batch.h"
#include "sluice/data/dataset.h"
#include "sluice/data/prefetcher.h"
#include "sluice/data/sample_order.h"

namespace sluice::data {

enum class LoaderMode : std::uint8_t {
  Sync,           ///< next() reads the samples
  Async,          ///< a thread does so ahead of time; workers share each batch in equal parts
  AsyncRebatched  ///< the same, workers take parts of rebatchedWorkerSize as they become free
};

/// The samples of all processes' batches, dealt out in blocks: block k goes to process k % count.
struct Shard {
  std::int64_t count = 1;
  std::int64_t index = 0;
  std::int64_t block = 1;  ///< samples; must divide the batch size
};

struct LoaderOptions {
  std::optional<std::int64_t> batchSize = 1;  ///< not set: every sample is a batch already
  std::vector<std::int64_t> tail = {};        ///< sizes of further batches at the end of an epoch
  Shuffle shuffle = Shuffle::No;
  std::uint64_t seed = 0;
  std::int64_t workers = 0;  ///< threads that read samples; 0 and 1: the one that needs them
  LoaderMode mode = LoaderMode::Sync;
  std::int64_t rebatchedWorkerSize = 0;  ///< 0: a quarter of a worker's equal part
  std::int64_t bufferSize = 3;           ///< batches that are ready ahead
  bool loadIndefinitely = true;          ///< goes on to the next epoch before it is asked for
  bool earlyPreload = false;             ///< begins before the first batch is asked for
  Shard shard = {};
};

/// Who makes batches of the samples of several workers.
enum class Batching : std::uint8_t {
  PerWorker,  ///< each of its own ceil(n / workers) consecutive ones, with a remainder each
  Joined      ///< one batch after the other of all of them, as a Loader does
};
/// How many of `samples` are in full batches.
std::int64_t samplesUsed(std::int64_t samples,
                         std::int64_t batchSize,
                         std::int64_t workers,
                         Batching batching);

class Assembler;

class Loader {
 public:
  /// Throws InvalidArgument for options that make no sense. What an epoch leaves out is logged.
  Loader(DatasetPtr dataset, const LoaderOptions& options);
  /// Batches of consecutive samples of a stream. Nobody else may read it. All processes read the
  /// same samples, prepare their own and leave out the same rest. Throws InvalidArgument for
  /// options that need to know the number of samples: Shuffle::Yes and a tail.
  Loader(Stream stream, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch of the epoch, or nothing once at its end: the call after that begins the next
  /// epoch. Errors of the dataset name the sample; the loader is of no use behind one. One thread
  /// at a time.
  std::optional<Batch> next();

  /// Of an epoch, of this process. Throws InvalidArgument for a stream, as the next two do: it ends
  /// when it ends.
  std::int64_t batches() const;
  /// Of the dataset.
  std::int64_t samples() const;
  /// Samples that no process reads in an epoch.
  std::int64_t leftOver() const;
  /// Whether the above are known.
  bool hasLength() const;
  const LoaderOptions& options() const;
  /// Of the batch that next() gives.
  std::int64_t epoch() const { return epoch_; }
  std::int64_t position() const { return position_; }

  /// Where the loader is, as a JSON object: epoch, position and seed, and what they refer to.
  std::string state() const;
  /// Continues where another one was. Throws InvalidArgument for text that is no state, or that of
  /// other samples or batches.
  void restore(std::string_view state);

 private:
  void begin();
  void startPrefetching();

  std::unique_ptr<Assembler> assembler_;
  std::unique_ptr<Prefetcher> prefetcher_;  // null: Sync, or not begun
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace sluice::data
