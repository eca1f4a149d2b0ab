// matmul by oneDNN against the reference.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/cpu/kernels/panel_product.h"
#include "sluice/devices/cpu/kernels/tiled.h"
#include "tests/support/one_op.h"

namespace sluice::devices::cpu {
namespace {

using device::Layout;
using testing::Case;
using testing::check;
using testing::describe;
using testing::expectSameBits;
using testing::hasAvx512;
using testing::OneOp;
using testing::product;

TEST(CpuMatMul, MatchesTheReferenceForEveryTransposition) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      check(
          product(ta ? Shape{33, 17} : Shape{17, 33}, tb ? Shape{29, 33} : Shape{33, 29}, ta, tb));
    }
  }
}

TEST(CpuMatMul, TakesVectors) {
  check(product({7}, {7, 5}));
  check(product({5, 7}, {7}));
  check(product({9}, {9}));
  check(product({3, 5, 7}, {7}));
}

TEST(CpuMatMul, BroadcastsBatches) {
  check(product({4, 3, 5}, {4, 5, 6}));
  check(product({4, 3, 5}, {5, 6}));
  check(product({4, 5, 3}, {5, 6}, true));
  check(product({3, 5}, {4, 5, 6}));
  check(product({2, 1, 3, 5}, {1, 3, 5, 6}));
  check(product({2, 1, 5, 3}, {4, 6, 5}, true, true));
}

TEST(CpuMatMul, GivesTheSameBitsForAnyNumberOfThreadsWhenTiled) {
  check(product({200, 300}, {300, 700}));             // columns
  check(product({700, 300}, {300, 90}));              // rows
  check(product({12, 90, 110}, {12, 110, 130}));      // batch
  check(product({3, 1, 90, 110}, {1, 4, 110, 130}));  // loop over a broadcast
}

TEST(CpuMatMul, TakesAPackedRightOperandWhereThereAreFewRowsOrItIsTransposed) {
  for (const Case& c : {product({40, 700}, {700, 900}),
                        product({64, 520}, {1100, 520}, false, true),
                        product({300, 33}, {260, 300}, true, true),
                        product({2, 600, 130}, {210, 130}, false, true)}) {
    SCOPED_TRACE(describe(c));
    const OneOp op(c.def, c.attrs, c.inputs, 1);
    EXPECT_EQ(op.choice().inputs[1].kind, Layout::Kind::Opaque);
    EXPECT_EQ(op.choice().config, "panels packed");
    check(c);
  }
}

TEST(CpuMatMul, TakesAPackedRightOperandOfTheLibraryWhereItHasOne) {
  if (!hasAvx512()) {
    GTEST_SKIP() << "oneDNN packs only for AVX-512";
  }
  const Case half = product({2, 20, 130}, {210, 130}, false, true, DType::BF16);
  EXPECT_EQ(OneOp(half.def, half.attrs, half.inputs, 1).choice().inputs[1].kind,
            Layout::Kind::Opaque);
  check(half);
  const Case c = product({64, 520}, {1100, 520}, false, true);
  const std::string key = "matmul/f32/1x64x1100x520/nt";
  OneOp packed(c.def, c.attrs, c.inputs, 1, {}, {{key, "cols 1 packed"}});
  OneOp plain(c.def, c.attrs, c.inputs, 1, {}, {{key, "cols 1"}});
  EXPECT_TRUE(plain.choice().inputs[1].isPlain());
  EXPECT_FALSE(packed.choice().inputs[1].isPlain());
  expectSameBits(plain.run(), packed.run());
  OneOp staged(c.def, c.attrs, c.inputs, 2, {}, {{key, "cols 6 packed"}});
  expectSameBits(plain.run(), staged.run());
}

