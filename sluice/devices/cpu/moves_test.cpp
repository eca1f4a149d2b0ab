// Kernels that move, place or look for elements, bit for bit against the references: every element
// size, axes that merge and axes that do not, lines longer than a piece, negative steps, nothing.
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/kernel_check.h"

namespace sluice::devices::cpu {
namespace {

using sluice::testing::DeviceRun;
using sluice::testing::randomTensor;
using sluice::testing::runOnDevice;

constexpr DType kSizes[] = {DType::U8, DType::BF16, DType::F32, DType::I64};

HostTensor random(const TensorType& type) {
  return randomTensor(1, type, 0, 100);
}

HostTensor indicesBelow(std::int64_t limit, const Shape& shape, DType dtype = DType::I64) {
  return randomTensor(2, {dtype, shape}, static_cast<double>(-limit), static_cast<double>(limit));
}

TEST(Moves, SlicesAndTheirInverse) {
  struct Case {
    Shape shape;
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
    std::vector<std::int64_t> steps;
  };
  constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
  const std::vector<Case> cases = {
      {{}, {}, {}, {}},
      {{90000}, {1}, {89998}, {1}},
      {{90000}, {-1}, {kLow}, {-1}},
      {{37, 50}, {3, 0}, {30, 50}, {1, 1}},
      {{37, 50}, {0, 7}, {37, 49}, {1, 1}},
      {{37, 50}, {36, 49}, {kLow, 1}, {-3, -5}},
      {{37, 50}, {5, 0}, {6, 50}, {kLow, 1}},
      {{3, 40001}, {0, 1}, {3, 40000}, {2, 1}},
      {{6, 5, 4, 33}, {1, 0, 1, 2}, {6, 5, 3, 31}, {2, 1, 1, 1}},
      {{3, 4, 5, 6, 7}, {2, 0, 4, 0, 6}, {kLow, 4, kLow, 6, kLow}, {-1, 2, -2, 3, -1}},
      {{2, 2, 2, 2, 2, 2, 3}, {0, 1, 0, 1, 0, 1, 0}, {1, 2, 2, 2, 2, 2, 2}, {}},
      {{4, 0, 3}, {0, 0, 0}, {4, 9, 2}, {}},
      {{4, 5, 3}, {0, 4, 0}, {4, 2, 3}, {}},
  };
  for (const Case& c : cases) {
    const ir::Attrs attrs = {{"starts", c.starts}, {"ends", c.ends}, {"steps", c.steps}};
    for (const DType dtype : kSizes) {
      const HostTensor x = random({dtype, c.shape});
      checkExact({.def = ops::kSlice, .attrs = attrs, .inputs = {x}}, c.shape.str());
      ir::Attrs inverse = attrs;
      inverse.set({"shape", c.shape.dims()});
      const HostTensor taken = ops::evaluate(ops::kSlice, attrs, {x})[0];
      checkExact({.def = ops::kSliceScatter, .attrs = inverse, .inputs = {taken}}, c.shape.str());
    }
  }
}

TEST(Moves, ConcatAndSplitAlongEveryAxis) {
  for (const Shape& shape : {Shape{40, 5}, Shape{7, 6, 5, 33}, Shape{2, 3, 3, 2, 70}}) {
    for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
      for (const DType dtype : kSizes) {
        const std::vector<std::int64_t> sizes = {1, 0, 5, shape[axis]};
        std::vector<HostTensor> pieces;
        for (const std::int64_t size : sizes) {
          std::vector<std::int64_t> dims = shape.dims();
          dims[static_cast<std::size_t>(axis)] = size;
          pieces.push_back(random({dtype, Shape(std::move(dims))}));
        }
        const std::string what = fmt::format("{} axis {}", shape.str(), axis);
        const ir::Attrs along = {{"axis", axis}};
        checkExact({.def = ops::kConcat, .attrs = along, .inputs = pieces}, what);
        const HostTensor whole = ops::evaluate(ops::kConcat, along, pieces)[0];
        checkExact(
            {.def = ops::kSplit, .attrs = {{"axis", axis}, {"sizes", sizes}}, .inputs = {whole}},
            what);
      }
    }
  }
}

TEST(Moves, ReverseAndTile) {
  for (const Shape& shape : {Shape{}, Shape{70000}, Shape{5, 1, 33}, Shape{3, 4, 5, 6}}) {
    std::vector<std::int64_t> repeats(shape.dims().size());
    std::iota(repeats.begin(), repeats.end(), 1);
    for (const DType dtype : kSizes) {
      const HostTensor x = random({dtype, shape});
      checkExact({.def = ops::kReverse, .inputs = {x}}, shape.str());
      checkExact({.def = ops::kTile, .attrs = {{"repeats", repeats}}, .inputs = {x}}, shape.str());
      if (shape.rank() > 1) {
        checkExact({.def = ops::kReverse, .attrs = {{"axes", {1}}}, .inputs = {x}}, shape.str());
      }
    }
  }
}

TEST(Moves, PadInEveryMode) {
  struct Case {
    Shape shape;
    std::vector<std::int64_t> before;
    std::vector<std::int64_t> after;
  };
  const std::vector<Case> cases = {
      {{}, {}, {}},
      {{50000}, {3}, {7}},
      {{9, 700}, {0, 5}, {0, 0}},
      {{9, 700}, {2, 0}, {8, 0}},
      {{4, 3, 5, 6}, {0, 0, 1, 2}, {0, 0, 3, 0}},
      {{4, 3, 5, 6}, {1, 2, 0, 0}, {0, 1, 0, 0}},
      {{4, 3, 5, 6}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {{2, 3, 4, 5, 2}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
  };
  for (const Case& c : cases) {
    for (const char* mode : {"constant", "reflect", "edge"}) {
      for (const DType dtype : kSizes) {
        checkExact(
            {.def = ops::kPad,
             .attrs = {{"before", c.before}, {"after", c.after}, {"mode", mode}, {"value", 7.0}},
             .inputs = {random({dtype, c.shape})}},
            fmt::format("{} {}", c.shape.str(), mode));
      }
    }
  }
  checkExact({.def = ops::kPad,
              .attrs = {{"before", {0, 2}}, {"after", {1, 2}}, {"value", 1.0}},
              .inputs = {random({DType::F32, {3, 0}})}},
             "of nothing");
}

TEST(Moves, GatherFromEveryAxis) {
  for (const DType dtype : kSizes) {
    const HostTensor x = random({dtype, {30, 7, 40}});
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      const std::int64_t extent = x.shape()[axis];
      for (const DType index : {DType::I32, DType::I64}) {
        checkExact({.def = ops::kGather,
                    .attrs = {{"axis", axis}},
                    .inputs = {x, indicesBelow(extent, {9, 11}, index)}},
                   fmt::format("axis {}", axis));
      }
    }
  }
  const HostTensor table = random({DType::F32, {1000, 65}});
  checkExact({.def = ops::kGather, .inputs = {table, indicesBelow(1000, {5000})}}, "rows");
  const HostTensor nothing = random({DType::F32, {0, 3}});
  checkExact({.def = ops::kGather, .inputs = {nothing, HostTensor(DType::I64, {0})}}, "empty");
}

TEST(Moves, ScatterAddTakesUpdatesInTheirOrder) {
  for (const Shape& shape : {Shape{700, 65}, Shape{5, 3000}, Shape{40000}, Shape{3, 0}}) {
    const HostTensor indices = indicesBelow(shape[0], {3, 400});
    std::vector<std::int64_t> dims = shape.dims();
    dims[0] = 400;
    dims.insert(dims.begin(), 3);
    const Shape updates(std::move(dims));
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I32}) {
      const DeviceRun run{.def = ops::kScatterAdd,
                          .inputs = {randomTensor(3, {dtype, shape}, -9, 9),
                                     indices,
                                     randomTensor(4, {dtype, updates}, -9, 9)}};
      check(run, 1200, shape.str());
    }
  }
  // The bits say in which order updates were added: only 2^24 + 1 + 1 loses both ones.
  const HostTensor data = HostTensor::of<float>({2}, {0, 0});
  const HostTensor updates = HostTensor::of<float>({6}, {0x1p24F, 1, 1, 1, 1, 0x1p24F});
  const HostTensor places = HostTensor::of<std::int64_t>({6}, {0, 0, 0, 1, 1, 1});
  const HostTensor sums = runOnDevice(
      *makeCpuDevice(), {.def = ops::kScatterAdd, .inputs = {data, places, updates}})[0];
  EXPECT_EQ(sums.at(0), 0x1p24);
  EXPECT_EQ(sums.at(1), 0x1p24 + 2);
}

