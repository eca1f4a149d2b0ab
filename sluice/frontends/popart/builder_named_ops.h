// How the op sets of a Builder declare methods with one line per op. Ops that take tensors and
// nothing else only name their op. As in PopART, most ops also take their tensors as a list:
// matmul({x, w}), gather({x, indices}, axis).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::detail {

/// Throws InvalidArgument unless there are so many.
void requireTensors(std::string_view op,
                    const std::vector<std::string>& inputs,
                    std::size_t least,
                    std::size_t most);

template <class Call, std::size_t... kIs>
auto spread(const std::vector<std::string>& inputs,
            const Call& call,
            std::index_sequence<kIs...> /*positions*/) {
  return call(inputs[kIs]...);
}

}  // namespace sluice::detail

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions

// The semicolon after a macro ends this.
#define SLUICE_BUILDER_END static_assert(true)

/// An op of one tensor; of several, which also come as a list.
#define SLUICE_BUILDER_OP_1(method, op) \
  TensorId method(const TensorId& x) {  \
    return one(op, {x});                \
  }                                     \
  SLUICE_BUILDER_END
#define SLUICE_BUILDER_OP_2(method, op)                   \
  TensorId method(const TensorId& x, const TensorId& y) { \
    return one(op, {x, y});                               \
  }                                                       \
  SLUICE_BUILDER_LIST(method, 2)
#define SLUICE_BUILDER_OP_3(method, op)                                      \
  TensorId method(const TensorId& x, const TensorId& y, const TensorId& z) { \
    return one(op, {x, y, z});                                               \
  }                                                                          \
  SLUICE_BUILDER_LIST(method, 3)

/// Functions of each element, by ONNX's names: a line each. The op set has a method for every line,
/// and so has the table of the Builder's tests a case.
#define SLUICE_BUILDER_ELEMENTWISE(OP) \
  OP(acos, "Acos");                    \
  OP(acosh, "Acosh");                  \
  OP(asin, "Asin");                    \
  OP(asinh, "Asinh");                  \
  OP(atan, "Atan");                    \
  OP(atanh, "Atanh");                  \
  OP(ceil, "Ceil");                    \
  OP(cos, "Cos");                      \
  OP(cosh, "Cosh");                    \
  OP(erf, "Erf");                      \
  OP(floor, "Floor");                  \
  OP(hardswish, "HardSwish");          \
  OP(reciprocal, "Reciprocal");        \
  OP(round, "Round");                  \
  OP(selu, "Selu");                    \
  OP(sign, "Sign");                    \
  OP(sin, "Sin");                      \
  OP(sinh, "Sinh");                    \
  OP(softplus, "Softplus");            \
  OP(softsign, "Softsign");            \
  OP(tan, "Tan")

/// The list form of a method whose first `count` parameters are tensors.
#define SLUICE_BUILDER_LIST(method, count)                              \
  template <class... Rest>                                              \
  auto method(const Ids& inputs, Rest&&... rest) {                      \
    detail::requireTensors(#method, inputs, count, count);              \
    return detail::spread(                                              \
        inputs,                                                         \
        [&](const auto&... tensors) {                                   \
          return this->method(tensors..., std::forward<Rest>(rest)...); \
        },                                                              \
        std::make_index_sequence<count>());                             \
  }                                                                     \
  SLUICE_BUILDER_END

/// The same for a method with options after the tensors, so that they can be written in braces.
#define SLUICE_BUILDER_LIST_WITH(method, count, Options)                           \
  auto method(const Ids& inputs, const Options& options = {}) {                    \
    detail::requireTensors(#method, inputs, count, count);                         \
    return detail::spread(                                                         \
        inputs,                                                                    \
        [&](const auto&... tensors) { return this->method(tensors..., options); }, \
        std::make_index_sequence<count>());                                        \
  }                                                                                \
  SLUICE_BUILDER_END

// NOLINTEND(bugprone-macro-parentheses)

#pragma GCC visibility pop
