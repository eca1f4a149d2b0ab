// The cut of VirtualGraphMode::Auto walks the ops in their order and closes a device's part at the
// first narrow point at which the cost so far has reached that device's share. At a narrow point
// one op's results, or nothing, go on to later ops, and no weight is read on both sides:
//
//     a -> b -+-> c --+-> e -> f      after a, b, e and f; inside the branches c and d there is
//             +-> d --+               no narrow point
#include "sluice/parallel/partition.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/parallel/leaf.h"

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

/// A range of ops, by position, that nothing may cut.
struct Span {
  std::size_t first = 0;
  std::size_t last = 0;
};

class AutoCut {
 public:
  AutoCut(const ir::Graph& graph, std::span<const OpId> ops, const PartitionOptions& options)
      : graph_(graph), ops_(ops), options_(options) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      positions_.emplace(ops[i], i);
    }
    measure();
  }

  std::vector<std::int32_t> devices(std::span<const double> shares) const {
    std::int64_t total = 0;
    for (const std::int64_t cost : costs_) {
      total += cost;
    }
    std::vector<std::int32_t> devices;
    std::size_t device = 0;
    double target = shares[0];
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      devices.push_back(static_cast<std::int32_t>(device));
      sum += costs_[i];
      // Shares such as 1/3 are not exact: a target that is missed by rounding is reached.
      const bool reached =
          static_cast<double>(sum) >= target * static_cast<double>(total) * (1 - 1e-9);
      if (reached && crossing_[i] <= 1 && device + 1 < shares.size()) {
        target += shares[++device];
      }
    }
    return devices;
  }

 private:
  void measure() {
    costs_.assign(ops_.size(), 1);
    crossing_.assign(ops_.size(), 0);
    std::unordered_map<OpId, Span> values;
    std::map<std::string, Span, std::less<>> weights;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = graph_.op(ops_[i]);
      for (const ir::Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (producer.is(ir::kVariable)) {
          const auto [known, isNew] = weights.try_emplace(producer.attrs.text("var"), Span{i, i});
          known->second.last = i;
          costs_[i] += isNew ? weightBytes(producer) : 0;
        } else if (producer.is(ir::kConstant)) {
          costs_[i] += static_cast<std::int64_t>(graph_.type(v).bytes());
        } else if (!isLeaf(producer)) {
          values.try_emplace(v.op, Span{positions_.at(v.op), i}).first->second.last = i;
        }
      }
      for (const TensorType& type : op.outputs) {
        costs_[i] += options_.training ? static_cast<std::int64_t>(type.bytes()) : 0;
      }
    }
    for (const auto& [id, span] : values) {
      mark(span, 1);
    }
    for (const auto& [name, span] : weights) {
      mark(span, 2);  // more than the one op that a cut allows
    }
  }

  void mark(const Span& span, std::int32_t count) {
    for (std::size_t i = span.first; i < span.last; ++i) {
      crossing_[i] += count;
    }
  }

  std::int64_t weightBytes(const Op& read) const {
    const ir::Variable& variable = *graph_.findVariable(read.attrs.text("var"));
    const auto bytes = static_cast<std::int64_t>(variable.type.bytes());
    return variable.trainable && options_.accumulation ? 2 * bytes : bytes;
  }

  const ir::Graph& graph_;
  std::span<const OpId> ops_;
  const PartitionOptions& options_;
  std::unordered_map<OpId, std::size_t> positions_;
  std::vector<std::int64_t> costs_;     // by position; at least 1
  std::vector<std::int32_t> crossing_;  // what goes from here or earlier to a later op
};

/// Throws InvalidArgument, with the most that work, if a cut into equal parts leaves devices empty.
void requireAllUsed(const AutoCut& cut, std::size_t numOps, std::int32_t wanted) {
  const auto used = [&](std::int32_t count) {
    const std::vector<double> shares(static_cast<std::size_t>(count), 1.0 / count);
    return numOps == 0 ? 0 : std::ranges::max(cut.devices(shares)) + 1;
  };
  std::int32_t possible = used(wanted);
  if (possible == wanted || numOps == 0) {
    return;
  }
  while (possible > 1 && used(possible) != possible) {
    --possible;
  }
  raise<InvalidArgument>(
      "devicesPerReplica is {}, but the graph can be cut by cost over at most {} devices: cuts are "
      "possible where one value passes; ask for {}, or annotate ops with virtualGraph and use "
      "Manual",
      wanted,
      possible,
      possible);
}

void cutByCost(ir::Graph& graph, std::span<const OpId> ops, const PartitionOptions& options) {
  std::vector<double> shares = options.ratios;
  if (shares.empty()) {
    shares.assign(static_cast<std::size_t>(options.devices), 1.0 / options.devices);
  } else if (options.devices > 1 && std::cmp_not_equal(options.devices, shares.size())) {
    raise<InvalidArgument>(
        "virtualGraphSplitRatios has {} ratios for {} devices", shares.size(), options.devices);
  }
  const AutoCut cut(graph, ops, options);
  const std::vector<std::int32_t> devices = cut.devices(shares);
  if (options.ratios.empty()) {
    requireAllUsed(cut, ops.size(), options.devices);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    set(graph, ops[i], devices[i], devices[i]);
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
