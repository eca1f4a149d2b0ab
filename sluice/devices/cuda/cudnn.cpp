#include "sluice/devices/cuda/cudnn.h"

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/library.h"

namespace sluice::devices::cuda::cudnn {
namespace {

constexpr const char* kName = "libcudnn.so.9";

/// The functions of the library that are used; their descriptors and numbers are those of cudnn.h.
struct Api {
  explicit Api(const std::string& folder) : library(kName, folder) {
    library.find("cudnnGetVersion", getVersion);
    library.find("cudnnGetErrorString", text);
    library.find("cudnnCreate", create);
    library.find("cudnnSetStream", setStream);
    library.find("cudnnCreateTensorDescriptor", createTensor);
    library.find("cudnnDestroyTensorDescriptor", destroyTensor);
    library.find("cudnnSetTensorNdDescriptorEx", setTensor);
    library.find("cudnnCreateFilterDescriptor", createFilter);
    library.find("cudnnDestroyFilterDescriptor", destroyFilter);
    library.find("cudnnSetFilterNdDescriptor", setFilter);
    library.find("cudnnCreateConvolutionDescriptor", createConvolution);
    library.find("cudnnDestroyConvolutionDescriptor", destroyConvolution);
    library.find("cudnnSetConvolutionNdDescriptor", setConvolution);
    library.find("cudnnSetConvolutionMathType", setMath);
    library.find("cudnnGetConvolutionForwardAlgorithm_v7", outputAlgorithms);
    library.find("cudnnGetConvolutionBackwardDataAlgorithm_v7", inputAlgorithms);
    library.find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", weightAlgorithms);
    library.find("cudnnConvolutionForward", output);
    library.find("cudnnConvolutionBackwardData", input);
    library.find("cudnnConvolutionBackwardFilter", weight);
  }

  void require(int status, std::string_view call) const {
    if (status != kSuccess) {
      raise<DeviceError>("cuDNN: {} failed: {}", call, text(status));
    }
  }

  using T = TensorDescriptor;
  using F = FilterDescriptor;
  using C = ConvolutionDescriptor;
  Library library;
  std::size_t (*getVersion)() = nullptr;
  const char* (*text)(int) = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*setStream)(Handle, cudaStream_t) = nullptr;
  int (*createTensor)(T*) = nullptr;
  int (*destroyTensor)(T) = nullptr;
  int (*setTensor)(T, int format, int type, int count, const int*) = nullptr;
  int (*createFilter)(F*) = nullptr;
  int (*destroyFilter)(F) = nullptr;
  int (*setFilter)(F, int type, int format, int count, const int*) = nullptr;
  int (*createConvolution)(C*) = nullptr;
  int (*destroyConvolution)(C) = nullptr;
  int (*setConvolution)(C,
                        int count,
                        const int* pads,
                        const int* strides,
                        const int* dilations,
                        int mode,
                        int type) = nullptr;
  int (*setMath)(C, int) = nullptr;
  int (*outputAlgorithms)(Handle, T, F, C, T, int, int*, Algorithm*) = nullptr;
  int (*inputAlgorithms)(Handle, F, T, C, T, int, int*, Algorithm*) = nullptr;
  int (*weightAlgorithms)(Handle, T, T, C, F, int, int*, Algorithm*) = nullptr;
  // clang-format off
  int (*output)(Handle, const void*, T, const void*, F, const void*, C, int, void*, std::size_t,
                const void*, T, void*) = nullptr;
  int (*input)(Handle, const void*, F, const void*, T, const void*, C, int, void*, std::size_t,
               const void*, T, void*) = nullptr;
  int (*weight)(Handle, const void*, T, const void*, T, const void*, C, int, void*, std::size_t,
                const void*, F, void*) = nullptr;
  // clang-format on
};

/// Null without the library.
const Api* find() {
  static const std::unique_ptr<const Api> kApi = []() -> std::unique_ptr<const Api> {
    const char* given = std::getenv("SLUICE_CUDNN");
    const std::string folder = given == nullptr ? "" : given;
    if (folder == "off") {
      return nullptr;
    }
    try {
      return std::make_unique<const Api>(folder);
    } catch (const DeviceError& error) {
      log::debug("cuda", "convolutions run without cuDNN: {}", error.what());
      return nullptr;
    }
  }();
  return kApi.get();
}

const Api& api() {
  const Api* found = find();
  if (found == nullptr) {
    raise<Unsupported>("{} was there when convolutions were planned and is not now", kName);
  }
  return *found;
}

/// Handles of threads that have ended, by GPU; never destroyed, as the library may end first.
struct IdleHandles {
  std::mutex mutex;
  std::multimap<int, Handle> byGpu;
};

IdleHandles& idleHandles() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by its mutex
  static auto* const kAll = new IdleHandles;
  return *kAll;
}

