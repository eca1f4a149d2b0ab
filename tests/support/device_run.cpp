#include "tests/support/device_run.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include <gtest/gtest.h>

namespace sluice::testing {
namespace {

using device::Choice;
using device::KernelCall;
using device::Layout;

constexpr std::byte kCanary{0xA5};

/// For each element in row-major order, its place in storage.
template <class F>
void forEachPlace(const Shape& shape, const Layout& layout, F f) {
  const std::vector<std::int64_t> plain = shape.strides();
  const std::vector<std::int64_t> stored = device::strides(shape, layout);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    std::int64_t rest = i;
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < plain.size(); ++axis) {
      place += rest / plain[axis] * stored[axis];
      rest %= plain[axis];
    }
    f(static_cast<std::size_t>(i), static_cast<std::size_t>(place));
  }
}

/// Buffers of one segment, each between guards.
class Buffers {
 public:
  explicit Buffers(device::Device& device)
      : device_(device),
        guard_(std::max<std::size_t>(128, device.info().alignment)),
        queue_(device.makeQueue()) {}

  std::int32_t add(std::size_t bytes) {
    memories_.push_back(device_.allocate(bytes + 2 * guard_));
    sizes_.push_back(bytes);
    queue_->fill(memories_.back()->at(), kCanary, bytes + 2 * guard_);
    addresses_.push_back(memories_.back()->at(guard_));
    return static_cast<std::int32_t>(addresses_.size() - 1);
  }
  void write(std::int32_t i, const std::vector<std::byte>& bytes) {
    device::copyIn(*queue_, addresses_[static_cast<std::size_t>(i)], bytes.data(), bytes.size());
  }
  std::vector<std::byte> read(std::int32_t i) const {
    std::vector<std::byte> bytes(sizes_[static_cast<std::size_t>(i)]);
    device::copyOut(*queue_, bytes.data(), addresses_[static_cast<std::size_t>(i)], bytes.size());
    return bytes;
  }
  const std::vector<device::Address>& addresses() const { return addresses_; }
  device::Queue& queue() { return *queue_; }

  void expectIntact(std::string_view op) const {
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      std::vector<std::byte> all(memories_[i]->bytes());
      device::copyOut(*queue_, all.data(), memories_[i]->at(), all.size());
      const auto intact = [&](std::size_t begin) {
        return std::all_of(all.data() + begin, all.data() + begin + guard_, [](std::byte b) {
          return b == kCanary;
        });
      };
      EXPECT_TRUE(intact(0)) << op << " wrote before buffer " << i;
      EXPECT_TRUE(intact(guard_ + sizes_[i])) << op << " wrote past buffer " << i;
    }
  }

 private:
  device::Device& device_;
  std::size_t guard_;  // bytes before and after each buffer, which keep it aligned
  std::unique_ptr<device::Queue> queue_;
  std::vector<std::unique_ptr<device::Memory>> memories_;
  std::vector<std::size_t> sizes_;
  std::vector<device::Address> addresses_;
};

void applyFollow(KernelCall& call, const Layout& layout) {
  if (call.choice.rule != device::LayoutRule::Follow || layout.isPlain()) {
    return;
  }
  const std::int64_t rank = call.outputTypes[0].shape.rank();
  for (std::size_t i = 0; i < call.inputTypes.size(); ++i) {
    if (call.inputTypes[i].shape.rank() == rank) {
      call.choice.inputs[i] = layout;
    }
  }
  for (Layout& each : call.choice.outputs) {
    each = layout;
  }
}

KernelCall reorderCall(const TensorType& type, const Layout& from, const Layout& to) {
  return {.def = &device::kReorder,
          .attrs = {},
          .inputTypes = {type},
          .outputTypes = {type},
          .name = "reorder",
          .choice = {.implementation = "strided", .inputs = {from}, .outputs = {to}},
          .inputs = {},
          .outputs = {}};
}

}  // namespace

