// What the ops refuse: the type of the error and the word that says why.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/refusals.h"

namespace sluice::ops {
namespace {

using sluice::testing::expectRefused;
using sluice::testing::Refusal;

using ::testing::HasSubstr;

TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}
TensorType i64(Shape shape) {
  return {DType::I64, std::move(shape)};
}

TEST(ElementwiseErrors, NameOpAndReason) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Refusal> refusals = {
      {kSqrt, {i64({2})}, {}, "float type"},
      {kAbs, {{DType::Bool, {2}}}, {}, "number type"},
      {kLogicalNot, {f32({2})}, {}, "bool"},
      {kIsNan, {i64({2})}, {}, "float type"},
      {kSub, {f32({2}), i64({2})}, {}, "one element type"},
      {kSub, {f32({2}), f32({3})}, {}, "cannot be broadcast"},
      {kReluGrad, {f32({2}), f32({1})}, {}, "one type"},
      {kGelu, {f32({2})}, {{"approximate", "fast"}}, "expected one of none, tanh"},
      {kGeluGrad, {f32({2}), f32({2})}, {{"approximate", "fast"}}, "expected one of none, tanh"},
      {kLeakyRelu, {f32({2})}, {{"alpha", -0.1}}, "negative"},
      {kElu, {f32({2})}, {{"alpha", nan}}, "negative"},
      {kClamp, {f32({2})}, {{"low", 2.0}, {"high", 1.0}}, "above high"},
      {kClamp, {f32({2})}, {{"low", nan}, {"high", 1.0}}, "above high"},
      {kCast, {f32({2})}, {{"dtype", "float"}}, "not an element type"},
      {kWhere, {f32({2}), f32({2}), f32({2})}, {}, "bool"},
      {kWhere, {{DType::Bool, {2}}, f32({2}), i64({2})}, {}, "one element type"},
      {kWhere, {{DType::Bool, {2}}, f32({2}), f32({3})}, {}, "cannot be broadcast"},
  };
  expectRefused(refusals);
}

TEST(ReplicaErrors, NameOpAndReason) {
  const std::vector<Refusal> refusals = {
      {kReplicaSum, {i64({2})}, {}, "float type"},
      {kReplicaSum, {f32({2})}, {{"replicas", -1}}, "at least 1 replica"},
      {kReplicaScatter, {f32({2})}, {{"replicas", 0}}, "at least 1 replica"},
      {kReplicaSumScatter, {f32({2})}, {{"replicas", 0}}, "at least 1 replica"},
      {kReplicaSumScatter, {i64({2})}, {{"replicas", 2}}, "float type"},
      {kReplicaGather, {f32({2, 1})}, {{"shape", {4}}}, "expected a vector"},
      {kReplicaGather, {f32({2})}, {{"shape", {9}}, {"replicas", 3}}, "over 3 replicas"},
      {kReplicaGather, {f32({2})}, {{"shape", {2}}, {"replicas", -1}}, "a part of"},
  };
  expectRefused(refusals);
}

TEST(ReductionErrors, NameOpAndReason) {
  const std::vector<Refusal> refusals = {
      {kReduceMax, {f32({2, 3})}, {{"axes", {2}}}, "out of range"},
      {kReduceMax, {f32({2, 3})}, {{"axes", {1, -1}}}, "twice"},
      {kReduceMean, {i64({2, 3})}, {}, "float type"},
      {kReduceLogSumExp, {i64({2, 3})}, {}, "float type"},
      {kReduceProdGrad, {f32({2, 3}), f32({3})}, {{"axes", {1}}}, "dy is"},
      {kArgMax, {f32({2, 3})}, {{"axis", 2}}, "out of range"},
      {kArgMax, {f32({2, 0})}, {{"axis", 1}}, "empty"},
      {kCumSum, {f32({2, 3})}, {{"axis", -3}}, "out of range"},
      {kCumSum, {{DType::Bool, {2}}}, {}, "number type"},
  };
  expectRefused(refusals);
}

