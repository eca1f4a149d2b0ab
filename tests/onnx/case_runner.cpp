#include "tests/onnx/case_runner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sluice/onnx/proto.h"
#include "sluice/sluice.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx;

/// The tolerances of the standard's own runner.
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;
/// One place: the data files were made by cutting bits off, not by rounding.
constexpr double kRelativeBFloat16 = 0x1p-7;

/// Ops whose expected outputs come from NumPy's random stream.
constexpr std::array<std::string_view, 6> kRandomOps = {"Bernoulli",
                                                        "RandomNormal",
                                                        "RandomNormalLike",
                                                        "RandomUniform",
                                                        "RandomUniformLike",
                                                        "Multinomial"};

/// Why a case may be skipped: the words of our errors and what they stand for.
struct SkipReason {
  std::string_view word;
  std::string_view reason;
};
constexpr std::array<SkipReason, 2> kSkips = {
    {{"(string)", "string type"},
     {"shape depends on computed values", "output shape depends on computed values"}}};

/// An attribute that the data of a case was computed with and its node lacks.
struct Missing {
  std::string_view folder;
  std::string_view attr;
  float value;
};
/// The standard's default is 1e-6; the case of one tensor, made alike, has 0.01 in its node.
constexpr std::array<Missing, 1> kMissing = {{{"test_adam_multiple", "epsilon", 0.01F}}};

/// Gives the first node what it lacks; the attribute's name, empty if nothing is missing.
std::string complete(pb::ModelProto& model, const std::string& folder) {
  const auto found = std::ranges::find(kMissing, folder, &Missing::folder);
  if (found == kMissing.end()) {
    return "";
  }
  pb::AttributeProto& attr = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attr.set_name(std::string(found->attr));
  attr.set_type(pb::AttributeProto::FLOAT);
  attr.set_f(found->value);
  return attr.name();
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

HostTensor readTensor(const fs::path& path) {
  pb::TensorProto proto;
  if (!proto.ParseFromString(slurp(path))) {
    raise<FileError>("'{}' is no tensor", path.string());
  }
  onnx::ExternalFiles external(path.parent_path());
  return onnx::toHostTensor(proto, external);
}

/// The standard's data files hold bfloat16 as the 16-bit integers of the same bits.
HostTensor asDeclared(const HostTensor& tensor, const pb::ValueInfoProto& info) {
  const bool bits = info.type().tensor_type().elem_type() == pb::TensorProto::BFLOAT16 &&
                    tensor.dtype() == DType::U16;
  if (!bits) {
    return tensor;
  }
  HostTensor result(DType::BF16, tensor.shape());
  std::memcpy(result.bytes(), tensor.bytes(), tensor.byteCount());
  return result;
}

struct DataSet {
  NamedTensors inputs;
  NamedTensors expected;
};

/// The graph's inputs that the data files stand for, in order.
std::vector<const pb::ValueInfoProto*> inputsOf(const pb::GraphProto& graph,
                                                const fs::path& folder) {
  std::set<std::string> initialized;
  for (const pb::TensorProto& tensor : graph.initializer()) {
    initialized.insert(tensor.name());
  }
  std::vector<const pb::ValueInfoProto*> all;
  std::vector<const pb::ValueInfoProto*> fresh;
  for (const pb::ValueInfoProto& input : graph.input()) {
    all.push_back(&input);
    if (!initialized.contains(input.name())) {
      fresh.push_back(&input);
    }
  }
  // Older files give data for initializers too.
  return fs::exists(folder / fmt::format("input_{}.pb", fresh.size())) ? all : fresh;
}

DataSet readDataSet(const pb::GraphProto& graph, const fs::path& folder) {
  DataSet set;
  const std::vector<const pb::ValueInfoProto*> inputs = inputsOf(graph, folder);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const fs::path file = folder / fmt::format("input_{}.pb", i);
    if (fs::exists(file)) {
      set.inputs.insert_or_assign(inputs[i]->name(), asDeclared(readTensor(file), *inputs[i]));
    }
  }
  for (int i = 0; i < graph.output_size(); ++i) {
    const HostTensor tensor = readTensor(folder / fmt::format("output_{}.pb", i));
    set.expected.insert_or_assign(graph.output(i).name(), asDeclared(tensor, graph.output(i)));
  }
  return set;
}

bool close(double found, double expected, double relative) {
  if (std::isnan(expected) || std::isnan(found)) {
    return std::isnan(expected) && std::isnan(found);
  }
  return found == expected ||
         std::abs(found - expected) <= kAbsolute + relative * std::abs(expected);
}

/// Empty if they agree.
std::string compare(const std::string& name, const HostTensor& found, const HostTensor& expected) {
  if (found.type() != expected.type()) {
    return fmt::format(
        "output '{}' is {}, expected {}", name, found.type().str(), expected.type().str());
  }
  const bool exact = !isFloat(found.dtype());
  const double relative = found.dtype() == DType::BF16 ? kRelativeBFloat16 : kRelative;
  if (exact && found.sameBits(expected)) {
    return "";
  }
  for (std::int64_t i = 0; i < found.shape().elements(); ++i) {
    if (exact ? found.at(i) != expected.at(i) : !close(found.at(i), expected.at(i), relative)) {
      return fmt::format(
          "output '{}' element {}: {}, expected {}", name, i, found.at(i), expected.at(i));
    }
  }
  return "";
}

