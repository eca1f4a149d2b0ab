// The cut of VirtualGraphMode::Auto takes the forward ops in their order as a chain and gives each
// device a contiguous part of it, so that data flows forward. Parts are even in the work of both
// passes; among nearly even cuts the one that the fewest bytes cross is chosen. In this graph one
// value crosses a cut after b or after e, and two cross a cut after c:
//
//     a -> b -+-> c --+-> e -> f
//             +-> d --+
//
// A weight may be read in several parts: each reader's device gets a copy, and the gradients are
// added. Only ops that share a variable which the loop writes, like running statistics, stay
// together.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/parallel/chain_cut.h"
#include "sluice/parallel/leaf.h"
#include "sluice/parallel/strategy.h"
#include "sluice/parallel/work.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Placement;

std::vector<OpId> placeableOps(const ir::Graph& graph) {
  std::vector<OpId> ops;
  for (const OpId id : graph.order()) {
    if (!isLeaf(graph.op(id)) && graph.op(id).place.pass == ir::Pass::Forward) {
      ops.push_back(id);
    }
  }
  return ops;
}

void set(ir::Graph& graph, OpId id, std::int32_t device, std::int32_t stage) {
  Placement place = graph.op(id).place;
  place.device = device;
  place.stage = stage;
  graph.setPlacement(id, place);
}

/// Whether all ops have the field set; throws if only some have.
bool allSet(const ir::Graph& graph,
            std::span<const OpId> ops,
            std::int32_t Placement::*field,
            std::string_view what) {
  const auto isSet = [&](OpId id) { return graph.op(id).place.*field >= 0; };
  const auto count = std::ranges::count_if(ops, isSet);
  if (count == 0 || count == std::ssize(ops)) {
    return count > 0;
  }
  const OpId missing = *std::ranges::find_if_not(ops, isSet);
  raise<InvalidArgument>(
      "only some ops have had their {} set: {} have one, {} have not, among them '{}'; set it for "
      "every op or for none",
      what,
      count,
      std::ssize(ops) - count,
      graph.op(missing).name);
}

/// More items than this tell devices apart no better, and take longer to cut.
constexpr std::size_t kMostItems = 2048;
/// Of Auto: half of the items, so that each device can have some.
constexpr std::size_t kMostDevices = kMostItems / 2;

