// What an executable holds, as values, and its file (docs/executable.md). ModelCore fills one in to
// save a model; ExecutableSource makes a model of one. Private: users see executable.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/api/executable_options.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/inputs.h"
#include "sluice/api/target_record.h"
#include "sluice/api/training_state.h"
#include "sluice/base/section_file.h"
#include "sluice/compile/compile.h"
#include "sluice/optim/record.h"
#include "sluice/tensor/structure.h"

namespace sluice {

/// 1.1 added the quick checksums of the values.
inline constexpr FormatVersion kExecutableVersion{1, 1};
inline constexpr std::uint32_t kStateSums = 7;  ///< the kind of their section

/// A library whose ops the programs use.
struct CustomOpRecord {
  std::string op;       ///< "com.example.Name.1"
  std::string library;  ///< its file name
  std::uint32_t abi = 0;
};

/// One program of a model.
struct StoredProgram {
  Structure<TensorType> signature;
  BatchLayout layout;
  std::size_t outputs = 0;
  Structure<std::size_t> result;
  compiler::Compiled compiled;
};

/// The state of a model: that of a training model, or of an inference model its first part alone.
struct StoredState {
  TrainingState state;
  std::int64_t updates = 0;
};

struct ExecutableContent {
  bool training = false;
  bool madeOfModule = true;
  bool constantWeights = false;  ///< the programs contain the values of the weights
  std::uint64_t seed = 0;
  TargetRecord target;
  std::vector<CustomOpRecord> customOps;
  std::vector<SetterCall> options;  ///< that are not the defaults
  std::vector<Input> inputs;
  std::vector<ir::Variable> variables;  ///< the weights, then the buffers
  std::optional<optim::OptimizerRecord> optimizer;
  std::vector<StoredProgram> programs;
  std::vector<TracedGraph> graphs;   ///< of the programs, as they were traced
  std::optional<StoredState> state;  ///< not set: the file is without the model's values
};

/// Writes the file whole or not at all. Throws FileError.
void writeExecutable(const std::filesystem::path& path, const ExecutableContent& content);

/// An open file. Graphs and state are read when somebody asks for them.
class ExecutableFile {
 public:
  /// Throws FileError, which names the file, the place and what was expected.
  explicit ExecutableFile(const std::filesystem::path& path);
  /// The same for bytes that live as long as this object.
  ExecutableFile(std::string_view bytes, std::string name);

  const std::string& name() const { return file_.name(); }
  FormatVersion version() const { return file_.version(); }
  const std::vector<SectionFile::Entry>& sections() const { return file_.entries(); }
  /// Everything but graphs and state.
  const ExecutableContent& content() const { return content_; }
  /// Takes a program out of the content.
  StoredProgram take(std::size_t program) { return std::move(content_.programs[program]); }
  bool hasState() const { return !file_.all(kState).empty(); }
  TracedGraph graph(std::size_t program) const;
  /// Tensors that share the file's memory. Throws FileError if there is none.
  StoredState state() const;

 private:
  /// Kinds of sections.
  static constexpr std::uint32_t kInfo = 1;
  static constexpr std::uint32_t kOptimizer = 2;
  static constexpr std::uint32_t kProgram = 3;
  static constexpr std::uint32_t kGraph = 4;
  static constexpr std::uint32_t kState = 5;
  static constexpr std::uint32_t kStateData = 6;
  friend class ExecutableWriter;

  void read();
  void requireCustomOps() const;

  SectionFile file_;
  ExecutableContent content_;
};

/// The name of a kind of section, for people.
std::string sectionName(std::uint32_t kind);

}  // namespace sluice
