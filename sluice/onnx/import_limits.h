// Limits on what a model may ask for while it is imported, because a few bytes of a file can ask
// for any amount of work and memory. Raise them in ImportOptions::limits for a model that you
// trust.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)

namespace sluice::onnx {

struct ImportLimits {
  std::int64_t runs = 10'000;  ///< runs of a body that is unrolled; each is a copy of its ops
  std::int64_t rolledRuns = 1'000'000;  ///< runs of a body that is one loop
  std::size_t bodies = 100'000;         ///< runs of all bodies and calls of all functions together
  std::size_t ops = 300'000;            ///< ops of the graph after bodies are inlined
  std::size_t constantBytes = std::size_t{192}
                              << 20U;  ///< total size of the tensors that are computed meanwhile
  double constantWork = 2e9;  ///< flops and bytes read and written to compute those tensors
  std::size_t sequenceElements = 4'000'000;  ///< elements of all sequences together
};

}  // namespace sluice::onnx

#pragma GCC visibility pop
