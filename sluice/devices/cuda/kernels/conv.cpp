// Convolutions and their gradients by cuDNN, by algorithms whose sums have one order: float32 in
// full precision and plain storage, 16-bit floats on the tensor cores and with the channels last.
// The library's own heuristic names the algorithm when the kernel is made: for one shape, chip and
// version it always answers the same, and the memory that it may use is fixed here. Where it has
// none, the sums of window.cpp take its place, in the same storage.
#include "sluice/ops/conv.h"

#include <algorithm>

#include "sluice/devices/cuda/cudnn.h"
#include "sluice/devices/cuda/kernels/kernels.h"

namespace sluice::devices::cuda {
namespace {

bool isHalf(DType dtype) {
  return dtype == DType::BF16 || dtype == DType::F16;
}

cudnn::Sum sumOf(const ir::OpView& op) {
  return op.def.name == "conv"              ? cudnn::Sum::Output
         : op.def.name == "conv_grad_input" ? cudnn::Sum::Input
                                            : cudnn::Sum::Weight;
}

/// The axes that the library gets: two, or three if the first is no dummy.
std::size_t firstAxis(const ops::ConvDims& d) {
  return d.rank == 3 ? 0 : 1;
}

std::vector<int> extents(std::int64_t first,
                         std::int64_t second,
                         const ops::Extents& axes,
                         std::size_t from) {
  std::vector<int> all = {static_cast<int>(first), static_cast<int>(second)};
  for (std::size_t a = from; a < axes.size(); ++a) {
    all.push_back(static_cast<int>(axes[a]));
  }
  return all;
}

std::vector<int> axesOf(const ops::Extents& axes, std::size_t from) {
  std::vector<int> all;
  for (std::size_t a = from; a < axes.size(); ++a) {
    all.push_back(static_cast<int>(axes[a]));
  }
  return all;
}

cudnn::Shape shapeOf(const ops::ConvDims& d, DType dtype) {
  const std::size_t from = firstAxis(d);
  const bool half = isHalf(dtype);
  return {.type = dtype == DType::BF16  ? cudnn::kBFloat16
                  : dtype == DType::F16 ? cudnn::kHalf
                                        : cudnn::kFloat,
          .format = half ? cudnn::kNhwc : cudnn::kNchw,
          .math = half ? cudnn::kTensorOpMath : cudnn::kFmaMath,
          .x = extents(d.batch, d.inChannels, d.in, from),
          .w = extents(d.outChannels, d.inChannels, d.kernel, from),
          .y = extents(d.batch, d.outChannels, d.out, from),
          .pads = axesOf(d.padsBefore, from),
          .strides = axesOf(d.strides, from),
          .dilations = axesOf(d.dilations, from)};
}

/// Whether the windows are those that the library makes of one padding for both ends.
bool hasPlainWindows(const ops::ConvDims& d) {
  for (std::size_t a = 0; a < d.in.size(); ++a) {
    const std::int64_t reach = (d.kernel[a] - 1) * d.dilations[a] + 1;
    const std::int64_t room = d.in[a] + 2 * d.padsBefore[a] - reach;
    if (room < 0 || d.out[a] != room / d.strides[a] + 1) {
      return false;
    }
  }
  return true;
}

class CudnnConv final : public Kernel {
 public:
  CudnnConv(const cudnn::Descriptors& descriptors,
            cudnn::Sum sum,
            const cudnn::Algorithm& algorithm,
            std::size_t workspace,
            int gpu)
      : descriptors_(descriptors),
        sum_(sum),
        algorithm_(algorithm),
        workspace_(workspace),
        gpu_(gpu) {}
  ~CudnnConv() override { cudnn::forget(descriptors_); }
  CudnnConv(const CudnnConv&) = delete;
  CudnnConv& operator=(const CudnnConv&) = delete;

  void launch(const KernelRun& run) override {
    cudnn::run(gpu_,
               run.stream,
               descriptors_,
               sum_,
               algorithm_,
               {run.inputs[0], run.inputs[1], run.outputs[0], run.scratch, workspace_});
  }

 private:
  cudnn::Descriptors descriptors_;
  cudnn::Sum sum_;
  cudnn::Algorithm algorithm_;
  std::size_t workspace_;
  int gpu_;
};

Source plainSums(const ir::OpView& op, const device::Choice& choice) {
  switch (sumOf(op)) {
    case cudnn::Sum::Output:
      return convSource(op, choice);
    case cudnn::Sum::Input:
      return convGradInputSource(op, choice);
    case cudnn::Sum::Weight:
      break;
  }
  return convGradWeightSource(op, choice);
}

}  // namespace

bool supportsCudnnConv(const ir::OpView& op) {
  const DType dtype = op.inputs[0].dtype;
  if (!supportsWindow(op) || (dtype != DType::F32 && !isHalf(dtype))) {
    return false;
  }
  const ops::ConvDims d = ops::convDims(op);
  return d.groups == 1 && hasPlainWindows(d) && cudnn::isThere();
}

device::Choice chooseCudnnConv(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  constexpr std::size_t kLeast = std::size_t{1} << 20U;
  device::Choice choice = device::plainChoice(op, "");
  std::size_t bytes = op.outputs[0].bytes();
  for (const TensorType& type : op.inputs) {
    bytes += type.bytes();
  }
  choice.scratchBytes = std::min(kMost, std::max(kLeast, 4 * bytes));
  if (isHalf(op.inputs[0].dtype)) {
    std::ranges::fill(choice.inputs, device::Layout::channelsLast());
    std::ranges::fill(choice.outputs, device::Layout::channelsLast());
  }
  return choice;
}

std::unique_ptr<Kernel> makeCudnnConv(const ir::OpView& op,
                                      const device::Choice& choice,
                                      const MakeContext& context) {
  const cudnn::Shape shape = shapeOf(ops::convDims(op), op.inputs[0].dtype);
  const cudnn::Descriptors descriptors = cudnn::describe(shape);
  const cudnn::Sum sum = sumOf(op);
  const cudnn::Algorithm algorithm =
      cudnn::choose(context.gpu, descriptors, sum, shape.math, choice.scratchBytes);
  if (algorithm.number < 0) {
    cudnn::forget(descriptors);
    return makeGenerated(plainSums(op, choice), context);
  }
  return std::make_unique<CudnnConv>(descriptors, sum, algorithm, choice.scratchBytes, context.gpu);
}

}  // namespace sluice::devices::cuda
