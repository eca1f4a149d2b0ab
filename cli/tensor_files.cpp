#include "cli/tensor_files.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/data/files.h"

namespace sluice::cli {

NamedFile namedFile(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return {"", std::string(text)};
  }
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

TensorMap readTensors(std::string_view option, const std::vector<std::string>& texts) {
  TensorMap tensors;
  const auto add = [&](const std::string& name, HostTensor tensor) {
    if (!tensors.emplace(name, std::move(tensor)).second) {
      throw CLI::ValidationError(std::string(option), fmt::format("'{}' is given twice", name));
    }
  };
  for (const std::string& text : texts) {
    const NamedFile file = namedFile(text);
    if (file.name.empty() && file.path.ends_with(".npz")) {
      for (auto& [name, tensor] : data::readNpz(file.path)) {
        add(name, std::move(tensor));
      }
    } else if (!file.name.empty() && file.path.ends_with(".npy")) {
      add(file.name, data::readNpy(file.path));
    } else {
      throw CLI::ValidationError(
          std::string(option),
          fmt::format("expected NAME=FILE.npy, or FILE.npz with named arrays; got '{}'", text));
    }
  }
  return tensors;
}

std::string listed(const ir::Graph& graph, const std::vector<ir::OpId>& inputs) {
  std::vector<std::string> texts;
  texts.reserve(inputs.size());
  for (const ir::OpId id : inputs) {
    texts.push_back(fmt::format("{} {}", graph.op(id).name, graph.op(id).outputs[0].str()));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<HostTensor> inOrder(const ir::Graph& graph, const TensorMap& tensors) {
  const std::vector<ir::OpId> inputs = graph.inputs();
  std::vector<HostTensor> ordered;
  std::size_t used = 0;
  for (const ir::OpId id : inputs) {
    const ir::Op& op = graph.op(id);
    const auto found = tensors.find(op.name);
    if (found == tensors.end()) {
      raise<InvalidArgument>(
          "the input '{}' is missing: give it as {}=FILE.npy. The model has the inputs {}",
          op.name,
          op.name,
          listed(graph, inputs));
    }
    const TensorType& type = op.outputs[0];
    if (found->second.type() != type) {
      const bool onlyType = found->second.shape() == type.shape;
      raise<InvalidArgument>("the input '{}' is {}, but the model expects {}{}",
                             op.name,
                             found->second.type().str(),
                             type.str(),
                             onlyType ? "; NumPy's astype converts it" : "");
    }
    ordered.push_back(found->second);
    ++used;
  }
  if (used < tensors.size()) {
    for (const auto& each : tensors) {
      const std::string& name = each.first;
      if (std::ranges::none_of(inputs, [&](ir::OpId id) { return graph.op(id).name == name; })) {
        raise<InvalidArgument>("the model has no input '{}'; it has {}",
                               name,
                               inputs.empty() ? "none" : listed(graph, inputs));
      }
    }
  }
  return ordered;
}

}  // namespace sluice::cli