/// The ops of a graph as a chain: what they cost, and what goes over a cut behind each.
class OpChain {
 public:
  OpChain(const ir::Graph& graph, std::span<const OpId> ops, const PartitionOptions& options)
      : graph_(graph), ops_(ops), options_(options) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      positions_.emplace(ops[i], i);
    }
    gatherItems();
    measureBytes();
    measureCrossing();
  }

  std::size_t mostDevices() const { return mostParts(items_); }

  std::vector<std::int32_t> devices(std::span<const double> shares) const {
    const std::vector<std::int32_t> parts =
        cutChain(items_, shares, static_cast<std::int64_t>(options_.memoryBytes));
    std::vector<std::int32_t> devices;
    for (const std::size_t item : itemOf_) {
      devices.push_back(parts[item]);
    }
    return devices;
  }

 private:
  /// A range of ops, by position, over which something is needed.
  struct Span {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  /// Neighbours become one item where there are very many ops.
  void gatherItems() {
    const std::vector<std::int64_t> work = workOfOps(graph_, ops_, options_.loss);
    std::int64_t total = 0;
    for (const std::int64_t each : work) {
      total += each;
    }
    const std::int64_t enough =
        ops_.size() <= kMostItems ? 0 : total / static_cast<std::int64_t>(kMostItems);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (items_.empty() || items_.back().work > enough) {
        items_.push_back({.work = 1});
      }
      items_.back().work += work[i];
      itemOf_.push_back(items_.size() - 1);
    }
  }

  void measureBytes() {
    std::map<std::string, std::size_t, std::less<>> next;  // reader of a variable, from the end
    for (std::size_t i = ops_.size(); i-- > 0;) {
      const Op& op = graph_.op(ops_[i]);
      ChainItem& item = items_[itemOf_[i]];
      for (const ir::Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (producer.is(ir::kVariable)) {
          const auto [known, isNew] = next.try_emplace(producer.attrs.text("var"), items_.size());
          if (known->second != itemOf_[i]) {
            item.shared.push_back({variableBytes(producer), known->second});
            known->second = itemOf_[i];
          }
        } else if (producer.is(ir::kConstant)) {
          item.bytes += static_cast<std::int64_t>(graph_.type(v).bytes());
        }
      }
      for (const TensorType& type : op.outputs) {
        item.bytes += options_.training ? static_cast<std::int64_t>(type.bytes()) : 0;
      }
    }
  }

  void measureCrossing() {
    std::unordered_map<ir::Value, Span> values;
    std::map<std::string, Span, std::less<>> variables;
    std::set<std::string, std::less<>> assigned;
    const auto use = [&](const Op& op, std::size_t i) {
      variables.try_emplace(op.attrs.text("var"), Span{i, i}).first->second.last = i;
    };
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = graph_.op(ops_[i]);
      if (op.is(ir::kAssign)) {
        assigned.insert(op.attrs.text("var"));
        use(op, i);
      }
      for (const ir::Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (producer.is(ir::kVariable)) {
          use(producer, i);
        } else if (!isLeaf(producer)) {
          values.try_emplace(v, Span{positions_.at(v.op), i}).first->second.last = i;
        }
      }
    }
    for (const auto& [value, span] : values) {
      cross(span, static_cast<std::int64_t>(graph_.type(value).bytes()));
    }
    for (const auto& [name, span] : variables) {
      cross(span, static_cast<std::int64_t>(graph_.findVariable(name)->type.bytes()));
      // What the loop writes is used on one device.
      for (std::size_t i = itemOf_[span.first]; assigned.contains(name) && i < itemOf_[span.last];
           ++i) {
        items_[i].mayCut = false;
      }
    }
    for (std::size_t i = 1; i < items_.size(); ++i) {
      items_[i].crossing += items_[i - 1].crossing;
    }
  }

  /// As differences between neighbours, until all are there.
  void cross(const Span& span, std::int64_t bytes) {
    items_[itemOf_[span.first]].crossing += bytes;
    items_[itemOf_[span.last]].crossing -= bytes;
  }

  std::int64_t variableBytes(const Op& read) const {
    const ir::Variable& variable = *graph_.findVariable(read.attrs.text("var"));
    const auto bytes = static_cast<std::int64_t>(variable.type.bytes());
    return variable.trainable && options_.accumulation ? 2 * bytes : bytes;
  }

  const ir::Graph& graph_;
  std::span<const OpId> ops_;
  const PartitionOptions& options_;
  std::unordered_map<OpId, std::size_t> positions_;
  std::vector<ChainItem> items_;
  std::vector<std::size_t> itemOf_;  // by position of the op
};

/// Throws InvalidArgument if the devices are so many that a cut would take long.
void requireFewDevices(std::size_t wanted) {
  if (wanted > kMostDevices) {
    raise<InvalidArgument>(
        "devicesPerReplica is {}, but VirtualGraphMode::Auto cuts a graph over at most {} devices; "
        "ask for fewer, or annotate ops with virtualGraph and use Manual",
        wanted,
        kMostDevices);
  }
}

/// Throws InvalidArgument, with the most that work, if a cut into equal parts leaves devices empty.
void requireAllUsed(const OpChain& chain, std::int32_t wanted, std::string_view setting) {
  const std::size_t possible = chain.mostDevices();
  if (possible == 0 || std::cmp_less_equal(wanted, possible)) {
    return;
  }
  raise<InvalidArgument>(
      "{} is {}, but the graph can be cut by cost over at most {} devices, so that "
      "each has work; ask for {}, or annotate ops with virtualGraph and use Manual",
      setting,
      wanted,
      possible,
      possible);
}

