// The oneDNN kernels against the references, and the promises of rule R3: bits that depend neither
// on the number of threads nor on the run, and no byte written outside outputs and scratch.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/kernels/tiled.h"
#include "sluice/devices/cpu/tune.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "tests/support/random_tensor.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::KernelCall;
using device::Layout;
using sluice::testing::randomTensor;
using sluice::testing::relativeDifference;
using sluice::testing::tolerance;

constexpr std::size_t kGuard = 64;
constexpr std::byte kCanary{0xA5};

/// Memory with canaries on both sides.
class Guarded {
 public:
  Guarded(device::Device& device, std::size_t bytes)
      : bytes_(bytes), memory_(device.allocate(bytes + 2 * kGuard)) {
    std::fill_n(memory_.data(), memory_.bytes(), kCanary);
  }
  std::byte* data() { return memory_.data() + kGuard; }
  void expectIntact(const std::string& what) const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(memory_.data()[i], kCanary) << what << ": written before its start";
      ASSERT_EQ(memory_.data()[kGuard + bytes_ + i], kCanary) << what << ": written past its end";
    }
  }

 private:
  std::size_t bytes_;
  device::Memory memory_;
};

/// Runs one op, reordering its operands to and from the layouts of its Choice.
class OneOp {
 public:
  /// A kernel that follows its operands' layout gets `follow`.
  OneOp(const ir::OpDef& def,
        ir::Attrs attrs,
        const std::vector<HostTensor>& inputs,
        int threads,
        const Layout& follow = {},
        const device::Tuning& tuning = {})
      : device_(makeCpuDevice({.threads = threads, .tuning = tuning})) {
    device_->enterThread();
    call_.def = &def;
    call_.attrs = ir::completeAttrs(def, std::move(attrs));
    for (const HostTensor& input : inputs) {
      call_.inputTypes.push_back(input.type());
    }
    call_.outputTypes = def.infer({def, call_.attrs, call_.inputTypes, {}});
    call_.choice = device_->kernels().choose(call_.view());
    if (call_.choice.rule == device::LayoutRule::Follow) {
      std::fill(call_.choice.inputs.begin(), call_.choice.inputs.end(), follow);
      std::fill(call_.choice.outputs.begin(), call_.choice.outputs.end(), follow);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int32_t plain = addBuffer(inputs[i].byteCount());
      std::memcpy(buffers_.back().data(), inputs[i].bytes(), inputs[i].byteCount());
      call_.inputs.push_back(reordered(plain, inputs[i].type(), {}, call_.choice.inputs[i]));
    }
    for (std::size_t i = 0; i < call_.outputTypes.size(); ++i) {
      const TensorType& type = call_.outputTypes[i];
      call_.outputs.push_back(addBuffer(call_.choice.outputs[i].bytes(type)));
    }
    if (call_.choice.scratchBytes != 0) {
      call_.scratch = addBuffer(call_.choice.scratchBytes);
    }
    calls_.push_back(call_);
    for (std::size_t i = 0; i < call_.outputTypes.size(); ++i) {
      results_.push_back(
          reordered(call_.outputs[i], call_.outputTypes[i], call_.choice.outputs[i], {}));
    }
    executable_ = device_->prepare(calls_);
    queue_ = device_->makeQueue();
  }

  const Choice& choice() const { return call_.choice; }
  const device::KernelTable& table() const { return device_->kernels(); }
  const KernelCall& call() const { return call_; }

  std::vector<HostTensor> run() {
    std::vector<std::byte*> addresses;
    for (Guarded& buffer : buffers_) {
      addresses.push_back(buffer.data());
    }
    queue_->launch(*executable_, addresses, {});
    for (const Guarded& buffer : buffers_) {
      buffer.expectIntact(std::string(call_.def->name));
    }
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      outputs.emplace_back(call_.outputTypes[i]);
      std::memcpy(outputs[i].bytes(),
                  addresses[static_cast<std::size_t>(results_[i])],
                  outputs[i].byteCount());
    }
    return outputs;
  }

 private:
  std::int32_t addBuffer(std::size_t bytes) {
    buffers_.emplace_back(*device_, bytes);
    return static_cast<std::int32_t>(buffers_.size()) - 1;
  }

  std::int32_t reordered(std::int32_t buffer,
                         const TensorType& type,
                         const Layout& from,
                         const Layout& to) {
    if (from == to) {
      return buffer;
    }
    KernelCall call;
    call.def = &device::kReorder;
    call.inputTypes = {type};
    call.outputTypes = {type};
    call.choice = device_->kernels().choose(call.view());
    call.choice.inputs = {from};
    call.choice.outputs = {to};
    call.inputs = {buffer};
    call.outputs = {addBuffer(to.bytes(type))};
    calls_.push_back(call);
    return call.outputs[0];
  }

  std::unique_ptr<device::Device> device_;
  KernelCall call_;
  std::vector<KernelCall> calls_;
  std::vector<Guarded> buffers_;
  std::vector<std::int32_t> results_;
  std::unique_ptr<device::Executable> executable_;
  std::unique_ptr<device::Queue> queue_;
};

