// Matrix products by cuBLASLt, float32 without TF32. A tuning table may name the algorithm of a
// shape. Otherwise the library's own heuristic chooses when the kernel is made: for one shape, chip
// and version it always answers the same, and the workspace that it may use is fixed here and
// planned as scratch memory. The log tells it as a line of such a table.
//
// cuBLASLt thinks in columns. A row-major C = A B is the column-major C' = B' A', where X' is X
// read by columns; nothing moves.
#include "sluice/ops/matmul.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include <cublasLt.h>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/devices/cuda/library.h"
#include "sluice/devices/cuda/recorded_algorithm.h"

namespace sluice::devices::cuda {
namespace {

struct CublasLt {
  CublasLt() : library(toolkitLibrary("cublasLt")) {
    library.find("cublasLtCreate", create);
    library.find("cublasLtMatmul", matmul);
    library.find("cublasLtMatmulDescCreate", describe);
    library.find("cublasLtMatmulDescDestroy", forget);
    library.find("cublasLtMatmulDescSetAttribute", set);
    library.find("cublasLtMatrixLayoutCreate", layout);
    library.find("cublasLtMatrixLayoutDestroy", forgetLayout);
    library.find("cublasLtMatrixLayoutSetAttribute", setLayout);
    library.find("cublasLtMatmulPreferenceCreate", preference);
    library.find("cublasLtMatmulPreferenceDestroy", forgetPreference);
    library.find("cublasLtMatmulPreferenceSetAttribute", setPreference);
    library.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    library.find("cublasLtMatmulAlgoCheck", checkAlgorithm);
    library.find("cublasLtGetVersion", version);
    library.find("cublasLtGetStatusString", text);
  }

  void require(cublasStatus_t status, std::string_view call) const {
    if (status != CUBLAS_STATUS_SUCCESS) {
      raise<DeviceError>("cuBLASLt: {} failed: {}", call, text(status));
    }
  }

  /// The handle for a GPU, which must be selected.
  cublasLtHandle_t handle(int gpu) const {
    const std::scoped_lock lock(mutex);
    cublasLtHandle_t& made = handles[gpu];
    if (made == nullptr) {
      require(create(&made), "create");
    }
    return made;
  }

