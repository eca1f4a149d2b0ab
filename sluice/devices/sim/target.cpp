#include "sluice/devices/sim/target.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/base/near_names.h"
#include "sluice/devices/sim/built_in.h"

namespace sluice::devices::sim {
namespace {

using Json = nlohmann::json;  // finds keys among many quickly
using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMostHertz = 9'000'000'000;
constexpr std::int32_t kMostCores = 1 << 20;
constexpr double kMostRate = 1e24;

/// Reads the members of one JSON object; every key must be known.
class Members {
 public:
  Members(const Json& object, std::string_view where, std::string path)
      : json_(object), where_(where), path_(std::move(path)) {
    if (!object.is_object()) {
      raise<ConfigFileError>(
          "{}: expected {} to be an object with keys", where_, path_.empty() ? "a target" : path_);
    }
  }

  void requireKnown(std::span<const std::string_view> known) const {
    for (const auto& [key, value] : json_.items()) {
      if (std::ranges::find(known, key) == known.end()) {
        raise<ConfigFileError>(
            "{}: there is no key '{}'{}", where_, nameOf(key), didYouMean(key, known));
      }
    }
  }

  const Json* find(std::string_view key) const {
    const auto found = json_.find(std::string(key));
    return found == json_.end() ? nullptr : &*found;
  }

  std::string text(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return "";
    }
    if (!value->is_string()) {
      raise<ConfigFileError>("{}: expected {} to be a text", where_, nameOf(key));
    }
    return value->get<std::string>();
  }

  double number(std::string_view key, double least, double most, double otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return otherwise;
    }
    const double found = value->is_number() ? value->get<double>() : std::nan("");
    if (!(found >= least && found <= most)) {
      raise<ConfigFileError>("{}: expected {} to be a number from {} to {}, got {}",
                             where_,
                             nameOf(key),
                             least,
                             most,
                             value->is_structured() ? value->type_name() : value->dump());
    }
    return found;
  }

  std::int64_t whole(std::string_view key, std::int64_t least, std::int64_t most) const {
    const double found = number(
        key, static_cast<double>(least), static_cast<double>(most), static_cast<double>(least));
    if (found != std::floor(found)) {
      raise<ConfigFileError>("{}: expected {} to be a whole number", where_, nameOf(key));
    }
    return static_cast<std::int64_t>(found);
  }

  bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) {
      raise<ConfigFileError>("{}: expected {} to be true or false", where_, nameOf(key));
    }
    return value != nullptr && value->get<bool>();
  }

  Members inside(std::string_view key) const {
    static const Json kEmpty = Json::object();
    const Json* value = find(key);
    return {value == nullptr ? kEmpty : *value, where_, nameOf(key)};
  }

  const Json& json() const { return json_; }

 private:
  std::string nameOf(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  const Json& json_;
  std::string_view where_;
  std::string path_;
};

device::Link linkIn(const Members& target, std::string_view key) {
  static constexpr std::array<std::string_view, 2> kKeys = {"bytesPerSecond", "latencySeconds"};
  const Members link = target.inside(key);
  link.requireKnown(kKeys);
  return {.bytesPerSecond = link.number("bytesPerSecond", 0, kMostRate, 0),
          .latencySeconds = link.number("latencySeconds", 0, 1e3, 0)};
}

device::ComputeRates ratesIn(const Members& target) {
  static constexpr std::array<std::string_view, 4> kKeys = {"f32", "f16", "bf16", "f64"};
  const Members rates = target.inside("flops");
  rates.requireKnown(kKeys);
  const auto rate = [&](std::string_view key) { return rates.number(key, 0, kMostRate, 0); };
  return {.f32 = rate("f32"), .f16 = rate("f16"), .bf16 = rate("bf16"), .f64 = rate("f64")};
}

constexpr std::array<std::string_view, 22> kTargetKeys = {"name",
                                                          "description",
                                                          "clockHz",
                                                          "memoryBytes",
                                                          "flops",
                                                          "memoryBytesPerSecond",
                                                          "kernelTicks",
                                                          "peerLink",
                                                          "hostLink",
                                                          "remoteLink",
                                                          "sumBytesPerSecond",
                                                          "syncSeconds",
                                                          "taskSeconds",
                                                          "wakeSeconds",
                                                          "cores",
                                                          "hostStreams",
                                                          "processes",
                                                          "processLink",
                                                          "messageSeconds",
                                                          "ipuRules",
                                                          "kernels",
                                                          "sources"};