void cutByCost(ir::Graph& graph, std::span<const OpId> ops, const PartitionOptions& options) {
  std::vector<double> shares = options.ratios;
  requireFewDevices(std::max(shares.size(), static_cast<std::size_t>(options.devices)));
  if (shares.empty()) {
    shares.assign(static_cast<std::size_t>(options.devices), 1.0 / options.devices);
  } else if (options.devices > 1 && std::cmp_not_equal(options.devices, shares.size())) {
    raise<InvalidArgument>(
        "virtualGraphSplitRatios has {} ratios for {} devices", shares.size(), options.devices);
  }
  const OpChain chain(graph, ops, options);
  if (options.ratios.empty()) {
    requireAllUsed(chain, options.devices, options.setting);
  }
  const std::vector<std::int32_t> devices = chain.devices(shares);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::int32_t part = devices[i];
    const bool own = options.deviceOfPart.empty();
    set(graph, ops[i], own ? part : options.deviceOfPart[static_cast<std::size_t>(part)], part);
  }
}

/// Numbers stages from 0 on, neighbours on one device as one.
void mergeStages(ir::Graph& graph, std::span<const OpId> ops) {
  std::map<std::int32_t, std::int32_t> deviceOfStage;
  for (const OpId id : ops) {
    const Op& op = graph.op(id);
    const auto known = deviceOfStage.try_emplace(op.place.stage, op.place.device).first;
    if (known->second != op.place.device) {
      raise<InvalidArgument>("stage {} is on device {} and, by op '{}', on device {}",
                             op.place.stage,
                             known->second,
                             op.name,
                             op.place.device);
    }
  }
  std::map<std::int32_t, std::int32_t> merged;
  std::int32_t next = -1;
  std::int32_t device = -1;
  for (const auto& [stage, on] : deviceOfStage) {
    next += on == device ? 0 : 1;
    device = on;
    merged[stage] = next;
  }
  for (const OpId id : ops) {
    const Placement& place = graph.op(id).place;
    set(graph, id, place.device, merged[place.stage]);
  }
}

void stagesFromAnnotations(ir::Graph& graph, std::span<const OpId> ops) {
  if (!allSet(graph, ops, &Placement::stage, "stage")) {
    for (const OpId id : ops) {
      const std::int32_t device = graph.op(id).place.device;
      set(graph, id, device, device);
    }
  }
  mergeStages(graph, ops);
}

void stagesFromOrder(ir::Graph& graph, std::span<const OpId> ops) {
  std::int32_t stage = -1;
  std::int32_t device = -1;
  for (const OpId id : ops) {
    const std::int32_t own = graph.op(id).place.device;
    stage += own == device ? 0 : 1;
    device = own;
    set(graph, id, own, stage);
  }
}

}  // namespace

void annotateStages(ir::Graph& graph, const PartitionOptions& options) {
  const std::vector<OpId> ops = placeableOps(graph);
  bool placed = false;
  if (options.mode == VirtualGraphMode::Auto) {
    cutByCost(graph, ops, options);
    placed = !ops.empty();
  } else if (options.mode == VirtualGraphMode::Manual) {
    placed = allSet(graph, ops, &Placement::device, "device");
  }
  const bool several = placed && std::ranges::any_of(ops, [&](OpId id) {
                         return graph.op(id).place.device != graph.op(ops[0]).place.device;
                       });
  if (options.pipelining && !several) {
    raise<InvalidArgument>(
        "enablePipelining requires more than one device: virtualGraphMode is {}; annotate ops with "
        "virtualGraph and use Manual, or use Auto with devicesPerReplica above 1 and a graph that "
        "can be cut",
        options.mode == VirtualGraphMode::Off
            ? "Off"
            : (placed ? "on, and all ops are on one device" : "Manual, and no op has a device"));
  }
  if (!several) {
    for (const OpId id : ops) {
      set(graph, id, -1, -1);
    }
  } else if (options.pipelining) {
    stagesFromAnnotations(graph, ops);
  } else {
    stagesFromOrder(graph, ops);
  }
}

}  // namespace sluice::parallel
