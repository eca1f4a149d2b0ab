#include "bench/support/compare.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include <errno.h>  // program_invocation_short_name

namespace sluice::bench {
namespace {

double quantile(std::vector<double> values, double share) {
  const auto at = values.begin() +
                  static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double cpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::string inQuotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result + "'";
}

/// Both sides get the same single processor: helper threads of either are paid for, and the
/// scheduler does not move them about. The last one has the fewest interrupts.
Json run(const Launch& launch) {
  std::string line = "taskset -c " + std::to_string(std::thread::hardware_concurrency() - 1) + " ";
  for (const std::string& word : launch.command) {
    line += inQuotes(word) + " ";
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  if (!pipe) {
    throw std::runtime_error("cannot start " + line);
  }
  std::string output;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    output.append(buffer.data(), count);
  }
  const Json result = Json::parse(output, nullptr, false);
  if (!result.is_object()) {
    throw std::runtime_error(line + "printed no JSON object");
  }
  return result;
}

/// Medians of all numbers over launches; other fields are those of the last one.
Json summarize(const std::vector<Json>& launches) {
  Json summary = launches.back();
  std::vector<double> all;
  for (auto& [key, value] : summary.items()) {
    if (!value.is_number()) {
      continue;
    }
    std::vector<double> values;
    for (const Json& launch : launches) {
      values.push_back(launch.at(key).get<double>());
    }
    value = median(values);
    if (key == "us_per_update") {
      all = values;
    }
  }
  summary["launches_us"] = all;
  return summary;
}

}  // namespace

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

CallTimes timeCalls(const std::function<void()>& call, int warmUp, int calls) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int i = 0; i < warmUp + calls; ++i) {
    const auto start = Clock::now();
    const double cpuStart = cpuSeconds();
    call();
    if (i >= warmUp) {
      cpu.push_back(1e6 * (cpuSeconds() - cpuStart));
      wall.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  }
  const double middle = median(wall);
  return {middle, median(cpu), (quantile(wall, 0.75) - quantile(wall, 0.25)) / middle};
}

Json perUpdate(const CallTimes& times, double updates) {
  return {{"us_per_update", times.wall / updates},
          {"cpu_us_per_update", times.cpu / updates},
          {"spread", times.spread}};
}

Launch self(std::vector<std::string> arguments) {
  if (const char* run = std::getenv("SLUICE_RUN"); run != nullptr) {  // of a bundle
    arguments.insert(arguments.begin(), {run, program_invocation_short_name});
  } else {
    arguments.insert(arguments.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  }
  return {"sluice", std::move(arguments)};
}

Launch torch(const std::string& script, std::vector<std::string> arguments) {
  std::string name;
  for (const std::string& argument : arguments) {
    name += (name.empty() ? "" : " ") + argument;
  }
  std::vector<std::string> command = {"/usr/bin/env",
                                      "OMP_NUM_THREADS=1",
                                      "MALLOC_TOP_PAD_=268435456",
                                      "MALLOC_MMAP_THRESHOLD_=4294967296",
                                      "MALLOC_TRIM_THRESHOLD_=4294967296",
                                      "/usr/bin/python3",
                                      std::string(SLUICE_BENCH_DIR) + "/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return {name, std::move(command)};
}

Json compare(const Launch& ours, const std::vector<Launch>& peers, int launches) {
  std::vector<Json> own;
  std::vector<std::vector<Json>> others(peers.size());
  bool available = true;
  for (int i = 0; i < launches; ++i) {
    own.push_back(run(ours));
    for (std::size_t p = 0; available && p < peers.size(); ++p) {
      const Json result = run(peers[p]);
      available = !result.contains("unavailable");
      others[p].push_back(result);
    }
  }
  Json report = {{ours.name, summarize(own)}};
  if (!available) {
    report["torch"] = others[0].back();
    return report;
  }
  Json torch = {{"best", ""}};
  std::string best;
  for (std::size_t p = 0; p < peers.size(); ++p) {
    torch[peers[p].name] = summarize(others[p]);
    if (best.empty() || torch[peers[p].name]["us_per_update"] < torch[best]["us_per_update"]) {
      best = peers[p].name;
    }
  }
  torch["best"] = best;
  const auto ratio = [&](const char* key) {
    return torch[best][key].get<double>() / report[ours.name][key].get<double>();
  };
  report["ratio"] = ratio("us_per_update");
  report["cpu_ratio"] = ratio("cpu_us_per_update");
  report["torch"] = torch;
  return report;
}

}  // namespace sluice::bench
