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

constexpr std::size_t kGuard = 128;
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
  explicit Buffers(device::Device& device) : device_(device) {}

  std::int32_t add(std::size_t bytes) {
    memories_.push_back(device_.allocate(bytes + 2 * kGuard));
    sizes_.push_back(bytes);
    std::fill_n(memories_.back().data(), bytes + 2 * kGuard, kCanary);
    pointers_.push_back(memories_.back().data() + kGuard);
    return static_cast<std::int32_t>(pointers_.size() - 1);
  }
  std::byte* data(std::int32_t i) const { return pointers_[static_cast<std::size_t>(i)]; }
  const std::vector<std::byte*>& pointers() const { return pointers_; }

  void expectIntact(std::string_view op) const {
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      const std::byte* start = memories_[i].data();
      const auto intact = [](const std::byte* p) {
        return std::all_of(p, p + kGuard, [](std::byte b) { return b == kCanary; });
      };
      EXPECT_TRUE(intact(start)) << op << " wrote before buffer " << i;
      EXPECT_TRUE(intact(start + kGuard + sizes_[i])) << op << " wrote past buffer " << i;
    }
  }

 private:
  device::Device& device_;
  std::vector<device::Memory> memories_;
  std::vector<std::size_t> sizes_;
  std::vector<std::byte*> pointers_;
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
  device.enterThread();
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
    std::copy(stored.begin(), stored.end(), buffers.data(buffer));
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
  const std::unique_ptr<device::Queue> queue = device.makeQueue();
  queue->launch(*executable, buffers.pointers(), run.info);
  queue->finish();
  buffers.expectIntact(run.def.name);
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < call.outputTypes.size(); ++i) {
    results.push_back(
        fromLayout(call.outputTypes[i], buffers.data(call.outputs[i]), call.choice.outputs[i]));
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
