// Assembler: makes the batches of a Loader one after the other, in the calling thread. Its workers
// read or prepare the samples of each batch. There is one kind for map-style datasets and one for
// streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sluice/data/dataset.h"

namespace sluice::data {

/// What is known about an epoch before it begins.
struct EpochSize {
  std::int64_t samples = 0;
  std::int64_t batches = 0;
  std::int64_t leftOver = 0;  ///< samples that no process reads
};

class Assembler {
 public:
  /// Throws InvalidArgument for options that make no sense.
  explicit Assembler(const LoaderOptions& given);
  virtual ~Assembler() = default;
  Assembler(const Assembler&) = delete;
  Assembler& operator=(const Assembler&) = delete;

  /// The next batch, or nullopt at the end of an epoch; the call after that begins the next epoch.
  virtual std::optional<Batch> produce() = 0;
  /// Makes this batch the next one.
  virtual void goTo(std::int64_t epoch, std::int64_t position) = 0;
  /// Returns nullopt if the size is not known before the epoch ends.
  virtual std::optional<EpochSize> size() const = 0;

  const LoaderOptions options;

 protected:
  /// Samples that a worker takes at a time.
  std::int64_t partSize(std::int64_t count, std::int64_t threads) const;
};

std::unique_ptr<Assembler> assemblerOf(DatasetPtr dataset, const LoaderOptions& options);
std::unique_ptr<Assembler> assemblerOf(Stream stream, const LoaderOptions& options);

}  // namespace sluice::data
