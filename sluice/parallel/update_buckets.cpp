#include "sluice/parallel/update_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;

bool isUpdate(const Op& op) {
  return op.place.pass == Pass::Update;
}
bool touchesVariable(const Op& op) {
  return op.is(ir::kVariable) || op.is(ir::kAssign);
}

class BucketCutter {
 public:
  BucketCutter(const ir::Graph& graph, const CutOptions& options)
      : graph_(graph), options_(options) {
    for (const OpId id : graph.order()) {
      size_ = std::max(size_, id.index() + 1);
    }
    parent_.resize(size_);
    std::iota(parent_.begin(), parent_.end(), 0);
    grouped_.assign(size_, false);
    made_ = {std::vector<std::int32_t>(size_, -1), std::vector<bool>(size_, false), {}};
  }

  UpdateBuckets run() {
    joinByTensors();
    joinScalars();
    if (options_.phases) {
      findStages();
    }
    if (options_.phases || (options_.streamed != nullptr && !options_.streamed->empty())) {
      fillBuckets();
    }
    if (options_.phases) {
      findInLoop();
    }
    return std::move(made_);
  }

 private:
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    grouped_[a] = grouped_[b] = true;
    parent_[root(b)] = root(a);
  }
  /// The node of a variable: the first op that touches it.
  std::size_t nodeOf(const std::string& variable, std::size_t op) {
    return variables_.emplace(variable, op).first->second;
  }
  static bool isTensor(const TensorType& type) { return type.shape.rank() > 0; }

  void joinByTensors() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op) || op.is(ir::kConstant)) {
        continue;
      }
      for (const Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (producer.is(ir::kConstant) || !isTensor(graph_.type(v))) {
          continue;
        }
        join(id.index(), v.op.index());
        if (producer.is(ir::kVariable)) {
          join(id.index(), nodeOf(producer.attrs.text("var"), v.op.index()));
        }
      }
      if (touchesVariable(op)) {
        const std::string& name = op.attrs.text("var");
        if (isTensor(graph_.findVariable(name)->type)) {
          join(id.index(), nodeOf(name, id.index()));
        }
      }
    }
  }

  /// A scalar that only one group makes is that group's own.
  void joinScalars() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op) || op.is(ir::kConstant) || grouped_[id.index()] || touchesVariable(op)) {
        continue;
      }
      std::set<std::size_t> groups;
      for (const Value v : op.inputs) {
        if (isUpdate(graph_.op(v.op)) && grouped_[v.op.index()]) {
          groups.insert(root(v.op.index()));
        }
      }
      if (groups.size() == 1) {
        join(*groups.begin(), id.index());
      }
    }
  }

  /// Of each group the earliest stage that uses one of its variables or makes what it reads.
  void findStages() {
    const auto use = [&](std::size_t node, std::int32_t stage) {
      if (grouped_[node]) {
        const auto [known, isNew] = stageOfGroup_.emplace(root(node), stage);
        known->second = std::min(known->second, stage);
      }
    };
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (isUpdate(op)) {
        continue;
      }
      use(id.index(), op.place.stage);  // a value that the update reads
      for (const Value v : op.inputs) {
        if (graph_.op(v.op).is(ir::kVariable)) {
          useVariable(graph_.op(v.op), op.place.stage, use);
        }
      }
      if (op.is(ir::kAssign)) {
        useVariable(op, op.place.stage, use);
      }
    }
  }

  template <class F>
  void useVariable(const Op& op, std::int32_t stage, const F& use) const {
    const auto node = variables_.find(op.attrs.text("var"));
    if (node != variables_.end()) {
      use(node->second, stage);
    }
  }

  /// Streamed bytes of each group, by root.
  std::map<std::size_t, std::size_t> streamedBytes() {
    std::map<std::size_t, std::size_t> bytes;
    static const std::set<std::string, std::less<>> kNone;
    for (const std::string& name : options_.streamed != nullptr ? *options_.streamed : kNone) {
      const auto node = variables_.find(name);
      if (node != variables_.end() && grouped_[node->second]) {
        bytes[root(node->second)] += graph_.findVariable(name)->type.bytes();
      }
    }
    return bytes;
  }

  /// Groups of one stage and device fill buckets in the order of the graph. Without phases those
  /// that stream nothing need none.
  void fillBuckets() {
    std::map<std::size_t, std::size_t> bytes = streamedBytes();
    std::size_t most = 0;
    for (const auto& [group, count] : bytes) {
      most = options_.wholeUpdates ? most + count : std::max(most, count);
    }
    struct Open {
      std::int32_t bucket = -1;
      std::size_t bytes = 0;
    };
    std::map<std::pair<std::int32_t, std::int32_t>, Open> open;  // by stage and device
    std::map<std::size_t, std::int32_t> bucketOf;                // by root
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op) || !grouped_[id.index()]) {
        continue;
      }
      const std::size_t group = root(id.index());
      const auto stage = stageOfGroup_.find(group);
      if (options_.phases ? stage == stageOfGroup_.end() : !bytes.contains(group)) {
        continue;
      }
      const auto [known, isNew] = bucketOf.emplace(group, -1);
      if (isNew) {
        const std::int32_t of = options_.phases ? stage->second : 0;
        Open& current = open[{of, op.place.device}];
        if (current.bucket < 0 || current.bytes + bytes[group] > most) {
          current = {static_cast<std::int32_t>(made_.stage.size()), 0};
          made_.stage.push_back(of);
        }
        current.bytes += bytes[group];
        known->second = current.bucket;
      }
      made_.bucket[id.index()] = known->second;
    }
  }

  /// Where a bucket's phase runs.
  std::map<std::int32_t, std::int32_t> devicesOfStages() const {
    std::map<std::int32_t, std::int32_t> devices;
    for (const OpId id : graph_.order()) {
      const ir::Placement& place = graph_.op(id).place;
      if (place.pass != Pass::Update && place.stage >= 0) {
        devices.emplace(place.stage, place.device);
      }
    }
    return devices;
  }

  /// What serves all phases may run before the loop if the loop neither makes what it reads nor
  /// reads what it assigns; the rest of a bucket, behind its phase if it reads nothing else and is
  /// on the phase's device: another one would have to wait for it in the middle of its own phases.
  void findInLoop() {
    const std::map<std::int32_t, std::int32_t> deviceOfStage = devicesOfStages();
    std::set<std::string, std::less<>> readByLoop;
    std::set<std::string, std::less<>> assignedByLoop;
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op) && touchesVariable(op)) {
        (op.is(ir::kAssign) ? assignedByLoop : readByLoop).insert(op.attrs.text("var"));
      }
    }
    std::set<std::string, std::less<>>
        late;  // variables that something behind the loop has touched
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op)) {
        continue;
      }
      const std::int32_t bucket = made_.bucket[id.index()];
      bool inLoop = bucket < 0 || deviceOfStage.at(made_.stage[static_cast<std::size_t>(bucket)]) ==
                                      op.place.device;
      for (const Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (producer.is(ir::kConstant)) {
          continue;
        }
        if (isUpdate(producer)) {
          const std::int32_t other = made_.bucket[v.op.index()];
          inLoop = inLoop && made_.inLoop[v.op.index()] && (other == bucket || other < 0);
        } else {
          inLoop = inLoop && bucket >= 0;
        }
      }
      if (touchesVariable(op)) {
        const std::string& name = op.attrs.text("var");
        const bool early = bucket < 0 && (assignedByLoop.contains(name) ||
                                          (op.is(ir::kAssign) && readByLoop.contains(name)));
        inLoop = inLoop && !early && !late.contains(name);
        if (!inLoop) {
          late.insert(name);
        }
      }
      made_.inLoop[id.index()] = inLoop;
    }
  }

  const ir::Graph& graph_;
  const CutOptions& options_;
  std::size_t size_ = 0;
  std::vector<std::size_t> parent_;  // by OpId
  std::vector<bool> grouped_;
  std::map<std::string, std::size_t, std::less<>> variables_;
  std::map<std::size_t, std::int32_t> stageOfGroup_;  // by root
  UpdateBuckets made_;
};

}  // namespace

UpdateBuckets cutUpdate(const ir::Graph& graph, const CutOptions& options) {
  return BucketCutter(graph, options).run();
}

}  // namespace sluice::parallel