SimTarget targetIn(const Json& json, std::string_view where) {
  const Members in(json, where, "");
  in.requireKnown(kTargetKeys);
  SimTarget target;
  target.name = in.text("name");
  target.description = in.text("description");
  if (target.name.empty()) {
    raise<ConfigFileError>("{}: a target has a name", where);
  }
  target.clockHz = in.whole("clockHz", 1, kMostHertz);
  if (in.find("clockHz") == nullptr) {
    raise<ConfigFileError>("{}: a target has clockHz, its ticks per second", where);
  }
  target.memoryBytes = static_cast<std::size_t>(in.whole("memoryBytes", 0, std::int64_t{1} << 52));
  target.flops = ratesIn(in);
  target.memoryBytesPerSecond = in.number("memoryBytesPerSecond", 0, kMostRate, 0);
  target.kernelTicks = in.whole("kernelTicks", 0, kMostHertz);
  target.machine = {
      .peer = linkIn(in, "peerLink"),
      .host = linkIn(in, "hostLink"),
      .remote = linkIn(in, "remoteLink"),
      .sumBytesPerSecond = in.number("sumBytesPerSecond", 0, kMostRate, 0),
      .syncSeconds = in.number("syncSeconds", 0, 1e3, 0),
      .taskSeconds = in.number("taskSeconds", 0, 1e3, 0),
      .wakeSeconds = in.number("wakeSeconds", 0, 1e3, 0),
      .cores = static_cast<std::int32_t>(in.whole("cores", 0, kMostCores)),
      .hostStreams = static_cast<std::int32_t>(in.whole("hostStreams", 0, kMostCores)),
      .processes = std::max(1, static_cast<std::int32_t>(in.whole("processes", 0, kMostCores))),
      .process = linkIn(in, "processLink"),
      .messageSeconds = in.number("messageSeconds", 0, 1e3, 0)};
  target.ipuRules = in.flag("ipuRules");
  const Members kernels = in.inside("kernels");
  for (const auto& [key, value] : kernels.json().items()) {
    target.kernels[key] = kernels.number(key, 0, 1e6, 0);
  }
  const Members sources = in.inside("sources");
  for (const auto& [key, value] : sources.json().items()) {
    target.sources[key] = sources.text(key);
  }
  return target;
}

OrderedJson linkJson(const device::Link& link) {
  return {{"bytesPerSecond", link.bytesPerSecond}, {"latencySeconds", link.latencySeconds}};
}

}  // namespace

std::string print(const SimTarget& target) {
  const device::MachineRates& machine = target.machine;
  OrderedJson kernels = OrderedJson::object();
  for (const auto& [key, seconds] : target.kernels) {
    kernels[key] = seconds;
  }
  OrderedJson sources = OrderedJson::object();
  for (const auto& [key, text] : target.sources) {
    sources[key] = text;
  }
  const OrderedJson json = {{"name", target.name},
                            {"description", target.description},
                            {"clockHz", target.clockHz},
                            {"memoryBytes", target.memoryBytes},
                            {"flops",
                             {{"f32", target.flops.f32},
                              {"f16", target.flops.f16},
                              {"bf16", target.flops.bf16},
                              {"f64", target.flops.f64}}},
                            {"memoryBytesPerSecond", target.memoryBytesPerSecond},
                            {"kernelTicks", target.kernelTicks},
                            {"peerLink", linkJson(machine.peer)},
                            {"hostLink", linkJson(machine.host)},
                            {"remoteLink", linkJson(machine.remote)},
                            {"sumBytesPerSecond", machine.sumBytesPerSecond},
                            {"syncSeconds", machine.syncSeconds},
                            {"taskSeconds", machine.taskSeconds},
                            {"wakeSeconds", machine.wakeSeconds},
                            {"cores", machine.cores},
                            {"hostStreams", machine.hostStreams},
                            {"processes", machine.processes},
                            {"processLink", linkJson(machine.process)},
                            {"messageSeconds", machine.messageSeconds},
                            {"ipuRules", target.ipuRules},
                            {"kernels", kernels},
                            {"sources", sources}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

SimTarget parseTarget(std::string_view json, std::string_view where) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    raise<ConfigFileError>("{} is not valid JSON", where);
  }
  return targetIn(parsed, where);
}

std::vector<std::string> builtInTargets() {
  std::vector<std::string> names;
  for (const BuiltIn& target : builtIns()) {
    names.emplace_back(target.name);
  }
  return names;
}

std::string measuredPath() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path folder = variable("SLUICE_CACHE_DIR");
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty()) {
    folder = variable("XDG_CACHE_HOME") / "sluice";
  }
  if (folder.empty() && !variable("HOME").empty()) {
    folder = variable("HOME") / ".cache" / "sluice";
  }
  return folder.empty() ? "" : (folder / "measured.json").string();
}

SimTarget findTarget(std::string_view name) {
  const std::string_view wanted = name.empty() ? "ipu2" : name;
  for (const BuiltIn& target : builtIns()) {
    if (target.name == wanted) {
      return parseTarget(target.json, target.name);
    }
  }
  if (wanted != "measured" && !wanted.ends_with(".json")) {
    raise<InvalidArgument>(
        "there is no target '{}' to simulate: expected {}, measured, or a file that ends in .json",
        wanted,
        fmt::join(builtInTargets(), ", "));
  }
  const std::string path = wanted == "measured" ? measuredPath() : std::string(wanted);
  std::string text;
  try {
    text = readFile(path, kTextFileLimit);
  } catch (const Error& error) {
    raise<ConfigFileError>("cannot read the target '{}': {}{}",
                           wanted,
                           error.message(),
                           wanted == "measured" ? "; `sluice calibrate` makes it" : "");
  }
  if (wanted != "measured") {
    return parseTarget(text, path);
  }
  try {
    return parseTarget(text, path);
  } catch (const ConfigFileError& error) {
    raise<ConfigFileError>("{}; `sluice calibrate` makes it again", error.message());
  }
}

}  // namespace sluice::devices::sim
