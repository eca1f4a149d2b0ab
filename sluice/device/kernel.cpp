#include "sluice/device/kernel.h"

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::device {
namespace {

constexpr std::string_view kReferenceImplementation = "reference";

/// Runs the op's own plain loops.
class ReferenceKernel : public Kernel {
 public:
  explicit ReferenceKernel(const ir::OpView& op)
      : def_(op.def),
        attrs_(op.attrs),
        inputs_(op.inputs.begin(), op.inputs.end()),
        outputs_(op.outputs.begin(), op.outputs.end()) {}

  void run(const KernelRun& run) override {
    def_.reference({{def_, attrs_, inputs_, outputs_}, run.inputs, run.outputs, run.info});
  }

 private:
  const ir::OpDef& def_;
  ir::Attrs attrs_;
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
};

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

KernelTable::KernelTable(std::string deviceKind,
                         std::span<const KernelEntry> entries,
                         Tuning tuning,
                         bool referenceFallback,
                         HostOps hostOps)
    : deviceKind_(std::move(deviceKind)),
      tuning_(std::move(tuning)),
      referenceFallback_(referenceFallback),
      hostOps_(hostOps) {
  for (const KernelEntry& entry : entries) {
    entries_.emplace(entry.op, &entry);  // equal keys keep the order of insertion
  }
}

const KernelEntry* KernelTable::find(const ir::OpView& op) const {
  const auto [first, last] = entries_.equal_range(op.def.name);
  for (auto at = first; at != last; ++at) {
    if (at->second->supports == nullptr || at->second->supports(op)) {
      return at->second;
    }
  }
  return nullptr;
}

bool KernelTable::supports(const ir::OpView& op) const {
  return find(op) != nullptr || (referenceFallback_ && op.def.reference != nullptr);
}

void KernelTable::refuse(const ir::OpView& op) const {
  raise<Unsupported>("device kind {} has no kernel for {}({}) -> ({})",
                     deviceKind_,
                     op.def.name,
                     describe(op.inputs),
                     describe(op.outputs));
}

Choice KernelTable::choose(const ir::OpView& op) const {
  if (op.def.traits.host && hostOps_ == HostOps::OnHost) {
    return plainChoice(op, kOnHost);
  }
  const KernelEntry* entry = find(op);
  if (entry == nullptr) {
    if (!supports(op)) {
      refuse(op);
    }
    return plainChoice(op, kReferenceImplementation);
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

std::unique_ptr<Kernel> KernelTable::make(const ir::OpView& op, const Choice& choice) const {
  if (choice.implementation == kReferenceImplementation && op.def.reference != nullptr) {
    return std::make_unique<ReferenceKernel>(op);
  }
  const auto [first, last] = entries_.equal_range(op.def.name);
  for (auto at = first; at != last; ++at) {
    if (at->second->implementation == choice.implementation) {
      return at->second->make(op, choice);
    }
  }
  refuse(op);
}

std::vector<std::string_view> KernelTable::implementations(std::string_view op) const {
  std::vector<std::string_view> names;
  const auto [first, last] = entries_.equal_range(op);
  for (auto entry = first; entry != last; ++entry) {
    names.push_back(entry->second->implementation);
  }
  return names;
}

}  // namespace sluice::device
