// Prints which element types every op accepts, a line each: "op types". An op is asked by each of
// its conformance cases: the operands that share a type there get every other type in its place.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/op_list.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {
namespace {

constexpr std::array kTypes = {DType::F16,
                               DType::BF16,
                               DType::F32,
                               DType::F64,
                               DType::I8,
                               DType::I16,
                               DType::I32,
                               DType::I64,
                               DType::U8,
                               DType::U16,
                               DType::U32,
                               DType::U64,
                               DType::Bool};

using TypeSet = std::set<DType>;

TypeSet select(bool (*wanted)(DType)) {
  TypeSet set;
  std::ranges::copy_if(kTypes, std::inserter(set, set.end()), wanted);
  return set;
}

std::string nameOf(const TypeSet& set) {
  const std::array<std::pair<std::string_view, TypeSet>, 4> groups = {
      {{"floats", select([](DType d) { return isFloat(d); })},
       {"integers", select([](DType d) { return isInteger(d); })},
       {"numbers", select([](DType d) { return d != DType::Bool; })},
       {"all", select([](DType) { return true; })}}};
  for (const auto& [name, members] : groups) {
    if (set == members) {
      return std::string(name);
    }
  }
  std::vector<std::string_view> names;
  for (const DType dtype : kTypes) {
    if (set.contains(dtype)) {
      names.push_back(name(dtype));
    }
  }
  return fmt::format("{}", fmt::join(names, " "));
}

bool accepts(const ir::OpDef& def, const std::vector<TensorType>& types, const ir::Attrs& attrs) {
  try {
    const ir::Attrs complete = ir::completeAttrs(def, attrs);
    const std::vector<TensorType> outputs = def.infer({def, complete, types, {}});
    if (def.decompose != nullptr) {
      ir::Graph graph("parts");
      ir::GraphBuilder b(graph);
      std::vector<ir::Value> inputs;
      for (std::size_t i = 0; i < types.size(); ++i) {
        inputs.push_back(b.input(fmt::format("in{}", i), types[i]));
      }
      def.decompose(b, {def, complete, types, outputs}, inputs);
    }
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

/// Per operand that is the first of its type in a case, what may stand in the place of that type.
using Groups = std::map<std::size_t, TypeSet>;

/// Whether the first of these operands may have the type, alone or with some of the others:
/// statistics of 16-bit floats, for example, are of 32 bits.
bool acceptsIn(const OpCase& c, const std::vector<std::size_t>& group, DType dtype) {
  const std::size_t subsets = std::size_t{1} << (group.size() - 1);
  for (std::size_t left = 0; left < subsets; ++left) {
    std::vector<TensorType> types;
    for (const Operand& operand : c.operands) {
      types.push_back(operand.type);
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      const bool kept = i > 0 && ((left >> (i - 1)) & 1U) != 0;
      types[group[i]].dtype = kept ? types[group[i]].dtype : dtype;
    }
    if (accepts(c.def, types, c.attrs)) {
      return true;
    }
  }
  return false;
}

void ask(const OpCase& c, Groups& groups) {
  std::map<DType, std::vector<std::size_t>> byType;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    byType[c.operands[i].type.dtype].push_back(i);
  }
  for (const auto& [given, group] : byType) {
    for (const DType dtype : kTypes) {
      if (acceptsIn(c, group, dtype)) {
        groups[group[0]].insert(dtype);
      }
    }
  }
}

/// Ops without operands make what their attribute says.
TypeSet made(const OpCase& c) {
  TypeSet set;
  for (const DType dtype : kTypes) {
    ir::Attrs attrs = c.attrs;
    attrs.set({"dtype", std::string(name(dtype))});
    if (accepts(c.def, {}, attrs)) {
      set.insert(dtype);
    }
  }
  return set;
}

std::string typesOf(const ir::OpDef& def, const std::vector<OpCase>& cases) {
  Groups groups;
  for (const OpCase& c : cases) {
    if (&c.def != &def || def.infer == nullptr) {
      continue;
    }
    if (c.operands.empty()) {
      return nameOf(made(c));
    }
    ask(c, groups);
  }
  std::vector<std::string> names;
  for (const auto& [operand, set] : groups) {
    names.push_back(nameOf(set));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

}  // namespace
}  // namespace sluice::testing

int main() {
  const std::vector<sluice::testing::OpCase> cases = sluice::testing::allCases();
  for (const sluice::ir::OpDef* def : sluice::ops::opSet().all()) {
    if (const std::string types = sluice::testing::typesOf(*def, cases); !types.empty()) {
      fmt::print("{} {}\n", def->name, types);
    }
  }
  return 0;
}
