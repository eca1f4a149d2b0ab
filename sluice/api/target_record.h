// TargetRecord: what a program was compiled for, so that a file can say whether it still fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What the choices of kernels depend on, besides ops and types.
struct TargetRecord {
  std::string library;                    ///< version of Sluice
  std::string devices;                    ///< names, as Options::device takes them
  std::vector<std::string> descriptions;  ///< by name in that list
  std::uint64_t tuning = 0;               ///< hash of the tuning table

  bool operator==(const TargetRecord&) const = default;
  /// Says in what the other one differs; empty: in nothing.
  std::string difference(const TargetRecord& here) const;
};

}  // namespace sluice
