#include "sluice/runtime/checked_segment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "sluice/ops/fused.h"
#include "sluice/runtime/write_log.h"

namespace sluice::runtime {
namespace {

/// A kernel that compares numbers, for which a NaN has no place in their order.
bool compares(const ir::OpDef& def) {
  constexpr std::array<std::string_view, 6> kOps = {
      "equal", "greater", "greater_equal", "less", "less_equal", "not_equal"};
  return std::ranges::find(kOps, def.name) != kOps.end();
}

struct Writer {
  std::string_view op;
  std::string_view name;
  std::int32_t output;
};

/// What makes an output; of a fused op, the op of its body, which is fused in other groups
/// elsewhere.
Writer writerOf(const device::KernelCall& call, std::size_t output) {
  if (call.def != &ops::kFused) {
    return {call.def->name, call.name, static_cast<std::int32_t>(output)};
  }
  const ir::Graph& body = call.attrs.subgraph("body");
  const ir::Value made = body.outputs()[output].value;
  const ir::Op& op = body.op(made.op);
  return {op.def->name, op.name, static_cast<std::int32_t>(made.out)};
}

std::string problemOf(const FiniteCheck& made, std::int64_t elements) {
  return made.nan >= 0
             ? fmt::format("makes NaN (element {} of {}) out of numbers: an invalid operation",
                           made.nan,
                           elements)
             : fmt::format(
                   "makes inf (element {} of {}) out of finite numbers: an overflow or a "
                   "division by zero",
                   made.inf,
                   elements);
}

}  // namespace

std::string NonFinite::str() const {
  std::string text = op + " " + problem;
  if (!part.empty()) {
    text += fmt::format(" (in {}, stage {}", part, stage);
    text += microBatch < 0 ? ")" : fmt::format(", micro-batch {})", microBatch);
  } else if (microBatch >= 0) {
    text += fmt::format(" (micro-batch {})", microBatch);
  }
  return text;
}

FiniteCheck checkFinite(const TensorType& type, const void* elements) {
  FiniteCheck check;
  const std::int64_t count = type.shape.elements();
  dispatch(type.dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Float16> ||
                  std::is_same_v<T, BFloat16>) {
      const T* values = static_cast<const T*>(elements);
      for (std::int64_t i = 0; i < count && (check.nan < 0 || check.inf < 0); ++i) {
        const auto value = static_cast<double>(
            static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(values[i]));
        if (std::isnan(value) && check.nan < 0) {
          check.nan = i;
        } else if (std::isinf(value) && check.inf < 0) {
          check.inf = i;
        }
      }
    }
  });
  return check;
}

CheckedSegment::CheckedSegment(device::Device& device,
                               const program::Segment& segment,
                               std::span<const device::KernelCall> calls,
                               const Watch& watch)
    : segment_(segment), calls_(calls), watch_(watch) {
  for (const device::KernelCall& call : calls) {
    kernels_.emplace_back(device, std::span(&call, 1));
  }
}

/// What is packed for one device was looked at before it was packed.
FiniteCheck CheckedSegment::look(device::Queue& queue,
                                 const TensorType& type,
                                 const device::Layout& layout,
                                 device::Address data) {
  if (layout.kind == device::Layout::Kind::Opaque || !isFloat(type.dtype)) {
    return {};
  }
  copy_.resize(std::max(copy_.size(), type.bytes()));
  device::copyOut(queue, copy_.data(), data, type.bytes());
  return checkFinite(type, copy_.data());
}

CheckedSegment::Seen CheckedSegment::lookAtInputs(device::Queue& queue,
                                                  const device::KernelCall& call,
                                                  std::span<const device::Address> buffers) {
  Seen seen;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const FiniteCheck check = look(queue,
                                   call.inputTypes[i],
                                   call.choice.inputs[i],
                                   buffers[static_cast<std::size_t>(call.inputs[i])]);
    seen.nan = seen.nan || check.nan >= 0;
    seen.inf = seen.inf || check.inf >= 0;
  }
  return seen;
}