TEST(Moves, IndicesOutOfRangeAreNamed) {
  const auto device = makeCpuDevice({.threads = 2});
  const HostTensor x = random({DType::F32, {4, 3}});
  for (const std::int64_t bad : {4, -5}) {
    const HostTensor indices = HostTensor::of<std::int64_t>({2}, {0, bad});
    for (const DeviceRun& run : {DeviceRun{.def = ops::kGather, .inputs = {x, indices}},
                                 DeviceRun{.def = ops::kScatterAdd,
                                 .inputs = {x, indices, random({DType::F32, {2, 3}})}}}) {
      try {
        runOnDevice(*device, run);
        FAIL() << run.def.name << " took index " << bad;
      } catch (const InvalidArgument& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find(fmt::format("{}: index {}", run.def.name, bad)), std::string::npos)
            << text;
      }
    }
  }
}

TEST(Moves, OneHotOfEveryType) {
  for (const DType dtype : {DType::Bool, DType::F16, DType::F32, DType::I64}) {
    for (const std::int64_t axis : {0, 1, -1}) {
      for (const Shape& shape : {Shape{300, 70}, Shape{3, 0}}) {
        const ir::Attrs attrs = {{"depth", 9}, {"axis", axis}, {"dtype", name(dtype)}};
        checkExact({.def = ops::kOneHot, .attrs = attrs, .inputs = {indicesBelow(12, shape)}},
                   shape.str());
      }
    }
  }
}

