// The gradient of a loop's body: the body itself, followed by its gradient, of which the ops that
// results depend on become the body of the backward loop. loop_gradient.cpp says what it is for.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "sluice/ops/control_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/differentiator.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;
using ops::LoopView;

/// The body with its gradient, for one set of carried values that have one.
class BodyGradient {
 public:
  BodyGradient(const LoopView& loop,
               const std::vector<bool>& neededInputs,
               const std::vector<bool>& given)
      : loop_(loop),
        graph_(loop.body),
        inputs_(loop.body.inputs()),
        needed_(neededInputs),
        given_(given),
        walk_(graph_, wanted()) {
    addSeeds();
    walk_.run();
    findFixed();
  }

  /// Whether input i of the body gets a gradient from it.
  bool reaches(std::size_t i) const {
    const Value gradient = walk_.gradientOf(input(i));
    return needed_[i] && gradient.valid() && gradient != startOf(i);
  }

  LoopGradient result() {
    for (std::size_t i = 0; i < loop_.carried; ++i) {
      if (given_[i] && walk_.needs(output(i))) {
        gradient_.carriedGrads.push_back(i);
        gradient_.reachesStart.push_back(reaches(i));
      }
    }
    for (std::size_t i = loop_.carried; i < inputs_.size(); ++i) {
      if (reaches(i)) {
        (loop_.isScanned(i) ? gradient_.rows : gradient_.sums).push_back(i);
      }
    }
    findOutputs();
    findLive();
    findReads();
    build();
    if (!gradient_.saved.empty()) {
      gradient_.forward = withSavedRows();
    }
    return std::move(gradient_);
  }

 private:
  Value input(std::size_t i) const { return {inputs_[i], 0}; }
  Value output(std::size_t i) const { return graph_.outputs()[i].value; }
  Value startOf(std::size_t i) const {
    const auto found = starts_.find(i);
    return found == starts_.end() ? Value() : found->second;
  }

