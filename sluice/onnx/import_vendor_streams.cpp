// Translations of the ai.graphcore ops that move tensors between a device and its host: remote
// buffers are state of the model, host streams its inputs and outputs.
#include <array>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/vendor.h"

namespace sluice::onnx {
namespace {

/// A file of the vendor's does not say how many rows a buffer has; one that is used without an
/// offset has one.
ops::RemoteBuffer bufferOf(Node& node) {
  const std::int64_t id = node.integer("bufferid");
  std::int64_t rows = node.integer("repeats", ops::rowsOfRemoteBuffer(node.b.graph(), id));
  if (rows == 0 && node.has(1)) {
    node.unsupported(
        fmt::format("how many rows remote buffer {} has is not said: give its first use the "
                    "attribute repeats",
                    id));
  }
  return {.id = id, .rows = rows == 0 && !node.hasAttr("repeats") ? 1 : rows};
}

Value offsetOf(Node& node) {
  return node.has(1) ? node.input(1) : Value();
}

/// The operand says only what type is loaded.
std::vector<Value> remoteLoad(Node& node) {
  const TensorType type = node.type(0);
  return {ops::remoteLoad(node.b, bufferOf(node), type, offsetOf(node))};
}

std::vector<Value> remoteStore(Node& node) {
  ops::remoteStore(node.b, bufferOf(node), node.input(0), offsetOf(node));
  return {};
}

std::string streamOf(const Node& node) {
  const ir::Attr* id = node.find("streamid");
  if (id == nullptr) {
    raise<InvalidArgument>("the attribute streamid is missing");
  }
  const auto* name = std::get_if<std::string>(id);
  return name != nullptr ? *name : fmt::format("stream{}", node.integer("streamid"));
}

/// An input of the model: one tensor for each micro-batch, so a stream can be read once.
std::vector<Value> hostLoad(Node& node) {
  const std::string stream = streamOf(node);
  for (const ir::OpId id : node.b.graph().inputs()) {
    if (node.b.graph().op(id).name == stream) {
      node.unsupported(fmt::format(
          "stream '{}' is an input already: it has one tensor for each micro-batch", stream));
    }
  }
  const TensorType type = node.type(0);
  return {node.b.input(stream, type)};
}

std::vector<Value> hostStore(Node& node) {
  node.b.graph().addOutput(streamOf(node), node.input(0));
  return {};
}

constexpr std::array kVendorStreamsTranslations = {
    Translation{"HostLoad", hostLoad, ops::kVendorDomain},
    Translation{"HostStore", hostStore, ops::kVendorDomain},
    Translation{"RemoteLoad", remoteLoad, ops::kVendorDomain},
    Translation{"RemoteStore", remoteStore, ops::kVendorDomain},
};

}  // namespace

std::span<const Translation> vendorStreamTranslations() {
  return kVendorStreamsTranslations;
}

}  // namespace sluice::onnx