std::vector<std::byte> toLayout(const HostTensor& tensor, const Layout& layout) {
  const std::size_t size = byteSize(tensor.dtype());
  std::vector<std::byte> stored(tensor.byteCount());
  forEachPlace(tensor.shape(), layout, [&](std::size_t i, std::size_t place) {
    std::memcpy(stored.data() + place * size, tensor.bytes() + i * size, size);
  });
  return stored;
}

HostTensor fromLayout(const TensorType& type, const std::byte* data, const Layout& layout) {
  const std::size_t size = byteSize(type.dtype);
  HostTensor tensor(type);
  forEachPlace(type.shape, layout, [&](std::size_t i, std::size_t place) {
    std::memcpy(tensor.bytes() + i * size, data + place * size, size);
  });
  return tensor;
}

std::vector<HostTensor> runOnDevice(device::Device& device, const DeviceRun& run) {
  KernelCall call;
  call.def = &run.def;
  call.attrs = ir::completeAttrs(run.def, run.attrs);
  for (const HostTensor& input : run.inputs) {
    call.inputTypes.push_back(input.type());
  }
  call.outputTypes = run.def.infer({run.def, call.attrs, call.inputTypes, {}});
  call.name = "op";
  call.choice = device.kernels().choose(call.view());
  applyFollow(call, run.follow);
  Buffers buffers(device);
  std::vector<KernelCall> calls;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const Layout& layout = call.choice.inputs[i];
    const bool opaque = layout.kind == Layout::Kind::Opaque;
    const std::vector<std::byte> stored = toLayout(run.inputs[i], opaque ? Layout() : layout);
    std::int32_t buffer = buffers.add(stored.size());
    buffers.write(buffer, stored);
    if (opaque) {
      calls.push_back(reorderCall(call.inputTypes[i], {}, layout));
      calls.back().inputs = {buffer};
      buffer = buffers.add(layout.bytes(call.inputTypes[i]));
      calls.back().outputs = {buffer};
    }
    call.inputs.push_back(buffer);
  }
  for (std::size_t i = 0; i < call.outputTypes.size(); ++i) {
    const bool shares = i == 0 && run.inPlace.has_value();
    call.outputs.push_back(shares ? call.inputs[*run.inPlace]
                                  : buffers.add(call.choice.outputs[i].bytes(call.outputTypes[i])));
  }
  if (call.choice.scratchBytes != 0) {
    call.scratch = buffers.add(call.choice.scratchBytes);
  }
  calls.push_back(call);
  const std::unique_ptr<device::Executable> executable = device.prepare(calls);
  buffers.queue().setRun(run.info);
  buffers.queue().launch(*executable, buffers.addresses());
  buffers.queue().finish();
  buffers.expectIntact(run.def.name);
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < call.outputTypes.size(); ++i) {
    results.push_back(fromLayout(
        call.outputTypes[i], buffers.read(call.outputs[i]).data(), call.choice.outputs[i]));
  }
  return results;
}

std::vector<HostTensor> runOpByOp(device::Device& device,
                                  const ir::Graph& graph,
                                  const std::vector<HostTensor>& inputs) {
  std::map<ir::Value, HostTensor> values;
  std::size_t next = 0;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ir::kInput)) {
      values.insert_or_assign(op.out(), inputs[next++]);
    } else if (op.is(ir::kConstant)) {
      values.insert_or_assign(op.out(), op.attrs.tensor("value"));
    } else {
      DeviceRun run{.def = *op.def, .attrs = op.attrs};
      for (const ir::Value value : op.inputs) {
        run.inputs.push_back(values.at(value));
      }
      values.insert_or_assign(op.out(), runOnDevice(device, run)[0]);
    }
  }
  std::vector<HostTensor> results;
  for (const ir::Output& output : graph.outputs()) {
    results.push_back(values.at(output.value));
  }
  return results;
}

}  // namespace sluice::testing
