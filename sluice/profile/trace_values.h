// The written values of a Trace as bytes of its file: first every value once, with its op, name and
// type, then for each step the entries in the order in which they were written. Private to the
// module.
#pragma once

#include <vector>

#include "sluice/base/byte_code.h"
#include "sluice/runtime/write_log.h"

namespace sluice::profile {

using StepWrites = std::vector<runtime::WrittenValue>;

void writeValues(ByteWriter& out, const std::vector<StepWrites>& steps);
/// Throws FileError for what writeValues does not write.
std::vector<StepWrites> readValues(ByteReader& in, std::size_t steps);

}  // namespace sluice::profile
