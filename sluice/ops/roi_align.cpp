// roi_align: regions of images, each cut into rows x columns cells; a cell is the mean or the
// maximum of samples that are interpolated linearly. The gradient passes to the images only.
#include "sluice/ops/roi_align.h"

#include <algorithm>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/layout.h"

namespace sluice::ops {
namespace {

/// Numbers in the region's operand decide how many samples are taken; this bounds the work.
constexpr double kMaxSamplesPerAxis = 1024.0;

/// One axis of a region: where its cells and samples lie.
struct RegionAxis {
  double start;
  double cell;           ///< the extent of one cell
  std::int64_t samples;  ///< per cell
  std::int64_t extent;   ///< of the image

  double place(std::int64_t index, std::int64_t sample) const {
    const double part = (static_cast<double>(sample) + 0.5) / static_cast<double>(samples);
    return start + (static_cast<double>(index) + part) * cell;
  }
};

RegionAxis regionAxis(const ir::OpView& op, double low, double high, bool vertical) {
  const double scale = op.attrs.real("spatialScale");
  const bool halfPixel = op.attrs.flag("halfPixel");
  const double offset = halfPixel ? 0.5 : 0.0;
  RegionAxis axis{.start = low * scale - offset,
                  .cell = (high - low) * scale,
                  .samples = op.integer("samplingRatio"),
                  .extent = op.inputs[0].shape[vertical ? 2 : 3]};
  if (!halfPixel) {
    axis.cell = std::max(axis.cell, 1.0);
  }
  axis.cell /= static_cast<double>(op.integer(vertical ? "rows" : "columns"));
  if (axis.samples == 0) {
    const double wanted = std::ceil(axis.cell);
    if (!(wanted <= kMaxSamplesPerAxis)) {
      raise<InvalidArgument>("{}: a region from {} to {} needs more than {} samples per cell",
                             op.def.name,
                             low,
                             high,
                             kMaxSamplesPerAxis);
    }
    axis.samples = std::max<std::int64_t>(static_cast<std::int64_t>(wanted), 0);
  }
  return axis;
}

struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
  double fraction = 0.0;
  bool inside = false;
};

Between between(double at, std::int64_t extent) {
  // One element beyond the image still counts as its border.
  if (!(at >= -1.0 && at <= static_cast<double>(extent)) || extent == 0) {
    return {};
  }
  at = std::max(at, 0.0);
  const auto low = std::min(static_cast<std::int64_t>(at), extent - 1);
  return {.low = low,
          .high = std::min(low + 1, extent - 1),
          .fraction = low == extent - 1 ? 0.0 : at - static_cast<double>(low),
          .inside = true};
}

RoiSample sampleAt(double y, double x, const RegionAxis& rows, const RegionAxis& columns) {
  const Between v = between(y, rows.extent);
  const Between h = between(x, columns.extent);
  if (!v.inside || !h.inside) {
    return {};
  }
  const std::int64_t width = columns.extent;
  return {.index = {v.low * width + h.low,
                    v.low * width + h.high,
                    v.high * width + h.low,
                    v.high * width + h.high},
          .weight = {(1.0 - v.fraction) * (1.0 - h.fraction),
                     (1.0 - v.fraction) * h.fraction,
                     v.fraction * (1.0 - h.fraction),
                     v.fraction * h.fraction}};
}

void fillSamples(RoiCell& cell,
                 std::int64_t index,
                 std::int64_t columnCells,
                 const RegionAxis& rows,
                 const RegionAxis& columns) {
  cell.samples.clear();
  for (std::int64_t i = 0; i < rows.samples; ++i) {
    for (std::int64_t j = 0; j < columns.samples; ++j) {
      cell.samples.push_back(sampleAt(rows.place(index / columnCells, i),
                                      columns.place(index % columnCells, j),
                                      rows,
                                      columns));
    }
  }
}

RoiAlignOptions optionsOf(const ir::OpView& op) {
  return {.rows = op.integer("rows"),
          .columns = op.integer("columns"),
          .samplingRatio = op.integer("samplingRatio"),
          .spatialScale = op.attrs.real("spatialScale"),
          .halfPixel = op.attrs.flag("halfPixel"),
          .mode = op.attrs.text("mode")};
}

std::vector<TensorType> infer(const ir::OpView& op) {
  return {inferRoiAlign(op)};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {roiAlignGrad(g.b, g.input(0), g.input(1), g.input(2), g.grad(), optionsOf(g.op)),
          Value(),
          Value()};
}

template <class T>
void pool(const ir::KernelArgs& args) {
  const Shape& in = args.op.inputs[0].shape;
  const std::int64_t plane = in[2] * in[3];
  const std::int64_t cells = args.op.outputs[0].shape[2] * args.op.outputs[0].shape[3];
  const bool mean = args.op.attrs.text("mode") == "avg";
  forEachRoiCell(args, [&](const RoiCell& cell) {
    for (std::int64_t c = 0; c < in[1]; ++c) {
      const T* from = args.in<T>(0).data() + (cell.image * in[1] + c) * plane;
      double result = 0.0;
      for (std::size_t i = 0; i < cell.samples.size(); ++i) {
        const double value = valueOf(cell.samples[i], from, widen<T>);
        result = mean ? result + value : (i == 0 ? value : std::max(result, value));
      }
      if (mean && !cell.samples.empty()) {
        result /= static_cast<double>(cell.samples.size());
      }
      args.out<T>(0).data()[cell.firstOutput + c * cells] = narrow<T>(result);
    }
  });
}

void reference(const ir::KernelArgs& args) {
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      pool<T>(args);
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"RoiAlign", 10}, {"RoiAlign", 16}};

}  // namespace

