// What the network ops refuse: the type of the error and the word that says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/window_ops.h"
#include "tests/support/refusals.h"

namespace sluice::ops {
namespace {

using sluice::testing::expectRefused;
using ::testing::HasSubstr;

TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}
TensorType i64(Shape shape) {
  return {DType::I64, std::move(shape)};
}

TEST(ConvErrors, NameOpAndReason) {
  const TensorType x = f32({1, 4, 5, 5});
  const TensorType w = f32({2, 4, 3, 3});
  expectRefused({
      {kConv, {{DType::Bool, {1, 4, 5, 5}}, {DType::Bool, {2, 4, 3, 3}}}, {}, "number type"},
      {kConv, {x, {DType::F64, {2, 4, 3, 3}}}, {}, "one element type"},
      {kConv, {x, f32({2, 4, 3})}, {}, "one rank"},
      {kConv, {f32({1, 4}), f32({2, 4})}, {}, "one rank"},
      {kConv, {f32({1, 1, 2, 2, 2, 2}), f32({1, 1, 1, 1, 1, 1})}, {}, "spatial axes"},
      {kConv, {x, w}, {{"strides", {1}}}, "strides needs 2 values"},
      {kConv, {x, w}, {{"strides", {1, 0}}}, "strides must be from 1"},
      {kConv, {x, w}, {{"pads", {1, 1}}}, "pads needs 4 values"},
      {kConv, {x, w}, {{"pads", {0, 0, 0, -1}}}, "pads must be from 0"},
      {kConv, {x, w}, {{"dilations", {0, 1}}}, "dilations must be from 1"},
      {kConv, {x, w}, {{"dilations", {3, 1}}}, "does not fit"},
      {kConv, {x, w}, {{"groups", 0}}, "groups do not divide"},
      {kConv, {x, w}, {{"groups", 3}}, "groups do not divide"},
      {kConv, {x, w}, {{"groups", 2}}, "channels per group"},
      {kConv, {x, f32({2, 4, 0, 3})}, {}, "kernel's extent"},
      {kConvGradInput, {w, f32({1, 2, 3, 4})}, {{"inputShape", {1, 4, 5, 5}}}, "output gradient"},
      {kConvGradInput, {w, f32({1, 2, 3, 3})}, {}, "inputShape"},
      {kConvGradWeight, {x, f32({1, 2, 3, 4})}, {{"weightShape", {2, 4, 3, 3}}}, "output gradient"},
  });
}

TEST(PoolErrors, NameOpAndReason) {
  const TensorType x = f32({1, 4, 5, 5});
  expectRefused({
      {kMaxPool, {i64({1, 4, 5, 5})}, {{"kernel", {2, 2}}}, "float type"},
      {kMaxPool, {x}, {}, "kernel"},
      {kMaxPool, {x}, {{"kernel", {2}}}, "spatial axes"},
      {kMaxPool, {x}, {{"kernel", {0, 2}}}, "kernel's extent"},
      {kMaxPool, {x}, {{"kernel", {6, 2}}}, "does not fit"},
      {kMaxPool, {f32({4, 5})}, {{"kernel", {2}}}, "spatial axes"},
      {kMaxPoolGrad,
       {{DType::I32, {1, 4, 4, 4}}, f32({1, 4, 4, 4})},
       {{"kernel", {2, 2}}, {"inputShape", {1, 4, 5, 5}}},
       "must be u8"},
      {kMaxPoolGrad,
       {{DType::U8, {1, 4, 4, 4}}, f32({1, 4, 4, 3})},
       {{"kernel", {2, 2}}, {"inputShape", {1, 4, 5, 5}}},
       "output gradient"},
      {kAvgPoolGrad,
       {f32({1, 4, 4, 3})},
       {{"kernel", {2, 2}}, {"inputShape", {1, 4, 5, 5}}},
       "output gradient"},
  });
}

TEST(PoolErrors, BuildersRefuseWhatTheirOpsDoNotHave) {
  ir::Graph graph("pool");
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({1, 2, 4}));
  const Value flat = b.input("flat", f32({1, 2}));
  const auto message = [](auto build) {
    try {
      build();
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_THAT(message([&] { avgPool(b, x, {.kernel = {2}, .dilations = {2}}); }),
              HasSubstr("dilations"));
  EXPECT_THAT(message([&] { globalAvgPool(b, flat); }), HasSubstr("spatial"));
}

TEST(NormErrors, NameOpAndReason) {
  const TensorType x = f32({2, 4, 3});
  const TensorType c = f32({4});
  expectRefused({
      {kSoftmax, {i64({2})}, {}, "float type"},
      {kSoftmax, {x}, {{"axis", 3}}, "out of range"},
      {kSoftmax, {f32({})}, {}, "out of range"},
      {kLogSoftmax, {x}, {{"axis", -4}}, "out of range"},
      {kSoftmaxGrad, {x, f32({2, 4, 1})}, {}, "one type"},
      {kLogSoftmaxGrad, {x, f32({2, 4, 1})}, {}, "one type"},
      {kLayerNorm, {x, f32({3}), f32({3})}, {{"axis", 3}}, "out of range"},
      {kLayerNorm, {x, f32({3}), f32({3})}, {{"epsilon", -1.0}}, "epsilon"},
      {kLayerNorm, {x, c, f32({3})}, {}, "gamma"},
      {kLayerNorm, {x, f32({3}), c}, {}, "beta"},
      {kLayerNormGrad, {x, f32({3}), f32({2, 4}), f32({2, 4, 1}), x}, {}, "mean"},
      {kLayerNormGrad, {x, f32({3}), f32({2, 4, 1}), f32({2, 4}), x}, {}, "rstd"},
      {kLayerNormGrad, {x, f32({3}), f32({2, 4, 1}), f32({2, 4, 1}), c}, {}, "output gradient"},
      {kRmsNorm, {x, c}, {}, "gamma"},
      {kRmsNormGrad, {x, f32({3}), f32({2, 4}), x}, {}, "rrms"},
      {kRmsNormGrad, {x, f32({3}), f32({2, 4, 1}), c}, {}, "output gradient"},
      {kBatchNorm, {c, c, c}, {}, "[batch, channels, ...]"},
      {kBatchNorm, {x, f32({3}), c}, {}, "gamma"},
      {kBatchNorm, {x, c, f32({3})}, {}, "beta"},
      {kBatchNormGrad, {x, c, f32({3}), c, x}, {}, "mean"},
      {kBatchNormGrad, {x, c, c, f32({3}), x}, {}, "variance"},
      {kBatchNormGrad, {x, c, c, c, c}, {}, "output gradient"},
      {kBatchNormInference, {x, c, c, {DType::F16, {4}}, c}, {}, "mean"},
      {kBatchNormInference, {x, c, c, c, f32({1})}, {}, "variance"},
      {kGroupNorm, {x, c, c}, {{"groups", 3}}, "groups do not divide"},
      {kGroupNorm, {x, c, c}, {{"groups", 0}}, "groups do not divide"},
      {kGroupNorm, {x, c, f32({3})}, {{"groups", 2}}, "beta"},
  });
}

TEST(LossErrors, NameOpAndReason) {
  const TensorType p = f32({2, 3});
  expectRefused({
      {kNllLoss, {p, f32({2})}, {}, "i32 or i64"},
      {kNllLoss, {f32({2}), i64({2})}, {}, "[batch, classes, ...]"},
      {kNllLoss, {p, i64({3})}, {}, "must be [2]"},
      {kNllLoss, {p, i64({2})}, {{"reduction", "max"}}, "reduction"},
      {kNllLossGrad, {i64({}), f32({})}, {{"classes", 3}}, "labels [batch, ...]"},
      {kNllLossGrad, {i64({2}), f32({})}, {{"classes", -1}}, "classes"},
      {kNllLossGrad, {i64({2}), f32({2})}, {{"classes", 3}}, "output gradient"},
      {kCrossEntropy, {p, i64({2})}, {{"labelSmoothing", 1.5}}, "labelSmoothing"},
      {kCrossEntropyGrad, {p, i64({2}), f32({3}), f32({})}, {}, "logarithm"},
      {kCrossEntropyGrad, {p, i64({2}), f32({2}), f32({2})}, {}, "output gradient"},
      {kCrossEntropyGrad,
       {p, i64({2}), f32({2}), f32({})},
       {{"labelSmoothing", -1.0}},
       "from 0 to 1"},
      {kMseLoss, {p, f32({3})}, {}, "one type"},
      {kL1Loss, {i64({2}), i64({2})}, {}, "float type"},
      {kBceLoss, {p, p}, {{"reduction", ""}}, "reduction"},
      {kIdentityLoss, {i64({2})}, {}, "float type"},
  });
}

TEST(LossErrors, NameTheLabelAndTheClassCount) {
  const HostTensor logp(DType::F32, {2, 3});
  for (const std::int64_t label : {3, -1}) {
    const HostTensor labels = HostTensor::of<std::int64_t>({2}, {0, label});
    try {
      evaluate(kNllLoss, {}, {logp, labels});
      ADD_FAILURE() << "label " << label << " was accepted";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("label {} ", label)));
      EXPECT_THAT(error.what(), HasSubstr("3 classes"));
    }
  }
}