TEST(CpuMatMul, GivesTheSameBitsByVectorsPanelsAndPackedPanels) {
  // k is shorter and longer than what is multiplied at a time; neither extent fills its blocks.
  for (const bool transposeA : {false, true}) {
    for (const bool transposeB : {false, true}) {
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{13, 17, 2},
                                    {97, 130, 33},
                                    {203, 70, 1300},
                                    {250, 1030, 515}}) {
        const Case c = product(transposeA ? Shape{k, m} : Shape{m, k},
                               transposeB ? Shape{n, k} : Shape{k, n},
                               transposeA,
                               transposeB);
        SCOPED_TRACE(describe(c));
        const std::string key = fmt::format(
            "matmul/f32/1x{}x{}x{}/{}{}", m, n, k, transposeA ? 't' : 'n', transposeB ? 't' : 'n');
        OneOp vectors(c.def, c.attrs, c.inputs, 1, {}, {{key, "vectors"}});
        const auto wanted = vectors.run();
        for (const int threads : {1, 3}) {
          for (const char* config : {"panels", "panels packed"}) {
            OneOp panels(c.def, c.attrs, c.inputs, threads, {}, {{key, config}});
            EXPECT_EQ(panels.choice().config, config);
            expectSameBits(panels.run(), wanted);
          }
        }
      }
    }
  }
}

TEST(CpuMatMul, MultipliesFewRowsByDotProducts) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1000, 512}, {1, 3, 64}, {5, 77, 1291}, {11, 130, 100}}) {
    const Case c = product({m, k}, {n, k}, false, true);
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, "dots");
    check(c);
  }
}

TEST(CpuMatMul, CutsAProductFineEnoughForManyThreads) {
  // The products of a small transformer; each has enough tiles for 16 threads or more.
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{512, 384, 384},
                                {512, 384, 1536},
                                {1536, 384, 512},
                                {197, 768, 3072}}) {
    EXPECT_GE(panelTiles(m, panelsOf(k, n)).count(), 24) << m << " x " << n << " x " << k;
  }
  EXPECT_EQ(panelTiles(24, panelsOf(64, 64)).count(), 1) << "not worth a second thread";
}

TEST(CpuMatMul, MultipliesSmallAndTallMatricesByItsOwnCode) {
  for (const Case& c : {product({8, 35}, {35, 8}),
                        product({80, 38}, {80, 10}, true),
                        product({9, 11}, {159, 11}, false, true),
                        product({14, 160}, {20, 160}, false, true),
                        product({2, 9, 30}, {30, 19}),
                        product({20000, 32}, {32, 33})}) {
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, "vectors");
    check(c);
  }
}

TEST(CpuMatMul, ComputesSixteenBitFloats) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    check(product({17, 33}, {33, 29}, false, false, dtype));
    check(product({2, 9, 33}, {29, 33}, false, true, dtype));
    check(product({200, 300}, {300, 700}, false, false, dtype));
  }
}

/// Around the extents of blocks, and for every way to cut a product into tiles.
std::vector<Case> narrowCases() {
  std::vector<Case> cases;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto add = [&](std::int64_t m, std::int64_t k, std::int64_t n) {
        cases.push_back(product(
            ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}, ta, tb, DType::F16));
      };
      add(1, 1, 1);
      add(65, 257, 129);
      add(700, 61, 300);   // whole rows
      add(150, 520, 270);  // blocks of columns
      cases.push_back(product(ta ? Shape{3, 40, 70} : Shape{3, 70, 40},
                              tb ? Shape{3, 150, 40} : Shape{3, 40, 150},
                              ta,
                              tb,
                              DType::F16));
      cases.push_back(product(ta ? Shape{2, 1, 40, 70} : Shape{2, 1, 70, 40},
                              tb ? Shape{1, 4, 150, 40} : Shape{1, 4, 40, 150},
                              ta,
                              tb,
                              DType::F16));
    }
  }
  cases.push_back(product({3, 300, 90}, {90, 140}, false, false, DType::F16));
  cases.push_back(product({3, 90, 300}, {90, 140}, true, false, DType::F16));
  cases.push_back(product({7}, {3, 7, 5}, false, false, DType::F16));
  cases.push_back(product({3, 5, 7}, {7}, false, false, DType::F16));
  return cases;
}

