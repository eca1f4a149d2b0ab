// The translations of ONNX nodes, by family of ops. Each file of translations lists its own.
#pragma once

#include <span>
#include <string_view>

#include "sluice/ir/op_def.h"
#include "sluice/onnx/node.h"
#include "sluice/ops/custom_op.h"

namespace sluice::onnx {

std::span<const Translation> controlTranslations();
std::span<const Translation> elementwiseTranslations();
std::span<const Translation> imageTranslations();
std::span<const Translation> indexingTranslations();
std::span<const Translation> linearTranslations();
std::span<const Translation> lossTranslations();
std::span<const Translation> mathTranslations();
std::span<const Translation> nnTranslations();
std::span<const Translation> normTranslations();
std::span<const Translation> poolTranslations();
std::span<const Translation> randomTranslations();
std::span<const Translation> recurrentTranslations();
std::span<const Translation> reductionTranslations();
std::span<const Translation> sequenceTranslations();
std::span<const Translation> shapeTranslations();
std::span<const Translation> signalTranslations();
std::span<const Translation> trainingTranslations();
std::span<const Translation> vendorIndexingTranslations();
std::span<const Translation> vendorReplicaTranslations();
std::span<const Translation> vendorStreamTranslations();
std::span<const Translation> vendorTranslations();

/// The translation of an op; nullptr if there is none.
const Translation* findTranslation(std::string_view domain, std::string_view op);
/// The op of Sluice that has this ONNX name; nullptr if there is none.
const ir::OpDef* findDirect(std::string_view domain, std::string_view op);
/// Translates a node to an op of Sluice with the same operands and attributes. Throws Unsupported
/// for an attribute that the op does not have.
std::vector<Value> translateDirectly(Node& node, const ir::OpDef& def);

/// Translates a node to a custom op that was loaded. `examples` may be empty if the op infers its
/// types.
std::vector<Value> translateCustom(Node& node,
                                   const ops::CustomOpInfo& op,
                                   const std::vector<TensorType>& examples);

/// Translates a node of our own domain to the op of Sluice with that name. Throws Unsupported if
/// there is none.
std::vector<Value> translateOwn(Node& node);

}  // namespace sluice::onnx
