#include "sluice/api/executable_file.h"

#include <array>
#include <charconv>
#include <deque>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sluice/api/executable_bytes.h"
#include "sluice/base/byte_code.h"
#include "sluice/base/error.h"
#include "sluice/custom/abi.h"
#include "sluice/ir/byte_form.h"
#include "sluice/ops/op_list.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic = "SLUICEex";
constexpr std::size_t kTensorAlignment = 64;
constexpr std::string_view kModelPrefix = "model/";
constexpr std::string_view kOptimizerPrefix = "optimizer/";
constexpr std::string_view kReplicaPrefix = "replica";
constexpr std::size_t kMostReplicas = 1 << 16;

SectionFile::Expected executableFormat() {
  return {.magic = kMagic,
          .major = kExecutableVersion.major,
          .what = "executable",
          .hint = "Model::compileAndExport makes one",
          .sums = kStateSums};
}

/// Calls a reader. What it finds wrong is a defect of the file, whoever noticed it.
template <class F>
auto reading(const SectionFile& file, std::string_view section, F read) {
  try {
    return read();
  } catch (const FileError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    raise<FileError>("executable '{}', {}: {}{}{}",
                     file.name(),
                     section,
                     error.message(),
                     error.location().empty() ? "" : ", at ",
                     error.location());
  }
}

/// Unpacks a section and reads all of it.
template <class F>
auto readSection(const SectionFile& file,
                 const SectionFile::Entry& entry,
                 const std::string& section,
                 F read) {
  const std::string bytes = file.unpacked(entry);
  ByteReader in(bytes, fmt::format("executable '{}', {},", file.name(), section));
  return reading(file, section, [&] { return read(in); });
}

/// All tensors of a state, under names that say what they are.
NamedTensors flatState(const TrainingState& state) {
  NamedTensors all;
  for (const auto& [name, tensor] : state.model) {
    all.emplace(fmt::format("{}{}", kModelPrefix, name), tensor);
  }
  for (const auto& [name, tensor] : flattened(state.optimizer)) {
    all.emplace(fmt::format("{}{}", kOptimizerPrefix, name), tensor);
  }
  for (std::size_t r = 0; r < state.replicas.size(); ++r) {
    for (const auto& [name, tensor] : state.replicas[r]) {
      all.emplace(fmt::format("{}{}/{}", kReplicaPrefix, r + 1, name), tensor);
    }
  }
  return all;
}

/// The tensors of which "replica2/norm.running_mean" is one; nullptr if the name has another form.
NamedTensors* replicaOf(TrainingState& state, std::string_view name) {
  const std::size_t slash = name.find('/');
  if (!name.starts_with(kReplicaPrefix) || slash == std::string_view::npos) {
    return nullptr;
  }
  const std::string_view digits = name.substr(0, slash).substr(kReplicaPrefix.size());
  std::size_t replica = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), replica);
  const bool known = error == std::errc() && end == digits.end() && !digits.starts_with('0') &&
                     replica >= 1 && replica <= state.replicas.size();
  return known ? &state.replicas[replica - 1] : nullptr;
}

void placeTensor(StoredState& stored, std::string_view name, HostTensor tensor, ByteReader& in) {
  if (name.starts_with(kModelPrefix)) {
    stored.state.model.emplace(name.substr(kModelPrefix.size()), std::move(tensor));
  } else if (NamedTensors* replica = replicaOf(stored.state, name)) {
    replica->emplace(name.substr(name.find('/') + 1), std::move(tensor));
  } else {
    in.fail(fmt::format("'{}' is no tensor of a state", name));
  }
}

}  // namespace

std::string sectionName(std::uint32_t kind) {
  constexpr std::string_view kNames[] = {"info",
                                         "optimizer",
                                         "program",
                                         "graph",
                                         "state",
                                         "values of the state",
                                         "checksums of the values"};
  return kind >= 1 && kind <= std::size(kNames) ? std::string(kNames[kind - 1])
                                                : fmt::format("of kind {}", kind);
}

