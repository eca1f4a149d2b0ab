// The forms of single ops in ONNX. An op without an entry whose OpDef has an ONNX name is written
// under it with its attributes as they are; a form that would import as something else is refused,
// and the op goes to our own domain. The tests import the export of every conformance case.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;
using Form = bool (*)(ModelWriter&, const ir::Op&);

bool notStandard(ModelWriter& /*writer*/, const ir::Op& /*op*/) {
  return false;
}

bool cast(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op, {"Cast", writer.operands(op), {{"to", onnxTypeOf(op.outputs[0].dtype)}}});
  return true;
}

bool reshape(ModelWriter& writer, const ir::Op& op) {
  const Ints& dims = op.outputs[0].shape.dims();
  std::vector<ir::NamedAttr> attrs;
  if (std::ranges::find(dims, 0) != dims.end()) {
    attrs.emplace_back("allowzero", 1);
  }
  writer.addNode(op, {"Reshape", {writer.operands(op)[0], writer.integers(dims)}, attrs});
  return true;
}

bool expand(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Expand", {writer.operands(op)[0], writer.integers(op.outputs[0].shape.dims())}});
  return true;
}

/// The importer hands transpositions on to the products that read them.
bool transpose(ModelWriter& writer, const ir::Op& op) {
  if (writer.isReadBy(op.out(), ops::kMatMul)) {
    return false;
  }
  writer.addNode(op,
                 {"Transpose", writer.operands(op), {{"perm", op.attrs.integers("permutation")}}});
  return true;
}

bool slice(ModelWriter& writer, const ir::Op& op) {
  const Ints& steps = op.attrs.integers("steps");
  const Ints& starts = op.attrs.integers("starts");
  if (steps.size() != starts.size()) {
    return false;  // the importer always gives steps
  }
  Ints axes(starts.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i] = static_cast<std::int64_t>(i);
  }
  writer.addNode(op,
                 {"Slice",
                  {writer.operands(op)[0],
                   writer.integers(starts),
                   writer.integers(op.attrs.integers("ends")),
                   writer.integers(axes),
                   writer.integers(steps)}});
  return true;
}

bool split(ModelWriter& writer, const ir::Op& op) {
  const std::int64_t axis = op.attrs.integer("axis");
  if (axis < 0) {
    return false;
  }
  writer.addNode(op,
                 {"Split",
                  {writer.operands(op)[0], writer.integers(op.attrs.integers("sizes"))},
                  {{"axis", axis}}});
  return true;
}

bool tile(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Tile", {writer.operands(op)[0], writer.integers(op.attrs.integers("repeats"))}});
  return true;
}

bool pad(ModelWriter& writer, const ir::Op& op) {
  Ints pads = op.attrs.integers("before");
  const Ints& after = op.attrs.integers("after");
  pads.insert(pads.end(), after.begin(), after.end());
  const DType dtype = op.outputs[0].dtype;
  const HostTensor value = HostTensor::full({dtype, Shape{}}, op.attrs.real("value"));
  if (value.at(0) != op.attrs.real("value")) {
    return false;
  }
  writer.addNode(op,
                 {"Pad",
                  {writer.operands(op)[0], writer.integers(pads), writer.constant(value)},
                  {{"mode", op.attrs.text("mode")}}});
  return true;
}

/// Only ReduceSum has its axes as an operand in opset 17.
bool reduce(ModelWriter& writer, const ir::Op& op) {
  const Ints& axes = op.attrs.integers("axes");
  NewNode node{op.def->onnx.back().name,
               writer.operands(op),
               {{"keepdims", op.attrs.flag("keepDims") ? 1 : 0}}};
  if (!axes.empty() && node.op == "ReduceSum") {
    node.inputs.push_back(writer.integers(axes));
  } else if (!axes.empty()) {
    node.attrs.emplace_back("axes", axes);
  }
  writer.addNode(op, std::move(node));
  return true;
}

