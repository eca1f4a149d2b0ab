#include "sluice/ops/custom_op.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/number_text.h"
#include "sluice/ops/custom_def.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/type_attrs.h"

namespace sluice::ops {
namespace {

const CustomOp& requireOp(const CustomOpUse& use) {
  const CustomOpInfo found = findCustomOp(use.domain, use.name, use.version);
  if (!found) {
    const std::vector<std::string> names = customOpNames();
    raise<InvalidArgument>(
        "there is no custom op {}.{}.{}; load the library that has it with loadCustomOps (loaded "
        "are: {})",
        use.domain,
        use.name,
        use.version,
        names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return *asCustomOp(*found.def);
}

/// Rounded to what an op gets to see: 32 bits. Larger numbers stay, to be refused by name.
ir::Attr rounded(ir::Attr attr) {
  const auto round = [](double& value) {
    const auto narrow = static_cast<float>(value);
    if (std::isfinite(narrow)) {
      value = ir::decimalDouble(narrow);
    }
  };
  if (auto* value = std::get_if<double>(&attr)) {
    round(*value);
  } else if (auto* values = std::get_if<std::vector<double>>(&attr)) {
    std::ranges::for_each(*values, round);
  }
  return attr;
}

ir::Attr attrOf(const CustomOp& op, const CustomAttribute& item) {
  const auto spec = std::ranges::find(op.specs, item.name, &ir::AttrSpec::name);
  try {
    ir::Attr attr = item.value.attrOf(spec == op.specs.end() ? ir::AttrKind::Ints : spec->kind);
    const ir::AttrKind kind = kindOf(attr);
    if (kind == ir::AttrKind::Bool || kind == ir::AttrKind::Tensor ||
        kind == ir::AttrKind::Subgraph) {
      raise<InvalidArgument>(
          "expected a float, an int, a text or a list of these, got a {}; there are no attributes "
          "of this kind",
          name(kind));
    }
    return rounded(std::move(attr));
  } catch (const InvalidArgument& error) {
    raise<InvalidArgument>("{}: attribute '{}': {}", op.fullName, item.name, error.message());
  }
}

ir::Attrs attrsOf(const CustomOp& op, const CustomOpUse& use) {
  ir::Attrs attrs;
  for (const CustomAttribute& item : use.attributes) {
    if (item.name.starts_with(kReservedAttrPrefix) || attrs.find(item.name) != nullptr) {
      raise<InvalidArgument>(
          "{}: attribute '{}' is given twice or reserved", op.fullName, item.name);
    }
    attrs.set({item.name, attrOf(op, item)});
  }
  for (const ir::NamedAttr& list : op.listDefaults) {
    const auto spec = std::ranges::find(op.specs, list.name, &ir::AttrSpec::name);
    if (!spec->required && attrs.find(list.name) == nullptr) {
      attrs.set(list);
    }
  }
  if (!op.infersTypes()) {
    if (use.exampleOutputs.empty()) {
      raise<InvalidArgument>("{}: it infers no types, so example outputs are needed", op.fullName);
    }
    TypeAttrs types = typeAttrs(use.exampleOutputs);
    attrs.set({kDtypes, std::move(types.dtypes)});
    attrs.set({kShapes, std::move(types.shapes)});
  }
  return attrs;
}

void checkExamples(const ir::GraphBuilder& b,
                   const std::vector<ir::Value>& results,
                   const CustomOp& op,
                   const CustomOpUse& use) {
  if (use.exampleOutputs.empty()) {
    return;
  }
  if (use.exampleOutputs.size() != results.size()) {
    raise<InvalidArgument>("{}: it has {} outputs, example outputs are given for {}",
                           op.fullName,
                           results.size(),
                           use.exampleOutputs.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (b.type(results[i]) != use.exampleOutputs[i]) {
      raise<InvalidArgument>("{}: output {} is {}, its example {}",
                             op.fullName,
                             i,
                             b.type(results[i]).str(),
                             use.exampleOutputs[i].str());
    }
  }
}

CustomOpInfo infoOf(const CustomOp& op) {
  return {.def = &op,
          .domain = op.domain,
          .name = op.opName,
          .version = op.table.version,
          .infersTypes = op.infersTypes(),
          .origin = op.origin};
}

}  // namespace

CustomOpInfo customOpOf(const ir::OpDef& def) {
  const CustomOp* op = asCustomOp(def);
  return op == nullptr ? CustomOpInfo() : infoOf(*op);
}

CustomOpInfo findCustomOp(std::string_view domain, std::string_view name, std::int64_t version) {
  const ir::OpDef* def = opSet().find(fmt::format("{}.{}.{}", domain, name, version));
  return def == nullptr ? CustomOpInfo() : customOpOf(*def);
}

CustomOpInfo resolveCustomOp(std::string_view domain, std::string_view name, std::int64_t version) {
  CustomOpInfo best;
  for (const ir::OpDef* def : opSet().all()) {
    const CustomOpInfo info = customOpOf(*def);
    if (info && info.domain == domain && info.name == name && info.version <= version &&
        info.version > best.version) {
      best = info;
    }
  }
  return best;
}

bool carriesTypes(const ir::NamedAttr& attr) {
  return attr.name.starts_with(kReservedAttrPrefix);
}

std::vector<std::string> customOpNames() {
  std::vector<std::string> names;
  for (const ir::OpDef* def : opSet().all()) {
    if (asCustomOp(*def) != nullptr) {
      names.emplace_back(def->name);
    }
  }
  return names;
}

std::vector<ir::Value> customOp(ir::GraphBuilder& b,
                                std::vector<ir::Value> inputs,
                                const CustomOpUse& use) {
  const CustomOp& op = requireOp(use);
  std::vector<ir::Value> results = b.addMany(op, std::move(inputs), attrsOf(op, use));
  checkExamples(b, results, op, use);
  return results;
}

}  // namespace sluice::ops
