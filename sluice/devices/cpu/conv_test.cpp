// Convolutions and their gradients by oneDNN against the references.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/tiled.h"
#include "sluice/devices/cpu/kernels/tuning_options.h"
#include "tests/support/one_op.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::Layout;
using testing::Case;
using testing::check;
using testing::convCases;
using testing::ConvShape;
using testing::describe;
using testing::expectSameBits;
using testing::hasAvx512;
using testing::OneOp;

void checkConv(const ConvShape& c, DType dtype = DType::F32) {
  for (const Case& one : convCases(c, dtype)) {
    check(one);
  }
}

TEST(CpuConv, MatchesTheReferenceInOneToThreeDimensions) {
  checkConv({{3, 5, 17}, {7, 5, 3}});
  checkConv({{3, 16, 9, 11}, {32, 16, 3, 3}});
  checkConv({{2, 3, 8, 9}, {5, 3, 3, 2}});
  checkConv({{2, 4, 5, 6, 7}, {8, 4, 2, 3, 3}});
  checkConv({{2, 1, 12, 12}, {8, 1, 5, 5}});
}

TEST(CpuConv, TakesPadsStridesDilationsAndGroups) {
  checkConv({{2, 6, 10, 9}, {8, 6, 3, 3}, {{"pads", {1, 0, 2, 1}}, {"strides", {2, 1}}}});
  checkConv({{2, 8, 12, 12}, {8, 8, 3, 3}, {{"pads", {2, 2, 2, 2}}, {"dilations", {2, 2}}}});
  checkConv({{2, 6, 9, 9}, {9, 2, 3, 3}, {{"groups", 3}, {"pads", {1, 1, 1, 1}}}});
  checkConv({{2, 16, 9, 9}, {16, 1, 3, 3}, {{"groups", 16}, {"pads", {1, 1, 1, 1}}}});
  checkConv({{2, 32, 9, 9}, {32, 16, 3, 3}, {{"groups", 2}, {"strides", {2, 2}}}});
  checkConv({{3, 4, 20}, {6, 2, 4}, {{"groups", 2}, {"dilations", {3}}, {"pads", {3, 0}}}});
  checkConv({{1, 2, 6, 7, 5}, {4, 2, 3, 3, 3}, {{"pads", {1, 1, 1, 0, 0, 0}}}});
  checkConv({{2, 16, 7, 7}, {24, 16, 1, 1}});
}

TEST(CpuConv, GivesTheSameBitsForAnyNumberOfThreadsWhenTiled) {
  checkConv({{10, 32, 14, 14}, {48, 32, 3, 3}, {{"pads", {1, 1, 1, 1}}}});
  checkConv({{9, 1, 28, 28}, {32, 1, 3, 3}});
  checkConv({{5, 17, 20, 20}, {19, 17, 3, 3}});
}

TEST(CpuConv, MultipliesWindowsForTheWeightsOfFewChannelsMore) {
  for (const ConvShape& shape : {ConvShape{{40, 10, 12, 12}, {20, 10, 5, 5}},
                                 ConvShape{{7, 16, 40, 40}, {17, 16, 3, 3}},
                                 ConvShape{{3, 40, 19}, {20, 40, 4}, {{"strides", {3}}}},
                                 ConvShape{{2, 16, 7, 6, 9},
                                           {24, 16, 3, 2, 2},
                                           {{"strides", {2, 1, 2}}, {"dilations", {1, 3, 1}}}}}) {
    const Case c = convCases(shape)[2];
    const std::string config = OneOp(c.def, c.attrs, c.inputs, 1).choice().config;
    if (hasAvx512()) {
      EXPECT_EQ(config, "columns") << describe(c);
    }
    check(c);
  }
}

