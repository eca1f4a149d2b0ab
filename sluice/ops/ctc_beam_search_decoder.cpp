// ctc_beam_search_decoder: the label sequences that the most probability falls to, by prefix beam
// search. After each time step the `beamWidth` most likely prefixes are kept, each with the weight
// of the paths that end in a blank and of those that end in its last label, because only the former
// can be followed by that label once more:
//
//   "a" after a blank + a -> "aa"        "a" after an a + a -> "a"
//
// With a beam as wide as there are prefixes the probabilities are exact. Of equal ones the prefix
// that was met first comes first.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kRoot = 0;

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {{.name = "blank", .kind = ir::AttrKind::Int},
     {.name = "beamWidth", .kind = ir::AttrKind::Int, .integer = 100},
     {.name = "topPaths", .kind = ir::AttrKind::Int, .integer = 1}}};

double logSum(double x, double y) {
  const double top = std::max(x, y);
  return top == kNone ? kNone : top + std::log1p(std::exp(std::min(x, y) - top));
}

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireIndices(op, 1);
  const Shape& logs = op.inputs[0].shape;
  if (logs.rank() != 3 || op.inputs[1].shape != Shape{logs[1]}) {
    raise<InvalidArgument>(
        "ctc_beam_search_decoder: expected [steps, batch, classes] and lengths [batch], got {} and "
        "{}",
        op.inputs[0].str(),
        op.inputs[1].str());
  }
  const std::int64_t blank = op.integer("blank");
  const std::int64_t paths = op.integer("topPaths");
  if (blank < 0 || blank >= logs[2]) {
    raise<InvalidArgument>(
        "ctc_beam_search_decoder: blank {} is none of {} classes", blank, logs[2]);
  }
  if (paths < 1 || paths > op.integer("beamWidth")) {
    raise<InvalidArgument>(
        "ctc_beam_search_decoder: topPaths must be 1 to the beamWidth of {}, got {}",
        op.integer("beamWidth"),
        paths);
  }
  const Shape each{logs[1], paths};
  return {
      {op.inputs[0].dtype, each}, {DType::I64, each}, {DType::I64, Shape{logs[1], paths, logs[0]}}};
}

/// The prefixes met so far as a tree, and the beam.
class PrefixBeam {
 public:
  PrefixBeam(std::int64_t classes, std::int64_t blank, std::int64_t width)
      : classes_(classes), blank_(blank), width_(static_cast<std::size_t>(width)) {}

  struct Entry {
    std::int64_t prefix = kRoot;
    double endsInBlank = kNone;  ///< logs of summed probabilities
    double endsInLabel = kNone;
    double total() const { return logSum(endsInBlank, endsInLabel); }
  };

  void restart() {
    tree_.assign(1, {-1, -1});
    children_.clear();
    slots_.assign(1, -1);
    beam_.assign(1, {.prefix = kRoot, .endsInBlank = 0.0});
  }

  void step(const double* logs) {
    next_.clear();
    for (const Entry& entry : beam_) {
      const double total = entry.total();
      const std::int64_t last = tree_[static_cast<std::size_t>(entry.prefix)].label;
      for (std::int64_t label = 0; label < classes_; ++label) {
        const double log = logs[label];
        if (label == blank_) {
          add(entry.prefix, &Entry::endsInBlank, total + log);
        } else if (label == last) {
          add(entry.prefix, &Entry::endsInLabel, entry.endsInLabel + log);
          extend(entry.prefix, label, entry.endsInBlank + log);
        } else {
          extend(entry.prefix, label, total + log);
        }
      }
    }
    for (const Entry& entry : next_) {
      slots_[static_cast<std::size_t>(entry.prefix)] = -1;
    }
    const std::size_t kept = std::min(width_, next_.size());
    std::ranges::partial_sort(
        next_, next_.begin() + static_cast<std::ptrdiff_t>(kept), [](const auto& x, const auto& y) {
          const double first = x.total();
          const double second = y.total();
          return first != second ? first > second : x.prefix < y.prefix;
        });
    next_.resize(kept);
    beam_.swap(next_);
  }

  /// The best first.
  const std::vector<Entry>& entries() const { return beam_; }

  std::vector<std::int64_t> labels(std::int64_t prefix) const {
    std::vector<std::int64_t> result;
    for (; prefix != kRoot; prefix = tree_[static_cast<std::size_t>(prefix)].parent) {
      result.push_back(tree_[static_cast<std::size_t>(prefix)].label);
    }
    std::ranges::reverse(result);
    return result;
  }

