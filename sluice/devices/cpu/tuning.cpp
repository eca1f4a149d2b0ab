// The shipped tuning table of this processor, and what it is.
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/onednn.h"

namespace sluice::devices::cpu {
namespace {

struct ShippedTable {
  std::string_view instructionSet;
  std::string_view text;
};

#include "sluice/devices/cpu/tuning_table.inc"

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

device::Tuning mergedTuning(const device::Tuning& overrides) {
  const std::string_view set = has(dnnl::cpu_isa::avx512_core) ? "avx512" : "avx2";
  device::Tuning tuning;
  for (const ShippedTable& table : kShippedTables) {
    if (table.instructionSet == set) {
      tuning = device::parseTuning(table.text);
    }
  }
  for (const auto& [key, value] : overrides) {
    tuning.insert_or_assign(key, value);
  }
  return tuning;
}

std::string describeCpu() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format(
      "{}, oneDNN {}.{}.{}", instructionSet(), version.major, version.minor, version.patch);
}

}  // namespace sluice::devices::cpu