TEST(CpuConv, MultipliesMatricesWhereTheWindowIsOnePixel) {
  for (const ConvShape& shape :
       {ConvShape{{3, 9, 17}, {11, 9, 1}},
        ConvShape{{2, 16, 7, 7}, {24, 16, 1, 1}},
        ConvShape{{9, 40, 14, 14}, {130, 40, 1, 1}},
        ConvShape{{3, 20, 9, 10}, {33, 20, 1, 1}, {{"strides", {2, 3}}}},
        ConvShape{{2, 9, 5, 4, 7}, {8, 9, 1, 1, 1}, {{"strides", {2, 1, 2}}}}}) {
    const std::vector<Case> cases = convCases(shape);
    for (std::size_t pass = 0; pass < 2; ++pass) {
      const Case& c = cases[pass];
      EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, "taps") << describe(c);
      check(c);
    }
  }
}

TEST(CpuConv, LeavesShortSumsOverManyPixelsToTheLibrary) {
  const auto config = [](std::int64_t batch) {
    const Case c = convCases({{batch, 8, 10, 10}, {32, 8, 1, 1}})[0];
    check(c);
    return OneOp(c.def, c.attrs, c.inputs, 1).choice().config;
  };
  EXPECT_EQ(config(10), "taps");
  EXPECT_NE(config(11), "taps");
}

TEST(CpuConv, MultipliesAllTapsWhereVectorsAreShortOfChannels) {
  const ir::Attrs same = {{"pads", {1, 1, 1, 1}}};
  const ir::Attrs strided = {{"strides", {2, 2}}, {"pads", {1, 0, 1, 2}}};
  const std::vector<std::pair<std::size_t, ConvShape>> cases = {
      {0, {{40, 10, 12, 12}, {20, 10, 5, 5}}},
      {0, {{7, 64, 13, 12}, {16, 64, 3, 3}, strided}},
      {0, {{3, 1, 9, 10}, {64, 1, 3, 3}, same}},
      {0, {{2, 4, 5, 6, 7}, {8, 4, 2, 3, 3}, {{"pads", {1, 0, 0, 0, 2, 2}}}}},
      {0, {{3, 5, 31}, {7, 5, 4}, {{"strides", {3}}, {"dilations", {2}}, {"pads", {3, 4}}}}},
      {1, {{40, 8, 7, 7}, {32, 8, 5, 5}, {{"pads", {2, 2, 2, 2}}}}},
      {1, {{5, 20, 10, 10}, {24, 20, 3, 3}, same}},
      {1, {{5, 32, 13, 12}, {64, 32, 3, 3}, strided}},
      {1, {{3, 8, 19}, {40, 8, 2}, {{"strides", {3}}}}},
      {1, {{2, 8, 16, 15}, {16, 8, 3, 3}, {{"dilations", {2, 3}}, {"pads", {2, 2, 2, 2}}}}}};
  for (const auto& [pass, shape] : cases) {
    const Case c = convCases(shape)[pass];
    const OneOp op(c.def, c.attrs, c.inputs, 1);
    if (hasAvx512()) {
      EXPECT_EQ(op.choice().config, "taps") << describe(c);
    }
    check(c, {{tuningOptions(op.call().view())->key, "taps"}});
  }
}