 private:
  struct Prefix {
    std::int64_t parent;
    std::int64_t label;
  };

  void add(std::int64_t prefix, double Entry::*sum, double log) {
    if (log == kNone || std::isnan(log)) {
      return;
    }
    std::int64_t& slot = slots_[static_cast<std::size_t>(prefix)];
    if (slot < 0) {
      slot = static_cast<std::int64_t>(next_.size());
      next_.push_back({.prefix = prefix});
    }
    double& value = next_[static_cast<std::size_t>(slot)].*sum;
    value = logSum(value, log);
  }

  void extend(std::int64_t prefix, std::int64_t label, double log) {
    if (log == kNone || std::isnan(log)) {
      return;
    }
    const auto [child, fresh] =
        children_.emplace(prefix * classes_ + label, static_cast<std::int64_t>(tree_.size()));
    if (fresh) {
      tree_.push_back({prefix, label});
      slots_.push_back(-1);
    }
    add(child->second, &Entry::endsInLabel, log);
  }

  std::int64_t classes_;
  std::int64_t blank_;
  std::size_t width_;
  std::vector<Prefix> tree_;
  std::unordered_map<std::int64_t, std::int64_t> children_;  // prefix and label -> prefix
  std::vector<std::int64_t> slots_;                          // per prefix, its place in next_
  std::vector<Entry> beam_;
  std::vector<Entry> next_;
};

std::int64_t lengthOf(const ir::KernelArgs& args, std::int64_t item) {
  const auto i = static_cast<std::size_t>(item);
  const std::int64_t length = args.op.inputs[1].dtype == DType::I32 ? args.in<std::int32_t>(1)[i]
                                                                    : args.in<std::int64_t>(1)[i];
  const std::int64_t steps = args.op.inputs[0].shape[0];
  if (length < 0 || length > steps) {
    raise<InvalidArgument>(
        "ctc_beam_search_decoder: length {} is out of range, 0 to {}", length, steps);
  }
  return length;
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const std::int64_t steps = shape[0];
  const auto paths = static_cast<std::size_t>(args.op.integer("topPaths"));
  const std::vector<double> logs = loadDoubles(args, 0);
  const auto lengths = args.out<std::int64_t>(1);
  const auto labels = args.out<std::int64_t>(2);
  std::vector<double> probabilities(lengths.size(), 0.0);
  std::ranges::fill(lengths, 0);
  std::ranges::fill(labels, args.op.integer("blank"));
  PrefixBeam beam(shape[2], args.op.integer("blank"), args.op.integer("beamWidth"));
  for (std::int64_t item = 0; item < shape[1]; ++item) {
    beam.restart();
    const std::int64_t length = lengthOf(args, item);
    for (std::int64_t t = 0; t < length; ++t) {
      beam.step(logs.data() + (t * shape[1] + item) * shape[2]);
    }
    for (std::size_t p = 0; p < std::min(paths, beam.entries().size()); ++p) {
      const std::size_t at = static_cast<std::size_t>(item) * paths + p;
      const std::vector<std::int64_t> path = beam.labels(beam.entries()[p].prefix);
      probabilities[at] = std::exp(beam.entries()[p].total());
      lengths[at] = static_cast<std::int64_t>(path.size());
      std::ranges::copy(path, labels.begin() + static_cast<std::ptrdiff_t>(at) * steps);
    }
  }
  storeDoubles(args, 0, probabilities);
}

ir::Cost cost(const ir::OpView& op) {
  const double work = static_cast<double>(op.inputs[0].shape.elements()) *
                      static_cast<double>(op.integer("beamWidth"));
  return costOfFlops(op, 8 * work);
}

}  // namespace

constinit const ir::OpDef kCtcBeamSearchDecoder{.name = "ctc_beam_search_decoder",
                                                .minInputs = 2,
                                                .maxInputs = 2,
                                                .outputs = 3,
                                                .attrs = kAttrs,
                                                .infer = infer,
                                                .cost = cost,
                                                .reference = reference};

CtcDecoded ctcBeamSearchDecoder(GraphBuilder& b,
                                Value logProbabilities,
                                Value lengths,
                                const CtcDecoderOptions& options) {
  const std::vector<Value> results = b.addMany(
      kCtcBeamSearchDecoder,
      {logProbabilities, lengths},
      {{"blank", options.blank}, {"beamWidth", options.beamWidth}, {"topPaths", options.topPaths}});
  return {.probabilities = results[0], .lengths = results[1], .paths = results[2]};
}

}  // namespace sluice::ops
