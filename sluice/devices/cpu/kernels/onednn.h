// Shared by the kernels that use oneDNN primitives: the engine, memory descriptors, and a call
// whose arguments are built once. Private to this folder: no header that other folders include may
// include it. Primitives are made for one thread and use scratchpads that the kernel provides (rule
// R3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "sluice/device/layout.h"
#include "sluice/tensor/shape.h"

namespace sluice::devices::cpu::onednn {

/// The one CPU engine; it has no state.
const dnnl::engine& engine();

/// While it lives, primitives made by this thread are for one thread, whatever was set before.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// F32, BF16 and the integers that oneDNN has; InternalError for other types.
dnnl::memory::data_type dataType(DType dtype);

/// A descriptor from extents and strides in elements.
dnnl::memory::desc strided(DType dtype,
                           const std::vector<std::int64_t>& dims,
                           const std::vector<std::int64_t>& strides);

/// The descriptor of a tensor of this type in this layout.
dnnl::memory::desc describe(const TensorType& type, const device::Layout& layout);

/// Row-major storage with the extents of a descriptor, which for grouped weights are one more than
/// those of the tensor.
dnnl::memory::desc plainLike(const dnnl::memory::desc& desc);

/// Plain if the descriptor is plain, otherwise opaque with the descriptor as blob.
device::Layout layoutOf(const dnnl::memory::desc& desc);

/// The attributes of every primitive: the caller provides the scratchpad.
dnnl::primitive_attr userScratchpad();

/// Rounds up to the alignment of scratch, so that pieces can be placed one after the other.
std::size_t alignedBytes(std::size_t bytes);

/// A primitive with its arguments. Every run passes the addresses, in the order of the arguments.
/// One run at a time, but copies of the primitive may run at the same time with other scratchpads.
class Call {
 public:
  struct Argument {
    int index;
    dnnl::memory::desc desc;
  };
  Call(const dnnl::primitive& primitive, std::span<const Argument> arguments);
  Call(Call&&) = default;
  Call& operator=(Call&&) = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  void run(std::span<const void* const> addresses);

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<const void*> addresses_;  // of the last run
};

/// Converts between formats; its addresses are the source and the target. Needs no scratchpad.
Call reorderCall(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

}  // namespace sluice::devices::cpu::onednn
