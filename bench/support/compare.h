// For benchmarks against another framework: both are measured in processes of their own, on one
// processor, started in turns, and compared by the medians over the launches. A launch prints one
// JSON object whose "us_per_update" counts; its other numbers are reported as medians, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace sluice::bench {

using Json = nlohmann::ordered_json;

double median(std::vector<double> values);

/// Microseconds of wall clock and of the process's CPU time per call, medians over single calls.
struct CallTimes {
  double wall = 0;
  double cpu = 0;
  double spread = 0;  ///< (third quartile - first) / median of the wall clock
};
CallTimes timeCalls(const std::function<void()>& call, int warmUp, int calls);

/// "us_per_update" and its companions for calls of `updates` updates each.
Json perUpdate(const CallTimes& times, double updates);

struct Launch {
  std::string name;
  std::vector<std::string> command;  ///< program and arguments
};

/// This program again, with these arguments.
Launch self(std::vector<std::string> arguments);
/// A script of this folder under PyTorch with one thread and the allocator's best settings.
Launch torch(const std::string& script, std::vector<std::string> arguments);

/// {"sluice": ..., "torch": {"best": name, settings...}, "ratio": best torch / sluice}; without
/// "torch" and "ratio" where PyTorch cannot be imported. Throws std::runtime_error when a launch
/// fails.
Json compare(const Launch& ours, const std::vector<Launch>& peers, int launches);

}  // namespace sluice::bench
