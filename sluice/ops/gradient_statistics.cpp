#include "sluice/ops/gradient_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 4> kAttrs = {
    {{.name = "weight", .kind = ir::AttrKind::Text},
     {.name = "period", .kind = ir::AttrKind::Int, .integer = 1},
     {.name = "microBatches", .kind = ir::AttrKind::Int, .integer = 1},
     {.name = "replicas", .kind = ir::AttrKind::Int, .integer = 1}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  for (const char* attr : {"period", "microBatches", "replicas"}) {
    if (op.integer(attr) < 1) {
      raise<InvalidArgument>(
          "gradient_statistics: {} must be positive, got {}", attr, op.integer(attr));
    }
  }
  return {};
}

struct Statistics {
  double norm = 0;
  double largest = 0;
  std::int64_t notFinite = 0;
};

Statistics statisticsOf(const ir::KernelArgs& args) {
  Statistics statistics;
  double squares = 0;
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    for (const T element : args.in<T>(0)) {
      const auto value = static_cast<double>(widen(element));
      if (std::isfinite(value)) {
        squares += value * value;
        statistics.largest = std::max(statistics.largest, std::abs(value));
      } else {
        ++statistics.notFinite;
      }
    }
  });
  statistics.norm = std::sqrt(squares);
  return statistics;
}

void reference(const ir::KernelArgs& args) {
  const std::int64_t replicas = args.op.integer("replicas");
  const std::int64_t update = args.run.microBatch / (args.op.integer("microBatches") * replicas);
  const bool due = update % args.op.integer("period") == 0 && args.run.microBatch % replicas == 0;
  if (!due || !log::enabled("gradients", log::Level::Info)) {
    return;
  }
  const Statistics statistics = statisticsOf(args);
  log::info("gradients",
            "update {}: {}: norm {:.6g}, max {:.6g}, not finite {} of {}",
            update,
            args.op.attrs.text("weight"),
            statistics.norm,
            statistics.largest,
            statistics.notFinite,
            args.op.inputs[0].shape.elements());
}

}  // namespace

constinit const ir::OpDef kGradientStatistics{.name = "gradient_statistics",
                                              .outputs = 0,
                                              .attrs = kAttrs,
                                              .infer = infer,
                                              .reference = reference,
                                              .traits = {.effect = true, .host = true}};

void gradientStatistics(ir::GraphBuilder& b,
                        ir::Value gradient,
                        const GradientStatisticsOptions& options) {
  b.addMany(kGradientStatistics,
            {gradient},
            {{"weight", options.weight},
             {"period", options.period},
             {"microBatches", options.microBatches},
             {"replicas", options.replicas}});
}

}  // namespace sluice::ops
