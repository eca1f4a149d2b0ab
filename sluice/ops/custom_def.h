// CustomOp: the OpDef of an op from a library, together with the strings that it points to and the
// OpDef of its gradient. All custom ops share the same functions, which find the library's
// functions through the OpDef. Internal to this module.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/custom/abi.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

// Attributes that carry types; names with this prefix are reserved for Sluice.
inline constexpr std::string_view kReservedAttrPrefix = "sluice_";
inline constexpr std::string_view kDtypes = "sluice_dtypes";  ///< of the example outputs
inline constexpr std::string_view kShapes = "sluice_shapes";
inline constexpr std::string_view kInputDtypes = "sluice_input_dtypes";
inline constexpr std::string_view kInputShapes = "sluice_input_shapes";
inline constexpr std::string_view kOutputDtypes = "sluice_output_dtypes";
inline constexpr std::string_view kOutputShapes = "sluice_output_shapes";
inline constexpr std::string_view kWanted = "sluice_wanted";  ///< inputs whose gradient is wanted

struct CustomOp;

/// The gradient's operands are the inputs and outputs that the library's backward reads, then the
/// gradients of all float outputs. Its results are the gradients of the wanted inputs.
struct CustomGrad : ir::OpDef {
  const CustomOp& forward;
  std::string fullName;
  std::vector<ir::AttrSpec> specs;

  explicit CustomGrad(const CustomOp& op);
};

struct CustomOp : ir::OpDef {
  custom::abi::Op table;
  std::string domain;
  std::string opName;
  std::string fullName;           ///< "domain.Name.version"
  std::string origin;             ///< the library
  std::deque<std::string> texts;  ///< the strings that the specs point to
  std::vector<ir::AttrSpec> specs;
  std::vector<ir::NamedAttr> listDefaults;  ///< kept here because a spec holds no lists
  std::unique_ptr<CustomGrad> gradient;     ///< null: the library has no backward

  /// Throws InvalidArgument for an invalid declaration. Objects are neither copied nor moved.
  CustomOp(const custom::abi::Op& op, std::string_view library);
  ~CustomOp() = default;
  CustomOp(const CustomOp&) = delete;
  CustomOp& operator=(const CustomOp&) = delete;

  bool infersTypes() const { return table.infer != nullptr; }
};

void customForward(const ir::KernelArgs& args);
std::vector<ir::Value> customGradient(ir::GradContext& context);

/// Returns nullptr for the ops of Sluice itself.
const CustomOp* asCustomOp(const ir::OpDef& def);

}  // namespace sluice::ops
