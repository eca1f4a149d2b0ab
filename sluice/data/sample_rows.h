// Writes samples into the rows of a batch, with errors that name the sample.
#pragma once

#include <cstdint>
#include <exception>
#include <span>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

/// Writes the sample to row `at` of each tensor. Throws InvalidArgument if its types differ.
void writeRow(std::span<const HostTensor> sample, std::span<HostTensor> rows, std::int64_t at);

/// Runs `action`. If it throws an error of any type, adds the number of the sample to it.
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
