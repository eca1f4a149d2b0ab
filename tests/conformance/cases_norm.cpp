// Normalizations, softmax, losses, random ops.
#include "sluice/ops/op_list.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

std::vector<OpCase> normCases() {
  return {
      {kSoftmax, {f32({4, 9}, -3, 3)}, {}, "", true, 9},
      {kSoftmax, {f32({2, 5, 3}, -3, 3)}, {{"axis", 1}}, "middle", true, 5},
      {kSoftmax, {f32({0, 5})}, {}, "empty"},
      {kSoftmaxGrad, {f32({4, 9}, 0, 1), f32({4, 9})}, {}, "", true, 9},
      {kSoftmaxGrad, {f32({2, 5, 3}, 0, 1), f32({2, 5, 3})}, {{"axis", -2}}, "middle", true, 5},
      {kLogSoftmax, {f32({4, 9}, -3, 3)}, {}, "", true, 9},
      {kLogSoftmax, {f32({2, 5, 3}, -3, 3)}, {{"axis", 1}}, "middle", true, 5},
      {kLogSoftmaxGrad, {f32({4, 9}, -3, 0), f32({4, 9})}, {}, "", true, 9},
      {kLogSoftmaxGrad, {f32({2, 5, 3}, -3, 0), f32({2, 5, 3})}, {{"axis", 1}}, "middle", true, 5},
      {kNllLoss, {f32({6, 5}, -3, 0), i64({6}, 0, 5)}, {}, "mean", true, 6},
      {kNllLoss,
       {f32({6, 5}, -3, 0), i64({6}, 0, 5)},
       {{"reduction", "sum"}, {"ignoreIndex", 2}},
       "sum",
       true,
       6},
      {kNllLoss,
       {f32({2, 4, 3}, -3, 0), i32({2, 3}, 0, 4)},
       {{"reduction", "none"}, {"ignoreIndex", 1}},
       "none"},
      {kNllLoss, {f32({2, 4, 3, 2}, -3, 0), i64({2, 3, 2}, 0, 4)}, {}, "positions", true, 12},
      {kNllLoss, {f32({0, 4}), i64({0}, 0, 4)}, {}, "empty"},
      {kNllLossGrad, {i64({6}, 0, 5), f32({})}, {{"classes", 5}, {"ignoreIndex", 3}}, "mean"},
      {kNllLossGrad,
       {i32({2, 3}, 0, 4), f32({2, 3})},
       {{"classes", 4}, {"reduction", "none"}},
       "none"},
      {kCrossEntropy, {f32({6, 5}, -2, 2), i64({6}, 0, 5)}, {}, "mean", true, 30},
      {kCrossEntropy,
       {f32({6, 5}, -2, 2), i64({6}, 0, 5)},
       {{"labelSmoothing", 0.1}, {"ignoreIndex", 2}},
       "smoothed",
       true,
       30},
      {kCrossEntropy,
       {f32({2, 4, 3}, -2, 2), i32({2, 3}, 0, 4)},
       {{"reduction", "none"}, {"labelSmoothing", 0.2}},
       "none",
       true,
       4},
  };
}

}  // namespace sluice::testing
