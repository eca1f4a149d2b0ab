// A file of token numbers for language models, mapped into memory: files of any size cost no memory
// of their own. Sample i is a window of the file, and the same window one token further: what the
// model reads and what it should say next.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/data/dataset.h"

namespace sluice::data {

struct TokenOptions {
  std::int64_t sequence = 128;  ///< tokens of a sample
  std::int64_t stride = 0;      ///< from one sample to the next; 0: the sequence
  DType stored = DType::U16;    ///< in the file, little-endian: an integer type
  DType as = DType::I64;        ///< in a sample
  std::size_t headerBytes = 0;  ///< skipped at the begin of the file
  std::int64_t vocabulary = 0;  ///< a token of it or above is an error; 0: not checked
};

/// Samples {tokens, next tokens}, [sequence] each. Throws FileError for a file that cannot be
/// mapped, holds a part of a token or less than one sample; InvalidArgument for options that make
/// no sense.
DatasetPtr tokenDataset(const std::string& path, const TokenOptions& options);

}  // namespace sluice::data