TEST(CpuConv, GathersWindowsWithTheBitsOfTaps) {
  const ir::Attrs same = {{"pads", {1, 1, 1, 1}}};
  const ir::Attrs uneven = {{"pads", {2, 0, 1, 3}}, {"dilations", {2, 1}}};
  const ir::Attrs strided = {{"strides", {2, 3}}, {"pads", {1, 0, 1, 2}}};
  const std::vector<ConvShape> shapes = {{{1, 70, 9, 8}, {130, 70, 3, 3}, same},
                                         {{3, 17, 7, 7}, {64, 17, 3, 3}, same},
                                         {{2, 9, 10, 11}, {50, 9, 3, 2}, uneven},
                                         {{2, 20, 11, 12}, {96, 20, 3, 5}, strided},
                                         {{1, 600, 5, 5}, {66, 600, 2, 2}, {}},
                                         {{2, 96, 6, 5}, {70, 96, 1, 1}, {}},
                                         {{2, 3, 21}, {48, 3, 11}, {{"pads", {5, 5}}}},
                                         {{1, 12, 4, 5, 6}, {33, 12, 3, 2, 3}, {}},
                                         {{40, 64, 6, 6}, {64, 64, 3, 3}, same},
                                         // weights in narrow panels
                                         {{1, 70, 5, 7}, {470, 70, 3, 3}, same},
                                         {{2, 520, 8, 7}, {516, 520, 1, 1}, {}}};
  for (const ConvShape& shape : shapes) {
    for (const Case& c : convCases(shape)) {
      const OneOp op(c.def, c.attrs, c.inputs, 1);
      const auto options = tuningOptions(op.call().view());
      if (std::ranges::find(options->values, "windows") == options->values.end()) {
        continue;  // strided gradients and those of weights
      }
      SCOPED_TRACE(describe(c));
      check(c, {{options->key, "windows"}});
      OneOp windows(c.def, c.attrs, c.inputs, 3, {}, {{options->key, "windows"}});
      EXPECT_EQ(windows.choice().config, "windows");
      OneOp taps(c.def, c.attrs, c.inputs, 1, {}, {{options->key, "taps"}});
      expectSameBits(windows.run(), taps.run());
    }
  }
}

TEST(CpuConv, MultipliesLinesOfPixelsForTheWeights) {
  const ir::Attrs same = {{"pads", {1, 1, 1, 1}}};
  for (const ConvShape& shape :
       {ConvShape{{3, 70, 9, 8}, {33, 70, 3, 3}, same},
        ConvShape{{2, 49, 10, 11}, {50, 49, 3, 2}, {{"pads", {2, 0, 1, 3}}, {"dilations", {2, 1}}}},
        ConvShape{{2, 64, 11, 12}, {30, 64, 3, 5}, {{"strides", {2, 3}}, {"pads", {1, 0, 1, 2}}}},
        ConvShape{{40, 48, 14, 14}, {24, 48, 3, 3}, same},  // several grains
        ConvShape{{2, 130, 6, 5}, {300, 130, 1, 1}},
        ConvShape{{2, 5, 21}, {6, 5, 11}, {{"pads", {5, 5}}}},
        ConvShape{{1, 50, 4, 5, 6}, {33, 50, 3, 2, 3}},
        ConvShape{
            {1, 48, 2, 2}, {24, 48, 5, 5}, {{"pads", {4, 4, 1, 1}}}}}) {  // taps that meet nothing
    const Case c = convCases(shape)[2];
    SCOPED_TRACE(describe(c));
    const std::string key = tuningOptions(OneOp(c.def, c.attrs, c.inputs, 1).call().view())->key;
    check(c, {{key, "lines"}});
  }
}

TEST(CpuConv, SumsSingleChannelsByThemselves) {
  const auto groups = [](std::int64_t count, ir::Attrs attrs = {}) {
    attrs.set({"groups", count});
    return attrs;
  };
  for (const ConvShape& shape :
       {ConvShape{{2, 70, 9, 8}, {70, 1, 3, 3}, groups(70, {{"pads", {1, 1, 1, 1}}})},
        ConvShape{{1, 144, 11, 12},
                  {144, 1, 5, 3},
                  groups(144, {{"strides", {2, 3}}, {"pads", {1, 0, 1, 2}}})},
        ConvShape{{3, 9, 10}, {9, 1, 4}, groups(9, {{"dilations", {2}}})},
        ConvShape{{2, 33, 4, 5, 6}, {33, 1, 3, 2, 3}, groups(33)}}) {
    const Case c = convCases(shape)[0];
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, "channels");
    check(c);
  }
}

