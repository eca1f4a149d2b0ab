// Pooling against the references.
#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "sluice/ops/interpreter.h"
#include "sluice/ops/window_ops.h"
#include "tests/support/one_op.h"

namespace sluice::devices::cpu {
namespace {

using device::Layout;
using testing::Case;
using testing::check;
using testing::describe;
using testing::expectSameBits;
using testing::OneOp;
using testing::random;

struct PoolShape {
  Shape x;
  ir::Attrs attrs;
};

/// max_pool, avg_pool (unless dilated) and their gradients on random operands.
std::vector<Case> poolCases(const PoolShape& p, DType dtype = DType::F32) {
  const HostTensor x = random(1, p.x, dtype);
  std::vector<Case> cases;
  const bool dilated = p.attrs.find("dilations") != nullptr;
  for (const ir::OpDef* def : {&ops::kMaxPool, &ops::kAvgPool}) {
    if (dilated && def == &ops::kAvgPool) {
      continue;
    }
    cases.push_back({.def = *def, .inputs = {x}, .attrs = ir::completeAttrs(*def, p.attrs)});
    const bool isMax = def == &ops::kMaxPool;
    const auto outputs = ops::evaluate(*def, cases.back().attrs, {x});
    ir::Attrs attrs = cases.back().attrs;
    attrs.set({"inputShape", p.x.dims()});
    std::vector<HostTensor> inputs = {random(2, outputs[0].shape(), dtype)};
    if (isMax) {
      inputs.insert(inputs.begin(), outputs[1]);
    }
    cases.push_back({.def = isMax ? ops::kMaxPoolGrad : ops::kAvgPoolGrad,
                     .inputs = std::move(inputs),
                     .attrs = std::move(attrs)});
  }
  for (Case& c : cases) {
    c.implementation = "strips";
    c.terms = 16;
  }
  return cases;
}

std::vector<HostTensor> inChannelsLast(const Case& c) {
  OneOp op(c.def, c.attrs, c.inputs, 2, Layout::channelsLast());
  return op.run();
}

std::vector<PoolShape> poolShapes() {
  return {{{3, 5, 17}, {{"kernel", {3}}, {"strides", {2}}}},
          {{2, 64, 12, 12}, {{"kernel", {2, 2}}, {"strides", {2, 2}}}},
          {{2, 19, 9, 11}, {{"kernel", {3, 2}}, {"pads", {1, 0, 1, 1}}, {"strides", {2, 1}}}},
          {{2, 7, 10, 50}, {{"kernel", {3, 3}}, {"strides", {1, 1}}}},
          {{2, 6, 9, 40}, {{"kernel", {3, 3}}, {"strides", {2, 2}}, {"ceilMode", true}}},
          {{1, 4, 5, 6, 23}, {{"kernel", {2, 3, 3}}, {"pads", {0, 1, 1, 1, 1, 1}}}},
          {{2, 3, 7, 7}, {{"kernel", {7, 7}}}},
          {{1, 2, 20, 20}, {{"kernel", {17, 17}}}},
          {{8, 33, 24, 24}, {{"kernel", {2, 2}}, {"strides", {2, 2}}}},
          // One image whose lines are divided among tiles.
          {{1, 70, 41, 43}, {{"kernel", {3, 3}}, {"pads", {1, 1, 1, 1}}, {"strides", {2, 2}}}},
          {{2, 10, 24, 24}, {{"kernel", {2, 2}}, {"strides", {2, 2}}}},
          {{2, 3, 9, 12}, {{"kernel", {3, 2}}, {"strides", {3, 2}}}},
          {{2, 10, 9, 13}, {{"kernel", {2, 2}}, {"strides", {2, 2}}}},
          {{2, 5, 12, 30}, {{"kernel", {2, 3}}, {"dilations", {2, 2}}, {"pads", {1, 1, 1, 1}}}}};
}

TEST(CpuPool, MatchesTheReference) {
  for (const PoolShape& shape : poolShapes()) {
    for (const Case& c : poolCases(shape)) {
      check(c);
    }
  }
}

TEST(CpuPool, GivesTheSameBitsInChannelsLastStorage) {
  for (const PoolShape& shape : poolShapes()) {
    for (const Case& c : poolCases(shape)) {
      SCOPED_TRACE(describe(c));
      expectSameBits(inChannelsLast(c), OneOp(c.def, c.attrs, c.inputs, 1).run());
    }
  }
}

TEST(CpuPool, ComputesSixteenBitFloats) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const Case& c : poolCases(poolShapes()[2], dtype)) {
      check(c);
    }
  }
}

TEST(CpuPool, FindsTheSameWinnersAsTheReferenceAmongTiesZerosAndNaNs) {
  HostTensor x(DType::F32, Shape{2, 18, 11, 37});
  const auto values = x.data<float>();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr std::array<float, 8> kValues = {0.0F, -0.0F, 1.0F, 1.0F, -kInf, kNaN, -1.0F, kInf};
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = kValues[state >> 29U];
  }
  for (const ir::Attrs& attrs :
       {ir::Attrs{{"kernel", {2, 2}}, {"strides", {2, 2}}},
        ir::Attrs{{"kernel", {3, 3}}, {"pads", {1, 1, 1, 1}}},
        ir::Attrs{{"kernel", {2, 2}}, {"pads", {2, 2, 2, 2}}, {"strides", {1, 3}}}}) {
    const Case c{.def = ops::kMaxPool, .inputs = {x}, .attrs = attrs};
    const auto expected = ops::evaluate(c.def, ir::completeAttrs(c.def, attrs), c.inputs);
    expectSameBits(OneOp(c.def, c.attrs, c.inputs, 1).run(), expected);
    expectSameBits(inChannelsLast(c), expected);
  }
}

TEST(CpuPool, LeavesEmptyBatchesAndDoublesToTheReference) {
  for (Case& c : poolCases({{0, 4, 6, 6}, {{"kernel", {2, 2}}}})) {
    c.implementation = "reference";
    check(c);
  }
  for (Case& c : poolCases({{2, 4, 6, 6}, {{"kernel", {2, 2}}}}, DType::F64)) {
    c.implementation = "reference";
    check(c);
  }
}

}  // namespace
}  // namespace sluice::devices::cpu
