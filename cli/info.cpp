// sluice version, devices, ops.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "sluice/base/hash.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/onnx/import.h"
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

std::string memoryOfHost() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kilobytes = 0;
  if (file >> key >> kilobytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(kilobytes) / 0x1p20);
  }
  return "unknown";
}

int version() {
  const auto device = devices::cpu::makeCpuDevice();
  fmt::print("sluice {}\n", SLUICE_VERSION);
  fmt::print("Results are the same bits wherever these lines are the same:\n");
  fmt::print("  device kind    {}\n", device->info().kind);
  fmt::print("  instructions   {}\n", device->info().description);
  fmt::print("  tuning table   {:016x}\n", tuningHash(device->kernels().tuning()));
  return 0;
}

int listDevices() {
  const auto device = devices::cpu::makeCpuDevice();
  fmt::print("cpu  {} hardware threads, {} of memory, {}\n",
             std::thread::hardware_concurrency(),
             memoryOfHost(),
             device->info().description);
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

/// The names of ONNX's ops, by domain, in lines of this width.
int listOnnx() {
  constexpr std::size_t kWidth = 96;
  for (const char* domain : {"", "ai.onnx.preview.training", "ai.graphcore"}) {
    fmt::print("{}:\n", *domain == '\0' ? "default domain" : domain);
    std::string line;
    for (const std::string& name : onnx::readableOps(domain)) {
      if (line.size() + name.size() > kWidth) {
        fmt::print(" {}\n", line);
        line.clear();
      }
      line += " " + name;
    }
    fmt::print(" {}\n", line);
  }
  return 0;
}

int listOps(bool markdown) {
  const char* row = markdown ? "| {} | {} | {} | {} | {} | {} | {} |\n"
                             : "{:<28} {:<7} {:<8} {:<12} {:<18} {:<24} {}\n";
  const auto print = [&](auto... cells) { fmt::print(fmt::runtime(row), cells...); };
  print("op", "inputs", "outputs", "gradient", "cpu", "attributes", "ONNX");
  if (markdown) {
    print("---", "---", "---", "---", "---", "---", "---");
  }
  for (const ir::OpDef* def : ops::opSet().all()) {
    std::vector<std::string_view> attrs;
    for (const ir::AttrSpec& spec : def->attrs) {
      attrs.push_back(spec.name);
    }
    std::vector<std::string> onnx;
    for (const ir::OnnxName& name : def->onnx) {
      onnx.push_back(fmt::format("{}_{}", name.name, name.since));
    }
    print(std::string(def->name),
          inputsOf(*def),
          def->outputs == ir::kVariadic ? std::string("any") : std::to_string(def->outputs),
          std::string(def->grad != nullptr        ? "yes"
                      : def->decompose != nullptr ? "by its parts"
                                                  : "no"),
          kernelsOf(*def),
          fmt::format("{}", fmt::join(attrs, ", ")),
          fmt::format("{}", fmt::join(onnx, " ")));
  }
  return 0;
}

}  // namespace

void addVersion(CLI::App& app, Action& action) {
  app.add_subcommand("version", "Print the version and the scope in which results are bit-equal")
      ->callback([&action] { action = version; });
}

void addDevices(CLI::App& app, Action& action) {
  app.add_subcommand("devices", "List the devices of this machine")->callback([&action] {
    action = listDevices;
  });
}

void addOps(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("ops", "List every op");
  const auto markdown = std::make_shared<bool>(false);
  const auto onnx = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "As a Markdown table");
  command->add_flag("--onnx", *onnx, "The ONNX ops that are read from model files");
  command->callback([&action, markdown, onnx] {
    action = [markdown, onnx] { return *onnx ? listOnnx() : listOps(*markdown); };
  });
}

}  // namespace sluice::cli
