// The seed of tests labelled `soak`; `./dev soak` runs them again and again with new seeds.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace sluice::testing {

/// The environment variable SLUICE_SEED, or 1.
inline std::uint64_t soakSeed() {
  const char* text = std::getenv("SLUICE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace sluice::testing
