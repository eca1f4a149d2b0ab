// Ops that only the vendor's domain has.
#include "sluice/ops/custom_op.h"
#include "sluice/ops/gradient_statistics.h"
#include "sluice/ops/vendor.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

/// Results in reverse order of the operands; lives as long as the cases.
const HostFunction& swapped() {
  static const HostFunction theFunction("swapped", [](std::span<const HostTensor> in) {
    return std::vector{in[1], in[0]};
  });
  return theFunction;
}

std::vector<OpCase> splineCases() {
  const Operand extents = indices({2}, {3, 5});
  const Operand open = indices({2}, {1, 0});
  return {
      {kSplineBasis, {f32({4, 2}, 0.05, 0.95), extents, open}},
      {kSplineBasis, {f32({4, 2}, 0.05, 0.95), extents, open}, {{"degree", 2}}, "quadratic"},
      {kSplineBasis,
       {f32({3, 1}, 0.05, 0.95), indices({1}, {6}), u8({1}, 1, 2)},
       {{"degree", 3}},
       "cubic"},
      {kSplineBasis, {f32({0, 2}), extents, open}, {}, "empty"},
      {kSplineWeighting,
       {f32({4, 3}), f32({6, 3, 2}), f32({4, 5}), i64({4, 5}, 0, 6)},
       {},
       "",
       true,
       15},
      {kSplineWeighting,
       {f32({0, 3}), f32({6, 3, 2}), f32({0, 4}), i32({0, 4}, 0, 1)},
       {},
       "empty"},
  };
}

}  // namespace

std::vector<OpCase> vendorCases() {
  const Operand lengths = indices({3}, {6, 0, 4});
  std::vector<OpCase> cases = {
      {kAbort, {indices({2, 2}, {0, 0, 0, 0})}},
      {kCastThenPow2Scale, {u8({3, 85}, 0, 256), indices({1}, {-3})}},
      {kCastThenPow2Scale,
       {u8({3, 85}, 0, 256), indices({}, {2})},
       {{"format", "f152"}, {"dtype", "f16"}},
       "f152"},
      {kCastThenPow2Scale, {u8({0, 2}, 0, 2), i32({1}, 0, 1)}, {}, "empty"},
      {kCtcBeamSearchDecoder, {f32({6, 3, 4}, -3, 0), lengths}, {{"beamWidth", 3}}},
      {kCtcBeamSearchDecoder,
       {f32({6, 3, 4}, -3, 0), i32({3}, 2, 6)},
       {{"blank", 2}, {"topPaths", 5}},
       "paths"},
      {kCtcBeamSearchDecoder, {f32({0, 2, 3}), indices({2}, {0, 0})}, {}, "empty"},
      {kGradientStatistics, {f32({2, 3})}, {{"weight", "conformance"}}},
      {kHostCall,
       {f32({2, 3}), indices({3}, {6, 0, 4})},
       {{"id", "swapped"},
        {"function", swapped().number()},
        {"dtypes", std::vector<std::string>{"i64", "f32"}},
        {"shapes", {1, 3, 2, 2, 3}}}},
      {kPow2ScaleThenCast, {f32({3, 85}, -300, 300), indices({1}, {-1})}},
      {kPow2ScaleThenCast,
       {f32({3, 85}, -300, 300), indices({}, {9})},
       {{"format", "f152"}, {"nanOnOverflow", true}},
       "f152"},
      {kPow2ScaleThenCast, {f32({0, 2}), i32({1}, 0, 1)}, {}, "empty"},
      {kPrintTensor, {f32({2, 3}, -9, 9)}, {{"title", "conformance"}}},
      {kPrintTensor, {i64({4}, -9, 9)}, {{"print_gradient", false}, {"digits", 0}}, "integers"},
      {kShapedDropout, {f32({3, 4, 2})}, {{"shape", {3, 1, 2}}, {"ratio", 0.4}, {"ordinal", 5}}},
      {kShapedDropout, {f32({3, 4})}, {{"shape", {4}}, {"ratio", 0.0}, {"ordinal", 6}}, "none"},
  };
  for (OpCase& c : splineCases()) {
    cases.push_back(c);
  }
  return cases;
}

}  // namespace sluice::testing
