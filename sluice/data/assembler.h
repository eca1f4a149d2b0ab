// Assembler: makes the batches of a Loader one after the other, in the thread of whoever calls; its
// workers read or prepare the samples of each. One kind for datasets with an index, one for
// streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sluice/data/loader.h"

namespace sluice::data {

/// What is known of an epoch before it begins.
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

  /// The next batch, or nothing at the end of an epoch: the call after that begins the next one.
  virtual std::optional<Batch> produce() = 0;
  /// The next batch is this one.
  virtual void goTo(std::int64_t epoch, std::int64_t position) = 0;
  /// Nothing: it shows when the epoch ends.
  virtual std::optional<EpochSize> size() const = 0;

  const LoaderOptions options;

 protected:
  /// Samples that a worker takes at a time.
  std::int64_t partSize(std::int64_t count, std::int64_t threads) const;
};

std::unique_ptr<Assembler> assemblerOf(DatasetPtr dataset, const LoaderOptions& options);
std::unique_ptr<Assembler> assemblerOf(Stream stream, const LoaderOptions& options);

}  // namespace sluice::data
