// Counts the allocations of a test program: linking allocation_count.cpp replaces operator new.
#pragma once

#include <cstdint>

namespace sluice::testing {

/// Calls of operator new so far, from all threads.
std::int64_t allocationCount();
/// Bytes that they asked for, whether freed again or not.
std::int64_t allocatedBytes();

}  // namespace sluice::testing
