#include "sluice/parallel/placement.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/parallel/leaf.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Placement;
using ir::Value;

/// The stage of a backward op that has none of its own: its operands decide.
constexpr std::int32_t kAnyStage = std::numeric_limits<std::int32_t>::max();

class Placer {
 public:
  Placer(ir::Graph& graph,
         std::vector<std::int32_t> deviceOfStage,
         std::vector<std::int32_t> slotOfStage,
         VariableHomes& homes)
      : graph_(graph),
        deviceOfStage_(std::move(deviceOfStage)),
        slotOfStage_(std::move(slotOfStage)),
        homes_(homes) {
    while (slotOfStage_.size() < deviceOfStage_.size()) {
      slotOfStage_.push_back(static_cast<std::int32_t>(slotOfStage_.size()));
    }
    std::size_t size = 0;
    for (const OpId id : graph.order()) {
      size = std::max(size, id.index() + 1);
    }
    placed_.assign(size, false);
  }

  /// `stageOf` gives the annotated stage of an op that is no leaf.
  template <class F>
  void run(const F& stageOf) {
    requireOwnVariables(stageOf);
    findReaders(stageOf);
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass == Pass::Update || isLeaf(op)) {
        continue;
      }
      const std::int32_t stage = stageOf(op);
      if (op.place.pass == Pass::Backward) {
        set(id, backwardStage(op, stage));
      } else {
        requireForward(op, stage);
        set(id, stage);
      }
    }
    placeLeaves();
    requireOrderOfVariables();
    findHomes();
    placeUpdate();
  }

 private:
  void set(OpId id, std::int32_t stage) {
    Placement place = graph_.op(id).place;
    place.stage = stage;
    place.device = deviceOfStage_[static_cast<std::size_t>(stage)];
    graph_.setPlacement(id, place);
    placed_[id.index()] = true;
  }

  std::int32_t slot(std::int32_t stage) const {
    return stage == kAnyStage ? kAnyStage : slotOfStage_[static_cast<std::size_t>(stage)];
  }
  bool areConcurrent(std::int32_t a, std::int32_t b) const { return a != b && slot(a) == slot(b); }

  void requireForward(const Op& op, std::int32_t stage) const {
    for (const Value v : op.inputs) {
      const Op& producer = graph_.op(v.op);
      if (isLeaf(producer)) {
        continue;
      }
      const std::int32_t other = producer.place.stage;
      if (areConcurrent(other, stage)) {
        raise<InvalidArgument>(
            "concurrent stages may not depend on each other: '{}' of stage {} reads '{}' of stage "
            "{}; "
            "give the reader a place of its own behind them",
            op.name,
            stage,
            producer.name,
            other);
      }
      if (other > stage) {
        raise<InvalidArgument>(
            "data may not flow to an earlier stage: '{}' of stage {} reads '{}' of stage {}; give "
            "the "
            "reader stage {} or a later one",
            op.name,
            stage,
            producer.name,
            other,
            other);
      }
    }
  }

  /// For every backward op the last stage before its own that reads it, for joins of gradients of
  /// concurrent stages: there the value is on its way anyway.
  template <class F>
  void findReaders(const F& stageOf) {
    lastReader_.assign(placed_.size(), -1);
    const auto order = graph_.order();
    for (std::size_t i = order.size(); i-- > 0;) {
      const Op& reader = graph_.op(order[i]);
      if (reader.place.pass != Pass::Backward || isLeaf(reader)) {
        continue;
      }
      for (const Value v : reader.inputs) {
        const Op& op = graph_.op(v.op);
        if (op.place.pass != Pass::Backward || isLeaf(op)) {
          continue;
        }
        const std::int32_t own = stageOf(reader);
        const bool before = slot(own) < slot(stageOf(op));
        std::int32_t& last = lastReader_[v.op.index()];
        last = std::max(last, before ? own : lastReader_[order[i].index()]);
      }
    }
  }

  /// The op's own stage, or the earliest of those that it reads gradients of.
  std::int32_t backwardStage(const Op& op, std::int32_t own) const {
    std::vector<std::int32_t> stages;
    if (own != kAnyStage) {
      stages.push_back(own);
    }
    for (const Value v : op.inputs) {
      const Op& producer = graph_.op(v.op);
      if (!isLeaf(producer) && producer.place.pass == Pass::Backward) {
        stages.push_back(producer.place.stage);
      }
    }
    if (stages.empty()) {
      return static_cast<std::int32_t>(deviceOfStage_.size()) - 1;
    }
    const std::int32_t first = *std::ranges::min_element(stages);
    const bool joins = std::ranges::any_of(
        stages, [&](std::int32_t stage) { return areConcurrent(stage, first); });
    return joins ? stageBefore(op, slot(first)) : first;
  }

  /// Where an op runs that joins gradients of the concurrent stages of a slot.
  std::int32_t stageBefore(const Op& op, std::int32_t joined) const {
    if (const std::int32_t reader = lastReader_[op.id.index()];
        reader >= 0 && slot(reader) < joined) {
      return reader;
    }
    const auto before = std::ranges::find(slotOfStage_, joined - 1);
    SLUICE_CHECK(before != slotOfStage_.end(),
                 "'{}' joins gradients of concurrent stages, and no stage comes before them",
                 op.name);
    return static_cast<std::int32_t>(before - slotOfStage_.begin());
  }

  /// Concurrent stages share no variable.
  template <class F>
  void requireOwnVariables(const F& stageOf) const {
    std::map<std::pair<std::string, std::int32_t>, const Op*> users;  // by variable and slot
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass != Pass::Forward || isLeaf(op)) {
        continue;
      }
      for (const Value v : op.inputs) {
        const Op& read = graph_.op(v.op);
        if (!read.is(ir::kVariable)) {
          continue;
        }
        const std::string& variable = read.attrs.text("var");
        const Op& first = *users.emplace(std::pair(variable, slot(stageOf(op))), &op).first->second;
        if (stageOf(first) != stageOf(op)) {
          raise<InvalidArgument>(
              "concurrent stages may not share a variable: '{}' is used by '{}' of stage {} and by "
              "'{}' of stage {}",
              variable,
              first.name,
              stageOf(first),
              op.name,
              stageOf(op));
        }
      }
    }
  }

  /// Where data of one micro-batch is when it comes to an op: forward by stage, then back.
  static std::pair<int, std::int32_t> flowOf(const Op& op) {
    const std::int32_t stage = op.place.stage;
    return op.place.pass == Pass::Forward ? std::pair(0, stage) : std::pair(1, -stage);
  }

  /// The first reader in the flow, which need not be the first in the order of the graph: a model
  /// may come back to an early block.
  void placeLeaves() {
    std::vector<OpId> firstReader(placed_.size());
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass == Pass::Update || isLeaf(op)) {
        continue;
      }
      for (const Value v : op.inputs) {
        OpId& first = firstReader[v.op.index()];
        if (!first.valid() || flowOf(op) < flowOf(graph_.op(first))) {
          first = id;
        }
      }
    }
    for (const OpId id : graph_.order()) {
      if (graph_.op(id).place.pass != Pass::Update && !placed_[id.index()]) {
        const OpId first = firstReader[id.index()];
        set(id, first.valid() ? graph_.op(first).place.stage : 0);
      }
    }
  }

  /// Reads and writes of a variable that the loop writes must come in the flow as in the graph.
  void requireOrderOfVariables() const {
    std::set<std::string, std::less<>> written;
    std::unordered_map<std::string, const Op*> before;
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.is(ir::kAssign) && op.place.pass != Pass::Update) {
        written.insert(op.attrs.text("var"));
      }
    }
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass == Pass::Update || !(op.is(ir::kAssign) || op.is(ir::kVariable)) ||
          !written.contains(op.attrs.text("var"))) {
        continue;
      }
      const Op*& last = before[op.attrs.text("var")];
      if (last != nullptr && flowOf(op) < flowOf(*last)) {
        raise<InvalidArgument>(
            "variable '{}' changes during the loop: '{}' uses it in stage {} and then '{}' in "
            "stage {}, which runs before; keep what uses it in one stage",
            op.attrs.text("var"),
            last->name,
            last->place.stage,
            op.name,
            op.place.stage);
      }
      last = &op;
    }
  }

  /// A variable that the loop writes lives where it is written, whatever other programs do; another
  /// one where they have it, else with its first reader.
  void findHomes() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass != Pass::Update && op.is(ir::kAssign)) {
        homes_.insert_or_assign(op.attrs.text("var"), op.place.device);
      }
    }
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass != Pass::Update && op.is(ir::kVariable)) {
        homes_.emplace(op.attrs.text("var"), op.place.device);
      }
    }
  }

  /// What belongs to one weight, and not to all alike: gradients, reads of weights, what is
  /// computed from them, and the state that is assigned it.
  void findOwned() {
    owned_.assign(placed_.size(), false);
    std::set<std::string, std::less<>> variables;
    for (const ir::Variable& variable : graph_.variables()) {
      if (variable.role == ir::VariableRole::Weight) {
        variables.insert(variable.name);
      }
    }
    // State is read before it is assigned, so what it is assigned counts in the next walk.
    for (std::size_t before = 0; before < variables.size();) {
      before = variables.size();
      for (const OpId id : graph_.order()) {
        const Op& op = graph_.op(id);
        const bool fromOwned =
            std::ranges::any_of(op.inputs, [&](Value v) { return owned_[v.op.index()]; });
        const bool gradient = op.place.pass == Pass::Backward && !isLeaf(op);
        const bool read = op.is(ir::kVariable) && variables.contains(op.attrs.text("var"));
        owned_[id.index()] = gradient || read || (op.place.pass == Pass::Update && fromOwned);
        if (owned_[id.index()] && op.is(ir::kAssign) && op.place.pass == Pass::Update) {
          variables.insert(op.attrs.text("var"));
        }
      }
    }
  }

  void placeUpdate() {
    findOwned();
    std::vector<OpId> left;
    for (const OpId id : graph_.order()) {
      if (graph_.op(id).place.pass == Pass::Update) {
        left.push_back(id);
      }
    }
    const auto setDevice = [&](OpId id, std::int32_t device) {
      Placement place = graph_.op(id).place;
      place.stage = 0;
      place.device = device;
      graph_.setPlacement(id, place);
      placed_[id.index()] = true;
    };
    for (std::size_t before = left.size() + 1; left.size() < before;) {
      before = left.size();
      std::erase_if(left, [&](OpId id) {
        const std::optional<std::int32_t> device = updateDevice(graph_.op(id));
        if (device) {
          setDevice(id, *device);
        }
        return device.has_value();
      });
    }
    // What is left serves every variable alike (step counts, rates): any one device will do.
    for (const OpId id : left) {
      setDevice(id, homes_.empty() ? 0 : homes_.begin()->second);
      const Op& op = graph_.op(id);
      if (op.is(ir::kVariable) || op.is(ir::kAssign)) {
        homes_.emplace(op.attrs.text("var"), op.place.device);
      }
    }
  }

  /// Where an op of the update belongs, as far as it is known by now.
  std::optional<std::int32_t> updateDevice(const Op& op) {
    const bool stateful = op.is(ir::kVariable) || op.is(ir::kAssign);
    if (stateful) {
      const auto home = homes_.find(op.attrs.text("var"));
      if (home != homes_.end()) {
        return home->second;
      }
    }
    const bool scalars =
        std::ranges::all_of(op.inputs, [&](Value v) { return graph_.type(v).shape.rank() == 0; });
    if (const std::optional<std::int32_t> owner = scalars ? ownerOf(op) : std::nullopt) {
      return homeOfAssign(op, *owner);
    }
    std::optional<std::int32_t> scalar;
    bool allKnown = !scalars || !owned_[op.id.index()];
    for (const Value v : op.inputs) {
      const Op& producer = graph_.op(v.op);
      if (producer.is(ir::kConstant)) {
        continue;
      }
      if (!placed_[v.op.index()]) {
        allKnown = false;
      } else if (graph_.type(v).shape.rank() > 0) {
        return homeOfAssign(op, producer.place.device);
      } else if (!scalar) {
        scalar = producer.place.device;
      }
    }
    return allKnown && scalar ? std::optional(homeOfAssign(op, *scalar)) : std::nullopt;
  }

  /// The device of the weight that an op of numbers works for, as far as it is known: a weight of
  /// rank 0 is updated by numbers alone, and rates and step counts, which may be anywhere, do not
  /// say where.
  std::optional<std::int32_t> ownerOf(const Op& op) const {
    std::optional<std::int32_t> owner;
    for (const Value v : op.inputs) {
      const Op& producer = graph_.op(v.op);
      if (!owned_[v.op.index()] || !placed_[v.op.index()]) {
        continue;
      }
      if (producer.place.pass == Pass::Backward) {
        return producer.place.device;
      }
      owner = owner.value_or(producer.place.device);
    }
    return owner;
  }

  std::int32_t homeOfAssign(const Op& op, std::int32_t device) {
    if (op.is(ir::kAssign)) {
      homes_.emplace(op.attrs.text("var"), device);
    }
    return device;
  }

  ir::Graph& graph_;
  std::vector<std::int32_t> deviceOfStage_;
  std::vector<std::int32_t> slotOfStage_;
  VariableHomes& homes_;
  std::vector<bool> placed_;              // by OpId
  std::vector<bool> owned_;               // by OpId: it belongs to a weight (findOwned)
  std::vector<std::int32_t> lastReader_;  // by OpId: a stage, -1: none
};

}  // namespace

