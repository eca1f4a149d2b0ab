// sluice devices: the kinds of devices, and what they do on this machine now.
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/wait_line.h"
#include "sluice/device/cost_model.h"
#include "sluice/devices/measure.h"
#include "sluice/devices/registry.h"

namespace sluice::cli {
namespace {

struct DevicesSettings {
  int threads = 1;
  bool json = false;
};

std::optional<std::uint64_t> memoryOfHost() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kilobytes = 0;
  if (file >> key >> kilobytes) {
    return kilobytes << 10U;
  }
  return std::nullopt;
}

/// A kind, and what a device of it does.
struct KindReport {
  devices::KindInfo kind;
  devices::Measured measured;  ///< nothing, if it cannot be used or is modelled
  bool modelled = false;
};

std::vector<KindReport> reports(int threads) {
  std::vector<KindReport> all;
  for (const devices::KindInfo& kind : devices::deviceKinds()) {
    KindReport& report = all.emplace_back(KindReport{kind, {}, false});
    if (kind.unusable.empty()) {
      const auto device =
          devices::makeDevice({.name = {.kind = std::string(kind.name)}, .threads = threads});
      report.kind.info = device->info();
      report.modelled = device::costModelOf(*device) != nullptr;
      if (!report.modelled) {
        report.measured = devices::measureRates(*device);
      }
    }
  }
  return all;
}

void line(std::string_view name, std::string_view text) {
  fmt::print("     {:<15} {}\n", name, text);
}

std::string textOf(const device::Link& link) {
  if (link.bytesPerSecond == 0 && link.latencySeconds == 0) {
    return "no limit of its own";
  }
  return fmt::format(
      "{}{:.4g} us before the first byte",
      link.bytesPerSecond == 0 ? "" : fmt::format("{:.4g} GB/s, ", link.bytesPerSecond * 1e-9),
      link.latencySeconds * 1e6);
}

std::string textOf(const device::ComputeRates& rates) {
  std::string text;
  const auto add = [&](std::string_view type, double rate) {
    text += fmt::format("{}{} {}",
                        text.empty() ? "" : ", ",
                        type,
                        rate == 0 ? "none" : fmt::format("{:.4g}", rate * 1e-9));
  };
  add("f32", rates.f32);
  add("f16", rates.f16);
  add("bf16", rates.bf16);
  add("f64", rates.f64);
  return text;
}

void printKind(const KindReport& report) {
  const auto& [kind, measured, modelled] = report;
  fmt::print("{}  {}\n", kind.name, kind.summary);
  if (!kind.unusable.empty()) {
    line("cannot be used", kind.unusable);
    return;
  }
  const device::DeviceInfo& info = kind.info;
  line("devices", kind.count ? fmt::format("{}", *kind.count) : "any number, made on demand");
  line("instructions", info.description);
  line("memory",
       fmt::format("{}, buffers at multiples of {} bytes, {}",
                   info.memoryBytes == 0 ? "as much as the host gives"
                                         : fmt::format("{} bytes", info.memoryBytes),
                   info.alignment,
                   info.hostReadable ? "the host can read it" : "the host cannot read it"));
  line("queues",
       fmt::format("{}; {}",
                   info.asynchronous ? "work while the host goes on" : "work in the host's threads",
                   info.copyEngines == 0 ? "copies by threads of the host"
                                         : fmt::format("{} copy engines", info.copyEngines)));
  line("link to host", textOf(info.hostLink));
  line("link to others", textOf(info.peerLink));
  if (modelled) {
    line("modelled",
         fmt::format("{} Gflop/s, {:.4g} GB/s of memory: its times are virtual",
                     textOf(info.rates),
                     info.memoryBytesPerSecond * 1e-9));
    return;
  }
  fmt::print("     measured now, with {} {} for the products and 1 for copies:\n",
             info.threads,
             info.threads == 1 ? "thread" : "threads");
  line("  products", fmt::format("{} Gflop/s, of square matrices", textOf(measured.rates)));
  line(
      "  memory",
      fmt::format("{:.4g} GB/s, read and written by a copy", measured.memoryBytesPerSecond * 1e-9));
  line("  host",
       fmt::format("{:.4g} GB/s from it, {:.4g} GB/s to it",
                   measured.fromHostBytesPerSecond * 1e-9,
                   measured.toHostBytesPerSecond * 1e-9));
  line("  launch", fmt::format("{:.4g} us", measured.launchSeconds * 1e6));
}

nlohmann::ordered_json jsonOf(const device::Link& link) {
  return {{"bytesPerSecond", link.bytesPerSecond}, {"latencySeconds", link.latencySeconds}};
}

nlohmann::ordered_json jsonOf(const device::ComputeRates& rates) {
  return {{"f32", rates.f32}, {"f16", rates.f16}, {"bf16", rates.bf16}, {"f64", rates.f64}};
}

nlohmann::ordered_json jsonOf(const KindReport& report) {
  const auto& [kind, measured, modelled] = report;
  nlohmann::ordered_json json = {{"kind", kind.name}, {"summary", kind.summary}};
  if (!kind.unusable.empty()) {
    json["unusable"] = kind.unusable;
    return json;
  }
  const device::DeviceInfo& info = kind.info;
  json["devices"] = nullptr;  // any number
  if (kind.count) {
    json["devices"] = *kind.count;
  }
  json["description"] = info.description;
  json["memoryBytes"] = info.memoryBytes;
  json["alignment"] = info.alignment;
  json["hostReadable"] = info.hostReadable;
  json["asynchronous"] = info.asynchronous;
  json["copyEngines"] = info.copyEngines;
  json["hostLink"] = jsonOf(info.hostLink);
  json["peerLink"] = jsonOf(info.peerLink);
  if (modelled) {
    json["modelled"] = {{"flopsPerSecond", jsonOf(info.rates)},
                        {"memoryBytesPerSecond", info.memoryBytesPerSecond}};
    return json;
  }
  json["measured"] = {{"threads", info.threads},
                      {"flopsPerSecond", jsonOf(measured.rates)},
                      {"memoryBytesPerSecond", measured.memoryBytesPerSecond},
                      {"fromHostBytesPerSecond", measured.fromHostBytesPerSecond},
                      {"toHostBytesPerSecond", measured.toHostBytesPerSecond},
                      {"launchSeconds", measured.launchSeconds}};
  return json;
}

int listDevices(const DevicesSettings& settings) {
  const unsigned threads = std::thread::hardware_concurrency();
  const std::optional<std::uint64_t> memory = memoryOfHost();
  const std::vector<KindReport> kinds = [&] {
    const WaitLine line("measuring devices");
    return reports(settings.threads);
  }();
  if (settings.json) {
    nlohmann::ordered_json json = {{"hostThreads", threads},
                                   {"hostMemoryBytes", memory.value_or(0)},
                                   {"kinds", nlohmann::ordered_json::array()}};
    for (const KindReport& report : kinds) {
      json["kinds"].push_back(jsonOf(report));
    }
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} hardware threads, {} of memory\n",
             threads,
             memory ? fmt::format("{:.1f} GiB", static_cast<double>(*memory) / 0x1p30) : "unknown");
  for (const KindReport& report : kinds) {
    printKind(report);
  }
  fmt::print("Choose by --device or SLUICE_DEVICE: {}\n", kDeviceForm);
  return 0;
}

}  // namespace

void addDevices(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("devices", "List the kinds of devices of this machine and measure them");
  const auto settings = std::make_shared<DevicesSettings>();
  command->add_option("--threads", settings->threads, "Threads of the devices that are measured")
      ->transform(wholeNumber(1, 1024))
      ->capture_default_str();
  command->add_flag("--json", settings->json, "As JSON");
  command->callback(
      [&action, settings] { action = [settings] { return listDevices(*settings); }; });
}

}  // namespace sluice::cli