TEST(CpuConv, SpreadsASingleImageOverManyThreads) {
  const ir::Attrs same = {{"pads", {1, 1, 1, 1}}};
  ir::Attrs single = same;
  single.set({"groups", 144});
  struct Way {
    std::string config;
    ConvShape shape;
  };
  for (const Way& way :
       std::vector<Way>{{"taps", {{1, 64, 56, 56}, {64, 64, 3, 3}, same}},
                        {"taps", {{1, 64, 56, 56}, {256, 64, 1, 1}, {}}},
                        {"taps", {{1, 3, 112, 112}, {64, 3, 3, 3}, {{"strides", {2, 2}}}}},
                        {"taps", {{1, 96, 14, 14}, {576, 96, 1, 1}, {}}},
                        {"windows", {{1, 128, 28, 28}, {128, 128, 3, 3}, same}},
                        {"windows", {{1, 512, 7, 7}, {512, 512, 3, 3}, same}},
                        {"channels", {{1, 144, 56, 56}, {144, 1, 3, 3}, single}}}) {
    const Case c = convCases(way.shape)[0];
    SCOPED_TRACE(describe(c));
    const std::string key = convKey(OneOp(c.def, c.attrs, c.inputs, 1).call().view());
    const OneOp op(c.def, c.attrs, c.inputs, 1, {}, {{key, way.config}});
    const device::KernelCall& call = op.call();
    std::vector<std::vector<float>> operands;
    const auto add = [&](std::size_t bytes) {
      return static_cast<void*>(operands.emplace_back(bytes / sizeof(float) + 1).data());
    };
    const std::array<const void*, 2> inputs = {
        add(call.choice.inputs[0].bytes(call.inputTypes[0])),
        add(call.choice.inputs[1].bytes(call.inputTypes[1]))};
    const std::array<void*, 1> outputs = {add(call.choice.outputs[0].bytes(call.outputTypes[0]))};
    void* const scratch = add(call.choice.scratchBytes);
    std::vector<int> seen(static_cast<std::size_t>(call.outputTypes[0].shape.elements()));
    int tiles = 0;
    Workers workers(1);
    makeTiled(call.view(), call.choice)
        ->runTiles({inputs, outputs, scratch, {}, workers}, [&](const OutputTile& tile) {
          ++tiles;
          for (std::int64_t i = tile.begin; i < tile.end; ++i) {
            ++seen[static_cast<std::size_t>(i)];
          }
        });
    EXPECT_GE(tiles, 16);
    EXPECT_EQ(std::ranges::count(seen, 1), call.outputTypes[0].shape.elements());
  }
}

TEST(CpuConv, AddsOuterProductsForTheWeights) {
  for (const ConvShape& shape :
       {ConvShape{{12, 16, 9}, {10, 16, 3}},
        ConvShape{{5, 48, 7, 7}, {20, 48, 3, 3}, {{"pads", {1, 1, 1, 1}}}},
        ConvShape{{40, 10, 6, 6}, {64, 10, 3, 3}, {{"pads", {1, 1, 1, 1}}}},
        ConvShape{{2, 32, 30, 41}, {32, 32, 3, 2}, {{"strides", {2, 3}}, {"pads", {1, 0, 2, 1}}}},
        ConvShape{{3, 16, 13, 12}, {10, 16, 3, 3}, {{"dilations", {2, 3}}, {"pads", {2, 2, 2, 2}}}},
        ConvShape{{2, 16, 5, 6, 7}, {17, 16, 2, 3, 1}, {{"strides", {2, 1, 2}}}},
        ConvShape{{9, 1, 28, 28}, {256, 1, 1, 1}},
        ConvShape{{9, 1, 10, 10}, {256, 1, 5, 5}, {{"pads", {2, 2, 2, 2}}, {"strides", {1, 2}}}},
        ConvShape{{5, 3, 9, 12}, {64, 3, 3, 3}, {{"pads", {1, 0, 0, 1}}, {"dilations", {2, 1}}}},
        ConvShape{{5, 2, 30}, {48, 2, 4}}}) {
    const Case c = convCases(shape)[2];
    EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, "outer") << describe(c);
    check(c);
  }
}

