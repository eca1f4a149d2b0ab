// The tables of builder_ops_test.cpp. They call each op of the Builder's sets once on small tensors
// and state its name in the standard and the types of its results.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "sluice/frontends/popart/builder.h"

namespace sluice::opcases {

using Values = std::vector<double>;
using Ints = std::vector<std::int64_t>;
using Ids = std::vector<TensorId>;

/// Holds the tensors that most ops take and makes others on demand.
struct Fixture {
  Builder b;
  AiOnnx o{b};
  AiGraphcore g{b};
  TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  TensorId square = b.addInputTensor({DType::F32, Shape{3, 3}}, "square");
  TensorId image = b.addInputTensor({DType::F32, Shape{1, 2, 4, 4}}, "image");
  TensorId sequence = b.addInputTensor({DType::F32, Shape{5, 2, 3}}, "sequence");
  TensorId whole = b.addInputTensor({DType::I32, Shape{2, 3}}, "whole");
  TensorId bytes = b.addInputTensor({DType::U8, Shape{2, 3}}, "bytes");
  TensorId flags = b.addInputTensor({DType::Bool, Shape{2, 3}}, "flags");

  TensorId f32(Shape shape, const Values& values) {
    return b.addConstant(tensor(DType::F32, std::move(shape), values));
  }
  TensorId i64(Shape shape, const Values& values) {
    return b.addConstant(tensor(DType::I64, std::move(shape), values));
  }
  TensorId u8(Shape shape, const Values& values) {
    return b.addConstant(tensor(DType::U8, std::move(shape), values));
  }
  TensorId ones(Shape shape) {
    return b.addConstant(HostTensor::full({DType::F32, std::move(shape)}, 1.0));
  }
  TensorId flag(const Values& values) {
    return b.addConstant(tensor(DType::Bool, Shape{std::ssize(values)}, values));
  }
  static HostTensor tensor(DType dtype, Shape shape, const Values& values) {
    HostTensor result(dtype, std::move(shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      result.set(static_cast<std::int64_t>(i), values[i]);
    }
    return result;
  }
};

struct Case {
  std::string_view onnx;  ///< the op's name in the standard
  std::function<std::vector<TensorId>(Fixture&)> make;
  std::vector<TensorType> types;
};

inline const TensorType kSame{DType::F32, Shape{2, 3}};
inline const TensorType kTruth{DType::Bool, Shape{2, 3}};

inline TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}
inline TensorType i64(Shape shape) {
  return {DType::I64, std::move(shape)};
}

/// The case of an op with one result.
inline Case op(std::string_view onnx, TensorId (*make)(Fixture&), TensorType type) {
  return {onnx, [make](Fixture& f) { return Ids{make(f)}; }, {std::move(type)}};
}

// AiOnnx.
std::vector<Case> unaryCases();
std::vector<Case> binaryCases();
std::vector<Case> linearCases();
std::vector<Case> poolCases();
std::vector<Case> normalizationCases();
std::vector<Case> reductionCases();
std::vector<Case> indexingCases();
std::vector<Case> shapeCases();
std::vector<Case> reshapingCases();
std::vector<Case> imageAndRandomCases();
std::vector<Case> sequenceCases();

// AiGraphcore.
std::vector<Case> vendorElementwiseCases();
std::vector<Case> vendorIndexingCases();
std::vector<Case> vendorNnCases();
std::vector<Case> vendorRunCases();

}  // namespace sluice::opcases
