// CustomCall: one call of a library's function, with attributes and operands in the form of the
// interface (sluice/custom/abi.h). Internal to this module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/custom/abi.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

struct CustomOp;

class CustomCall {
 public:
  /// Throws InvalidArgument for numbers that do not fit in 32 bits and texts that are not ASCII.
  CustomCall(const CustomOp& op, const ir::Attrs& attrs);
  ~CustomCall() = default;
  CustomCall(const CustomCall&) = delete;
  CustomCall& operator=(const CustomCall&) = delete;

  // Operands must outlive the call. Null data means that the operand is not present.
  static custom::abi::Tensor tensor(const TensorType& type, void* data = nullptr);
  static custom::abi::Tensor tensor(const TensorType& type, const void* data);

  std::vector<custom::abi::Tensor> inputs;
  std::vector<custom::abi::Tensor> outputs;
  std::vector<custom::abi::Tensor> outputGrads;
  std::vector<custom::abi::Tensor> inputGrads;

  /// Calls the function and returns the result types that it reported. Throws InvalidArgument with
  /// the library's message if it fails.
  std::vector<TensorType> run(custom::abi::Function function);

 private:
  struct Storage {
    std::vector<float> reals;
    std::vector<std::int64_t> integers;
    std::vector<custom::abi::Text> texts;
  };
  struct Answer {
    bool failed = false;
    std::string message;
    std::vector<TensorType> types;
  };

  static void fail(void* host, const char* message);
  static void result(void* host, std::int32_t dtype, std::int32_t rank, const std::int64_t* dims);
  void addReal(Storage& to, std::string_view name, double value) const;
  void addText(Storage& to, std::string_view name, const std::string& value) const;

  const CustomOp& op_;
  std::vector<Storage> storage_;
  std::vector<custom::abi::Attr> attrs_;
};

}  // namespace sluice::ops
