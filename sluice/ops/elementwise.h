// Shared by the element-wise op files: inference, reference loops and broadcasting. Reference
// kernels compute in double for floats and in 64 bits for integers, then round once to the dtype.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

enum class Accepts : std::uint8_t { Any, Numeric, Floating, Integer, Boolean };

/// Throws InvalidArgument "<op>: <operand i> must be ..., got ..." unless the dtype is accepted.
void requireDType(const ir::OpView& op, std::size_t input, Accepts accepts);
/// Throws InvalidArgument unless all inputs have one dtype.
void requireSameDType(const ir::OpView& op);

/// Throws InvalidArgument unless all inputs have one dtype and shape.
void requireSameType(const ir::OpView& op);
/// Throws InvalidArgument unless the text attribute is one of the given words.
void requireOneOf(const ir::OpView& op,
                  std::string_view attr,
                  std::initializer_list<std::string_view> words);
/// The element type that the text attribute `dtype` names; throws InvalidArgument if there is none.
DType dtypeAttr(const ir::OpView& op);

/// Takes one operand; the result has its type.
template <Accepts kAccepts>
std::vector<TensorType> inferUnary(const ir::OpView& op) {
  requireDType(op, 0, kAccepts);
  return {op.inputs[0]};
}

/// Requires operands of one type and gives the result that type; does not broadcast.
template <Accepts kAccepts>
std::vector<TensorType> inferSame(const ir::OpView& op) {
  requireDType(op, 0, kAccepts);
  requireSameType(op);
  return {op.inputs[0]};
}

/// Broadcasts the shapes of all inputs; throws InvalidArgument naming the op.
Shape broadcastInputs(const ir::OpView& op);
/// Broadcasts all operands; the result has the dtype of the first.
std::vector<TensorType> inferBroadcast(const ir::OpView& op, Accepts accepts);
template <Accepts kAccepts>
std::vector<TensorType> inferBinary(const ir::OpView& op) {
  return inferBroadcast(op, kAccepts);
}
/// Broadcasts all operands; the result is bool.
template <Accepts kAccepts>
std::vector<TensorType> inferCompare(const ir::OpView& op) {
  std::vector<TensorType> types = inferBroadcast(op, kAccepts);
  types[0].dtype = DType::Bool;
  return types;
}

/// The type in which reference kernels compute.
template <class T>
using Wide = std::conditional_t<
    std::is_same_v<T, bool>,
    bool,
    std::conditional_t<std::is_integral_v<T>,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       double>>;

template <class T>
Wide<T> widen(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<Wide<T>>(value);
  }
}

template <class T, class W>
T narrow(W value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class W>
bool notANumber(W value) {
  if constexpr (std::is_floating_point_v<W>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

/// For each output element, the flat index of the (broadcast) element of an input.
class BroadcastIndex {
 public:
  BroadcastIndex(const Shape& input, const Shape& output);
  std::int64_t operator()(std::int64_t outputElement) const;

 private:
  bool identity_;
  std::vector<std::int64_t> outputStrides_;
  std::vector<std::int64_t> inputStrides_;
  std::vector<std::int64_t> dims_;
};

/// The reference of ops whose output has the same bytes as their input.
void copyBytes(const ir::KernelArgs& args);

/// out = f(x), in the wide type of the dtype that input and output share.
template <class F>
void referenceUnary(const ir::KernelArgs& args, F f) {
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(f(widen(in[i])));
    }
  });
}

/// out = f(x, y) with broadcasting; the output may have another dtype (comparisons).
template <class F>
void referenceBinary(const ir::KernelArgs& args, F f) {
  const BroadcastIndex first(args.op.inputs[0].shape, args.op.outputs[0].shape);
  const BroadcastIndex second(args.op.inputs[1].shape, args.op.outputs[0].shape);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto x = args.in<T>(0);
    const auto y = args.in<T>(1);
    const auto run = [&](auto out) {
      using Out = typename decltype(out)::value_type;
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto element = static_cast<std::int64_t>(i);
        out[i] = narrow<Out>(f(widen(x[static_cast<std::size_t>(first(element))]),
                               widen(y[static_cast<std::size_t>(second(element))])));
      }
    };
    if constexpr (!std::is_same_v<T, bool>) {
      if (args.op.outputs[0].dtype == DType::Bool) {
        return run(args.out<bool>(0));
      }
    }
    run(args.out<T>(0));
  });
}

inline constexpr ir::OpTraits kElementwise{.elementwise = true};
inline constexpr ir::OpTraits kElementwiseCommutative{.elementwise = true, .commutative = true};

}  // namespace sluice::ops
