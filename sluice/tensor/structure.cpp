#include "sluice/tensor/structure.h"

#include <fmt/ranges.h>

namespace sluice {

std::string describe(StructureKind kind, std::size_t parts, std::span<const std::string> names) {
  switch (kind) {
    case StructureKind::Absent:
      return "nothing";
    case StructureKind::Tensor:
      return "a tensor";
    case StructureKind::List:
      return fmt::format("a list of {}", parts);
    case StructureKind::Named:
      return fmt::format("parts [{}]", fmt::join(names, ", "));
  }
  SLUICE_CHECK(false, "structure kind {}", static_cast<int>(kind));
  return "";
}

std::string pathOf(std::string_view whole, std::string_view part) {
  return whole.empty() ? std::string(part) : fmt::format("{}.{}", whole, part);
}

}  // namespace sluice
