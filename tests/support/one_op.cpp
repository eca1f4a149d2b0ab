#include "tests/support/one_op.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::devices::cpu::testing {
namespace {

using device::KernelCall;
using device::Layout;
using sluice::testing::randomTensor;
using sluice::testing::relativeDifference;
using sluice::testing::tolerance;

constexpr std::size_t kGuard = 64;
constexpr std::byte kCanary{0xA5};

}  // namespace

Guarded::Guarded(device::Device& device, std::size_t bytes)
    : bytes_(bytes), memory_(device.allocate(bytes + 2 * kGuard)) {
  std::fill_n(memory_->host(), memory_->bytes(), kCanary);
}

std::byte* Guarded::data() {
  return memory_->host() + kGuard;
}

device::Address Guarded::address() const {
  return memory_->at(kGuard);
}

void Guarded::expectIntact(const std::string& what) const {
  for (std::size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(memory_->host()[i], kCanary) << what << ": written before its start";
    ASSERT_EQ(memory_->host()[kGuard + bytes_ + i], kCanary) << what << ": written past its end";
  }
}

OneOp::OneOp(const ir::OpDef& def,
             ir::Attrs attrs,
             const std::vector<HostTensor>& inputs,
             int threads,
             const Layout& follow,
             const device::Tuning& tuning)
    : device_(makeCpuDevice({.threads = threads, .tuning = tuning})) {
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

std::vector<HostTensor> OneOp::run() {
  std::vector<device::Address> addresses;
  for (const Guarded& buffer : buffers_) {
    addresses.push_back(buffer.address());
  }
  queue_->launch(*executable_, addresses);
  for (const Guarded& buffer : buffers_) {
    buffer.expectIntact(std::string(call_.def->name));
  }
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    outputs.emplace_back(call_.outputTypes[i]);
    std::memcpy(outputs[i].bytes(),
                buffers_[static_cast<std::size_t>(results_[i])].data(),
                outputs[i].byteCount());
  }
  return outputs;
}

std::int32_t OneOp::addBuffer(std::size_t bytes) {
  buffers_.emplace_back(*device_, bytes);
  return static_cast<std::int32_t>(buffers_.size()) - 1;
}

std::int32_t OneOp::reordered(std::int32_t buffer,
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

void check(const Case& c, const device::Tuning& tuning) {
  SCOPED_TRACE(describe(c));
  OneOp one(c.def, c.attrs, c.inputs, 1, {}, tuning);
  ASSERT_EQ(one.choice().implementation, c.implementation);
  const auto result = one.run();
  const auto expected = ops::evaluate(c.def, c.attrs, c.inputs);
  ASSERT_EQ(result.size(), expected.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    EXPECT_LE(relativeDifference(result[i], expected[i]), tolerance(result[i].dtype(), c.terms));
  }
  expectSameBits(one.run(), result);
  for (const int threads : {2, 3}) {
    OneOp more(c.def, c.attrs, c.inputs, threads, {}, tuning);
    EXPECT_EQ(more.choice(), one.choice());
    expectSameBits(more.run(), result);
  }
  EXPECT_EQ(one.table().choose(one.call().view()), one.choice());
}

HostTensor random(std::uint64_t seed, Shape shape, DType dtype) {
  return randomTensor(seed, {dtype, std::move(shape)}, -1.0, 1.0);
}

Case product(Shape a, Shape b, bool ta, bool tb, DType dtype) {
  const std::int64_t k = a.rank() == 1 ? a[0] : a[a.rank() - (ta ? 2 : 1)];
  return {.def = ops::kMatMul,
          .inputs = {random(1, std::move(a), dtype), random(2, std::move(b), dtype)},
          .attrs = {{"transposeA", ta}, {"transposeB", tb}},
          .terms = 4 * k};
}

std::vector<Case> convCases(const ConvShape& c, DType dtype) {
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

bool hasAvx512() {
  return makeCpuDevice()->info().description.starts_with("avx512");
}

}  // namespace sluice::devices::cpu::testing