std::string TargetRecord::difference(const TargetRecord& here) const {
  if (library != here.library) {
    return fmt::format("version {} of Sluice made it, this is {}", library, here.library);
  }
  if (devices != here.devices || descriptions != here.descriptions) {
    return fmt::format("it is for {} ({}), the devices here are {} ({})",
                       devices,
                       fmt::join(descriptions, "; "),
                       here.devices,
                       fmt::join(here.descriptions, "; "));
  }
  return tuning != here.tuning ? "it was compiled with another tuning table" : "";
}

// --- writing -----------------------------------------------------------------

/// Gathers the sections of a content.
class ExecutableWriter {
 public:
  explicit ExecutableWriter(const ExecutableContent& content) : content_(content) {
    add(ExecutableFile::kInfo, [&](ByteWriter& out) { writeInfo(out, content); });
    if (content.optimizer) {
      add(ExecutableFile::kOptimizer,
          [&](ByteWriter& out) { writeOptimizer(out, *content.optimizer); });
    }
    for (const StoredProgram& program : content.programs) {
      add(ExecutableFile::kProgram, [&](ByteWriter& out) { writeStored(out, program); });
    }
    for (const TracedGraph& graph : content.graphs) {
      add(ExecutableFile::kGraph, [&](ByteWriter& out) { writeTraced(out, graph); });
    }
    if (content.state) {
      addState(*content.state);
    }
  }
  void write(const std::filesystem::path& path) const { writer_.write(path); }

 private:
  template <class F>
  void add(std::uint32_t kind, F write) {
    ByteWriter out;
    write(out);
    writer_.add(kind, out.bytes());
  }

  void addState(const StoredState& stored) {
    const TrainingState& state = stored.state;
    tensors_ = flatState(state);
    ByteWriter out;
    out.number(stored.updates);
    out.fixed(state.rng.seed, 8);
    out.number(state.rng.microBatch);
    out.text(state.run);
    out.text(state.rule);
    out.number(std::uint64_t{state.replicas.size()});
    out.number(std::uint64_t{tensors_.size()});
    std::vector<std::string_view> pieces;
    std::uint64_t offset = 0;
    for (const auto& [name, tensor] : tensors_) {
      out.text(name);
      ir::writeType(out, tensor.type());
      out.number(std::int64_t(offset));
      const std::size_t bytes = tensor.byteCount();
      const std::size_t padding = (kTensorAlignment - bytes % kTensorAlignment) % kTensorAlignment;
      pieces.emplace_back(reinterpret_cast<const char*>(tensor.bytes()), bytes);
      pieces.emplace_back(kZeros.data(), padding);
      offset += bytes + padding;
    }
    writer_.add(ExecutableFile::kState, out.bytes());
    writer_.addMapped(ExecutableFile::kStateData, joined(std::move(pieces)));
    writer_.addSums(kStateSums);
  }

  /// Pieces of whole words: a tensor that ends inside a word is joined with its padding.
  std::vector<std::string_view> joined(std::vector<std::string_view> pieces) {
    std::vector<std::string_view> whole;
    for (std::size_t i = 0; i < pieces.size(); i += 2) {
      const std::string_view tensor = pieces[i];
      const std::size_t words = tensor.size() / 8 * 8;
      whole.push_back(tensor.substr(0, words));
      ends_.push_back(std::string(tensor.substr(words)).append(pieces[i + 1]));
      whole.push_back(ends_.back());
    }
    return whole;
  }

  static constexpr std::array<char, kTensorAlignment> kZeros = {};
  const ExecutableContent& content_;
  NamedTensors tensors_;          // as long as the writer refers to them
  std::deque<std::string> ends_;  // which stay where they are
  SectionWriter writer_{kMagic, kExecutableVersion};
};

void writeExecutable(const std::filesystem::path& path, const ExecutableContent& content) {
  ExecutableWriter(content).write(path);
}

// --- reading -----------------------------------------------------------------

ExecutableFile::ExecutableFile(const std::filesystem::path& path)
    : file_(path, executableFormat()) {
  read();
}

ExecutableFile::ExecutableFile(std::string_view bytes, std::string name)
    : file_(bytes, std::move(name), executableFormat()) {
  read();
}