  Library library;
  decltype(cublasLtCreate)* create = nullptr;
  decltype(cublasLtMatmul)* matmul = nullptr;
  decltype(cublasLtMatmulDescCreate)* describe = nullptr;
  decltype(cublasLtMatmulDescDestroy)* forget = nullptr;
  decltype(cublasLtMatmulDescSetAttribute)* set = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* layout = nullptr;
  decltype(cublasLtMatrixLayoutDestroy)* forgetLayout = nullptr;
  decltype(cublasLtMatrixLayoutSetAttribute)* setLayout = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* preference = nullptr;
  decltype(cublasLtMatmulPreferenceDestroy)* forgetPreference = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* setPreference = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(cublasLtMatmulAlgoCheck)* checkAlgorithm = nullptr;
  decltype(cublasLtGetVersion)* version = nullptr;
  decltype(cublasLtGetStatusString)* text = nullptr;
  mutable std::mutex mutex;  // guards handles
  mutable std::map<int, cublasLtHandle_t> handles;
};

const CublasLt& lt() {
  static const CublasLt kLibrary;
  return kLibrary;
}

/// An axis of a batch: products, and how far they are from each other in elements.
struct BatchAxis {
  std::int64_t extent = 1;
  std::int64_t strideA = 0;
  std::int64_t strideB = 0;
  std::int64_t strideC = 0;
};

struct ProductPlan {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transposeA = false;
  bool transposeB = false;
  BatchAxis inner;               ///< what the library runs as one batch
  std::vector<BatchAxis> outer;  ///< a call for each, innermost first
};

std::vector<BatchAxis> batchAxes(const ops::MatMulDims& d) {
  const auto stridesA = broadcastStrides(d.batchA, d.batch);
  const auto stridesB = broadcastStrides(d.batchB, d.batch);
  const auto stridesC = d.batch.strides();
  std::vector<BatchAxis>
      axes;  // innermost first; neighbours that one stride describes are one axis
  for (std::size_t a = stridesC.size(); a-- > 0;) {
    const BatchAxis axis{d.batch.dims()[a],
                         stridesA[a] * d.m * d.k,
                         stridesB[a] * d.k * d.n,
                         stridesC[a] * d.m * d.n};
    if (axis.extent == 1) {
      continue;
    }
    const auto continues = [&](std::int64_t BatchAxis::*stride) {
      return axis.*stride == axes.back().*stride * axes.back().extent;
    };
    if (!axes.empty() && continues(&BatchAxis::strideA) && continues(&BatchAxis::strideB)) {
      axes.back().extent *= axis.extent;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

ProductPlan productPlan(const ir::OpView& op) {
  const ops::MatMulDims d = ops::matmulDims(op);
  ProductPlan plan{.m = d.m,
                   .n = d.n,
                   .k = d.k,
                   .transposeA = op.attrs.flag("transposeA"),
                   .transposeB = op.attrs.flag("transposeB")};
  std::vector<BatchAxis> axes = batchAxes(d);
  if (!axes.empty() && axes[0].strideB == 0 && !plan.transposeA &&
      axes[0].strideA == plan.m * plan.k) {
    plan.m *= axes[0].extent;  // one matrix for all: their rows lie one after the other
    axes.erase(axes.begin());
  }
  if (!axes.empty()) {
    plan.inner = axes[0];
    plan.outer.assign(axes.begin() + 1, axes.end());
  }
  return plan;
}

cudaDataType_t dataType(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return CUDA_R_64F;
    case DType::F16:
      return CUDA_R_16F;
    case DType::BF16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

class Product final : public Kernel {
 public:
  Product(const ir::OpView& op, const device::Choice& choice, const MakeContext& context)
      : plan_(productPlan(op)),
        dtype_(op.inputs[0].dtype),
        bytes_(op.outputs[0].bytes()),
        workspace_(choice.scratchBytes),
        handle_(lt().handle(context.gpu)) {
    if (bytes_ == 0 || plan_.k == 0) {
      return;
    }
    describe();
    if (choice.config == kChosenAtLoad) {
      chooseAlgorithm();
      log::debug("cuda", "{} {}", algorithmKey(op), recorded(context.architecture).str());
    } else {
      takeRecorded(RecordedAlgorithm::parse(choice.config), context.architecture);
    }
    std::int64_t calls = 1;
    for (const BatchAxis& axis : plan_.outer) {
      calls *= axis.extent;
    }
    calls_ = calls;
  }
  ~Product() override {
    for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
      if (layout != nullptr) {
        lt().forgetLayout(layout);
      }
    }
    if (description_ != nullptr) {
      lt().forget(description_);
    }
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void launch(const KernelRun& run) override {
    if (bytes_ != 0 && plan_.k == 0) {  // sums of nothing
      check(cudaMemsetAsync(run.outputs[0], 0, bytes_, run.stream), "cudaMemsetAsync");
    }
    for (std::int64_t call = 0; call < calls_; ++call) {
      multiply(run, call);
    }
  }

 private:
  void describe() {
    const bool doubles = dtype_ == DType::F64;
    lt().require(lt().describe(&description_,
                               doubles ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                               doubles ? CUDA_R_64F : CUDA_R_32F),
                 "describe");
    const cublasOperation_t first = plan_.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = plan_.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
    lt().require(lt().set(description_, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)), "set");
    lt().require(lt().set(description_, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)),
                 "set");
    const auto [m, n, k] = std::tuple(plan_.m, plan_.n, plan_.k);
    a_ = plan_.transposeA ? layoutOf(m, k, plan_.inner.strideA)
                          : layoutOf(k, m, plan_.inner.strideA);
    b_ = plan_.transposeB ? layoutOf(k, n, plan_.inner.strideB)
                          : layoutOf(n, k, plan_.inner.strideB);
    c_ = layoutOf(n, m, plan_.inner.strideC);
  }

  cublasLtMatrixLayout_t layoutOf(std::int64_t rows,
                                  std::int64_t columns,
                                  std::int64_t stride) const {
    cublasLtMatrixLayout_t layout = nullptr;
    lt().require(lt().layout(&layout,
                             dataType(dtype_),
                             static_cast<std::uint64_t>(rows),
                             static_cast<std::uint64_t>(columns),
                             rows),
                 "layout");
    const auto count = static_cast<std::int32_t>(plan_.inner.extent);
    lt().require(lt().setLayout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                 "batch count");
    lt().require(lt().setLayout(
                     layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
                 "batch stride");
    return layout;
  }

  /// What every operand of every call is a multiple of.
  std::uint32_t alignment(std::int64_t BatchAxis::*stride) const {
    std::int64_t common = 256;
    for (const BatchAxis& axis : plan_.outer) {
      common = std::gcd(common, axis.*stride * static_cast<std::int64_t>(byteSize(dtype_)));
    }
    return static_cast<std::uint32_t>(common);
  }

  void chooseAlgorithm() {
    cublasLtMatmulPreference_t preference = nullptr;
    lt().require(lt().preference(&preference), "preference");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      lt().require(lt().setPreference(preference, attribute, &value, sizeof(value)), "prefer");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(&BatchAxis::strideB));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(&BatchAxis::strideA));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(&BatchAxis::strideC));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(&BatchAxis::strideC));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        lt().heuristic(handle_, description_, b_, a_, c_, c_, preference, 1, &found, &count);
    lt().forgetPreference(preference);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      raise<Unsupported>("cuBLASLt has no algorithm for a product of {} x {} x {} in {}: {}",
                         plan_.m,
                         plan_.k,
                         plan_.n,
                         name(dtype_),
                         lt().text(status));
    }
    algorithm_ = found.algo;
  }

  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(RecordedAlgorithm::words));

  RecordedAlgorithm recorded(const std::string& architecture) const {
    RecordedAlgorithm made{.architecture = architecture, .library = lt().version(), .words = {}};
    std::memcpy(made.words.data(), &algorithm_, sizeof(algorithm_));
    return made;
  }

  /// Throws Unsupported if the algorithm is for another chip or version, or needs more room.
  void takeRecorded(const RecordedAlgorithm& given, const std::string& architecture) {
    if (given.architecture != architecture || given.library != lt().version()) {
      raise<Unsupported>(
          "the tuning table has an algorithm of cuBLASLt {} for {}, and this is {} for {}: record "
          "it again, or remove the line",
          given.library,
          given.architecture,
          lt().version(),
          architecture);
    }
    std::memcpy(&algorithm_, given.words.data(), sizeof(algorithm_));
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t status =
        lt().checkAlgorithm(handle_, description_, b_, a_, c_, c_, &algorithm_, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found.workspaceSize > workspace_) {
      raise<Unsupported>(
          "the algorithm that the tuning table has for a product of {} x {} x {} in {} cannot run "
          "it with {} bytes of workspace: {}",
          plan_.m,
          plan_.k,
          plan_.n,
          name(dtype_),
          workspace_,
          lt().text(status));
    }
  }

  void multiply(const KernelRun& run, std::int64_t call) const {
    std::int64_t at[3] = {0, 0, 0};
    for (const BatchAxis& axis : plan_.outer) {
      const std::int64_t i = call % axis.extent;
      at[0] += i * axis.strideA;
      at[1] += i * axis.strideB;
      at[2] += i * axis.strideC;
      call /= axis.extent;
    }
    const auto element = [&](void* base, std::int64_t offset) -> void* {
      return static_cast<std::byte*>(base) + offset * static_cast<std::int64_t>(byteSize(dtype_));
    };
    const float one = 1;
    const float zero = 0;
    const double wideOne = 1;
    const double wideZero = 0;
    const bool doubles = dtype_ == DType::F64;
    void* const c = element(run.outputs[0], at[2]);
    lt().require(lt().matmul(handle_,
                             description_,
                             doubles ? static_cast<const void*>(&wideOne) : &one,
                             element(run.inputs[1], at[1]),
                             b_,
                             element(run.inputs[0], at[0]),
                             a_,
                             doubles ? static_cast<const void*>(&wideZero) : &zero,
                             c,
                             c_,
                             c,
                             c_,
                             &algorithm_,
                             run.scratch,
                             workspace_,
                             run.stream),
                 "matmul");
  }

  ProductPlan plan_;
  DType dtype_;
  std::size_t bytes_;
  std::size_t workspace_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::int64_t calls_ = 0;
};

}  // namespace

bool supportsMatMul(const ir::OpView& op) {
  return isFloat(op.inputs[0].dtype);
}

/// Room for the partial sums of a product that is cut along its inner extent; the algorithms for
/// 16-bit floats use more.
device::Choice chooseMatMul(const ir::OpView& op, const device::Tuning& tuning) {
  constexpr std::size_t kParts = 32;
  const bool half = byteSize(op.inputs[0].dtype) == 2;
  const std::size_t most = std::size_t{half ? 32U : 4U} << 20U;
  device::Choice choice = device::plainChoice(op, "");
  const auto elements = static_cast<std::size_t>(op.outputs[0].shape.elements());
  choice.scratchBytes = std::min(most, elements * kParts * sizeof(float));
  const auto recorded = tuning.find(algorithmKey(op));
  choice.config = recorded == tuning.end() ? std::string(kChosenAtLoad) : recorded->second;
  return choice;
}

std::unique_ptr<Kernel> makeMatMul(const ir::OpView& op,
                                   const device::Choice& choice,
                                   const MakeContext& context) {
  return std::make_unique<Product>(op, choice, context);
}

}  // namespace sluice::devices::cuda
