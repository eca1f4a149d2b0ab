#include "sluice/devices/cuda/cuda_segment.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/kernel_table.h"

namespace sluice::devices::cuda {

int Faults::add(std::string name) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) {
    return static_cast<int>(found - names_.begin());
  }
  names_.push_back(std::move(name));
  return static_cast<int>(names_.size() - 1);
}

bool Faults::isSet() const {
  return std::atomic_ref<std::int32_t>(record().ready).load(std::memory_order_acquire) != 0;
}

std::exception_ptr Faults::read(bool take) {
  if (!isSet()) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  const Fault fault = record();
  if (take) {
    record() = {};
  }
  const std::string& name = names_[static_cast<std::size_t>(fault.call)];
  try {
    if (fault.kind == 1) {
      raise<InvalidArgument>(
          "{}: index {} is out of range for an axis of extent {}", name, fault.value, fault.limit);
    }
    raise<InvalidArgument>(
        "{}: label {} is out of range for {} classes", name, fault.value, fault.limit);
  } catch (...) {
    return std::current_exception();
  }
}

namespace {

std::set<std::string> textsOf(std::span<const device::KernelCall> calls) {
  std::set<std::string> texts;
  for (const device::KernelCall& call : calls) {
    const KernelEntry& entry = entryOf(call.view(), call.choice);
    if (entry.isGenerated()) {
      if (Source source = entry.source(call.view(), call.choice); !source.isEmpty()) {
        texts.insert(std::move(source.text));
      }
    }
  }
  return texts;
}

std::vector<std::size_t> bytesOf(std::span<const TensorType> types,
                                 std::span<const device::Layout> layouts) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < types.size(); ++i) {
    bytes.push_back(layouts[i].bytes(types[i]));
  }
  return bytes;
}

using Nodes = std::vector<cudaGraphNode_t>;

/// Makes what the stream captures next follow these nodes and no others.
void continueAfter(cudaStream_t stream, Nodes& nodes) {
#if CUDART_VERSION >= 13000
  const cudaError_t result = cudaStreamUpdateCaptureDependencies(
      stream, nodes.data(), nullptr, nodes.size(), cudaStreamSetCaptureDependencies);
#else
  const cudaError_t result = cudaStreamUpdateCaptureDependencies(
      stream, nodes.data(), nodes.size(), cudaStreamSetCaptureDependencies);
#endif
  check(result, "cudaStreamUpdateCaptureDependencies");
}

/// The nodes that the stream has captured last.
Nodes lastNodes(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;
  const cudaError_t result =
      cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
#else
  const cudaError_t result =
      cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &nodes, &count);
#endif
  check(result, "cudaStreamGetCaptureInfo");
  return {nodes, nodes + count};
}

}  // namespace

CudaSegment::CudaSegment(std::span<const device::KernelCall> calls,
                         const MakeContext& context,
                         Faults& faults)
    : faults_(faults) {
  Modules::ofProcess().add(textsOf(calls), context);
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const device::KernelCall& call : calls) {
    std::string name = std::string(call.def->name) + " '" + call.name + "'";
    const int number = faults.add(name);
    try {
      calls_.push_back({makeKernel(call.view(), call.choice, context),
                        call.inputs,
                        call.outputs,
                        call.scratch,
                        std::move(name),
                        number,
                        bytesOf(call.inputTypes, call.choice.inputs),
                        bytesOf(call.outputTypes, call.choice.outputs),
                        call.choice.scratchBytes});
    } catch (Error& error) {
      error.at(call.name);
      throw;
    }
    readsRun_ = readsRun_ || calls_.back().kernel->readsRun();
    inputs = std::max(inputs, call.inputs.size());
    outputs = std::max(outputs, call.outputs.size());
  }
  in_.resize(inputs);
  out_.resize(outputs);
}

Access CudaSegment::accessOf(const Call& call, std::span<const device::Address> buffers) {
  Access access;
  const auto add = [&](std::vector<ByteRange>& ranges, std::int32_t buffer, std::size_t bytes) {
    if (buffer >= 0 && bytes > 0) {
      ranges.push_back(
          {reinterpret_cast<std::uintptr_t>(pointerTo(buffers[static_cast<std::size_t>(buffer)])),
           bytes});
    }
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    add(access.reads, call.inputs[i], call.inputBytes[i]);
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    add(access.writes, call.outputs[i], call.outputBytes[i]);
  }
  add(access.writes, call.scratch, call.scratchBytes);
  return access;
}

void CudaSegment::launchCall(Call& call,
                             const Launch& how,
                             std::span<const device::Address> buffers) {
  const auto find = [&](std::span<const std::int32_t> indices, std::vector<void*>& pointers) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      pointers[i] = pointerTo(buffers[static_cast<std::size_t>(indices[i])]);
    }
    return std::span<void* const>(pointers.data(), indices.size());
  };
  try {
    call.kernel->launch(
        {.stream = how.stream,
         .inputs = find(call.inputs, in_),
         .outputs = find(call.outputs, out_),
         .scratch = call.scratch < 0 ? nullptr
                                     : pointerTo(buffers[static_cast<std::size_t>(call.scratch)]),
         .run = how.run,
         .fault = faults_.pointer(),
         .call = call.number});
    if (how.synchronise) {
      check(cudaStreamSynchronize(how.stream), "cudaStreamSynchronize");
    }
  } catch (Error& error) {
    error.at(call.name);
    throw;
  }
}

void CudaSegment::launch(const Launch& how, std::span<const device::Address> buffers) {
  for (Call& call : calls_) {
    launchCall(call, how, buffers);
  }
}

void CudaSegment::record(const Launch& how, std::span<const device::Address> buffers) {
  std::vector<Access> accesses;
  for (const Call& call : calls_) {
    accesses.push_back(accessOf(call, buffers));
  }
  const std::vector<std::vector<std::size_t>> order = launchOrder(accesses);
  std::vector<Nodes> ends(calls_.size());
  for (std::size_t k = 0; k < calls_.size(); ++k) {
    Nodes before;
    for (const std::size_t earlier : order[k]) {
      before.insert(before.end(), ends[earlier].begin(), ends[earlier].end());
    }
    std::ranges::sort(before);  // a call that launches nothing ends where those before it do
    before.erase(std::unique(before.begin(), before.end()), before.end());
    continueAfter(how.stream, before);
    launchCall(calls_[k], how, buffers);
    ends[k] = lastNodes(how.stream);
  }
}

}  // namespace sluice::devices::cuda
