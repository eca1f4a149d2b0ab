// Samples on their way into the rows of a batch, with errors that name them.
#pragma once

#include <cstdint>
#include <exception>
#include <span>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

/// Row `at` of each tensor becomes the sample. Throws InvalidArgument for one of other types.
void writeRow(std::span<const HostTensor> sample, std::span<HostTensor> rows, std::int64_t at);

/// Runs `action` and adds the sample to its error, whatever its type.
template <class Action>
void ofSample(std::int64_t index, const Action& action) {
  try {
    action();
  } catch (Error& error) {
    error.at(fmt::format("sample {}", index));
    throw;
  } catch (const std::exception& error) {
    raise<Error>("sample {}: {}", index, error.what());
  }
}

}  // namespace sluice::data