struct Case {
  const ir::OpDef& def;
  std::vector<HostTensor> inputs;
  ir::Attrs attrs = {};
  std::int64_t terms = 1;
  std::string_view implementation = "onednn";
};

std::string describe(const Case& c) {
  std::string text(c.def.name);
  for (const HostTensor& input : c.inputs) {
    text += " " + input.type().str();
  }
  return text;
}

void expectSameBits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].sameBits(b[i])) << "output " << i;
  }
}

/// Close to the reference; the same bits for 1, 2 and 3 threads and for every run; a pure Choice.
void check(const Case& c) {
  SCOPED_TRACE(describe(c));
  OneOp one(c.def, c.attrs, c.inputs, 1);
  ASSERT_EQ(one.choice().implementation, c.implementation);
  const auto result = one.run();
  const auto expected = ops::evaluate(c.def, c.attrs, c.inputs);
  ASSERT_EQ(result.size(), expected.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    EXPECT_LE(relativeDifference(result[i], expected[i]), tolerance(result[i].dtype(), c.terms));
  }
  expectSameBits(one.run(), result);
  for (const int threads : {2, 3}) {
    OneOp more(c.def, c.attrs, c.inputs, threads);
    EXPECT_EQ(more.choice(), one.choice());
    expectSameBits(more.run(), result);
  }
  EXPECT_EQ(one.table().choose(one.call().view()), one.choice());
}

HostTensor random(std::uint64_t seed, Shape shape, DType dtype = DType::F32) {
  return randomTensor(seed, {dtype, std::move(shape)}, -1.0, 1.0);
}

Case product(Shape a, Shape b, bool ta = false, bool tb = false, DType dtype = DType::F32) {
  const std::int64_t k = a.rank() == 1 ? a[0] : a[a.rank() - (ta ? 2 : 1)];
  return {.def = ops::kMatMul,
          .inputs = {random(1, std::move(a), dtype), random(2, std::move(b), dtype)},
          .attrs = {{"transposeA", ta}, {"transposeB", tb}},
          .terms = 4 * k};
}

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

/// Only there does oneDNN pack.
bool hasAvx512() {
  return makeCpuDevice()->info().description.starts_with("avx512");
}

TEST(CpuMatMul, TakesAPackedRightOperandWhereThereAreFewRows) {
  if (!hasAvx512()) {
    GTEST_SKIP() << "oneDNN packs only for AVX-512";
  }
  for (const Case& c : {product({40, 700}, {700, 900}),
                        product({9, 130}, {210, 130}, false, true),
                        product({64, 520}, {1100, 520}, false, true),
                        product({300, 33}, {260, 300}, true, true),
                        product({2, 20, 130}, {210, 130}, false, true, DType::BF16)}) {
    SCOPED_TRACE(describe(c));
    const OneOp op(c.def, c.attrs, c.inputs, 1);
    EXPECT_EQ(op.choice().inputs[1].kind, Layout::Kind::Opaque) << op.choice().config;
    if (c.inputs[0].shape()[0] == 64) {
      EXPECT_EQ(op.choice().config, "cols 6 packed");
    }
    check(c);
  }
}

TEST(CpuMatMul, GivesTheSameBitsPackedAndPlain) {
  if (!hasAvx512()) {
    GTEST_SKIP() << "oneDNN packs only for AVX-512";
  }
  const Case c = product({64, 520}, {1100, 520}, false, true);
  const std::string key = "matmul/f32/1x64x1100x520/nt";
  OneOp packed(c.def, c.attrs, c.inputs, 1, {}, {{key, "cols 1 packed"}});
  OneOp plain(c.def, c.attrs, c.inputs, 1, {}, {{key, "cols 1"}});
  EXPECT_TRUE(plain.choice().inputs[1].isPlain());
  EXPECT_FALSE(packed.choice().inputs[1].isPlain());
  expectSameBits(plain.run(), packed.run());
}

TEST(CpuMatMul, ComputesSixteenBitFloats) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    check(product({17, 33}, {33, 29}, false, false, dtype));
    check(product({2, 9, 33}, {29, 33}, false, true, dtype));
    check(product({200, 300}, {300, 700}, false, false, dtype));
  }
}

TEST(CpuMatMul, LeavesOtherTypesAndEmptyProductsToTheReference) {
  Case empty = product({0, 3}, {3, 4});
  empty.implementation = "reference";
  check(empty);
  Case noTerms = product({2, 0}, {0, 4});
  noTerms.implementation = "reference";
  check(noTerms);
  Case wide = product({2, 3}, {3, 4}, false, false, DType::F64);
  wide.implementation = "reference";
  check(wide);
}

