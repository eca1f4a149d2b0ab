#include "sluice/devices/cuda/source.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace sluice::devices::cuda {
namespace {

struct Axis {
  std::int64_t extent;
  std::int64_t stride;
};

/// Innermost first; neighbours that one stride describes are one axis, axes of extent 1 none.
std::vector<Axis> joinedAxes(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> strides) {
  std::vector<Axis> axes;
  for (std::size_t a = dims.size(); a-- > 0;) {
    if (dims[a] == 1) {
      continue;
    }
    if (!axes.empty() && strides[a] == axes.back().stride * axes.back().extent) {
      axes.back().extent *= dims[a];
    } else {
      axes.push_back({dims[a], strides[a]});
    }
  }
  return axes;
}

std::string parameters(const ir::OpView& op) {
  std::string text;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    text += fmt::format("const {}* in{}, ", typeText(op.inputs[i].dtype), i);
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    text += fmt::format("{}* out{}, ", typeText(op.outputs[i].dtype), i);
  }
  return text + "void* scratch, const Run* run, Fault* fault, int call";
}

}  // namespace

bool Source::isEmpty() const {
  return std::ranges::all_of(stages, [](const Stage& stage) { return stage.blocks == 0; });
}

std::string_view typeText(DType dtype) {
  return name(dtype);
}

std::string_view wideText(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return "float";
    case DType::F64:
      return "double";
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
      return "i64";
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64:
      return "u64";
    case DType::Bool:
      break;
  }
  return "bool";
}

std::string literal(double value) {
  return fmt::format("__longlong_as_double({:#018x}ll)", std::bit_cast<std::uint64_t>(value));
}

std::string literal(std::int64_t value) {
  return fmt::format("(i64){:#x}ull", static_cast<std::uint64_t>(value));
}

void addEntry(Source& source, const ir::OpView& op, const Stage& stage, std::string_view body) {
  // The op's name is for profilers and debuggers.
  const std::string entry = fmt::format("{}_{}", op.def.name, stage.entry);
  source.text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n{}}}\n",
                             stage.threads,
                             entry,
                             parameters(op),
                             body);
  source.stages.push_back({entry, stage.blocks, stage.threads});
}

void addElementEntry(Source& source,
                     const ir::OpView& op,
                     std::string_view entry,
                     std::int64_t count,
                     std::string_view body) {
  addEntry(source,
           op,
           {std::string(entry), (count + kThreads - 1) / kThreads, kThreads},
           fmt::format("  const i64 i = (i64)blockIdx.x * {} + threadIdx.x;\n"
                       "  if (i >= {}ll) return;\n{}",
                       kThreads,
                       count,
                       body));
}

std::string offsetText(std::string_view index,
                       std::span<const std::int64_t> dims,
                       std::span<const std::int64_t> strides) {
  const std::vector<Axis> axes = joinedAxes(dims, strides);
  std::int64_t elements = 1;
  for (const std::int64_t extent : dims) {
    elements *= extent;
  }
  // 32 bits divide several times faster.
  const bool isSmall = elements < (std::int64_t{1} << 31);
  const std::string number =
      fmt::format("({})({})", isSmall ? "unsigned" : "u64", std::string(index));
  std::string text;
  std::int64_t divisor = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const auto& [extent, stride] = axes[a];
    if (stride != 0) {
      std::string term = number;
      if (divisor != 1) {
        term = fmt::format("{} / {}u", term, divisor);
      }
      if (a + 1 < axes.size()) {
        term = fmt::format("{} % {}u", term, extent);
      }
      text += fmt::format("{}(i64)({}) * {}ll", text.empty() ? "" : " + ", term, stride);
    }
    divisor *= extent;
  }
  return text.empty() ? "0" : fmt::format("({})", text);
}

std::vector<std::int64_t> broadcastStrides(const Shape& operand, const Shape& output) {
  std::vector<std::int64_t> strides(output.dims().size(), 0);
  const std::vector<std::int64_t> own = operand.strides();
  const std::size_t skipped = output.dims().size() - own.size();
  for (std::size_t a = 0; a < own.size(); ++a) {
    strides[skipped + a] = operand.dims()[a] == 1 ? 0 : own[a];
  }
  return strides;
}

std::vector<std::size_t> storageOrder(std::int64_t rank, const device::Layout& layout) {
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < static_cast<std::size_t>(rank); ++a) {
    if (layout.isPlain() || a != 1) {
      order.push_back(a);
    }
  }
  if (!layout.isPlain()) {
    order.push_back(1);
  }
  return order;
}

std::vector<std::int64_t> inOrder(std::span<const std::int64_t> values,
                                  std::span<const std::size_t> order) {
  std::vector<std::int64_t> ordered;
  for (const std::size_t axis : order) {
    ordered.push_back(values[axis]);
  }
  return ordered;
}

Steps stepsOf(std::span<const std::int64_t> dims,
              std::span<const std::int64_t> strides,
              std::int64_t width) {
  const std::vector<Axis> axes = joinedAxes(dims, strides);
  if (std::ranges::all_of(axes, [](const Axis& axis) { return axis.stride == 0; })) {
    return Steps::Same;
  }
  if (axes[0].stride > 1 || axes[0].stride < 0 || axes[0].extent % width != 0) {
    return Steps::Any;
  }
  if (axes[0].stride == 0) {
    return Steps::Same;
  }
  const bool aligned = std::ranges::all_of(
      axes.begin() + 1, axes.end(), [&](const Axis& axis) { return axis.stride % width == 0; });
  return aligned ? Steps::Consecutive : Steps::Any;
}

std::string coordinateText(std::string_view index, const Shape& shape, std::size_t axis) {
  return fmt::format("((i64)({}) / {}ll % {}ll)", index, shape.strides()[axis], shape.dims()[axis]);
}

int threadsFor(std::int64_t length) {
  int threads = 32;
  while (threads < kThreads && threads < length) {
    threads *= 2;
  }
  return threads;
}

}  // namespace sluice::devices::cuda
