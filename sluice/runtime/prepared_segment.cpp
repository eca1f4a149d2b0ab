#include "sluice/runtime/prepared_segment.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::runtime {
namespace {

bool isOnHost(const device::KernelCall& call) {
  return call.choice.implementation == device::kOnHost;
}

std::vector<HostTensor> roomFor(std::span<const TensorType> types) {
  return {types.begin(), types.end()};
}

}  // namespace

PreparedSegment::PreparedSegment(device::Device& device, std::span<const device::KernelCall> calls)
    : device_(device) {
  for (std::size_t begin = 0; begin < calls.size();) {
    if (isOnHost(calls[begin])) {
      const device::KernelCall& call = calls[begin++];
      parts_.push_back({.host = std::make_unique<HostCall>(
                            HostCall{call, roomFor(call.inputTypes), roomFor(call.outputTypes)})});
      continue;
    }
    std::size_t end = begin;
    while (end < calls.size() && !isOnHost(calls[end])) {
      ++end;
    }
    parts_.push_back({.kernels = device.prepare(calls.subspan(begin, end - begin))});
    begin = end;
  }
}

bool PreparedSegment::needsHost() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.host != nullptr; });
}

PreparedSegment::Captures PreparedSegment::capture(std::span<const device::Address> buffers) {
  Captures captures;
  for (const Part& part : parts_) {
    if (part.kernels == nullptr) {
      continue;
    }
    captures.push_back(device_.capture(*part.kernels, buffers));
    if (captures.back() == nullptr) {
      return {};
    }
  }
  return captures;
}

void PreparedSegment::run(device::Queue& queue,
                          std::span<const device::Address> buffers,
                          const ir::RunInfo& info,
                          const Captures& captures) {
  queue.setRun(info);
  auto captured = captures.begin();
  for (Part& part : parts_) {
    if (part.kernels == nullptr) {
      runOnHost(*part.host, queue, buffers, info);
    } else if (captured != captures.end()) {
      queue.replay(**captured++);
    } else {
      queue.launch(*part.kernels, buffers);
    }
  }
}

void PreparedSegment::runOnHost(HostCall& host,
                                device::Queue& queue,
                                std::span<const device::Address> buffers,
                                const ir::RunInfo& info) {
  const device::KernelCall& call = host.call;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < host.inputs.size(); ++i) {
    HostTensor& tensor = host.inputs[i];
    device::copyOut(queue,
                    tensor.bytes(),
                    buffers[static_cast<std::size_t>(call.inputs[i])],
                    tensor.byteCount());
    inputs.push_back(tensor.bytes());
  }
  for (HostTensor& tensor : host.outputs) {
    outputs.push_back(tensor.bytes());
  }
  try {
    call.def->reference({call.view(), inputs, outputs, info});
  } catch (Error& error) {
    error.at(fmt::format("{} '{}'", call.def->name, call.name));
    throw;
  }
  for (std::size_t i = 0; i < host.outputs.size(); ++i) {
    device::copyIn(queue,
                   buffers[static_cast<std::size_t>(call.outputs[i])],
                   host.outputs[i].bytes(),
                   host.outputs[i].byteCount());
  }
}

}  // namespace sluice::runtime