TEST(Lines, CumSumHasTheBitsOfTheReference) {
  for (const Shape& shape : {Shape{70000}, Shape{30, 4, 700}, Shape{500, 9}, Shape{3, 0, 2}}) {
    for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
      for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::U8}) {
        for (const bool exclusive : {false, true}) {
          for (const bool reverse : {false, true}) {
            checkExact({.def = ops::kCumSum,
                        .attrs = {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}},
                        .inputs = {randomTensor(1, {dtype, shape}, 0, 3)}},
                       shape.str());
          }
        }
      }
    }
  }
}

TEST(Lines, ArgMaxOfAllTypesAndAxes) {
  for (const Shape& shape : {Shape{1}, Shape{70001}, Shape{30, 40, 70}, Shape{3, 5, 700}}) {
    for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
      for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I8}) {
        checkExact({.def = ops::kArgMax,
                    .attrs = {{"axis", axis}},
                    .inputs = {randomTensor(1, {dtype, shape}, -50, 50)}},
                   shape.str());
      }
    }
  }
}

TEST(Lines, ArgMaxTakesTheFirstOfEqualsAndNanFirst) {
  const auto device = makeCpuDevice();
  for (const std::int64_t at : {0, 1, 15, 16, 63, 98}) {
    HostTensor x = HostTensor::full({DType::F32, {100}}, 1.0);
    x.set(at, 2);
    x.set(at + 1, 2);
    EXPECT_EQ(runOnDevice(*device, {.def = ops::kArgMax, .inputs = {x}})[0].at(0), at);
    x.set(at + 1, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(runOnDevice(*device, {.def = ops::kArgMax, .inputs = {x}})[0].at(0), at + 1);
  }
}

TEST(NllLoss, ManyTermsInEveryReduction) {
  struct Case {
    Shape probabilities;
    Shape labels;
  };
  for (const auto& [shape, labelShape] : {Case{{5000, 11}, {5000}},
                                          Case{{30, 7, 200}, {30, 200}},
                                          Case{{3, 1, 2, 2}, {3, 2, 2}},
                                          Case{{0, 4}, {0}}}) {
    for (const char* reduction : {"mean", "sum", "none"}) {
      for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
        const HostTensor x = randomTensor(1, {dtype, shape}, -4, 0);
        const HostTensor labels =
            randomTensor(2, {DType::I64, labelShape}, 0, static_cast<double>(shape[1]));
        ir::Attrs attrs = {{"reduction", reduction}, {"ignoreIndex", 3}};
        check({.def = ops::kNllLoss, .attrs = attrs, .inputs = {x, labels}}, 16, shape.str());
        const HostTensor dy = ops::evaluate(ops::kNllLoss, attrs, {x, labels})[0];
        attrs.set({"classes", shape[1]});
        checkExact({.def = ops::kNllLossGrad, .attrs = attrs, .inputs = {labels, dy}}, shape.str());
      }
    }
  }
}

