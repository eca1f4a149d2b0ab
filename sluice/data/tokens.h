// A file of token numbers for language models, mapped into memory, so that even a large file takes
// no memory of its own. Sample i is a window of the file and the same window one token later: what
// the model reads and what it should predict.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice::data {

struct TokenOptions {
  std::int64_t sequence = 128;  ///< tokens per sample
  std::int64_t stride = 0;      ///< tokens from one sample to the next; 0: `sequence`
  DType stored = DType::U16;    ///< integer type in the file, little-endian
  DType as = DType::I64;        ///< type in a sample
  std::size_t headerBytes = 0;  ///< skipped at the start of the file
  std::int64_t vocabulary = 0;  ///< tokens must be below this; 0: not checked
};

/// Samples are {tokens, next tokens}, [sequence] each. Throws FileError for a file that cannot be
/// mapped, ends with a part of a token, or has less than one sample, and InvalidArgument for
/// options that make no sense.
DatasetPtr tokenDataset(const std::string& path, const TokenOptions& options);

}  // namespace sluice::data

#pragma GCC visibility pop
