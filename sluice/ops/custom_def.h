// CustomOp: the OpDef of an op from a library, with what its strings point to, and the OpDef of its
// gradient. Their functions are the same for all custom ops and find the library's by the OpDef.
// Internal to this module.
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

// Attributes that carry types; names of this prefix are ours.
inline constexpr std::string_view kReservedAttrPrefix = "sluice_";
inline constexpr std::string_view kDtypes = "sluice_dtypes";  ///< of the example outputs
inline constexpr std::string_view kShapes = "sluice_shapes";
inline constexpr std::string_view kInputDtypes = "sluice_input_dtypes";
inline constexpr std::string_view kInputShapes = "sluice_input_shapes";
inline constexpr std::string_view kOutputDtypes = "sluice_output_dtypes";
inline constexpr std::string_view kOutputShapes = "sluice_output_shapes";
inline constexpr std::string_view kWanted = "sluice_wanted";  ///< inputs whose gradient is wanted

struct CustomOp;

/// Operands: the inputs and the outputs that the library's backward reads, then the gradients of
/// all float outputs. Results: the gradients of the wanted inputs.
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
  std::deque<std::string> texts;  ///< that the specs point to
  std::vector<ir::AttrSpec> specs;
  std::vector<ir::NamedAttr> listDefaults;  ///< a spec has none
  std::unique_ptr<CustomGrad> gradient;     ///< null: the library has no backward

  /// Throws InvalidArgument for a declaration that cannot be one. Objects stay where they are made.
  CustomOp(const custom::abi::Op& op, std::string_view library);
  ~CustomOp() = default;
  CustomOp(const CustomOp&) = delete;
  CustomOp& operator=(const CustomOp&) = delete;

  bool infersTypes() const { return table.infer != nullptr; }
};

void customForward(const ir::KernelArgs& args);
std::vector<ir::Value> customGradient(ir::GradContext& context);

/// nullptr for the ops of Sluice.
const CustomOp* asCustomOp(const ir::OpDef& def);

}  // namespace sluice::ops