TEST(CpuMatMul, HandsEveryElementToTheEpilogueOnce) {
  for (const Case& c : {product({200, 300}, {300, 700}),
                        product({700, 300}, {300, 90}),
                        product({12, 90, 110}, {12, 110, 130}),
                        product({17, 33}, {33, 29}, false, false, DType::F16)}) {
    SCOPED_TRACE(describe(c));
    OneOp op(c.def, c.attrs, c.inputs, 1);
    const HostTensor plain = op.run()[0];
    const auto kernel = makeTiled(op.call().view(), op.choice());
    ASSERT_NE(kernel, nullptr);
    HostTensor out(plain.type());
    const auto device = makeCpuDevice();
    const device::Memory scratch = device->allocate(op.choice().scratchBytes);
    const std::array<const void*, 2> inputs = {c.inputs[0].bytes(), c.inputs[1].bytes()};
    const std::array<void*, 1> outputs = {out.bytes()};
    Workers workers(1);
    std::vector<int> seen(static_cast<std::size_t>(plain.shape().elements()));
    kernel->runTiles({inputs, outputs, scratch.data(), {}, workers}, [&](const OutputTile& tile) {
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
  EXPECT_EQ(op.choice().config, "cols 1");
  EXPECT_EQ(device->kernels().choose(op.call().view()).config, "cols 2");
  for (const char* text : {"diagonal 2", "cols 0", "cols 99", "loop 2", "batch 2"}) {
    const auto wrong = makeCpuDevice({.tuning = {{"matmul/f32/1x64x256x64/nn", text}}});
    EXPECT_THROW(wrong->kernels().choose(op.call().view()), ConfigFileError) << text;
  }
}

/// A convolution by its extents; `attrs` as of conv.
struct ConvShape {
  Shape x;
  Shape w;
  ir::Attrs attrs = {};
};

/// conv and its two gradients on random operands.
std::vector<Case> convCases(const ConvShape& c, DType dtype = DType::F32) {
  const HostTensor x = random(1, c.x, dtype);
  const HostTensor w = random(2, c.w, dtype);
  const ir::Attrs attrs = ir::completeAttrs(ops::kConv, c.attrs);
  const std::vector<TensorType> types = {x.type(), w.type()};
  const Shape y = ops::kConv.infer({ops::kConv, attrs, types, {}})[0].shape;
  const HostTensor dy = random(3, y, dtype);
  ir::Attrs input = attrs;
  input.set({"inputShape", c.x.dims()});
  ir::Attrs weight = attrs;
  weight.set({"weightShape", c.w.dims()});
  const std::int64_t taps = c.w.elements() / c.w[0];
  const std::int64_t outputs = y.elements() / y[1];
  return {{.def = ops::kConv, .inputs = {x, w}, .attrs = attrs, .terms = 4 * taps},
          {.def = ops::kConvGradInput,
           .inputs = {w, dy},
           .attrs = input,
           .terms = 4 * c.w.elements() / c.w[1]},
          {.def = ops::kConvGradWeight, .inputs = {x, dy}, .attrs = weight, .terms = 4 * outputs}};
}

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

TEST(CpuConv, ComputesSixteenBitFloats) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    checkConv({{3, 16, 9, 11}, {32, 16, 3, 3}}, dtype);
    checkConv({{2, 3, 8, 9}, {5, 3, 3, 2}}, dtype);
    checkConv({{10, 32, 14, 14}, {48, 32, 3, 3}}, dtype);
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
  EXPECT_THROW(op.table().make(op.call().view(), other), Unsupported);
}

TEST(CpuTuning, WritesOnlyEntriesThatADeviceAccepts) {
  std::vector<KernelCall> calls;
  for (const Case& c : convCases({{4, 16, 8, 8}, {16, 16, 3, 3}})) {
    calls.push_back(OneOp(c.def, c.attrs, c.inputs, 1).call());
  }
  const Case wide = product({64, 400}, {400, 400});
  calls.push_back(OneOp(wide.def, wide.attrs, wide.inputs, 1).call());
  calls.push_back(calls.back());
  const Case other = product({2, 3}, {3, 4}, false, false, DType::F64);
  calls.push_back(OneOp(other.def, other.attrs, other.inputs, 1).call());
  std::vector<std::string> keys;
  const std::string text = tune(calls, [&](std::string_view key) { keys.emplace_back(key); });
  const std::vector<std::string> expected = {"conv/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0",
                                             "conv_grad_input/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0",
                                             "conv_grad_weight/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0",
                                             "matmul/f32/1x64x400x400/nn"};
  EXPECT_EQ(keys, expected);
  const device::Tuning table = device::parseTuning(text);
  const auto tuned = makeCpuDevice({.tuning = table});
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto entry = table.find(keys[i]);
    if (entry != table.end()) {
      EXPECT_EQ(tuned->kernels().choose(calls[i].view()).config, entry->second);
    }
  }
}

TEST(CpuDevice, NamesTheScopeOfItsBits) {
  EXPECT_THAT(makeCpuDevice()->info().description, ::testing::HasSubstr("oneDNN "));
}

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