void ExecutableFile::read() {
  readSection(file_, file_.one(kInfo, "the model"), "the section 'info'", [&](ByteReader& in) {
    readInfo(in, content_);
  });
  requireCustomOps();  // before their names are met
  if (content_.training) {
    content_.optimizer =
        readSection(file_, file_.one(kOptimizer, "its optimizer"), "the optimizer", readOptimizer);
  }
  const auto programs = file_.all(kProgram);
  for (std::size_t p = 0; p < programs.size(); ++p) {
    content_.programs.push_back(
        readSection(file_, *programs[p], fmt::format("program {}", p), readStored));
  }
  if (file_.all(kGraph).size() != programs.size() || programs.empty()) {
    raise<FileError>("executable '{}' has {} programs and {} graphs, expected as many, at least 1",
                     name(),
                     programs.size(),
                     file_.all(kGraph).size());
  }
}

void ExecutableFile::requireCustomOps() const {
  for (const CustomOpRecord& each : content_.customOps) {
    if (each.abi != custom::abi::kVersion) {
      raise<Unsupported>(
          "executable '{}' uses {} of library '{}', which has version {} of the interface of "
          "custom "
          "ops; this library has version {}",
          name(),
          each.op,
          each.library,
          each.abi,
          custom::abi::kVersion);
    }
    if (ops::opSet().find(each.op) == nullptr) {
      raise<InvalidArgument>(
          "executable '{}' uses {} of library '{}', which is not loaded: call loadCustomOps with "
          "it "
          "first",
          name(),
          each.op,
          each.library);
    }
  }
}

TracedGraph ExecutableFile::graph(std::size_t program) const {
  return readSection(
      file_, *file_.all(kGraph)[program], fmt::format("graph {}", program), readTraced);
}

StoredState ExecutableFile::state() const {
  const SectionFile::Entry& entry = file_.one(kState, "the state");
  const SectionFile::Entry& values = file_.one(kStateData, "the values of the state");
  const std::string_view data = file_.stored(values);
  return readSection(file_, entry, "the state", [&](ByteReader& in) {
    StoredState stored;
    stored.updates = in.within(0, std::numeric_limits<std::int64_t>::max(), "the updates");
    stored.state.rng.seed = in.fixed(8);
    stored.state.rng.microBatch =
        in.within(0, std::numeric_limits<std::int64_t>::max(), "the number of a micro-batch");
    stored.state.run = in.text();
    stored.state.rule = in.text();
    const std::size_t replicas = in.count("replicas");
    if (replicas > kMostReplicas) {
      in.fail(fmt::format("it has {} replicas, expected at most {}", replicas, kMostReplicas));
    }
    stored.state.replicas.resize(replicas);
    const std::size_t count = in.count("tensors");
    NamedTensors optimizer;
    std::uint64_t used = 0;  // tensors lie one after the other, so that all together fit the file
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = in.text();
      const TensorType type = ir::readType(in);
      const auto offset = static_cast<std::uint64_t>(
          in.within(0, std::numeric_limits<std::int64_t>::max(), "an offset"));
      if (values.packed || offset % kTensorAlignment != 0 || offset > data.size() ||
          type.bytes() > data.size() - offset) {
        in.fail(fmt::format("'{}', {} at {}, is not in the file", name, type.str(), offset));
      }
      if (offset < used) {
        in.fail(fmt::format("'{}' is at {}, expected at least {}", name, offset, used));
      }
      used = offset + type.bytes();
      // The file is mapped for reading; whoever gets the tensor copies it.
      auto* bytes = const_cast<std::byte*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          reinterpret_cast<const std::byte*>(data.data() + offset));
      const std::shared_ptr<const void> memory = file_.memory();
      HostTensor tensor = HostTensor::over(type, {bytes, [memory](std::byte*) {}});
      if (name.starts_with(kOptimizerPrefix)) {
        optimizer.emplace(name.substr(kOptimizerPrefix.size()), std::move(tensor));
      } else {
        placeTensor(stored, name, std::move(tensor), in);
      }
    }
    in.end();
    stored.state.optimizer = sectioned(optimizer);
    if (!optimizer.empty()) {  // a rule may have no state
      stored.state.optimizer.try_emplace(std::string(kIpuState));
    }
    return stored;
  });
}

}  // namespace sluice