TensorType inferRoiAlign(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireOneOf(op, "mode", {"avg", "max"});
  requireIndices(op, 2);
  const Shape& x = op.inputs[0].shape;
  const Shape& regions = op.inputs[1].shape;
  if (x.rank() != 4 || regions.rank() != 2 || regions[1] != 4 ||
      op.inputs[1].dtype != op.inputs[0].dtype || op.inputs[2].shape != Shape{regions[0]}) {
    raise<InvalidArgument>(
        "{}: expected images [batch, channels, rows, columns], regions [count, 4] of their type "
        "and one index for each, got {}, {} and {}",
        op.def.name,
        op.inputs[0].str(),
        op.inputs[1].str(),
        op.inputs[2].str());
  }
  const std::int64_t ratio = op.integer("samplingRatio");
  if (op.integer("rows") < 1 || op.integer("columns") < 1 || ratio < 0 ||
      static_cast<double>(ratio) > kMaxSamplesPerAxis) {
    raise<InvalidArgument>(
        "{}: rows and columns must be at least 1 and samplingRatio from 0 to {}, got {}, {} and {}",
        op.def.name,
        kMaxSamplesPerAxis,
        op.integer("rows"),
        op.integer("columns"),
        ratio);
  }
  return {op.inputs[0].dtype, Shape{regions[0], x[1], op.integer("rows"), op.integer("columns")}};
}

ir::Attrs roiAlignAttrs(const RoiAlignOptions& options) {
  return {{"rows", options.rows},
          {"columns", options.columns},
          {"samplingRatio", options.samplingRatio},
          {"spatialScale", options.spatialScale},
          {"halfPixel", options.halfPixel},
          {"mode", options.mode}};
}

void forEachRoiCell(const ir::KernelArgs& args, FunctionRef<void(const RoiCell&)> visit) {
  const Shape& in = args.op.inputs[0].shape;
  const std::int64_t count = args.op.inputs[1].shape[0];
  const std::int64_t columnCells = args.op.integer("columns");
  const std::int64_t cells = args.op.integer("rows") * columnCells;
  if (count == 0) {
    return;
  }
  const std::vector<std::int64_t> images = readIndices(args, 2, in[0]);
  RoiCell cell;
  for (std::int64_t r = 0; r < count; ++r) {
    std::array<double, 4> bounds = {};
    dispatch(args.op.inputs[1].dtype, [&]<class T>(T) {
      for (std::size_t i = 0; i < 4; ++i) {
        bounds[i] = static_cast<double>(widen(args.in<T>(1)[static_cast<std::size_t>(r) * 4 + i]));
      }
    });
    const RegionAxis rows = regionAxis(args.op, bounds[1], bounds[3], true);
    const RegionAxis columns = regionAxis(args.op, bounds[0], bounds[2], false);
    cell.image = images[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < cells; ++i) {
      cell.firstOutput = r * in[1] * cells + i;
      fillSamples(cell, i, columnCells, rows, columns);
      visit(cell);
    }
  }
}

constinit const ir::OpDef kRoiAlign{.name = "roi_align",
                                    .minInputs = 3,
                                    .maxInputs = 3,
                                    .attrs = kRoiAlignAttrs,
                                    .infer = infer,
                                    .grad = grad,
                                    .gradReads = {.inputs = 0b111},
                                    .cost = costPerOutput<32>,
                                    .reference = reference,
                                    .onnx = kOnnx};

Value roiAlign(
    GraphBuilder& b, Value x, Value regions, Value batchIndices, const RoiAlignOptions& options) {
  return b.add(kRoiAlign, {x, regions, batchIndices}, roiAlignAttrs(options));
}

}  // namespace sluice::ops
