// The conformance suite: one case is an op with operands and attributes, used for several checks -
// reference against every device, finite differences, thread counts. Every op of the table needs at
// least one case; a test fails otherwise. Cases live in the cases_*.cpp files, one list per family.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sluice/ir/op_def.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

struct Operand {
  TensorType type;
  double low = -1.0;
  double high = 1.0;
  std::optional<HostTensor> value = {};  ///< used as it is, instead of random numbers
  bool differentiate = true;             ///< false: no gradient passes to it, by definition
};

/// A float32 operand.
inline Operand f32(Shape shape, double low = -1.0, double high = 1.0) {
  return {{DType::F32, std::move(shape)}, low, high};
}
/// These indices.
inline Operand indices(Shape shape, std::initializer_list<std::int64_t> values) {
  return {{DType::I64, shape}, 0, 0, HostTensor::of<std::int64_t>(shape, values)};
}
/// Whole numbers in [low, high).
inline Operand i64(Shape shape, double low, double high) {
  return {{DType::I64, std::move(shape)}, low, high};
}
inline Operand i32(Shape shape, double low, double high) {
  return {{DType::I32, std::move(shape)}, low, high};
}
inline Operand u8(Shape shape, double low, double high) {
  return {{DType::U8, std::move(shape)}, low, high};
}
inline Operand boolean(Shape shape) {
  return {{DType::Bool, std::move(shape)}};
}

struct OpCase {
  const ir::OpDef& def;
  std::vector<Operand> operands;
  ir::Attrs attrs = {};
  std::string label = {};  ///< tells cases of one op apart, [A-Za-z0-9_]
  bool gradient = true;    ///< finite differences, if the op has a gradient
  std::int64_t terms = 1;  ///< additions behind one output element, for the tolerance
};

std::vector<OpCase> attentionCases();
std::vector<OpCase> controlCases();
std::vector<OpCase> elementwiseCases();
std::vector<OpCase> indexingCases();
std::vector<OpCase> linearCases();
std::vector<OpCase> mathCases();
std::vector<OpCase> normCases();
std::vector<OpCase> shapeCases();
std::vector<OpCase> vendorCases();

/// All of the above.
std::vector<OpCase> allCases();
std::string caseName(const OpCase& c);
void PrintTo(const OpCase& c, std::ostream* stream);  // NOLINT: GoogleTest looks for this name

}  // namespace sluice::testing