TEST(ShapeErrors, NameOpAndReason) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<Refusal> refusals = {
      {kSlice, {f32({2, 3})}, {{"starts", {0}}, {"ends", {1}}}, "starts must have one item"},
      {kSlice, {f32({2})}, {{"starts", {0}}, {"ends", {1, 1}}}, "ends must have one item"},
      {kSlice,
       {f32({2})},
       {{"starts", {0}}, {"ends", {1}}, {"steps", {1, 1}}},
       "steps must have one item"},
      {kSlice, {f32({2})}, {{"starts", {0}}, {"ends", {1}}, {"steps", {0}}}, "step"},
      {kSliceScatter,
       {f32({2})},
       {{"shape", {5}}, {"starts", {0}}, {"ends", {3}}},
       "but the input is"},
      {kConcat, {f32({2, 3}), f32({2, 4})}, {{"axis", 0}}, "differ"},
      {kConcat, {f32({2, 3}), f32({2})}, {{"axis", 0}}, "differ"},
      {kConcat, {f32({2}), i64({2})}, {{"axis", 0}}, "one element type"},
      {kConcat, {f32({2})}, {{"axis", 1}}, "out of range"},
      {kSplit, {f32({4})}, {{"axis", 0}, {"sizes", {1, 2}}}, "add up"},
      {kSplit, {f32({4})}, {{"axis", 0}, {"sizes", {5, -1}}}, "add up"},
      {kPad, {f32({2})}, {{"before", {-1}}, {"after", {0}}}, "not possible"},
      {kPad, {f32({2})}, {{"before", {2}}, {"after", {0}}, {"mode", "reflect"}}, "reflect"},
      {kPad, {f32({0})}, {{"before", {1}}, {"after", {0}}, {"mode", "edge"}}, "edge"},
      {kPad, {f32({2})}, {{"before", {huge}}, {"after", {huge}}}, "not possible"},
      {kPad, {f32({2})}, {{"before", {1}}, {"after", {0}}, {"mode", "wrap"}}, "expected one of"},
      {kPad, {f32({2})}, {{"before", {1, 1}}, {"after", {0}}}, "before must have one item"},
      {kTile, {f32({2})}, {{"repeats", {-1}}}, "repeated"},
      {kTile, {f32({2})}, {{"repeats", {huge}}}, "repeated"},
      {kTile, {f32({2, 2})}, {{"repeats", {1}}}, "repeats must have one item"},
      {kTrilu, {f32({2})}, {}, "two axes"},
      {kReverse, {f32({2})}, {{"axes", {1}}}, "out of range"},
      {kIota, {}, {{"shape", {2}}, {"axis", 1}}, "out of range"},
      {kIota, {}, {{"shape", {2}}, {"dtype", "int"}}, "not an element type"},
      {kOneHot, {i64({2})}, {{"depth", -1}}, "negative"},
      {kOneHot, {i64({2})}, {{"depth", 2}, {"axis", 2}}, "out of range"},
      {kOneHot, {f32({2})}, {{"depth", 2}}, "i32 or i64"},
  };
  expectRefused(refusals);
}

TEST(GatherErrors, NameIndexAndExtent) {
  expectRefused({{kGather, {f32({2}), f32({2})}, {}, "i32 or i64"}});
  expectRefused({{kGather, {f32({2}), i64({2})}, {{"axis", 1}}, "out of range"}});
  expectRefused({{kScatterAdd, {f32({2}), i64({2}), f32({3})}, {}, "updates must be"}});
  expectRefused({{kScatterAdd, {f32({2}), f32({2}), f32({2})}, {}, "i32 or i64"}});
  const HostTensor data(f32({5}));
  const HostTensor updates(f32({1}));
  for (const std::int64_t index : {std::int64_t{5}, std::int64_t{-6}}) {
    const HostTensor indices = HostTensor::of<std::int64_t>({1}, {index});
    const std::string expected =
        fmt::format("index {} is out of range for an axis of extent 5", index);
    EXPECT_THAT(
        [&] {
          evaluate(kGather, {}, {data, indices});
        },
        ::testing::ThrowsMessage<InvalidArgument>(HasSubstr(expected)));
    EXPECT_THAT(
        [&] {
          evaluate(kScatterAdd, {}, {data, indices, updates});
        },
        ::testing::ThrowsMessage<InvalidArgument>(HasSubstr(expected)));
  }
}

TEST(RandomErrors, NameOpAndReason) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Refusal> refusals = {
      {kDropout, {f32({2})}, {{"p", 1.0}, {"ordinal", 0}}, "p must be in [0, 1)"},
      {kDropout, {f32({2})}, {{"p", -0.1}, {"ordinal", 0}}, "p must be in [0, 1)"},
      {kDropout, {i64({2})}, {{"p", 0.1}, {"ordinal", 0}}, "float type"},
      {kDropout, {f32({2})}, {{"p", 0.1}, {"ordinal", -1}}, "ordinal"},
      {kDropout, {f32({2})}, {{"p", 0.1}}, "'ordinal' is missing"},
      {kRandomUniform, {}, {{"shape", {2}}, {"ordinal", std::int64_t{1} << 32}}, "ordinal"},
      {kRandomUniform, {}, {{"shape", {2}}, {"ordinal", 0}, {"low", 2.0}}, "in order"},
      {kRandomUniform, {}, {{"shape", {2}}, {"ordinal", 0}, {"high", inf}}, "finite"},
      {kRandomUniform, {}, {{"shape", {2}}, {"ordinal", 0}, {"dtype", "i32"}}, "float type"},
      {kRandomNormal, {}, {{"shape", {2}}, {"ordinal", 0}, {"deviation", -1.0}}, "deviation"},
      {kRandomNormal, {}, {{"shape", {2}}, {"ordinal", 0}, {"mean", inf}}, "finite"},
  };
  expectRefused(refusals);
}

TEST(CompositionErrors, NameTheAxis) {
  ir::Graph graph("errors");
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({1, 2, 3}));
  const auto refuses = [](auto call, const char* word) {
    EXPECT_THAT(call, ::testing::ThrowsMessage<InvalidArgument>(HasSubstr(word)));
  };
  refuses([&] { squeeze(b, x, {1}); }, "extent 2");
  refuses([&] { squeeze(b, x, {3}); }, "out of range");
  refuses([&] { squeeze(b, x, {0, -3}); }, "twice");
  refuses([&] { unsqueeze(b, x, {5}); }, "out of range");
  refuses([&] { flatten(b, x, 2, 1); }, "comes after");
  refuses([&] { flatten(b, x, 3); }, "out of range");
}

}  // namespace
}  // namespace sluice::ops
