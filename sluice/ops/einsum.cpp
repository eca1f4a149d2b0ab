// einsum: sums of products by index letters, as NumPy's: "ij,jk->ik". An ellipsis stands for axes
// that are broadcast, a letter twice in one operand for its diagonal. Operands are combined from
// the left: by a matmul where an index is summed, else by a product.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "equation", .kind = ir::AttrKind::Text, .required = true}}};

/// A letter, or for an axis of the ellipsis 256 + its place counted from the right.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool contains(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

struct Equation {
  std::vector<Labels> operands;
  Labels output;
  std::map<Label, std::int64_t> extents;
};

bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// One side of a comma; `axes` is how many the ellipsis stands for.
Labels parseTerm(const std::string& term, std::int64_t axes) {
  Labels labels;
  bool seen = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (isLetter(term[i])) {
      labels.push_back(term[i]);
    } else if (term.compare(i, 3, "...") == 0 && !seen) {
      for (std::int64_t k = axes; k-- > 0;) {
        labels.push_back(kEllipsis + static_cast<Label>(k));
      }
      seen = true;
      i += 2;
    } else {
      raise<InvalidArgument>("einsum: '{}' has '{}' where a letter is expected", term, term[i]);
    }
  }
  return labels;
}

std::vector<std::string> splitTerms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (const char c : text) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

/// How many axes the ellipsis of a term stands for; 0 without one.
std::int64_t ellipsisAxes(const std::string& term, const TensorType& type) {
  const auto letters = static_cast<std::int64_t>(std::ranges::count_if(term, isLetter));
  const bool open = term.find("...") != std::string::npos;
  const std::int64_t axes = type.shape.rank() - letters;
  if (axes < 0 || (axes > 0 && !open)) {
    raise<InvalidArgument>(
        "einsum: '{}' names {} axes, the operand is {}", term, letters, type.str());
  }
  return axes;
}

void readExtents(const Labels& labels, const Shape& shape, Equation& equation) {
  std::map<Label, std::int64_t> own;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t extent = shape.dims()[i];
    std::int64_t& known = equation.extents.emplace(labels[i], extent).first->second;
    const bool fits = own.emplace(labels[i], extent).first->second == extent;
    if (!fits || (known != extent && known != 1 && extent != 1)) {
      raise<InvalidArgument>(
          "einsum: axis {} of {} does not fit the same index elsewhere, which "
          "has the extent {}",
          i,
          shape.str(),
          known);
    }
    known = known == 1 ? extent : known;
  }
}

/// The axes of the ellipsis, then all letters that stand in one place only, sorted.
Labels implicitOutput(const Equation& equation, std::int64_t axes) {
  std::map<Label, int> counts;
  for (const Labels& labels : equation.operands) {
    for (const Label label : labels) {
      ++counts[label];
    }
  }
  Labels output = parseTerm("...", axes);
  for (const auto& [label, count] : counts) {
    if (label < kEllipsis && count == 1) {
      output.push_back(label);
    }
  }
  return output;
}

