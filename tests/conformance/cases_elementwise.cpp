// Element-wise ops and reductions.
#include <memory>

#include "sluice/ir/graph.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

/// (x[3, 5], y[5]) -> exp(x * y), exp(x * y) + 2.
ir::GraphRef fusedBody() {
  ir::Graph body("fused");
  ir::GraphBuilder b(body);
  const ir::Value x = b.input("in0", {DType::F32, Shape{3, 5}});
  const ir::Value y = b.input("in1", {DType::F32, Shape{5}});
  const ir::Value e = exp(b, mul(b, x, y));
  const ir::Value sum = add(b, e, b.scalar(DType::F32, 2.0));
  body.addOutput("out0", e);
  body.addOutput("out1", sum);
  return std::make_shared<const ir::Graph>(std::move(body));
}

}  // namespace

std::vector<OpCase> elementwiseCases() {
  return {
      {kAbs, {f32({3, 5}, 0.2, 2)}},
      {kAbs, {f32({3, 5}, -2, -0.2)}, {}, "negative"},
      {kAbs, {i64({7}, -5, 5)}, {}, "integers"},
      {kAdd, {f32({3, 5}), f32({3, 5})}},
      {kAdd, {f32({2, 3, 1}), f32({4})}, {}, "broadcast"},
      {kArgMax, {f32({3, 4, 5})}, {{"axis", 1}}},
      {kArgMax, {i64({4, 5}, 0, 3)}, {{"axis", -1}, {"keepDims", true}}, "ties"},
      {kArgMax, {f32({3, 37})}, {{"axis", -1}}, "long"},
      {kArgMax, {f32({2, 3, 4, 5})}, {{"axis", 0}}, "outer"},
      {kArgMax, {f32({0, 5})}, {{"axis", 1}}, "empty"},
      {kCast, {f32({3, 5})}, {{"dtype", "f64"}}},
      {kCast, {f32({3, 5}, -9, 9)}, {{"dtype", "i32"}}, "integers"},
      {kCast, {i64({3, 5}, -9, 9)}, {{"dtype", "f32"}}, "floats"},
      {kCast, {boolean({6})}, {{"dtype", "f32"}}, "from_bool"},
      {kCeil, {f32({3, 5}, 0.2, 0.8)}},
      {kClamp, {f32({4, 5}, -0.4, 0.4)}, {{"low", -0.5}, {"high", 0.5}}, "inside"},
      {kClamp, {f32({4, 5}, 0.6, 2)}, {{"low", -0.5}, {"high", 0.5}}, "outside"},
      {kClamp, {i64({9}, -9, 9)}, {{"low", -3.0}, {"high", 4.0}}, "integers"},
      {kCos, {f32({3, 7}, -3, 3)}},
      {kCumSum, {f32({3, 4, 2})}, {{"axis", 1}}, "", true, 4},
      {kCumSum, {f32({3, 4})}, {{"axis", -1}, {"exclusive", true}}, "exclusive", true, 4},
      {kCumSum, {f32({3, 4})}, {{"axis", 0}, {"reverse", true}}, "reverse", true, 3},
      {kCumSum,
       {f32({5})},
       {{"axis", 0}, {"exclusive", true}, {"reverse", true}},
       "exclusive_reverse",
       true,
       5},
      {kCumSum, {f32({2, 3, 4, 5})}, {{"axis", 0}}, "outer", true, 2},
      {kCumSum, {i64({2, 7}, -9, 9)}, {{"axis", 1}, {"reverse", true}}, "integers"},
      {kCumSum, {f32({3, 0})}, {{"axis", 1}}, "empty"},
      {kDetach, {f32({3, 5})}, {}, "", false},
      {kDiv, {f32({3, 5}), f32({3, 5}, 0.5, 2)}},
      {kDiv, {f32({2, 3, 1}), f32({4}, -2, -0.5)}, {}, "broadcast"},
      {kDiv, {i64({9}, -9, 9), i64({9}, -3, 3)}, {}, "integers"},
      {kDiv, {f32({0, 3}), f32({3}, 1, 2)}, {}, "empty"},
      {kDropout, {f32({4, 9})}, {{"p", 0.3}, {"ordinal", 3}}},
      {kDropout, {f32({4, 9})}, {{"p", 0.0}, {"ordinal", 4}}, "none"},
      {kElu, {f32({3, 5}, 0.1, 2)}},
      {kElu, {f32({3, 5}, -2, -0.1)}, {{"alpha", 0.7}}, "negative"},
      {kEqual, {i64({3, 5}, 0, 3), i64({5}, 0, 3)}},
      {kEqual, {boolean({6}), boolean({6})}, {}, "bool"},
      {kErf, {f32({3, 7}, -2, 2)}},
      {kErfc, {f32({3, 7}, -2, 2)}},
      {kErfc, {f32({3, 7}, 2, 4)}, {}, "tail"},
      {kExp, {f32({3, 7})}},
      {kExpm1, {f32({3, 7})}},
      {kFloor, {f32({3, 5}, 0.2, 0.8)}},
      {kFused, {f32({3, 5}), f32({5})}, {{"body", fusedBody()}}},
      {kGelu, {f32({3, 7}, -3, 3)}},
      {kGelu, {f32({3, 7}, -3, 3)}, {{"approximate", "tanh"}}, "tanh"},
      {kGeluGrad, {f32({3, 7}, -3, 3), f32({3, 7})}},
      {kGeluGrad, {f32({3, 7}, -3, 3), f32({3, 7})}, {{"approximate", "tanh"}}, "tanh"},
      {kGreater, {f32({3, 5}), f32({5})}},
      {kGreaterEqual, {i64({3, 5}, 0, 3), i64({3, 1}, 0, 3)}},
      {kIdentity, {f32({3, 5})}},
      {kRecomputationCheckpoint, {f32({3, 5})}},
      {kTensorLocation, {f32({3, 5})}},
      {kReplicaGather, {f32({15})}, {{"shape", std::vector<std::int64_t>{3, 5}}}},
      {kReplicaScatter, {f32({3, 5})}, {{"replicas", std::int64_t{4}}}},
      {kReplicaSum, {f32({3, 5})}},
      {kReplicaSumScatter, {f32({3, 5})}, {{"replicas", std::int64_t{1}}}},
      {kIsNan, {f32({3, 5})}},
      {kLeakyRelu, {f32({3, 5}, 0.1, 2)}},
      {kLeakyRelu, {f32({3, 5}, -2, -0.1)}, {{"alpha", 0.2}}, "negative"},
      {kLess, {f32({3, 5}), f32({5})}},
      {kLessEqual, {i64({3, 5}, 0, 3), i64({3, 1}, 0, 3)}},
      {kLog, {f32({3, 7}, 0.3, 3)}},
      {kLog1p, {f32({3, 7}, -0.5, 3)}},
      {kLogicalAnd, {boolean({3, 5}), boolean({5})}},
      {kLogicalNot, {boolean({3, 5})}},
      {kLogicalOr, {boolean({3, 5}), boolean({5})}},
      {kLogicalXor, {boolean({3, 5}), boolean({5})}},
      {kMaximum, {f32({3, 5}), f32({3, 5})}},
      {kMaximum, {f32({2, 3, 1}), f32({4})}, {}, "broadcast"},
      {kMaximum, {i64({7}, -5, 5), i64({7}, -5, 5)}, {}, "integers"},
      {kMinimum, {f32({3, 5}), f32({3, 5})}},
      {kMinimum, {f32({2, 3, 1}), f32({4})}, {}, "broadcast"},
      {kMul, {f32({2, 3}), f32({2, 3})}},
      {kMul, {f32({2, 1, 5}), f32({3, 1})}, {}, "broadcast"},
      {kNeg, {f32({9})}},
      {kNop, {f32({3, 5})}},
      {kNotEqual, {i64({3, 5}, 0, 3), i64({5}, 0, 3)}},
      {kPow, {f32({3, 5}, 0.3, 2), f32({3, 5}, -2, 2)}},
      {kPow, {f32({2, 3, 1}, 0.3, 2), f32({4}, -2, 2)}, {}, "broadcast"},
      {kPow, {i64({9}, -4, 4), i64({9}, 0, 5)}, {}, "integers"},
      {kReciprocal, {f32({3, 7}, 0.5, 2)}},
      {kReduceLogSumExp, {f32({3, 4, 5})}, {{"axes", {1}}}, "", true, 4},
      {kReduceLogSumExp, {f32({3, 4})}, {{"keepDims", true}}, "all", true, 12},
      {kReduceMax, {f32({3, 4, 5})}, {{"axes", {1}}}},
      {kReduceMax, {f32({3, 4, 5})}, {{"axes", {0, -1}}, {"keepDims", true}}, "keep"},
      {kReduceMax, {f32({3, 0, 2})}, {{"axes", {1}}}, "empty"},
      {kReduceMax, {i64({4, 5}, -9, 9)}, {{"axes", {1}}}, "integers"},
      {kReduceMean, {f32({3, 4, 5})}, {{"axes", {1}}}, "", true, 4},
      {kReduceMean, {f32({3, 4, 5})}, {{"axes", {0, -1}}, {"keepDims", true}}, "keep", true, 15},
      {kReduceMean, {f32({0, 2})}, {{"axes", {1}}}, "empty"},
      {kReduceMin, {f32({3, 4, 5})}, {{"axes", {1}}}},
      {kReduceMin, {f32({3, 4})}, {}, "all"},
      {kReduceProd, {f32({3, 4, 5}, 0.5, 2)}, {{"axes", {1}}}, "", true, 4},
      {kReduceProd, {f32({3, 4})}, {{"axes", {0}}, {"keepDims", true}}, "keep", true, 3},
      {kReduceProd,
       {{{DType::F32, {2, 3}}, 0, 0, HostTensor::of<float>({2, 3}, {0, 2, 3, 0, 5, 0})}},
       {{"axes", {1}}},
       "zeros",
       true,
       3},
      {kReduceProd, {f32({3, 0, 2})}, {{"axes", {1}}}, "empty"},
      {kReduceProdGrad, {f32({3, 4}), f32({3})}, {{"axes", {1}}}, "", true, 4},
      {kReduceSum, {f32({3, 4, 5})}, {{"axes", {1}}}, "middle", true, 4},
      {kReduceSum, {f32({3, 4, 5})}, {{"axes", {0, -1}}, {"keepDims", true}}, "keep", true, 15},
      {kReduceSum, {f32({3, 4})}, {}, "all", true, 12},
      {kReduceSum, {f32({3, 5, 2, 7})}, {{"axes", {0, 2}}}, "apart", true, 6},
      {kReduceSum, {f32({2, 67})}, {{"axes", {1}}}, "long", true, 67},
      {kReduceSum, {f32({3, 0, 2})}, {{"axes", {1}}}, "empty"},
      {kRelu, {f32({3, 5}, 0.1, 2)}},
      {kRelu, {f32({3, 5}, -2, -0.1)}, {}, "negative"},
      {kReluGrad, {f32({3, 5}, 0.1, 2), f32({3, 5})}},
      {kReluGrad, {f32({3, 5}, -2, -0.1), f32({3, 5})}, {}, "negative"},
      {kRound, {f32({3, 5}, 0.6, 1.4)}},
      {kRsqrt, {f32({3, 7}, 0.5, 3)}},
      {kSigmoid, {f32({3, 7}, -4, 4)}},
      {kSign, {f32({3, 5}, 0.2, 2)}},
      {kSign, {i64({9}, -2, 3)}, {}, "integers"},
      {kSilu, {f32({3, 7}, -4, 4)}},
      {kSin, {f32({3, 7}, -3, 3)}},
      {kSoftplus, {f32({3, 7}, -4, 4)}},
      {kSqrt, {f32({3, 7}, 0.5, 3)}},
      {kSquare, {f32({3, 7})}},
      {kSub, {f32({3, 5}), f32({3, 5})}},
      {kSub, {f32({2, 3, 1}), f32({4})}, {}, "broadcast"},
      {kSub, {f32({0, 3}), f32({1, 3})}, {}, "empty"},
      {kTanh, {f32({3, 7}, -2, 2)}},
      {kWhere, {boolean({3, 5}), f32({3, 5}), f32({3, 5})}},
      {kWhere, {boolean({3, 1}), f32({2, 1, 5}), f32({1})}, {}, "broadcast"},
      {kWhere, {boolean({0, 5}), f32({5}), f32({1, 5})}, {}, "empty"},
  };
}

}  // namespace sluice::testing
