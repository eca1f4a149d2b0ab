#include "sluice/parallel/annotate_phases.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/parallel/leaf.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;

class Annotator {
 public:
  Annotator(ir::Graph& graph, const AnnotatePhases& options) : graph_(graph), options_(options) {
    for (const OpId id : graph.order()) {
      if (!isLeaf(graph.op(id)) && graph.op(id).place.pass == ir::Pass::Forward) {
        ops_.push_back(id);
      }
    }
  }

  void run() {
    cutByWeights();
    for (const OpId id : ops_) {
      setPhase(id);
    }
    setStages();
  }

 private:
  /// Bytes of weights that have been read when each op is done.
  void cutByWeights() {
    std::set<std::string, std::less<>> seen;
    std::int64_t total = 0;
    for (const OpId id : ops_) {
      for (const ir::Value v : graph_.op(id).inputs) {
        const Op& read = graph_.op(v.op);
        if (read.is(ir::kVariable) && seen.insert(read.attrs.text("var")).second) {
          total += static_cast<std::int64_t>(graph_.type(v).bytes());
        }
      }
      read_[id] = total;
    }
    total_ = std::max<std::int64_t>(total, 1);
  }

  std::int32_t evenPhase(OpId id) const {
    const std::int64_t read = std::max<std::int64_t>(read_.at(id), 1);
    return static_cast<std::int32_t>((read - 1) * options_.phases / total_);
  }

  void setPhase(OpId id) {
    const Op& op = graph_.op(id);
    std::int32_t earliest = 0;
    const Op* latest = nullptr;
    for (const ir::Value v : op.inputs) {
      const Op& producer = graph_.op(v.op);
      if (!isLeaf(producer) && producer.place.phase >= earliest) {
        earliest = producer.place.phase;
        latest = &producer;
      }
    }
    ir::Placement place = op.place;
    const bool annotated = options_.annotated && place.phase >= 0;
    if (annotated && place.phase >= options_.phases) {
      raise<InvalidArgument>(
          "op '{}' is in execution phase {}, and there are {}: phases are numbered from 0",
          op.name,
          place.phase,
          options_.phases);
    }
    if (annotated && place.phase < earliest) {
      raise<InvalidArgument>(
          "op '{}' of phase {} reads '{}', which is made in phase {}: data may not flow to an "
          "earlier phase",
          op.name,
          place.phase,
          latest->name,
          earliest);
    }
    place.phase = annotated ? place.phase : std::max(earliest, evenPhase(id));
    if (!options_.annotated || place.device < 0) {
      place.device = place.phase % options_.groups;
    }
    place.block = -1;  // blocks say nothing here
    graph_.setPlacement(id, place);
  }

  void setStages() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> stages;  // by phase and device
    for (const OpId id : ops_) {
      stages.emplace(std::pair(graph_.op(id).place.phase, graph_.op(id).place.device), 0);
    }
    std::int32_t next = 0;
    for (auto& [where, stage] : stages) {
      stage = next++;
    }
    for (const OpId id : ops_) {
      ir::Placement place = graph_.op(id).place;
      place.stage = stages.at({place.phase, place.device});
      graph_.setPlacement(id, place);
    }
  }

  ir::Graph& graph_;
  const AnnotatePhases& options_;
  std::vector<OpId> ops_;
  std::map<OpId, std::int64_t> read_;
  std::int64_t total_ = 1;
};

}  // namespace

void annotatePhases(ir::Graph& graph, const AnnotatePhases& options) {
  Annotator(graph, options).run();
}

}  // namespace sluice::parallel
