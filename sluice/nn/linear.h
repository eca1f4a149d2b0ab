// Linear and Embedding: layers with one weight matrix, as in PyTorch.
#pragma once

#include <cstdint>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::F32;
};

/// x wᵀ + b over the last axis.
class Linear : public Layer {
 public:
  Linear(Module& parent,
         std::string name,
         std::int64_t inFeatures,
         std::int64_t outFeatures,
         LinearOptions options = {});
  std::string kind() const override { return "Linear"; }
  Tensor forward(const Tensor& x) override;

  Parameter& weight;  ///< [out, in]
  Parameter* bias;    ///< [out] or null
};

/// Looks up rows of a table by integer indices of any shape. The table starts with values from N(0,
/// 1).
class Embedding : public Layer {
 public:
  Embedding(Module& parent,
            std::string name,
            std::int64_t numEmbeddings,
            std::int64_t dimension,
            DType dtype = DType::F32);
  std::string kind() const override { return "Embedding"; }
  Tensor forward(const Tensor& indices) override;

  Parameter& weight;  ///< [numEmbeddings, dimension]
};

}  // namespace sluice::nn

#pragma GCC visibility pop