/// Small whole numbers, whose sums are exact in float32 but not in float16.
HostTensor wholeNumbers(const HostTensor& like, std::uint64_t seed) {
  HostTensor result(like.type());
  auto values = result.data<Float16>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    values[i] = Float16(static_cast<float>(seed >> 58U) - 21.0F);
  }
  return result;
}

TEST(CpuMatMul, ComputesHalvesInBlocksOfAnyShape) {
  for (const Case& c : narrowCases()) {
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1).choice().config, "blocks");
    check(c);
  }
}

TEST(CpuMatMul, RoundsSumsOfHalvesOnce) {
  for (const Case& c : narrowCases()) {
    SCOPED_TRACE(describe(c));
    const std::vector<HostTensor> inputs = {wholeNumbers(c.inputs[0], 1),
                                            wholeNumbers(c.inputs[1], 2)};
    OneOp one(c.def, c.attrs, inputs, 1);
    const std::vector<HostTensor> results = one.run();
    std::vector<HostTensor> expected = {HostTensor(results[0].type())};
    const ir::OpView view = one.call().view();
    const std::array<const void*, 2> from = {inputs[0].bytes(), inputs[1].bytes()};
    const std::array<void*, 1> to = {expected[0].bytes()};
    c.def.reference({view, from, to, {}});
    expectSameBits(expected, results);
    expectSameBits(expected, OneOp(c.def, c.attrs, inputs, 2).run());
  }
}

TEST(CpuMatMul, TakesLittleScratchForHalves) {
  const auto scratch = [](const Case& c) {
    return OneOp(c.def, c.attrs, c.inputs, 1).choice().scratchBytes;
  };
  constexpr std::size_t kMost = 3 << 19;
  for (const bool tb : {false, true}) {
    EXPECT_LT(scratch(product({32, 250, 250}, {250, 250}, false, tb, DType::F16)), kMost);
    EXPECT_LT(scratch(product({4000, 600}, {4000, 600}, true, false, DType::F16)), kMost);
    EXPECT_LT(scratch(product({600, 600}, {600, 5000}, false, false, DType::F16)), kMost);
  }
  EXPECT_LT(scratch(product({8, 8}, {8, 8}, false, false, DType::F16)), 2048U);
}

TEST(CpuMatMul, RefusesScratchOfOtherBlocks) {
  const Case c = product({17, 33}, {33, 29}, false, false, DType::F16);
  const OneOp op(c.def, c.attrs, c.inputs, 1);
  device::Choice choice = op.choice();
  choice.scratchBytes += 64;
  EXPECT_THROW(makeTiled(op.call().view(), choice), Unsupported);
}

TEST(CpuMatMul, ComputesDoubles) {
  for (Case c : {product({2, 3}, {3, 4}, false, false, DType::F64),
                 product({100, 33}, {33, 70}, false, false, DType::F64),
                 product({33, 13}, {65, 33}, true, true, DType::F64),
                 product({200, 50}, {31, 50}, false, true, DType::F64),
                 product({3, 7, 9}, {9, 5}, false, false, DType::F64),
                 product({2, 1, 7, 9}, {3, 9, 40}, false, false, DType::F64),
                 product({0, 3}, {3, 4}, false, false, DType::F64),
                 product({2, 0}, {0, 4}, false, false, DType::F64)}) {
    c.implementation = "doubles";
    check(c);
  }
}

TEST(CpuMatMul, LeavesEmptyProductsToTheReference) {
  Case empty = product({0, 3}, {3, 4});
  empty.implementation = "reference";
  check(empty);
  Case noTerms = product({2, 0}, {0, 4});
  noTerms.implementation = "reference";
  check(noTerms);
}

