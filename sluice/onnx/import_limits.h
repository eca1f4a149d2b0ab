// What a model may ask for while it is imported: a few bytes of a file can ask for any amount of
// work and memory. Whoever trusts a model raises them in ImportOptions::limits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::onnx {

struct ImportLimits {
  std::int64_t runs = 10'000;    ///< of the body of one Loop or Scan; each is a copy of its ops
  std::size_t bodies = 100'000;  ///< runs of all bodies and calls of all functions together
  std::size_t ops = 300'000;     ///< of the graph once bodies are inlined
  std::size_t constantBytes = std::size_t{192}
                              << 20U;  ///< of all tensors that are computed meanwhile
  double constantWork = 2e9;  ///< flops and bytes read and written to compute those tensors
  std::size_t sequenceElements = 4'000'000;  ///< of all sequences that are made
};

}  // namespace sluice::onnx
