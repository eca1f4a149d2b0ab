#include "sluice/transforms/eliminate_common.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "sluice/base/hash.h"
#include "sluice/transforms/purity.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

/// An op that later ones may equal, as it is after the merges so far.
struct Candidate {
  OpId id;
  std::vector<Value> inputs;
  std::int64_t version = 0;  ///< of the variable it reads
};

class Merger {
 public:
  explicit Merger(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.is(ir::kAssign)) {
        ++versions_[op.attrs.text("var")];
      } else if (isPure(op)) {
        visit(op);
      }
    }
    graph_.replaceUses(replacements_);
    graph_.remove(merged_);
    return !merged_.empty();
  }

 private:
  void visit(const Op& op) {
    Candidate candidate{op.id, op.inputs, 0};
    for (Value& v : candidate.inputs) {
      const auto found = replacements_.find(v);
      v = found == replacements_.end() ? v : found->second;
    }
    if (op.is(ir::kVariable)) {
      candidate.version = versions_[op.attrs.text("var")];
    }
    std::vector<Candidate>& bucket = seen_[hash(op, candidate)];
    const auto same = std::ranges::find_if(bucket, [&](const Candidate& other) {
      const Op& first = graph_.op(other.id);
      return first.def == op.def && other.inputs == candidate.inputs &&
             other.version == candidate.version && first.place == op.place &&
             first.outputs == op.outputs && first.attrs == op.attrs;
    });
    if (same == bucket.end()) {
      bucket.push_back(std::move(candidate));
      return;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      replacements_.emplace(op.out(i), graph_.op(same->id).out(i));
    }
    merged_.push_back(op.id);
  }

  static std::uint64_t hash(const Op& op, const Candidate& candidate) {
    Hasher hasher;
    hasher.add(op.def->name).add(candidate.version).add(ir::structuralHash(op.attrs));
    for (const Value v : candidate.inputs) {
      hasher.add(v.op.value).add(static_cast<int>(v.out));
    }
    return hasher.digest();
  }

  ir::Graph& graph_;
  std::unordered_map<std::uint64_t, std::vector<Candidate>> seen_;
  std::unordered_map<std::string, std::int64_t> versions_;
  std::unordered_map<Value, Value> replacements_;
  std::vector<OpId> merged_;
};

}  // namespace

bool eliminateCommon(ir::Graph& graph) {
  return Merger(graph).run();
}

}  // namespace sluice::transforms
