#include "sluice/devices/cpu/kernels/onednn.h"

#include <array>
#include <cstring>

#include <omp.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "sluice/base/error.h"

namespace sluice::devices::cpu::onednn {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

OneThread::~OneThread() {
  omp_set_num_threads(before_);
}

dnnl::memory::data_type dataType(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::F32:
      return Type::f32;
    case DType::BF16:
      return Type::bf16;
    case DType::I32:
      return Type::s32;
    case DType::I8:
      return Type::s8;
    case DType::U8:
      return Type::u8;
    default:
      break;
  }
  SLUICE_CHECK(false, "oneDNN has no elements of {} on the CPU", name(dtype));
  return Type::undef;
}

dnnl::memory::desc strided(DType dtype,
                           const std::vector<std::int64_t>& dims,
                           const std::vector<std::int64_t>& strides) {
  return {dims, dataType(dtype), strides};
}

dnnl::memory::desc describe(const TensorType& type, const device::Layout& layout) {
  if (layout.kind != device::Layout::Kind::Opaque) {
    return strided(type.dtype, type.shape.dims(), device::strides(type.shape, layout));
  }
  dnnl_memory_desc_t desc;
  SLUICE_CHECK(layout.blob.size() == sizeof(desc),
               "an opaque layout of {} bytes, expected a descriptor of {}",
               layout.blob.size(),
               sizeof(desc));
  std::memcpy(&desc, layout.blob.data(), sizeof(desc));
  return dnnl::memory::desc(desc);
}

dnnl::memory::desc plainLike(const dnnl::memory::desc& desc) {
  const dnnl::memory::dims dims = desc.dims();
  return {dims, desc.data_type(), Shape(dims).strides()};
}

device::Layout layoutOf(const dnnl::memory::desc& desc) {
  if (desc == plainLike(desc)) {
    return device::Layout::plain();
  }
  return {.kind = device::Layout::Kind::Opaque,
          .blob = std::string(reinterpret_cast<const char*>(&desc.data), sizeof(desc.data)),
          .opaqueBytes = desc.get_size()};
}

dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::size_t alignedBytes(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Call::Call(const dnnl::primitive& primitive, std::span<const Argument> arguments)
    : primitive_(primitive), stream_(engine()) {
  addresses_.resize(arguments.size());
  for (const Argument& argument : arguments) {
    memories_.emplace_back(argument.desc, engine(), nullptr);
    arguments_.push_back({argument.index, memories_.back().get()});
  }
}

void Call::run(std::span<const void* const> addresses) {
  SLUICE_CHECK(addresses.size() == arguments_.size(),
               "{} addresses for {} arguments",
               addresses.size(),
               arguments_.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] == addresses_[i]) {
      continue;  // the library would look for padding to be zeroed again
    }
    addresses_[i] = addresses[i];
    // Inputs are only read; the interface of the library has no const.
    auto* address =
        const_cast<void*>(addresses[i]);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    const dnnl_status_t set = dnnl_memory_set_data_handle(arguments_[i].memory, address);
    SLUICE_CHECK(set == dnnl_success, "oneDNN refused an address: {}", dnnl_status2str(set));
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  SLUICE_CHECK(status == dnnl_success, "oneDNN failed: {}", dnnl_status2str(status));
}

Call reorderCall(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const OneThread oneThread;
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to);
  const std::array<Call::Argument, 2> arguments = {{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
  return {dnnl::reorder(desc), arguments};
}

}  // namespace sluice::devices::cpu::onednn
