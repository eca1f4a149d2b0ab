// What this processor is to the kernels.
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/onednn.h"

namespace sluice::devices::cpu {
namespace {

bool has(dnnl::cpu_isa wanted) {
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (all & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

/// The most specific set that oneDNN uses here.
std::string_view instructionSet() {
  constexpr std::array<std::pair<dnnl::cpu_isa, std::string_view>, 7> kSets = {
      {{dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"},
       {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
       {dnnl::cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
       {dnnl::cpu_isa::avx512_core, "avx512_core"},
       {dnnl::cpu_isa::avx2, "avx2"},
       {dnnl::cpu_isa::avx, "avx"},
       {dnnl::cpu_isa::sse41, "sse41"}}};
  for (const auto& [isa, text] : kSets) {
    if (has(isa)) {
      return text;
    }
  }
  return "generic";
}

}  // namespace

std::string describeCpu() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format(
      "{}, oneDNN {}.{}.{}", instructionSet(), version.major, version.minor, version.patch);
}

}  // namespace sluice::devices::cpu