TEST(AttentionErrors, NameOpAndReason) {
  const TensorType q = f32({2, 4, 3});
  const TensorType sums = f32({2, 4});
  expectRefused({
      {kScaledDotProductAttentionGrad, {q, q, q, f32({2, 4, 5}), sums, q}, {}, "the output must"},
      {kScaledDotProductAttentionGrad, {q, q, q, q, f32({2, 3}), q}, {}, "logarithm"},
      {kScaledDotProductAttentionGrad, {q, q, q, q, sums, sums}, {}, "output gradient"},
      {kScaledDotProductAttentionGrad, {q, q, q, q, sums, q, i64({4, 4})}, {}, "bool or f32"},
      {kScaledDotProductAttention, {q, q, f32({3})}, {}, "rank 2"},
      {kScaledDotProductAttention, {q, q, {DType::F64, {2, 4, 3}}}, {}, "one element type"},
      {kScaledDotProductAttention, {q, f32({2, 4, 5}), q}, {}, "fit together"},
      {kScaledDotProductAttention, {q, q, f32({2, 5, 3})}, {}, "fit together"},
      {kScaledDotProductAttention, {q, f32({5, 4, 3}), f32({5, 4, 3})}, {}, "broadcast"},
      {kScaledDotProductAttention, {q, q, q, i64({4, 4})}, {}, "bool or f32"},
      {kScaledDotProductAttention, {q, q, q, f32({3, 2, 4, 4})}, {}, "cannot be broadcast"},
  });
}

}  // namespace
}  // namespace sluice::ops