void placeByBlocks(ir::Graph& graph, const StageMap& map, VariableHomes& homes) {
  Placer(graph, map.deviceOfStage, map.slotOfStage, homes).run([&](const Op& op) -> std::int32_t {
    if (op.place.block >= 0) {
      return map.stageOfBlock[static_cast<std::size_t>(op.place.block)];
    }
    if (op.place.pass == Pass::Backward) {
      return kAnyStage;  // a gradient that joins several blocks'
    }
    if (graph.blocks().empty()) {
      return static_cast<std::int32_t>(map.deviceOfStage.size()) - 1;
    }
    raise<InvalidArgument>(
        "op '{}' has no active block: when a model uses blocks, they must cover all of it",
        op.name);
  });
}

std::vector<std::int32_t> placeByAnnotations(ir::Graph& graph, VariableHomes& homes) {
  std::int32_t withStage = 0;
  std::int32_t withoutStage = 0;
  std::int32_t stages = 0;
  std::string missing;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (isLeaf(op) || op.place.pass != Pass::Forward) {
      continue;
    }
    if (op.place.stage < 0) {
      ++withoutStage;
      missing = op.name;
    } else {
      ++withStage;
    }
  }
  if (withStage > 0 && withoutStage > 0) {
    raise<InvalidArgument>(
        "only some ops have had their stage set: {} have one, {} have not, among them '{}'; set "
        "the pipeline stage of every op or of none",
        withStage,
        withoutStage,
        missing);
  }
  const auto annotated = [&](const Op& op) {
    return withStage > 0 ? op.place.stage : op.place.device;
  };
  const auto stageOf = [&](const Op& op) { return std::max(0, annotated(op)); };
  std::vector<std::int32_t> deviceOfStage;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (!isLeaf(op) && op.place.pass != Pass::Update) {
      stages = std::max(stages, stageOf(op) + 1);
    }
  }
  deviceOfStage.assign(static_cast<std::size_t>(std::max(stages, 1)), -1);
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (isLeaf(op) || op.place.pass != Pass::Forward) {
      continue;
    }
    std::int32_t& device = deviceOfStage[static_cast<std::size_t>(stageOf(op))];
    const std::int32_t wanted = op.place.device < 0 ? stageOf(op) : op.place.device;
    if (device >= 0 && device != wanted) {
      raise<InvalidArgument>("stage {} is on device {} and, by op '{}', on device {}",
                             stageOf(op),
                             device,
                             op.name,
                             wanted);
    }
    device = wanted;
  }
  for (std::size_t s = 0; s < deviceOfStage.size(); ++s) {
    deviceOfStage[s] = deviceOfStage[s] < 0 ? static_cast<std::int32_t>(s) : deviceOfStage[s];
  }
  Placer(graph, deviceOfStage, {}, homes).run([&](const Op& op) {
    return op.place.pass == Pass::Backward && annotated(op) < 0 ? kAnyStage : stageOf(op);
  });
  return deviceOfStage;
}

}  // namespace sluice::parallel