TEST(CpuConv, ChoosesByTheShape) {
  if (!hasAvx512()) {
    GTEST_SKIP() << "other rules without long vectors";
  }
  const ir::Attrs same = {{"pads", {1, 1, 1, 1}}};
  const ir::Attrs wide = {{"pads", {2, 2, 2, 2}}};
  const ir::Attrs strided = {{"pads", {1, 1, 1, 1}}, {"strides", {2, 2}}};
  struct Expected {
    std::size_t pass;
    ConvShape shape;
    std::string config;
  };
  for (const Expected& e :
       std::vector<Expected>{// Wide images: sums of one tap are short, or longer.
                             {0, {{2, 32, 29, 28}, {48, 32, 3, 3}, same}, "taps"},
                             {0, {{2, 32, 28, 27}, {48, 32, 3, 3}, same}, "windows"},
                             {0, {{2, 1, 28, 28}, {48, 1, 3, 3}, same}, "taps"},
                             {0, {{2, 1, 28, 28}, {32, 1, 3, 3}, same}, "c c 1"},
                             // The first layer of most networks for images.
                             {0, {{1, 3, 33, 32}, {32, 3, 3, 3}, strided}, "taps"},
                             {0, {{3, 3, 21, 23}, {64, 3, 7, 7}, strided}, "taps"},
                             // Few pixels are divided by channels, too.
                             {0, {{1, 576, 7, 7}, {160, 576, 1, 1}}, "windows"},
                             {0, {{2, 576, 7, 7}, {160, 576, 1, 1}}, "taps"},
                             {1, {{2, 64, 28, 28}, {16, 64, 3, 3}, same}, "taps"},
                             {1, {{2, 64, 28, 28}, {48, 64, 3, 3}, same}, "windows"},
                             // Few channels, and half a vector of them.
                             {1, {{40, 3, 7, 7}, {6, 3, 3, 3}, same}, "taps"},
                             {1, {{4, 3, 10, 10}, {48, 3, 3, 3}, same}, "p p 1"},
                             {1, {{4, 8, 7, 7}, {256, 8, 5, 5}, wide}, "p p 2"},
                             {1, {{4, 8, 7, 7}, {64, 8, 5, 5}, wide}, "taps"},
                             // Windows of one pixel: too few sums at a time, or too few channels.
                             {2, {{8, 1, 10, 10}, {32, 1, 1, 1}}, "c c 1"},
                             {2, {{8, 1, 10, 10}, {128, 1, 1, 1}}, "outer"},
                             {2, {{4, 20, 20, 20}, {6, 20, 1, 1}}, "p p 1"}}) {
    const Case c = convCases(e.shape)[e.pass];
    EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, e.config) << describe(c);
    check(c);
  }
}

TEST(CpuConv, RefusesTuningThatItCannotFollow) {
  const ConvShape padded{{4, 16, 8, 8}, {16, 8, 3, 3}, {{"groups", 2}, {"pads", {1, 1, 1, 1}}}};
  const std::string shape = "/n4g2c16o16i8x8k3x3s1x1d1x1p1x1q1x1";
  const std::vector<Case> cases = convCases(padded);
  const std::vector<std::pair<std::size_t, std::string>> entries = {
      {0, "taps"}, {1, "taps"}, {2, "outer"}, {2, "columns"}, {0, "outer"}};
  for (const auto& [pass, value] : entries) {
    const Case& c = cases[pass];
    const OneOp op(c.def, c.attrs, c.inputs, 1);
    const auto device = makeCpuDevice({.tuning = {{std::string(c.def.name) + shape, value}}});
    EXPECT_THROW(device->kernels().choose(op.call().view()), ConfigFileError) << value;
  }
}

TEST(CpuConv, ComputesSixteenBitFloats) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    checkConv({{3, 16, 9, 11}, {32, 16, 3, 3}}, dtype);
    checkConv({{2, 3, 8, 9}, {5, 3, 3, 2}}, dtype);
    checkConv({{10, 32, 14, 14}, {48, 32, 3, 3}}, dtype);
  }
}

