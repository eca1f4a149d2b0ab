// The conformance suite: one case is an op with operands and attributes, used for several checks -
// reference against every device, finite differences, thread counts. Every op of the table needs at
// least one case; a test fails otherwise. Cases live in the cases_*.cpp files, one list per family.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/ir/op_def.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

/// A tensor, or none; one that is computed is made when it is first needed, since every test's
/// process lists all cases. Copies share it.
class GivenTensor {
 public:
  GivenTensor() = default;
  // NOLINTBEGIN(google-explicit-constructor): a tensor stands for itself in lists of operands
  GivenTensor(HostTensor value) : made_(std::make_shared<Made>(Made{{}, std::move(value)})) {}
  GivenTensor(std::function<HostTensor()> make)
      : made_(std::make_shared<Made>(Made{std::move(make), {}})) {}
  // NOLINTEND(google-explicit-constructor)

  explicit operator bool() const { return made_ != nullptr; }
  HostTensor& operator*() const {
    if (!made_->value) {
      made_->value = made_->make();
    }
    return *made_->value;
  }
  HostTensor* operator->() const { return &**this; }

 private:
  struct Made {
    std::function<HostTensor()> make;
    std::optional<HostTensor> value;
  };
  std::shared_ptr<Made> made_;
};

struct Operand {
  TensorType type;
  double low = -1.0;
  double high = 1.0;
  GivenTensor value = {};     ///< used as it is, instead of random numbers
  bool differentiate = true;  ///< false: no gradient passes to it, by definition
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
