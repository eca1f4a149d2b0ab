#include "cli/cut.h"

#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/near_names.h"
#include "sluice/parallel/leaf.h"

namespace sluice::cli {
namespace {

/// The op that makes a tensor with this name, of the file or of the graph.
ir::OpId makerOf(const onnx::ImportedModel& model, const std::string& name) {
  std::vector<std::string_view> known;
  for (const onnx::ImportedTensor& tensor : model.tensors) {
    if (tensor.name == name) {
      return tensor.value.op;
    }
    known.push_back(tensor.name);
  }
  for (const ir::OpId id : model.graph.order()) {
    const ir::Op& op = model.graph.op(id);
    if (op.name == name) {
      return id;
    }
    known.push_back(op.name);
  }
  raise<InvalidArgument>(
      "--cut: the model has no tensor '{}'{}; `sluice inspect --text` prints their names",
      name,
      didYouMean(name, known));
}

}  // namespace

std::vector<std::string> namesOf(std::string_view option, std::string_view list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.emplace_back(list.substr(begin, end - begin));
    if (names.back().empty()) {
      throw CLI::ValidationError(std::string(option),
                                 fmt::format("expected names as a,b, got '{}'", list));
    }
    begin = end + 1;
  }
  return names;
}

std::int64_t cutAfter(onnx::ImportedModel& model, const std::vector<std::string>& names) {
  std::set<ir::OpId> last;  // of their parts
  for (const std::string& name : names) {
    const ir::OpId maker = makerOf(model, name);
    if (parallel::isLeaf(model.graph.op(maker))) {
      raise<InvalidArgument>(
          "--cut: '{}' is an input, a weight or a constant; name a tensor that an op makes", name);
    }
    last.insert(maker);
  }
  std::int32_t part = 0;
  bool isEmpty = true;
  const std::vector<ir::OpId> order(model.graph.order().begin(), model.graph.order().end());
  for (const ir::OpId id : order) {
    if (parallel::isLeaf(model.graph.op(id))) {
      continue;
    }
    ir::Placement place = model.graph.op(id).place;
    place.device = part;
    place.stage = part;
    model.graph.setPlacement(id, place);
    isEmpty = last.contains(id);
    part += isEmpty ? 1 : 0;
  }
  if (isEmpty) {
    raise<InvalidArgument>("--cut: nothing comes after the last of {}; cut before the last op",
                           fmt::join(names, ", "));
  }
  return part + 1;
}

}  // namespace sluice::cli