// Where the machine multiplies bfloat16, nothing is converted, and weights come in the format of
// the primitives; float16 is converted everywhere.
TEST(CpuConv, MultipliesBfloat16WhereTheMachineDoes) {
  const bool multiplies = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
  const ConvShape shape{{4, 32, 14, 14}, {48, 32, 3, 3}, {{"pads", {1, 1, 1, 1}}}};
  const auto scratch = [&](DType dtype, std::size_t pass) {
    const Case c = convCases(shape, dtype)[pass];
    return OneOp(c.def, c.attrs, c.inputs, 1).choice().scratchBytes;
  };
  for (const std::size_t pass : {0, 1, 2}) {
    const std::size_t bfloat16 = scratch(DType::BF16, pass);
    const std::size_t float16 = scratch(DType::F16, pass);
    EXPECT_TRUE(multiplies ? bfloat16 < float16 : bfloat16 == float16) << pass;
  }
  const Case forward = convCases(shape, DType::BF16)[0];
  const device::Choice choice = OneOp(forward.def, forward.attrs, forward.inputs, 1).choice();
  EXPECT_EQ(choice.inputs[1] != device::Layout::plain(), multiplies);
  checkConv(shape, DType::BF16);
}

TEST(CpuConv, ConvertsSixteenBitFloatsStripByStrip) {
  const auto shape = [](std::int64_t images) {
    return ConvShape{{images, 3, 64, 64}, {8, 3, 3, 3}, {{"pads", {1, 1, 1, 1}}}};
  };
  checkConv(shape(43), DType::F16);  // whole strips and a rest
  // In float32 the operands take 36 MB; each of at most eight tiles holds about one at a time.
  constexpr std::size_t kMost = std::size_t{8} * 3 << 19;
  for (const Case& c : convCases(shape(200), DType::F16)) {
    EXPECT_LT(OneOp(c.def, c.attrs, c.inputs, 1).choice().scratchBytes, kMost) << describe(c);
  }
}

TEST(CpuConv, LeavesEmptyBatchesAndDoublesToTheReference) {
  for (Case& c : convCases({{0, 4, 6, 6}, {5, 4, 3, 3}})) {
    c.implementation = "reference";
    check(c);
  }
  for (Case& c : convCases({{2, 4, 6, 6}, {5, 4, 3, 3}}, DType::F64)) {
    c.implementation = "reference";
    check(c);
  }
}

TEST(CpuConv, TakesItsLayoutsFromTheTuningTable) {
  const Case c = convCases({{4, 16, 8, 8}, {16, 16, 3, 3}})[0];
  const OneOp op(c.def, c.attrs, c.inputs, 1);
  EXPECT_EQ(op.choice().config, "c c 1");
  EXPECT_EQ(op.choice().inputs[0], Layout::channelsLast());
  const std::string key = "conv/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0";
  const auto tuned = makeCpuDevice({.tuning = {{key, "p p 2"}}});
  const Choice choice = tuned->kernels().choose(op.call().view());
  EXPECT_EQ(choice.config, "p p 2");
  EXPECT_TRUE(choice.inputs[0].isPlain());
  const auto wrong = makeCpuDevice({.tuning = {{key, "c x 2"}}});
  EXPECT_THROW(wrong->kernels().choose(op.call().view()), ConfigFileError);
}

TEST(CpuConv, RefusesAChoiceThatTheLibraryWouldNotMakeNow) {
  const Case c = convCases({{4, 16, 8, 8}, {16, 16, 3, 3}})[0];
  const OneOp op(c.def, c.attrs, c.inputs, 1);
  Choice other = op.choice();
  other.scratchBytes += 64;
  EXPECT_THROW(makeKernel(op.call().view(), other), Unsupported);
}

}  // namespace
}  // namespace sluice::devices::cpu
