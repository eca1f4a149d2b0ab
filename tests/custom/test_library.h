// The ops of test_ops.cpp as tests use them.
#pragma once

#include "sluice/sluice.h"

namespace sluice::testing {

inline constexpr const char* kTestDomain = "com.example.test";

/// Loads the library; again and again is no harm.
inline void loadTestOps() {
  loadCustomOps(LIBRARY_TEST_OPS);
}

/// A use of an op of the library, in version 1.
inline ops::CustomOpUse use(std::string name, std::vector<ops::CustomAttribute> attributes = {}) {
  return {.name = std::move(name), .domain = kTestDomain, .attributes = std::move(attributes)};
}

}  // namespace sluice::testing
