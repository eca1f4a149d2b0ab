// NonFinite: the place where numbers first stop being finite. A checked run of a program checks
// what every kernel reads and writes. The first kernel that makes a NaN or an infinity from
// operands without one, or that compares with a NaN, ends the run with a FloatingPointError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::runtime {

struct NonFinite {
  std::string op;       ///< "div 'net/div'", or its source: "input 0", "variable 'w'"
  std::string problem;  ///< "makes inf (element 3 of 8) out of finite operands: ..."
  std::string part;     ///< "forward 1", "update 0"; empty for an input or a variable
  std::int32_t stage = 0;
  std::int64_t microBatch = -1;  ///< of the step, over all replicas; -1: once per update, or none

  std::string str() const;
};

class FloatingPointError : public Error {
 public:
  explicit FloatingPointError(NonFinite found)
      : Error(found.str(), "FloatingPointError"), found_(std::move(found)) {}

  const NonFinite& found() const { return found_; }

 private:
  NonFinite found_;
};

/// The first NaN and the first infinity of a tensor.
struct FiniteCheck {
  std::int64_t nan = -1;  ///< index of the first NaN; -1: none
  std::int64_t inf = -1;

  bool finite() const { return nan < 0 && inf < 0; }
  /// The first element that is not finite; -1 if all are.
  std::int64_t first() const { return inf < 0 || (nan >= 0 && nan < inf) ? nan : inf; }
};

/// Integers are always finite.
FiniteCheck checkFinite(const TensorType& type, const void* elements);

}  // namespace sluice::runtime

#pragma GCC visibility pop