TEST(NllLoss, AndCrossEntropyOfIgnoredLabelsAreNoNumberAndHaveNoGradient) {
  const Shape shape{3, 1500};  // a row of fewer classes has no kernel of cross_entropy
  const HostTensor x = randomTensor(1, {DType::F32, shape}, -4, 0);
  const HostTensor labels = HostTensor::of<std::int64_t>({3}, {2, 2, 2});
  const HostTensor dy = HostTensor::of<float>({}, {4.0F});
  ir::Attrs attrs = {{"reduction", "mean"}, {"ignoreIndex", 2}};
  const auto onCpu = [&](const ir::OpDef& def, const std::vector<HostTensor>& inputs) {
    return runOnDevice(*makeCpuDevice(), {.def = def, .attrs = attrs, .inputs = inputs});
  };
  EXPECT_TRUE(std::isnan(onCpu(ops::kNllLoss, {x, labels})[0].at(0)));
  const std::vector<HostTensor> loss = onCpu(ops::kCrossEntropy, {x, labels});
  EXPECT_TRUE(std::isnan(loss[0].at(0)));
  const HostTensor none(DType::F32, shape);
  EXPECT_TRUE(onCpu(ops::kCrossEntropyGrad, {x, labels, loss[1], dy})[0].sameBits(none));
  attrs.set({"classes", shape[1]});
  EXPECT_TRUE(onCpu(ops::kNllLossGrad, {labels, dy})[0].sameBits(none));
}

TEST(Moves, TrianglesOfEverySize) {
  constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<std::int64_t>::max();
  for (const Shape& shape :
       {Shape{1, 1}, Shape{5, 9}, Shape{9, 5}, Shape{3, 200, 130}, Shape{2, 0, 4}, Shape{4, 0}}) {
    for (const std::int64_t diagonal : {kLow, -4L, -1L, 0L, 2L, 7L, kHigh}) {
      for (const bool upper : {false, true}) {
        for (const DType dtype : kSizes) {
          checkExact({.def = ops::kTrilu,
                      .attrs = {{"upper", upper}, {"diagonal", diagonal}},
                      .inputs = {random({dtype, shape})}},
                     shape.str());
        }
      }
    }
  }
}

TEST(Moves, CountsAlongEveryAxis) {
  for (const Shape& shape : {Shape{7}, Shape{40000}, Shape{3, 500, 20}, Shape{3, 0, 2}}) {
    for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
      for (const DType dtype : kSizes) {
        checkExact({.def = ops::kIota,
                    .attrs = {{"shape", shape.dims()}, {"dtype", name(dtype)}, {"axis", axis}}},
                   shape.str());
      }
    }
  }
}

TEST(NllLoss, LabelsOutOfRangeAreNamed) {
  const HostTensor x = random({DType::F32, {3, 5}});
  const HostTensor labels = HostTensor::of<std::int64_t>({3}, {0, 5, 1});
  try {
    runOnDevice(*makeCpuDevice(), {.def = ops::kNllLoss, .inputs = {x, labels}});
    FAIL() << "took label 5 of 5 classes";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("label 5"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice::devices::cpu