bool matmul(ModelWriter& writer, const ir::Op& op) {
  const bool a = op.attrs.flag("transposeA");
  const bool b = op.attrs.flag("transposeB");
  if (!a && !b) {
    writer.addNode(op, {"MatMul", writer.operands(op)});
    return true;
  }
  if (writer.shape(op, 0).rank() == 2 && writer.shape(op, 1).rank() == 2) {
    writer.addNode(op,
                   {"Gemm", writer.operands(op), {{"transA", a ? 1 : 0}, {"transB", b ? 1 : 0}}});
    return true;
  }
  if (writer.shape(op, 0).rank() < 2 || writer.shape(op, 1).rank() < 2) {
    return false;
  }
  std::vector<std::string> operands = writer.operands(op);
  for (std::size_t i = 0; i < 2; ++i) {
    if (i == 0 ? a : b) {
      Ints swapped(writer.shape(op, i).dims().size());
      std::iota(swapped.begin(), swapped.end(), 0);
      std::swap(swapped.back(), swapped[swapped.size() - 2]);
      operands[i] = writer.addHelper({"Transpose", {operands[i]}, {{"perm", swapped}}});
    }
  }
  writer.addNode(op, {"MatMul", std::move(operands)});
  return true;
}

bool trilu(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Trilu",
                  {writer.operands(op)[0],
                   writer.constant(HostTensor::scalar<std::int64_t>(op.attrs.integer("diagonal")))},
                  {{"upper", op.attrs.flag("upper") ? 1 : 0}}});
  return true;
}

bool cumSum(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"CumSum",
                  {writer.operands(op)[0],
                   writer.constant(HostTensor::scalar<std::int64_t>(op.attrs.integer("axis")))},
                  {{"exclusive", op.attrs.flag("exclusive") ? 1 : 0},
                   {"reverse", op.attrs.flag("reverse") ? 1 : 0}}});
  return true;
}

bool argMax(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op,
      {"ArgMax",
       writer.operands(op),
       {{"axis", op.attrs.integer("axis")}, {"keepdims", op.attrs.flag("keepDims") ? 1 : 0}}});
  return true;
}

/// Lists that are left out stay so.
void addLists(const ir::Op& op, NewNode& node) {
  for (const char* name : {"strides", "pads", "dilations"}) {
    if (op.attrs.find(name) != nullptr && !op.attrs.integers(name).empty()) {
      node.attrs.emplace_back(name, op.attrs.integers(name));
    }
  }
}

bool conv(ModelWriter& writer, const ir::Op& op) {
  if (!isFloat(op.outputs[0].dtype)) {
    return false;  // the standard has none of 32-bit integers
  }
  NewNode node{"Conv", writer.operands(op), {{"group", op.attrs.integer("groups")}}};
  addLists(op, node);
  writer.addNode(op, std::move(node));
  return true;
}

bool avgPool(ModelWriter& writer, const ir::Op& op) {
  NewNode node{"AveragePool",
               writer.operands(op),
               {{"kernel_shape", op.attrs.integers("kernel")},
                {"ceil_mode", op.attrs.flag("ceilMode") ? 1 : 0},
                {"count_include_pad", op.attrs.flag("countIncludePad") ? 1 : 0}}};
  addLists(op, node);
  writer.addNode(op, std::move(node));
  return true;
}

/// ONNX's indices are others than ours.
bool maxPool(ModelWriter& writer, const ir::Op& op) {
  if (writer.isRead(op.out(1))) {
    return false;
  }
  NewNode node{"MaxPool",
               writer.operands(op),
               {{"kernel_shape", op.attrs.integers("kernel")},
                {"ceil_mode", op.attrs.flag("ceilMode") ? 1 : 0}},
               1};
  addLists(op, node);
  writer.addNode(op, std::move(node));
  return true;
}

bool clip(ModelWriter& writer, const ir::Op& op) {
  const DType dtype = op.outputs[0].dtype;
  const auto limit = [&](const char* attr) {
    return HostTensor::full({dtype, Shape{}}, op.attrs.real(attr));
  };
  if (limit("low").at(0) != op.attrs.real("low") || limit("high").at(0) != op.attrs.real("high")) {
    return false;
  }
  writer.addNode(
      op,
      {"Clip",
       {writer.operands(op)[0], writer.constant(limit("low")), writer.constant(limit("high"))}});
  return true;
}

bool gatherNd(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op, {"GatherND", writer.operands(op), {{"batch_dims", op.attrs.integer("batchDims")}}});
  return true;
}

/// The standard's reductions before opset 18 are these.
bool isStandardReduction(const ir::Op& op) {
  const std::string& reduction = op.attrs.text("reduction");
  return reduction == "none" || reduction == "add" || reduction == "mul";
}