void CheckedSegment::run(device::Queue& queue,
                         std::span<const device::Address> buffers,
                         const Turn& turn) {
  const bool timed = watch_.kernels && turn.kernels != nullptr;
  if (timed) {
    queue.finish();  // the first kernel begins when all before it is over
  }
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const device::KernelCall& call = calls_[i];
    // First: a kernel may overwrite what it reads.
    const Seen seen = watch_.finite ? lookAtInputs(queue, call, buffers) : Seen();
    if (seen.nan && compares(*call.def)) {
      fail(call, "compares with NaN", turn.microBatch);
    }
    KernelSpan time = turn.place;
    time.start = device::steadyNanoseconds();
    kernels_[i].run(queue, buffers, turn.info);
    queue.finish();
    if (timed) {
      time.end = device::steadyNanoseconds();
      time.kernel = static_cast<std::int32_t>(i);
      turn.kernels->add(time);
    }
    if (watch_.finite) {
      requireFinite(queue, call, buffers, seen, turn.microBatch);
    }
    if (watch_.writes && turn.writes != nullptr) {
      note(queue, i, buffers, turn);
    }
  }
}

void CheckedSegment::requireFinite(device::Queue& queue,
                                   const device::KernelCall& call,
                                   std::span<const device::Address> buffers,
                                   const Seen& seen,
                                   std::int64_t microBatch) {
  for (std::size_t j = 0; j < call.outputs.size(); ++j) {
    FiniteCheck made = look(queue,
                            call.outputTypes[j],
                            call.choice.outputs[j],
                            buffers[static_cast<std::size_t>(call.outputs[j])]);
    made.nan = seen.nan ? -1 : made.nan;
    made.inf = seen.inf ? -1 : made.inf;
    if (!made.finite()) {
      fail(call, problemOf(made, call.outputTypes[j].shape.elements()), microBatch);
    }
  }
}

/// What is packed for one device was noted before it was packed.
void CheckedSegment::note(device::Queue& queue,
                          std::size_t kernel,
                          std::span<const device::Address> buffers,
                          const Turn& turn) {
  const device::KernelCall& call = calls_[kernel];
  for (std::size_t j = 0; j < call.outputs.size(); ++j) {
    const device::Layout& layout = call.choice.outputs[j];
    if (call.outputs[j] < 0 || layout.kind == device::Layout::Kind::Opaque) {
      continue;
    }
    const std::size_t bytes = call.outputTypes[j].bytes();
    copy_.resize(std::max(copy_.size(), bytes));
    device::copyOut(queue, copy_.data(), buffers[static_cast<std::size_t>(call.outputs[j])], bytes);
    const program::Buffer& written =
        turn.program->buffer(program::BufferId(segment_.calls[kernel].outputs[j]));
    const Writer writer = writerOf(call, j);
    turn.writes->add(
        {.op = std::string(writer.op),
         .name = std::string(writer.name),
         .tensor = written.region == program::Region::State ? written.name : std::string(),
         .output = writer.output,
         .type = call.outputTypes[j],
         .microBatch = segment_.oncePerRound() ? -1 : turn.microBatch,
         .round = turn.round,
         .replica = turn.info.replica,
         .values = {}},
        layout,
        std::span(copy_).first(bytes));
  }
}

void CheckedSegment::fail(const device::KernelCall& call,
                          std::string problem,
                          std::int64_t microBatch) const {
  throw FloatingPointError({.op = fmt::format("{} '{}'", call.def->name, call.name),
                            .problem = std::move(problem),
                            .part = program::name(segment_),
                            .stage = segment_.stage,
                            .microBatch = segment_.oncePerRound() ? -1 : microBatch});
}

void requireFiniteSum(device::Queue& queue,
                      std::string_view name,
                      const TensorType& type,
                      std::span<const device::Address> from,
                      device::Address to) {
  std::vector<std::byte> copy(type.bytes());
  const auto check = [&](device::Address values) {
    device::copyOut(queue, copy.data(), values, copy.size());
    return checkFinite(type, copy.data());
  };
  const bool finite =
      std::ranges::all_of(from, [&](device::Address term) { return check(term).finite(); });
  const FiniteCheck made = check(to);
  if (finite && !made.finite()) {
    throw FloatingPointError({.op = fmt::format("replica_sum '{}'", name),
                              .problem = problemOf(made, type.shape.elements()),
                              .part = "update 0"});
  }
}

}  // namespace sluice::runtime
