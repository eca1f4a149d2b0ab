// Element-wise ops and reductions.
#include "sluice/ops/op_list.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

std::vector<OpCase> elementwiseCases() {
  return {
      {kAdd, {f32({3, 5}), f32({3, 5})}},
      {kAdd, {f32({2, 3, 1}), f32({4})}, {}, "broadcast"},
      {kExp, {f32({3, 7})}},
      {kMul, {f32({2, 3}), f32({2, 3})}},
      {kMul, {f32({2, 1, 5}), f32({3, 1})}, {}, "broadcast"},
      {kNeg, {f32({9})}},
      {kReduceSum, {f32({3, 4, 5})}, {{"axes", {1}}}, "middle", true, 4},
      {kReduceSum, {f32({3, 4, 5})}, {{"axes", {0, -1}}, {"keepDims", true}}, "keep", true, 15},
      {kReduceSum, {f32({3, 4})}, {}, "all", true, 12},
      {kReduceSum, {f32({3, 0, 2})}, {{"axes", {1}}}, "empty"},
  };
}

}  // namespace sluice::testing