bool scatterElements(ModelWriter& writer, const ir::Op& op) {
  if (!isStandardReduction(op)) {
    return false;
  }
  writer.addNode(op,
                 {"ScatterElements",
                  writer.operands(op),
                  {{"axis", op.attrs.integer("axis")}, {"reduction", op.attrs.text("reduction")}}});
  return true;
}

bool scatterNd(ModelWriter& writer, const ir::Op& op) {
  if (!isStandardReduction(op) || op.attrs.integer("batchDims") != 0) {
    return false;
  }
  writer.addNode(op,
                 {"ScatterND", writer.operands(op), {{"reduction", op.attrs.text("reduction")}}});
  return true;
}

bool reverseSequence(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"ReverseSequence",
                  writer.operands(op),
                  {{"batch_axis", op.attrs.integer("batchAxis")},
                   {"time_axis", op.attrs.integer("timeAxis")}}});
  return true;
}

bool topK(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op,
      {"TopK",
       {writer.operands(op)[0], writer.integers({op.attrs.integer("k")})},
       {{"axis", op.attrs.integer("axis")}, {"largest", op.attrs.flag("largest") ? 1 : 0}}});
  return true;
}

bool gridSample(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"GridSample",
                  writer.operands(op),
                  {{"mode", op.attrs.text("mode")},
                   {"padding_mode", op.attrs.text("padding")},
                   {"align_corners", op.attrs.flag("alignCorners") ? 1 : 0}}});
  return true;
}

struct Entry {
  std::string_view op;
  Form form;
};

constexpr std::array kForms = {
    Entry{"argmax", argMax},
    Entry{"avg_pool", avgPool},
    Entry{"broadcast_to", expand},
    Entry{"cast", cast},
    Entry{"clamp", clip},
    Entry{"conv", conv},
    Entry{"cross_entropy", notStandard},
    Entry{"cumsum", cumSum},
    Entry{"detach", notStandard},
    Entry{"gather_nd", gatherNd},
    Entry{"grid_sample", gridSample},
    Entry{"matmul", matmul},
    Entry{"max_pool", maxPool},
    Entry{"nll_loss", notStandard},
    Entry{"one_hot", notStandard},
    Entry{"pad", pad},
    Entry{"reduce_log_sum_exp", reduce},
    Entry{"reduce_max", reduce},
    Entry{"reduce_mean", reduce},
    Entry{"reduce_min", reduce},
    Entry{"reduce_prod", reduce},
    Entry{"reduce_sum", reduce},
    Entry{"reshape", reshape},
    Entry{"resize", notStandard},
    Entry{"reverse_sequence", reverseSequence},
    Entry{"roi_align", notStandard},
    Entry{"scatter_elements", scatterElements},
    Entry{"scatter_nd", scatterNd},
    Entry{"slice", slice},
    Entry{"split", split},
    Entry{"tile", tile},
    Entry{"top_k", topK},
    Entry{"transpose", transpose},
    Entry{"trilu", trilu},
};

/// The op's name in the default domain of opset 17; empty if it has none.
std::string_view standardName(const ir::OpDef& def) {
  for (const ir::OnnxName& name : def.onnx) {
    if (name.domain.empty() && name.since <= kNewestOpset) {
      return name.name;
    }
  }
  return "";
}

/// Attributes as the standard has them; false for one that it would round.
bool standardAttrs(const ir::Op& op, std::vector<ir::NamedAttr>& attrs) {
  for (const ir::NamedAttr& attr : op.attrs) {
    if (const auto* real = std::get_if<double>(&attr.value)) {
      if (decimalDouble(static_cast<float>(*real)) != *real) {
        return false;
      }
    }
    const auto* text = std::get_if<std::string>(&attr.value);
    if (text != nullptr && attr.name == "dtype") {
      attrs.emplace_back("dtype", onnxTypeOf(*parseDType(*text)));
    } else {
      attrs.push_back(attr);
    }
  }
  return true;
}

}  // namespace

bool addStandardForm(ModelWriter& writer, const ir::Op& op) {
  const auto found = std::ranges::find(kForms, op.def->name, &Entry::op);
  if (found != kForms.end()) {
    return found->form(writer, op);
  }
  NewNode node{standardName(*op.def), writer.operands(op)};
  if (node.op.empty() || op.def->traits.random || !standardAttrs(op, node.attrs)) {
    return false;
  }
  writer.addNode(op, std::move(node));
  return true;
}

}  // namespace sluice::onnx
