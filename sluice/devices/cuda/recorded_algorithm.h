// The algorithm of a matrix product as text, so that a tuning table can name it by shape: what a
// product runs with then is data of the plan. Without a line in the table the library's heuristic
// chooses when the kernel is made, and the plan says so. Private to the device and its tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/ir/op_def.h"

namespace sluice::devices::cuda {

/// In a Choice: the library chooses at load, for a workspace that is fixed.
inline constexpr std::string_view kChosenAtLoad = "chosen-at-load";

/// The key of a product in a tuning table: types, extents, transposes and batches.
std::string algorithmKey(const ir::OpView& op);

/// An algorithm, and what it is for: its words mean nothing elsewhere.
struct RecordedAlgorithm {
  std::string architecture;   ///< "sm_90"
  std::uint64_t library = 0;  ///< version of cuBLASLt
  std::array<std::uint64_t, 8> words{};

  bool operator==(const RecordedAlgorithm&) const = default;
  /// "sm_90/130000/0123...": a value of a tuning table.
  std::string str() const;
  /// Throws ConfigFileError if the text has another form.
  static RecordedAlgorithm parse(std::string_view text);
};

}  // namespace sluice::devices::cuda
