#include "sluice/device/kernel_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::device {
namespace {

std::vector<TensorType> inferReorder(const ir::OpView& op) {
  return {op.inputs[0]};
}

std::string describe(std::span<const TensorType> types) {
  std::vector<std::string> texts;
  for (const TensorType& type : types) {
    texts.push_back(type.str());
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

constinit const KernelEntry kHostOps{
    .op = kAnyOp, .implementation = kOnHost, .supports = [](const ir::OpView& op) {
      return op.def.traits.host;
    }};

constinit const ir::OpDef kReorder{.name = "reorder", .infer = inferReorder};

std::string Layout::str() const {
  switch (kind) {
    case Kind::Plain:
      return "plain";
    case Kind::ChannelsLast:
      return "channels-last";
    case Kind::Opaque:
      return "opaque";
  }
  return "";
}

std::vector<std::int64_t> strides(const Shape& shape, const Layout& layout) {
  SLUICE_CHECK(layout.kind != Layout::Kind::Opaque, "an opaque layout has no strides");
  if (layout.isPlain()) {
    return shape.strides();
  }
  SLUICE_CHECK(shape.rank() >= 3, "channels-last storage of {}", shape.str());
  // Storage order: axis 0, axes 2.., axis 1.
  std::vector<std::int64_t> result(shape.dims().size());
  std::int64_t stride = 1;
  result[1] = stride;
  stride *= shape[1];
  for (std::size_t i = result.size(); i-- > 2;) {
    result[i] = stride;
    stride *= shape.dims()[i];
  }
  result[0] = stride;
  return result;
}

Tuning parseTuning(std::string_view text) {
  Tuning tuning;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) {
      line.remove_suffix(1);
    }
    if (line.empty()) {
      continue;
    }
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0) {
      raise<ConfigFileError>("tuning table, line {}: expected 'key value', got '{}'", number, line);
    }
    tuning.insert_or_assign(std::string(line.substr(0, space)),
                            std::string(line.substr(space + 1)));
  }
  return tuning;
}

Choice plainChoice(const ir::OpView& op, std::string_view implementation) {
  return {.implementation = std::string(implementation),
          .inputs = std::vector<Layout>(op.inputs.size()),
          .outputs = std::vector<Layout>(op.outputs.size())};
}

KernelTable::KernelTable(std::string deviceKind, std::vector<KernelEntry> entries, Tuning tuning)
    : deviceKind_(std::move(deviceKind)), entries_(std::move(entries)), tuning_(std::move(tuning)) {
  std::ranges::stable_sort(entries_, {}, &KernelEntry::op);
}

std::span<const KernelEntry> KernelTable::entriesOf(std::string_view op) const {
  const auto first = std::ranges::lower_bound(entries_, op, {}, &KernelEntry::op);
  return {first, std::ranges::upper_bound(first, entries_.end(), op, {}, &KernelEntry::op)};
}

const KernelEntry* KernelTable::find(const ir::OpView& op) const {
  for (const std::string_view name : {op.def.name, kAnyOp}) {
    for (const KernelEntry& entry : entriesOf(name)) {
      if (entry.supports == nullptr || entry.supports(op)) {
        return &entry;
      }
    }
  }
  return nullptr;
}

Choice KernelTable::choose(const ir::OpView& op) const {
  const KernelEntry* entry = find(op);
  if (entry == nullptr) {
    raise<Unsupported>("device kind {} has no kernel for {}({}) -> ({})",
                       deviceKind_,
                       op.def.name,
                       describe(op.inputs),
                       describe(op.outputs));
  }
  if (entry->choose == nullptr) {
    return plainChoice(op, entry->implementation);
  }
  Choice choice = entry->choose(op, tuning_);
  choice.implementation = entry->implementation;
  SLUICE_CHECK(
      choice.inputs.size() == op.inputs.size() && choice.outputs.size() == op.outputs.size(),
      "the choice for {} has {} and {} layouts",
      op.def.name,
      choice.inputs.size(),
      choice.outputs.size());
  return choice;
}

std::vector<std::string_view> KernelTable::implementations(std::string_view op) const {
  std::vector<std::string_view> names;
  for (const KernelEntry& entry : entriesOf(op)) {
    names.push_back(entry.implementation);
  }
  return names;
}

}  // namespace sluice::device
