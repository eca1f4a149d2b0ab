// A cut of a model from a file at tensors that are named.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/onnx/files.h"

namespace sluice::cli {

/// The names of a list "a,b". Throws CLI::ValidationError, naming the option, for an empty one.
std::vector<std::string> namesOf(std::string_view option, std::string_view list);

/// Cuts the ops of the model, in their order, after the op that makes each of these tensors, and
/// gives every part the next device. Returns the number of parts. Throws InvalidArgument for a
/// tensor that the model does not have or that no op makes, and for a cut that leaves a part empty.
std::int64_t cutAfter(onnx::ImportedModel& model, const std::vector<std::string>& names);

}  // namespace sluice::cli
