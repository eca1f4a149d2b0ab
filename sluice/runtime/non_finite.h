// NonFinite: where numbers first stop being finite. A checked run of a program looks at what every
// kernel reads and writes; the first one that makes a NaN or an infinity out of operands without
// one, or compares with a NaN, ends it with a FloatingPointError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/tensor/shape.h"

namespace sluice::runtime {

struct NonFinite {
  std::string op;       ///< "div 'net/div'"; "input 0" or "variable 'w'" if it came from there
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

/// What a tensor has of NaNs and infinities.
struct FiniteCheck {
  std::int64_t nan = -1;  ///< the first element that is one; -1: none
  std::int64_t inf = -1;

  bool finite() const { return nan < 0 && inf < 0; }
  /// Of them, the one that comes first; -1 if all are finite.
  std::int64_t first() const { return inf < 0 || (nan >= 0 && nan < inf) ? nan : inf; }
};

/// Integers are finite.
FiniteCheck checkFinite(const TensorType& type, const void* elements);

}  // namespace sluice::runtime