/// A thread has a handle of its own for each GPU: a handle remembers a stream, and two captures at
/// once may not share what it keeps between calls.
class ThreadHandles {
 public:
  ThreadHandles() = default;
  ~ThreadHandles() {
    const std::scoped_lock lock(idleHandles().mutex);
    idleHandles().byGpu.insert(byGpu_.begin(), byGpu_.end());
  }
  ThreadHandles(const ThreadHandles&) = delete;
  ThreadHandles& operator=(const ThreadHandles&) = delete;

  Handle get(int gpu) {
    Handle& mine = byGpu_[gpu];
    if (mine == nullptr) {
      const std::scoped_lock lock(idleHandles().mutex);
      if (const auto found = idleHandles().byGpu.find(gpu); found != idleHandles().byGpu.end()) {
        mine = found->second;
        idleHandles().byGpu.erase(found);
      } else {
        api().require(api().create(&mine), "create");
      }
    }
    return mine;
  }

 private:
  std::map<int, Handle> byGpu_;
};

Handle handleOf(int gpu) {
  thread_local ThreadHandles handles;
  return handles.get(gpu);
}

}  // namespace

bool isThere() {
  return find() != nullptr;
}

std::string version() {
  constexpr std::size_t kMajor = 10000;
  constexpr std::size_t kMinor = 100;
  if (!isThere()) {
    return "";
  }
  const std::size_t number = api().getVersion();
  return fmt::format("{}.{}.{}", number / kMajor, number % kMajor / kMinor, number % kMinor);
}

Descriptors describe(const Shape& shape) {
  Descriptors d;
  const auto count = [](const std::vector<int>& extents) {
    return static_cast<int>(extents.size());
  };
  api().require(api().createTensor(&d.x), "describe x");
  api().require(api().createTensor(&d.y), "describe y");
  api().require(api().createFilter(&d.w), "describe w");
  api().require(api().createConvolution(&d.convolution), "describe");
  api().require(api().setTensor(d.x, shape.format, shape.type, count(shape.x), shape.x.data()),
                "set x");
  api().require(api().setTensor(d.y, shape.format, shape.type, count(shape.y), shape.y.data()),
                "set y");
  api().require(api().setFilter(d.w, shape.type, shape.format, count(shape.w), shape.w.data()),
                "set w");
  api().require(api().setConvolution(d.convolution,
                                     count(shape.pads),
                                     shape.pads.data(),
                                     shape.strides.data(),
                                     shape.dilations.data(),
                                     kCrossCorrelation,
                                     kFloat),
                "set convolution");
  api().require(api().setMath(d.convolution, shape.math), "set math");
  return d;
}

void forget(const Descriptors& d) {
  static_cast<void>(api().destroyTensor(d.x));
  static_cast<void>(api().destroyTensor(d.y));
  static_cast<void>(api().destroyFilter(d.w));
  static_cast<void>(api().destroyConvolution(d.convolution));
}

Algorithm choose(int gpu, const Descriptors& d, Sum sum, int math, std::size_t workspace) {
  constexpr int kMost = 16;
  std::array<Algorithm, kMost> found{};
  int count = 0;
  const Handle handle = handleOf(gpu);
  int status = 0;
  switch (sum) {
    case Sum::Output:
      status =
          api().outputAlgorithms(handle, d.x, d.w, d.convolution, d.y, kMost, &count, found.data());
      break;
    case Sum::Input:
      status =
          api().inputAlgorithms(handle, d.w, d.y, d.convolution, d.x, kMost, &count, found.data());
      break;
    case Sum::Weight:
      status =
          api().weightAlgorithms(handle, d.x, d.y, d.convolution, d.w, kMost, &count, found.data());
      break;
  }
  for (int i = 0; status == kSuccess && i < count; ++i) {
    const Algorithm& each = found[static_cast<std::size_t>(i)];
    const bool exact = math != kFmaMath || each.math != kTensorOpMath;  // no TF32
    if (each.status == kSuccess && each.determinism == kDeterministic && exact &&
        each.memory <= workspace) {
      return each;
    }
  }
  return {.number = -1};
}

void run(int gpu,
         cudaStream_t stream,
         const Descriptors& d,
         Sum sum,
         const Algorithm& algorithm,
         const Operands& at) {
  const float one = 1;
  const float zero = 0;
  const Handle handle = handleOf(gpu);
  api().require(api().setStream(handle, stream), "set stream");
  const auto call = [&](auto* function, auto first, auto second, auto result) {
    return function(handle,
                    &one,
                    first,
                    at.first,
                    second,
                    at.second,
                    d.convolution,
                    algorithm.number,
                    at.workspace,
                    at.workspaceBytes,
                    &zero,
                    result,
                    at.result);
  };
  switch (sum) {
    case Sum::Output:
      api().require(call(api().output, d.x, d.w, d.y), "convolution");
      return;
    case Sum::Input:
      api().require(call(api().input, d.w, d.y, d.x), "gradient of a convolution's input");
      return;
    case Sum::Weight:
      api().require(call(api().weight, d.x, d.y, d.w), "gradient of a convolution's weight");
      return;
  }
}

}  // namespace sluice::devices::cuda::cudnn
