// Counts the allocations of a test program: linking allocation_count.cpp replaces operator new.
#pragma once

#include <cstdint>

namespace sluice::testing {

/// The number of calls of operator new so far, from all threads.
std::int64_t allocationCount();
/// The bytes requested by these calls, whether freed or not.
std::int64_t allocatedBytes();

}  // namespace sluice::testing
