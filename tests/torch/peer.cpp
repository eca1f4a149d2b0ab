#include "tests/torch/peer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <sys/wait.h>

#include "tests/support/temp_folder.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

nlohmann::json describe(const TensorType& type) {
  return {{"dtype", std::string(name(type.dtype))}, {"shape", type.shape.dims()}};
}

nlohmann::json writeAll(const Tensors& tensors, const std::string& prefix) {
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) {
    std::ofstream file(prefix + name + ".bin", std::ios::binary);
    file.write(reinterpret_cast<const char*>(tensor.bytes()),
               static_cast<std::streamsize>(tensor.byteCount()));
    list[name] = describe(tensor.type());
  }
  return list;
}

HostTensor readFile(const std::string& path, const TensorType& type) {
  HostTensor tensor(type);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(tensor.bytes()),
            static_cast<std::streamsize>(tensor.byteCount()));
  if (!file || file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error("PyTorch wrote another size of " + fs::path(path).filename().string());
  }
  return tensor;
}

Shape shapeFrom(const std::string& path) {
  std::ifstream file(path);
  return Shape(nlohmann::json::parse(file).get<std::vector<std::int64_t>>());
}

}  // namespace

std::optional<PeerResult> runInTorch(const PeerJob& job) {
  const TempFolder folder;
  const std::string in = (folder / "in.").string();
  const std::string out = (folder / "out.").string();
  const nlohmann::json manifest = {{"model", job.model},
                                   {"optimizer", job.optimizer},
                                   {"steps", job.steps},
                                   {"state", writeAll(job.state, in)},
                                   {"inputs", writeAll(job.inputs, in)}};
  std::ofstream(folder / "manifest.json") << manifest;
  const std::string command =
      std::string("/usr/bin/python3 '") + SLUICE_TORCH_PEER + "' '" + folder.path().string() + "'";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTorch) {
    return std::nullopt;
  }
  if (status != 0) {
    throw std::runtime_error("peer.py failed");
  }
  PeerResult result;
  result.output = readFile(out + "output.bin", {DType::F32, shapeFrom(out + "shape.json")});
  result.losses = readFile(out + "losses.bin", {DType::F32, {job.steps}});
  for (const auto& [name, tensor] : job.state) {
    result.state.emplace(name, readFile(out + "state." + name + ".bin", tensor.type()));
  }
  return result;
}

}  // namespace sluice::testing