/// Type, shape, and the mean to four standard errors of a sample with values of this spread.
std::string compareStatistics(const std::string& name,
                              const HostTensor& found,
                              const HostTensor& expected) {
  if (found.type() != expected.type()) {
    return fmt::format(
        "output '{}' is {}, expected {}", name, found.type().str(), expected.type().str());
  }
  double squares = 0;
  const double mean = meanOf(expected);
  for (const double value : expected.toDoubles()) {
    squares += (value - mean) * (value - mean);
  }
  const auto count = static_cast<double>(std::max<std::int64_t>(expected.shape().elements(), 1));
  const double allowed = 4 * std::sqrt(2 * squares) / count + 1e-6;
  if (std::abs(meanOf(found) - mean) > allowed) {
    return fmt::format(
        "output '{}' has mean {}, expected {} +- {}", name, meanOf(found), mean, allowed);
  }
  return "";
}

bool isRandom(const pb::GraphProto& graph, const DataSet& set) {
  return std::ranges::any_of(graph.node(), [&](const pb::NodeProto& node) {
    if (std::ranges::find(kRandomOps, node.op_type()) != kRandomOps.end()) {
      return true;
    }
    // Dropout is random in training mode with a ratio above 0.
    if (node.op_type() != "Dropout" || node.input_size() < 3) {
      return false;
    }
    const auto training = set.inputs.find(node.input(2));
    const auto ratio = set.inputs.find(node.input(1));
    return training != set.inputs.end() && training->second.at(0) != 0 &&
           (ratio == set.inputs.end() || ratio->second.at(0) != 0);
  });
}

struct Imported {
  onnx::ImportedModel model;
  onnx::ImportOptions options;
};

/// Imports, binding inputs as long as a translation needs to know them.
Imported import(const pb::ModelProto& model, const fs::path& folder, const DataSet& set) {
  const std::string bytes = model.SerializeAsString();
  Imported result;
  for (const auto& [name, tensor] : set.inputs) {
    result.options.shapes.insert_or_assign(name, tensor.shape());
  }
  for (;;) {
    try {
      result.model =
          onnx::importModelBytes(std::as_bytes(std::span(bytes)), result.options, folder);
      return result;
    } catch (const onnx::NeedsConstant& error) {
      const std::size_t before = result.options.constants.size();
      for (const std::string& name : error.inputs()) {
        if (const auto found = set.inputs.find(name); found != set.inputs.end()) {
          result.options.constants.insert_or_assign(name, found->second);
        }
      }
      if (result.options.constants.size() == before) {
        throw;
      }
    }
  }
}

NamedTensors run(onnx::ImportedModel model, const NamedTensors& inputs) {
  const std::vector<ir::OpId> wanted = model.graph.inputs();
  NamedTensors fed;
  for (const ir::OpId id : wanted) {
    const std::string& name = model.graph.op(id).name;
    fed.insert_or_assign(name, inputs.at(name));
  }
  Builder builder(std::move(model));
  auto compiled = inferenceModel(builder, Options());
  return compiled.run(fed);
}

CaseResult runDataSet(const pb::ModelProto& model, const fs::path& data) {
  const pb::GraphProto& graph = model.graph();
  const DataSet set = readDataSet(graph, data);
  Imported imported = import(model, data.parent_path(), set);
  const NamedTensors outputs = run(std::move(imported.model), set.inputs);
  const bool random = isRandom(graph, set);
  for (const auto& [name, expected] : set.expected) {
    const std::string difference = random ? compareStatistics(name, outputs.at(name), expected)
                                          : compare(name, outputs.at(name), expected);
    if (!difference.empty()) {
      return {Verdict::Failed, difference};
    }
  }
  std::string note = random ? "statistics only" : "";
  for (const auto& [name, tensor] : imported.options.constants) {
    note += fmt::format("{}{}", note.empty() ? "constant: " : ", ", name);
  }
  return {Verdict::Passed, note};
}

/// A type that our tensors cannot have, among the inputs and outputs.
std::string foreignType(const pb::GraphProto& graph) {
  for (const auto* infos : {&graph.input(), &graph.output()}) {
    for (const pb::ValueInfoProto& info : *infos) {
      const pb::TypeProto& type = info.type();
      if (type.has_sequence_type()) {
        return "sequence type";
      }
      if (type.has_optional_type()) {
        return "optional type";
      }
      if (type.has_tensor_type() && type.tensor_type().elem_type() == pb::TensorProto::STRING) {
        return "string type";
      }
    }
  }
  return "";
}

}  // namespace

CaseResult runCase(const fs::path& folder) {
  const fs::path path = folder / "model.onnx";
  try {
    pb::ModelProto model;
    if (!model.ParseFromString(slurp(path))) {
      return {Verdict::Failed, "model.onnx cannot be parsed"};
    }
    if (const std::string foreign = foreignType(model.graph()); !foreign.empty()) {
      return {Verdict::Skipped, foreign};
    }
    const std::string added = complete(model, folder.filename().string());
    CaseResult result{Verdict::Failed, "no data set"};
    for (int i = 0;; ++i) {
      const fs::path data = folder / fmt::format("test_data_set_{}", i);
      if (!fs::exists(data)) {
        return result;
      }
      result = runDataSet(model, data);
      result.note += added.empty() ? "" : fmt::format("with the {} of its data", added);
      if (result.verdict == Verdict::Failed) {
        return result;
      }
    }
  } catch (const Unsupported& error) {
    for (const SkipReason& skip : kSkips) {
      if (std::string_view(error.what()).find(skip.word) != std::string_view::npos) {
        return {Verdict::Skipped, std::string(skip.reason)};
      }
    }
    return {Verdict::Failed, error.what()};
  } catch (const std::exception& error) {
    return {Verdict::Failed, error.what()};
  }
}

}  // namespace sluice::testing
