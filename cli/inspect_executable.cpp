// sluice inspect on an executable: what it is for, its programs, its sections.
#include "cli/inspect_executable.h"

#include <set>

#include <fmt/format.h>

#include "sluice/api/executable_file.h"
#include "sluice/base/input_file.h"
#include "sluice/ir/printer.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kMagicOfExecutables = "SLUICEex";

void printProgram(const StoredProgram& program, std::size_t number) {
  const program::Program& p = program.compiled.program;
  std::size_t kernels = 0;
  for (const program::Segment& segment : p.segments) {
    kernels += segment.calls.size();
  }
  fmt::print(
      "program {} \"{}\": {} devices, {} kernels, {} rows per micro-batch, {} micro-batches "
      "per call\n",
      number,
      p.name,
      p.devices.size(),
      kernels,
      program.layout.microBatch,
      program.layout.microBatches());
  for (const program::Port& feed : p.feeds) {
    fmt::print("  input {} {}\n", feed.name, feed.type.str());
  }
  for (const program::Port& drain : p.drains) {
    fmt::print("  output {} {}\n", drain.name, drain.type.str());
  }
}

void printHead(const ExecutableFile& file) {
  const ExecutableContent& content = file.content();
  fmt::print("executable for {}, format {}.{}, made by Sluice {}\n",
             content.training ? "training" : "inference",
             file.version().major,
             file.version().minor,
             content.target.library);
  fmt::print(
      "devices {} ({})\n", content.target.devices, fmt::join(content.target.descriptions, "; "));
  if (content.optimizer) {
    fmt::print("optimizer {}\n", content.optimizer->rule);
  }
  for (const CustomOpRecord& each : content.customOps) {
    fmt::print("custom op {} of {}, interface {}\n", each.op, each.library, each.abi);
  }
  for (const SetterCall& call : content.options) {
    fmt::print("option {}({})\n", call.setter, call.arguments);
  }
}

}  // namespace

bool isExecutable(const std::string& path) {
  const InputFile file(path);
  std::string magic(std::min<std::uint64_t>(file.size(), kMagicOfExecutables.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(magic)));
  return magic == kMagicOfExecutables;
}

std::vector<std::string> outputsOfExecutable(const std::string& path) {
  const ExecutableFile file(path);
  std::set<std::string> names;
  for (const StoredProgram& program : file.content().programs) {
    for (std::size_t i = 0; i < program.outputs; ++i) {
      names.insert(program.compiled.program.drains[i].name);
    }
  }
  return {names.begin(), names.end()};
}

void inspectExecutable(const std::string& path, ExecutableView view) {
  const ExecutableFile file(path);
  const ExecutableContent& content = file.content();
  if (view == ExecutableView::Program) {
    for (const StoredProgram& program : content.programs) {
      fmt::print("{}", program::print(program.compiled.program));
    }
    return;
  }
  if (view == ExecutableView::Graph) {
    for (std::size_t i = 0; i < content.programs.size(); ++i) {
      fmt::print("{}", ir::print(file.graph(i).graph));
    }
    return;
  }
  printHead(file);
  for (std::size_t i = 0; i < content.programs.size(); ++i) {
    printProgram(content.programs[i], i);
  }
  for (const ir::Variable& variable : content.variables) {
    fmt::print("  variable {} {} {}\n", variable.name, variable.type.str(), name(variable.role));
  }
  for (const SectionFile::Entry& entry : file.sections()) {
    fmt::print("section {}: {} bytes at {}, {} unpacked\n",
               sectionName(entry.kind),
               entry.stored,
               entry.offset,
               entry.size);
  }
}

}  // namespace sluice::cli
