// Tensors that commands read and write as files: .npy and .npz of NumPy.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::cli {

using TensorMap = std::map<std::string, HostTensor, std::less<>>;

/// "NAME=FILE" in two; the name is empty if there is only a file.
struct NamedFile {
  std::string name;
  std::string path;
};
NamedFile namedFile(std::string_view text);

/// Reads texts NAME=FILE.npy, and FILE.npz, whose arrays have names. Throws CLI::ValidationError
/// for another form and for a name that is given twice, and FileError.
TensorMap readTensors(std::string_view option, const std::vector<std::string>& texts);

/// "x f32[2, 3], labels i64[2]".
std::string listed(const ir::Graph& graph, const std::vector<ir::OpId>& inputs);

/// The tensors in the order of the graph's inputs. Throws InvalidArgument if one is missing, of
/// another type, or not an input.
std::vector<HostTensor> inOrder(const ir::Graph& graph, const TensorMap& tensors);

}  // namespace sluice::cli