  std::vector<Value> wanted() const {
    std::vector<Value> values;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (needed_[i]) {
        values.push_back(input(i));
      }
    }
    return values;
  }

  /// An input of the gradient of the type of this value.
  Value seed(Value like) {
    walk_.builder().place = {.pass = ir::Pass::Backward};
    return walk_.builder().input(fmt::format("seed{}", seeds_++), graph_.type(like));
  }

  /// The gradients that an iteration begins with, in the order of the unrolled form.
  void addSeeds() {
    for (std::size_t i = loop_.carried + loop_.scanned; i < inputs_.size(); ++i) {
      if (needed_[i]) {
        starts_.emplace(i, seed(input(i)));
        walk_.contribute(input(i), starts_.at(i));
      }
    }
    for (std::size_t i = 0; i < loop_.carried; ++i) {
      addSeed(i, !loop_.isCopied(i));
    }
    for (std::size_t i = graph_.outputs().size(); i-- > 0;) {
      addSeed(i, i >= loop_.carried || loop_.isCopied(i));
    }
  }

  void addSeed(std::size_t i, bool now) {
    if (now && given_[i] && walk_.needs(output(i))) {
      const Value made = seed(output(i));
      seedOf_.emplace(i, made);
      walk_.contribute(output(i), made);
    }
  }

  /// Also true for a loop inside the body that was given more rows.
  bool isForward(OpId id) const { return graph_.op(id).place.pass == ir::Pass::Forward; }

  /// What the backward body returns: carried gradients, sums, rows.
  void findOutputs() {
    walk_.builder().place = {.pass = ir::Pass::Backward};
    for (std::size_t k = 0; k < gradient_.carriedGrads.size(); ++k) {
      const Value at = input(gradient_.carriedGrads[k]);
      results_.push_back(gradient_.reachesStart[k] ? walk_.gradientOf(at)
                                                   : noGradient(walk_.builder(), graph_.type(at)));
    }
    for (const std::vector<std::size_t>* list : {&gradient_.sums, &gradient_.rows}) {
      for (const std::size_t i : *list) {
        results_.push_back(walk_.gradientOf(input(i)));
      }
    }
  }

  /// The ops of the gradient that its results depend on.
  void findLive() {
    live_.assign(graph_.numIds(), false);
    for (const Value v : results_) {
      live_[v.op.index()] = true;
    }
    for (std::size_t i = graph_.numOps(); i-- > 0;) {
      const Op& op = graph_.op(graph_.order()[i]);
      if (!live_[op.id.index()] || (isForward(op.id) && !isRepeated(op.out()))) {
        continue;
      }
      for (const Value v : op.inputs) {
        live_[v.op.index()] = true;
      }
    }
  }

  /// Whether a value of the body is computed again: it depends on fixed inputs alone, or is a view.
  bool isRepeated(Value v) const {
    const Op& op = graph_.op(v.op);
    if (op.is(ir::kInput)) {
      return false;
    }
    return op.def->traits.view || op.is(ir::kConstant) || fixed_[v.op.index()];
  }
  void findFixed() {
    fixed_.assign(graph_.numIds(), false);
    for (std::size_t i = loop_.carried + loop_.scanned; i < inputs_.size(); ++i) {
      fixed_[inputs_[i].index()] = true;
    }
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!op.is(ir::kInput)) {
        fixed_[id.index()] = std::ranges::all_of(
            op.inputs, [&](Value v) { return static_cast<bool>(fixed_[v.op.index()]); });
      }
    }
  }

  /// The values of the body that ops of the gradient, or its results, read.
  void findReads() {
    std::vector<Value> reads = results_;
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (live_[id.index()] && (!isForward(id) || isRepeated(op.out()))) {
        reads.insert(reads.end(), op.inputs.begin(), op.inputs.end());
      }
    }
    for (const Value v : reads) {
      if (isForward(v.op) && !isRepeated(v)) {
        addRead(v);
      }
    }
    for (std::size_t i = loop_.carried; i < graph_.outputs().size(); ++i) {
      if (seedOf_.contains(i)) {
        gradient_.rowGrads.push_back(i);
      }
    }
  }

  static void addOnce(std::vector<std::size_t>& list, std::size_t i) {
    if (std::ranges::find(list, i) == list.end()) {
      list.push_back(i);
    }
  }

  void addRead(Value v) {
    const auto at = std::ranges::find(inputs_, v.op);
    const auto i = static_cast<std::size_t>(at - inputs_.begin());
    if (at != inputs_.end() && !loop_.isCarried(i)) {
      addOnce(loop_.isScanned(i) ? gradient_.scannedReads : gradient_.fixedReads, i);
    } else if (std::ranges::find(gradient_.saved, v) == gradient_.saved.end()) {
      gradient_.saved.push_back(v);
    }
  }

  /// The backward body: its inputs in the order of the loop's operands, then the live ops.
  void build() {
    ir::Graph body("grad/" + graph_.name());
    ir::GraphBuilder b(body);
    std::unordered_map<Value, Value> values;
    const auto take = [&](Value v) {
      const std::string name = fmt::format("in{}", body.inputs().size());
      values.emplace(v, b.input(name, graph_.type(v)));
    };
    for (const std::size_t i : gradient_.carriedGrads) {
      take(seedOf_.at(i));
    }
    for (const std::size_t i : gradient_.sums) {
      take(startOf(i));
    }
    for (const std::size_t i : gradient_.rowGrads) {
      take(seedOf_.at(i));
    }
    for (const std::size_t i : gradient_.scannedReads) {
      take(input(i));
    }
    for (const Value v : gradient_.saved) {
      take(v);
    }
    for (const std::size_t i : gradient_.fixedReads) {
      take(input(i));
    }
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      const bool copied = !op.is(ir::kInput) && (!isForward(id) || isRepeated(op.out()));
      if (live_[id.index()] && copied) {
        copy(body, op, values);
      }
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      body.addOutput(fmt::format("out{}", i), values.at(results_[i]));
    }
    gradient_.body = std::make_shared<const ir::Graph>(std::move(body));
  }

  static void copy(ir::Graph& body, const Op& op, std::unordered_map<Value, Value>& values) {
    std::vector<Value> inputs;
    for (const Value v : op.inputs) {
      inputs.push_back(values.at(v));
    }
    const OpId made = body.append(
        {.def = *op.def, .inputs = std::move(inputs), .attrs = op.attrs, .name = op.name});
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      values.emplace(op.out(i), body.op(made).out(i));
    }
  }

  /// The body that also returns what the gradient needs.
  ir::GraphRef withSavedRows() const {
    ir::Graph body = graph_;
    std::vector<OpId> gone;
    for (const OpId id : body.order()) {
      if (!isForward(id)) {
        gone.push_back(id);
      }
    }
    body.remove(gone);
    for (const Value v : gradient_.saved) {
      body.addOutput(fmt::format("out{}", body.outputs().size()), v);
    }
    return std::make_shared<const ir::Graph>(std::move(body));
  }

  LoopView loop_;
  ir::Graph graph_;
  std::vector<OpId> inputs_;
  std::vector<bool> needed_;
  std::vector<bool> given_;
  Differentiator walk_;
  std::size_t seeds_ = 0;
  std::unordered_map<std::size_t, Value> starts_;  // by input: what its sum begins with
  std::unordered_map<std::size_t, Value> seedOf_;  // by output
  std::vector<Value> results_;
  std::vector<bool> live_;
  std::vector<bool> fixed_;  // by op: it depends on fixed inputs alone
  LoopGradient gradient_;
};

/// Carried values want a gradient if what they become in a later iteration does.
std::vector<bool> withCarried(const LoopView& loop, std::vector<bool> needed) {
  const std::vector<OpId> inputs = loop.body.inputs();
  for (bool changed = true; changed;) {
    changed = false;
    ir::Graph copy = loop.body;
    std::vector<Value> wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (needed[i]) {
        wanted.push_back({inputs[i], 0});
      }
    }
    const Differentiator walk(copy, wanted);
    for (std::size_t i = 0; i < loop.carried; ++i) {
      if (!needed[i] && walk.needs(loop.body.outputs()[i].value) &&
          isFloat(loop.body.type({inputs[i], 0}).dtype)) {
        needed[i] = changed = true;
      }
    }
  }
  return needed;
}

}  // namespace

Value noGradient(ir::GraphBuilder& b, const TensorType& type) {
  return ops::full(b, type, -0.0);
}

LoopGradient differentiateBody(const ir::Attrs& attrs,
                               const std::vector<bool>& needed,
                               const std::vector<bool>& given) {
  const LoopView loop(attrs);
  const std::vector<bool> inputs = withCarried(loop, needed);
  std::vector<bool> outputs = given;
  // A carried value also has a gradient if an iteration gives one to what it was before.
  for (bool changed = true; changed;) {
    changed = false;
    const BodyGradient body(loop, inputs, outputs);
    for (std::size_t i = 0; i < loop.carried; ++i) {
      if (!outputs[i] && body.reaches(i)) {
        outputs[i] = changed = true;
      }
    }
  }
  return BodyGradient(loop, inputs, outputs).result();
}

}  // namespace sluice::transforms
