// sluice version and ops.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/input_file.h"
#include "sluice/base/version.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/registry.h"
#include "sluice/onnx/files.h"
#include "sluice/ops/op_list.h"

namespace sluice::cli {
namespace {

std::uint64_t tuningHash(const device::Tuning& tuning) {
  Hasher hasher;
  for (const auto& [key, value] : tuning) {
    hasher.add(std::string_view(key)).add(std::string_view(value));
  }
  return hasher.digest();
}

int version() {
  const auto device = devices::cpu::makeCpuDevice();
  fmt::print("sluice {}\n", sluice::version());
  fmt::print("Results are the same bits wherever these lines are the same:\n");
  fmt::print("  device kind    {}\n", device->info().kind);
  fmt::print("  instructions   {}\n", device->info().description);
  fmt::print("  tuning table   {:016x}\n", tuningHash(device->kernels().tuning()));
  std::vector<std::string> kinds;
  for (const devices::KindInfo& kind : devices::deviceKinds()) {
    kinds.push_back(
        fmt::format("{}{}", kind.name, kind.unusable.empty() ? "" : " (not usable here)"));
  }
  fmt::print(
      "Built in:\n  devices        {}\n  ops            {}\n  ONNX           opsets 1 to 17\n",
      fmt::join(kinds, ", "),
      ops::opSet().all().size());
  return 0;
}

std::string inputsOf(const ir::OpDef& def) {
  if (def.maxInputs == ir::kVariadic) {
    return fmt::format("{}+", def.minInputs);
  }
  return def.minInputs == def.maxInputs ? fmt::format("{}", def.minInputs)
                                        : fmt::format("{}-{}", def.minInputs, def.maxInputs);
}

/// How the CPU device runs it.
std::string kernelsOf(const ir::OpDef& def) {
  std::vector<std::string_view> names = devices::cpu::cpuKernelTable().implementations(def.name);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) {
    return def.decompose != nullptr ? "its parts" : def.reference != nullptr ? "plain loops" : "";
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// ONNX's ops by domain with the versions that are read, in lines of this width.
int listOnnx() {
  constexpr std::size_t kWidth = 96;
  for (const std::string domain : {"", "ai.onnx.preview.training", "ai.graphcore"}) {
    fmt::print("{}:\n", domain.empty() ? "default domain" : domain);
    std::string line;
    for (const std::string& name : onnx::readableOps(domain)) {
      const std::string entry =
          fmt::format(" {}_{}", name, fmt::join(onnx::readableVersions(domain, name), "/"));
      if (line.size() + entry.size() > kWidth) {
        fmt::print(" {}\n", line);
        line.clear();
      }
      line += entry;
    }
    fmt::print(" {}\n", line);
  }
  return 0;
}

/// Per op what a file of lines "op types" says; the file of the conformance suite's `op_types`.
std::map<std::string, std::string, std::less<>> readTypes(const std::string& path) {
  std::istringstream file(readFile(path, kTextFileLimit));
  std::map<std::string, std::string, std::less<>> types;
  for (std::string op, rest; file >> op && std::getline(file >> std::ws, rest);) {
    types.insert_or_assign(op, rest);
  }
  return types;
}

std::string gradientOf(const ir::OpDef& def) {
  return def.grad != nullptr ? "yes" : def.decompose != nullptr ? "by its parts" : "no";
}

/// The cells of one line.
std::vector<std::string> rowOf(const ir::OpDef& def) {
  std::vector<std::string_view> attrs;
  for (const ir::AttrSpec& spec : def.attrs) {
    attrs.push_back(spec.name);
  }
  std::vector<std::string> onnx;
  for (const ir::OnnxName& name : def.onnx) {
    onnx.push_back(fmt::format("{}_{}", name.name, name.since));
  }
  return {std::string(def.name),
          inputsOf(def),
          def.outputs == ir::kVariadic ? "any" : std::to_string(def.outputs),
          gradientOf(def),
          kernelsOf(def),
          fmt::format("{}", fmt::join(attrs, ", ")),
          fmt::format("{}", fmt::join(onnx, " "))};
}

struct OpListing {
  bool markdown = false;
  bool onnx = false;
  std::string types;  ///< the path of a file
};

constexpr std::size_t kTypesColumn = 3;

void printRow(const OpListing& listing, std::vector<std::string> cells, const std::string& types) {
  if (!listing.types.empty()) {
    cells.insert(cells.begin() + kTypesColumn, types);
  }
  if (listing.markdown) {
    fmt::print("| {} |\n", fmt::join(cells, " | "));
    return;
  }
  constexpr std::array<std::size_t, 8> kWidths = {28, 7, 8, 12, 18, 24, 24, 0};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    fmt::print("{:<{}} ", cells[i], kWidths.at(i));
  }
  fmt::print("\n");
}

int listOps(const OpListing& listing) {
  const std::vector<std::string> names = {
      "op", "inputs", "outputs", "gradient", "cpu", "attributes", "ONNX"};
  printRow(listing, names, "types");
  if (listing.markdown) {
    printRow(listing, std::vector<std::string>(names.size(), "---"), "---");
  }
  const auto types = listing.types.empty() ? std::map<std::string, std::string, std::less<>>{}
                                           : readTypes(listing.types);
  for (const ir::OpDef* def : ops::opSet().all()) {
    const auto found = types.find(def->name);
    printRow(listing, rowOf(*def), found == types.end() ? "" : found->second);
  }
  return 0;
}

}  // namespace

void addVersion(CLI::App& app, Action& action) {
  app.add_subcommand("version", "Print the version and the scope in which results are bit-equal")
      ->callback([&action] { action = version; });
}

void addOps(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("ops", "List every op");
  const auto listing = std::make_shared<OpListing>();
  command->add_flag("--markdown", listing->markdown, "As a Markdown table");
  command->add_flag("--onnx", listing->onnx, "The ONNX ops that are read from model files");
  command->add_option("--types", listing->types, "A file of lines `op types`, for one more column");
  command->callback([&action, listing] {
    action = [listing] { return listing->onnx ? listOnnx() : listOps(*listing); };
  });
}

}  // namespace sluice::cli