TEST(CpuMatMul, HandsEveryElementToTheEpilogueOnce) {
  for (const Case& c : {product({200, 300}, {300, 700}),
                        product({700, 300}, {300, 90}),
                        product({12, 90, 110}, {12, 110, 130}),
                        product({17, 33}, {33, 29}, false, false, DType::F16),
                        product({200, 300}, {300, 700}, false, false, DType::F16),
                        product({700, 300}, {300, 90}, false, false, DType::F16),
                        product({12, 90, 110}, {12, 110, 130}, false, false, DType::F16)}) {
    SCOPED_TRACE(describe(c));
    OneOp op(c.def, c.attrs, c.inputs, 1);
    const HostTensor plain = op.run()[0];
    const auto kernel = makeTiled(op.call().view(), op.choice());
    ASSERT_NE(kernel, nullptr);
    HostTensor out(plain.type());
    const auto device = makeCpuDevice();
    const auto scratch = device->allocate(op.choice().scratchBytes);
    const std::array<const void*, 2> inputs = {c.inputs[0].bytes(), c.inputs[1].bytes()};
    const std::array<void*, 1> outputs = {out.bytes()};
    Workers workers(1);
    const OneOmpThread one;
    std::vector<int> seen(static_cast<std::size_t>(plain.shape().elements()));
    kernel->runTiles({inputs, outputs, scratch->host(), {}, workers}, [&](const OutputTile& tile) {
      const std::size_t bytes = byteSize(plain.dtype());
      const auto begin = static_cast<std::size_t>(tile.begin) * bytes;
      const auto count = static_cast<std::size_t>(tile.end - tile.begin) * bytes;
      EXPECT_EQ(std::memcmp(out.bytes() + begin, plain.bytes() + begin, count), 0);
      for (std::int64_t i = tile.begin; i < tile.end; ++i) {
        ++seen[static_cast<std::size_t>(i)];
      }
    });
    EXPECT_EQ(std::ranges::count(seen, 1), plain.shape().elements());
  }
}

TEST(CpuMatMul, TakesItsTilesFromTheTuningTable) {
  const Case c = product({64, 64}, {64, 256});
  const auto device = makeCpuDevice({.tuning = {{"matmul/f32/1x64x256x64/nn", "cols 2"}}});
  const OneOp op(c.def, c.attrs, c.inputs, 1);
  EXPECT_EQ(op.choice().config, "panels");
  EXPECT_EQ(device->kernels().choose(op.call().view()).config, "cols 2");
  const auto own = makeCpuDevice({.tuning = {{"matmul/f32/1x64x256x64/nn", "vectors"}}});
  EXPECT_EQ(own->kernels().choose(op.call().view()).config, "vectors");
  for (const char* text :
       {"diagonal 2", "cols 0", "cols 99", "loop 2", "batch 2", "vectors 2", "panels 2"}) {
    const auto wrong = makeCpuDevice({.tuning = {{"matmul/f32/1x64x256x64/nn", text}}});
    EXPECT_THROW(wrong->kernels().choose(op.call().view()), ConfigFileError) << text;
  }
  const Case half = product({64, 64}, {64, 256}, false, false, DType::F16);
  const OneOp narrow(half.def, half.attrs, half.inputs, 1);
  const auto blocks = makeCpuDevice({.tuning = {{"matmul/f16/1x64x256x64/nn", "blocks"}}});
  EXPECT_EQ(blocks->kernels().choose(narrow.call().view()).config, "blocks");
  const auto cols = makeCpuDevice({.tuning = {{"matmul/f16/1x64x256x64/nn", "cols 2"}}});
  EXPECT_THROW(cols->kernels().choose(narrow.call().view()), ConfigFileError);
  const Case batched = product({4, 3, 5}, {4, 5, 6});
  const OneOp other(batched.def, batched.attrs, batched.inputs, 1);
  const auto wrong = makeCpuDevice({.tuning = {{"matmul/f32/4x3x6x5/nn", "vectors"}}});
  EXPECT_THROW(wrong->kernels().choose(other.call().view()), ConfigFileError);
}

}  // namespace
}  // namespace sluice::devices::cpu