Equation parse(const ir::OpView& op) {
  std::string text = op.attrs.text("equation");
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::vector<std::string> terms = splitTerms(text.substr(0, arrow));
  if (terms.size() != op.inputs.size()) {
    raise<InvalidArgument>(
        "einsum: '{}' has {} operands, got {}", text, terms.size(), op.inputs.size());
  }
  Equation equation;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::int64_t axes = ellipsisAxes(terms[i], op.inputs[i]);
    most = std::max(most, axes);
    equation.operands.push_back(parseTerm(terms[i], axes));
    readExtents(equation.operands.back(), op.inputs[i].shape, equation);
  }
  equation.output = arrow == std::string::npos ? implicitOutput(equation, most)
                                               : parseTerm(text.substr(arrow + 2), most);
  for (const Label label : equation.output) {
    if (!equation.extents.contains(label) || std::ranges::count(equation.output, label) > 1) {
      raise<InvalidArgument>(
          "einsum: an index of the result of '{}' is in no operand or there "
          "twice",
          text);
    }
  }
  return equation;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  requireSameDType(op);
  const Equation equation = parse(op);
  std::vector<std::int64_t> dims;
  for (const Label label : equation.output) {
    dims.push_back(equation.extents.at(label));
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

/// A tensor whose axes have names.
struct Part {
  Value value;
  Labels labels;
};

class Contraction {
 public:
  Contraction(GraphBuilder& b, const Equation& equation) : b_(b), equation_(equation) {}

  Value run(std::span<const Value> inputs) {
    Part result = prepared({inputs[0], equation_.operands[0]}, 0, {});
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const Part next = prepared({inputs[i], equation_.operands[i]}, i, result.labels);
      const Labels kept = wantedAfter(i);
      const bool sums = std::ranges::any_of(next.labels, [&](Label label) {
        return contains(result.labels, label) && !contains(kept, label);
      });
      result = sums ? multiplied(result, next, kept) : product(result, next);
    }
    return arranged(result, equation_.output).value;
  }

 private:
  /// The indices that operands behind the i-th or the result have.
  Labels wantedAfter(std::size_t i) const {
    Labels wanted = equation_.output;
    for (std::size_t k = i + 1; k < equation_.operands.size(); ++k) {
      wanted.insert(wanted.end(), equation_.operands[k].begin(), equation_.operands[k].end());
    }
    return wanted;
  }

  std::vector<std::int64_t> dimsOf(const Labels& labels) const {
    std::vector<std::int64_t> dims;
    for (const Label label : labels) {
      dims.push_back(equation_.extents.at(label));
    }
    return dims;
  }

  std::int64_t elementsOf(const Labels& labels) const { return Shape(dimsOf(labels)).elements(); }

  /// Every index once, none that only this operand has and nobody wants, none to be broadcast.
  Part prepared(Part part, std::size_t i, const Labels& others) {
    while (takeDiagonal(part)) {
    }
    dropBroadcast(part);
    const Labels wanted = wantedAfter(i);
    std::vector<std::int64_t> axes;
    Labels left;
    for (std::size_t axis = 0; axis < part.labels.size(); ++axis) {
      const Label label = part.labels[axis];
      if (contains(wanted, label) || contains(others, label)) {
        left.push_back(label);
      } else {
        axes.push_back(static_cast<std::int64_t>(axis));
      }
    }
    return axes.empty() ? part : Part{reduceSum(b_, part.value, axes), left};
  }

  /// The diagonal over the first index that occurs twice: every (n + 1)-th of n n elements.
  bool takeDiagonal(Part& part) {
    const auto twice = std::ranges::find_if(
        part.labels, [&](Label label) { return std::ranges::count(part.labels, label) > 1; });
    if (twice == part.labels.end()) {
      return false;
    }
    const Label label = *twice;
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> last;
    Labels left;
    std::vector<std::int64_t> dims;
    for (std::size_t axis = 0; axis < part.labels.size(); ++axis) {
      const bool taken = part.labels[axis] == label && last.size() < 2;
      (taken ? last : order).push_back(static_cast<std::int64_t>(axis));
      if (!taken) {
        left.push_back(part.labels[axis]);
        dims.push_back(b_.shape(part.value)[static_cast<std::int64_t>(axis)]);
      }
    }
    const std::int64_t n = b_.shape(part.value)[last[0]];
    order.insert(order.end(), last.begin(), last.end());
    dims.push_back(n * n);
    const Value flat = reshape(b_, transpose(b_, part.value, order), Shape(dims));
    std::vector<std::int64_t> steps(dims.size(), 1);
    steps.back() = n + 1;
    left.push_back(label);
    part = {slice(b_, flat, std::vector<std::int64_t>(dims.size(), 0), dims, steps), left};
    return true;
  }

  /// Axes of extent 1 that stand for more elsewhere.
  void dropBroadcast(Part& part) {
    Labels left;
    const Shape shape = b_.shape(part.value);
    for (std::size_t axis = 0; axis < part.labels.size(); ++axis) {
      if (shape.dims()[axis] == equation_.extents.at(part.labels[axis])) {
        left.push_back(part.labels[axis]);
      }
    }
    if (left.size() < part.labels.size()) {
      part = {reshape(b_, part.value, Shape(dimsOf(left))), left};
    }
  }

  /// The same axes in the order of `labels`, which has them all.
  Part arranged(const Part& part, const Labels& labels) {
    std::vector<std::int64_t> order;
    Labels sorted;
    for (const Label label : labels) {
      const auto at = std::ranges::find(part.labels, label);
      if (at != part.labels.end()) {
        order.push_back(at - part.labels.begin());
        sorted.push_back(label);
      }
    }
    return std::ranges::is_sorted(order) ? part : Part{transpose(b_, part.value, order), sorted};
  }

  /// Without a sum: both with all axes, those that one has not with extent 1.
  Part product(const Part& x, const Part& y) {
    Labels all = x.labels;
    std::ranges::copy_if(
        y.labels, std::back_inserter(all), [&](Label label) { return !contains(x.labels, label); });
    const auto spread = [&](const Part& part) {
      const Part sorted = arranged(part, all);
      std::vector<std::int64_t> dims;
      for (const Label label : all) {
        dims.push_back(contains(part.labels, label) ? equation_.extents.at(label) : 1);
      }
      return reshape(b_, sorted.value, Shape(std::move(dims)));
    };
    const Value left = spread(x);
    return {mul(b_, left, spread(y)), all};
  }

  Part multiplied(const Part& x, const Part& y, const Labels& kept) {
    Labels batch;
    Labels summed;
    Labels rows;
    Labels columns;
    for (const Label label : x.labels) {
      const bool shared = contains(y.labels, label);
      (!shared ? rows : contains(kept, label) ? batch : summed).push_back(label);
    }
    std::ranges::copy_if(y.labels, std::back_inserter(columns), [&](Label label) {
      return !contains(x.labels, label);
    });
    const auto matrices = [&](const Part& part, const Labels& first, const Labels& second) {
      Labels order = batch;
      order.insert(order.end(), first.begin(), first.end());
      order.insert(order.end(), second.begin(), second.end());
      const Shape shape{elementsOf(batch), elementsOf(first), elementsOf(second)};
      return reshape(b_, arranged(part, order).value, shape);
    };
    const Value left = matrices(x, rows, summed);
    const Value result = matmul(b_, left, matrices(y, summed, columns));
    Labels all = batch;
    all.insert(all.end(), rows.begin(), rows.end());
    all.insert(all.end(), columns.begin(), columns.end());
    return {reshape(b_, result, Shape(dimsOf(all))), all};
  }

  GraphBuilder& b_;
  const Equation& equation_;
};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Equation equation = parse(op);
  return {Contraction(b, equation).run(inputs)};
}

constexpr ir::OnnxName kOnnx[] = {{"Einsum", 12}};

}  // namespace

constinit const ir::OpDef kEinsum{.name = "einsum",
                                  .maxInputs = ir::kVariadic,
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .decompose = decompose,
                                  .onnx = kOnnx};

Value einsum(GraphBuilder& b, std::string_view equation, std::vector<Value> operands) {
  return b.add(kEinsum, std::move(operands), {{"equation", equation}});
}

}  // namespace sluice::ops
