// Trigonometry, remainders, bits and further activations.
#include <limits>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

Operand given(HostTensor tensor) {
  return {tensor.type(), 0, 0, tensor};
}

Operand infinities() {
  const float inf = std::numeric_limits<float>::infinity();
  return given(HostTensor::of<float>(
      {6}, {inf, -inf, 1.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F, -inf}));
}

}  // namespace

std::vector<OpCase> mathCases() {
  return {
      {kAcos, {f32({3, 7}, -0.9, 0.9)}},
      {kAcosh, {f32({3, 7}, 1.2, 9)}},
      {kAsin, {f32({3, 7}, -0.9, 0.9)}},
      {kAsinh, {f32({3, 7}, -9, 9)}},
      {kAtan, {f32({3, 7}, -5, 5)}},
      {kAtan2, {f32({3, 7}, -2, 2), f32({3, 7}, 0.3, 2)}},
      {kAtan2, {f32({2, 3, 1}, 0.3, 2), f32({4}, -2, 2)}, {}, "broadcast"},
      {kAtanh, {f32({3, 7}, -0.9, 0.9)}},
      {kBitShift, {u8({9}, 0, 255), u8({9}, 0, 9)}, {{"direction", "LEFT"}}},
      {kBitShift, {i64({3, 4}, -99, 99), i64({4}, -2, 70)}, {{"direction", "RIGHT"}}, "right"},
      {kBitwiseAnd, {i64({3, 5}, -99, 99), i64({5}, -99, 99)}},
      {kBitwiseNot, {u8({9}, 0, 255)}},
      {kBitwiseOr, {i32({3, 5}, -99, 99), i32({5}, -99, 99)}},
      {kBitwiseXor, {u8({3, 5}, 0, 255), u8({5}, 0, 255)}},
      {kCelu, {f32({3, 5}, 0.1, 2)}},
      {kCelu, {f32({3, 5}, -2, -0.1)}, {{"alpha", 0.7}}, "negative"},
      {kCosh, {f32({3, 7}, -3, 3)}},
      {kDet, {f32({2, 3, 3})}, {}, "", true, 3},
      {kDet, {f32({1, 1})}, {}, "one"},
      {kDet, {f32({2, 0, 0})}, {}, "empty"},
      {kDet, {given(HostTensor::of<float>({2, 2}, {1, 2, 2, 4}))}, {}, "singular"},
      {kDetGrad, {f32({2, 3, 3}), f32({2})}, {}, "", false, 3},
      {kDetGrad,
       {given(HostTensor::of<float>({3, 3}, {1, 2, 3, 2, 4, 6, 0, 1, 5})), f32({})},
       {},
       "singular",
       false},
      {kDft, {f32({2, 6, 2})}, {{"axis", 1}}, "", true, 6},
      {kDft, {f32({7, 3, 2})}, {{"axis", 0}}, "prime", true, 7},
      {kDft, {f32({2, 4, 3, 2})}, {{"axis", -3}, {"inverse", true}}, "inverse", true, 4},
      {kDft, {f32({2, 1, 2})}, {{"axis", 1}}, "one"},
      {kDft, {f32({0, 4, 2})}, {{"axis", 1}}, "empty"},
      {kEinsum, {f32({2, 3}), f32({3, 4})}, {{"equation", "ij,jk->ik"}}, "", true, 3},
      {kEinsum, {f32({3, 3, 2})}, {{"equation", "iij->ji"}}, "diagonal"},
      {kEinsum, {f32({3, 2}), f32({3})}, {{"equation", "ij,i->j"}}, "vector", true, 3},
      {kEinsum, {f32({2}), f32({3}), f32({2})}, {{"equation", "a,b,c->cab"}}, "outer"},
      {kEinsum,
       {f32({2, 1, 2, 3}), f32({4, 3, 2})},
       {{"equation", "...ij,...jk"}},
       "ellipsis",
       true,
       3},
      {kEinsum,
       {f32({2, 3}), f32({3, 4}), f32({4, 3})},
       {{"equation", "ij,jk,kj->i"}},
       "three",
       true,
       12},
      {kHardSigmoid, {f32({3, 5}, -2, 2)}},
      {kHardSigmoid, {f32({3, 5}, 3, 9)}, {}, "outside"},
      {kHardSwish, {f32({3, 5}, -2.5, 2.5)}},
      {kHardmax, {f32({3, 4, 5})}, {{"axis", 1}}},
      {kHardmax, {i64({4, 5}, 0, 3)}, {}, "ties"},
      {kIsInf, {infinities()}, {}, "", false},
      {kIsInf, {infinities()}, {{"detect_negative", false}}, "positive", false},
      {kIsInf, {infinities()}, {{"detect_positive", false}}, "negative", false},
      {kIsInf,
       {infinities()},
       {{"detect_negative", false}, {"detect_positive", false}},
       "none",
       false},
      {kMish, {f32({3, 7}, -4, 4)}},
      {kMod, {f32({3, 5}, 2.1, 2.9), f32({3, 5}, 0.6, 0.65)}},
      {kMod, {f32({5}, 2.1, 2.3), f32({2, 5}, -0.65, -0.6)}, {{"fmod", true}}, "fmod"},
      {kMod, {i64({4, 9}, -9, 9), i64({9}, -4, 4)}, {}, "integers"},
      {kMod, {i32({4, 9}, -9, 9), i32({9}, -4, 4)}, {{"fmod", true}}, "integers_fmod"},
      {kPrelu, {f32({2, 3, 4}, -2, -0.1), f32({3, 1})}},
      {kPrelu, {f32({2, 3}, 0.1, 2), f32({1})}, {}, "positive"},
      {kSelu, {f32({3, 5}, 0.1, 2)}},
      {kSelu, {f32({3, 5}, -2, -0.1)}, {{"alpha", 1.5}, {"gamma", 2.0}}, "negative"},
      {kShrink, {f32({3, 5}, 0.6, 2)}, {{"bias", 0.3}}},
      {kShrink, {f32({3, 5}, -2, -0.6)}, {{"bias", 0.3}}, "negative"},
      {kShrink, {f32({3, 5}, -0.4, 0.4)}, {}, "inside"},
      {kShrink, {i64({9}, -5, 5)}, {{"lambd", 2.0}, {"bias", 1.0}}, "integers"},
      {kSinh, {f32({3, 7}, -3, 3)}},
      {kSoftsign, {f32({3, 7}, 0.1, 3)}},
      {kSoftsign, {f32({3, 7}, -3, -0.1)}, {}, "negative"},
      {kTan, {f32({3, 7}, -1.2, 1.2)}},
      {kThresholdedRelu, {f32({3, 5}, 1.1, 2)}},
      {kThresholdedRelu, {f32({3, 5}, -2, 0.4)}, {{"alpha", 0.5}}, "below"},
  };
}

}  // namespace sluice::testing
