#include "sluice/api/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

std::int32_t positive(std::string_view what, std::int64_t count) {
  if (count < 1 || count > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("{} must be a positive 32-bit count, got {}", what, count);
  }
  return static_cast<std::int32_t>(count);
}

std::string_view name(OutputMode mode) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "All", "EveryN", "Final", "Sum", "Default"};
  return kNames[static_cast<std::size_t>(mode)];
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"k", 0x1p10},
                                          {"kb", 1e3},
                                          {"kib", 0x1p10},
                                          {"m", 0x1p20},
                                          {"mb", 1e6},
                                          {"mib", 0x1p20},
                                          {"g", 0x1p30},
                                          {"gb", 1e9},
                                          {"gib", 0x1p30},
                                          {"tib", 0x1p40}}};

}  // namespace

std::size_t parseBytes(std::string_view text) {
  const std::string owned(text);
  char* end = nullptr;
  const double number = std::strtod(owned.c_str(), &end);
  std::string unit;
  for (const char* c = end; *c != '\0'; ++c) {
    if (*c != ' ') {
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
  }
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  const bool valid = end != owned.c_str() && std::isfinite(number) && number >= 0 &&
                     found != kUnits.end() && number * found->bytes < 0x1p62;
  if (!valid) {
    raise<InvalidArgument>(
        "'{}' is not a size; expected a number of bytes such as 4096, 64KiB, 256MiB or 1.5GB",
        text);
  }
  return static_cast<std::size_t>(number * found->bytes);
}

TrainingOptions& TrainingOptions::gradientAccumulation(std::int64_t count) {
  gradientAccumulation_ = positive("gradientAccumulation", count);
  return *this;
}

TrainingOptions& TrainingOptions::accumulationReduction(Reduction reduction) {
  reduction_ = reduction;
  return *this;
}

Options& Options::deviceIterations(std::int64_t count) {
  deviceIterations_ = positive("deviceIterations", count);
  return *this;
}

Options& Options::setExecutionStrategy(parallel::Strategy strategy) {
  strategy_ = std::move(strategy);
  return *this;
}

Options& Options::outputMode(OutputMode mode, std::int64_t period) {
  const std::int32_t checked =
      mode == OutputMode::EveryN ? positive("the period of outputMode EveryN", period) : 1;
  outputMode_ = mode;
  outputPeriod_ = checked;
  return *this;
}

Options& Options::randomSeed(std::uint64_t seed) {
  randomSeed_ = seed;
  return *this;
}

Options& Options::threads(std::int64_t count) {
  if (count > 1024) {
    raise<InvalidArgument>("threads must be 1 to 1024, got {}", count);
  }
  threads_ = positive("threads", count);
  return *this;
}

Options& Options::memoryPerDevice(std::string_view size) {
  memoryPerDevice_ = parseBytes(size);
  return *this;
}

Options& Options::memoryPerDevice(std::size_t bytes) {
  memoryPerDevice_ = bytes;
  return *this;
}

Options& Options::fusion(bool enabled) {
  fusion_ = enabled;
  return *this;
}

Options& Options::verifyPrograms(bool enabled) {
  verifyPrograms_ = enabled;
  return *this;
}

Options& Options::tuningTable(std::string path) {
  tuningTable_ = std::move(path);
  return *this;
}

Options& Options::dumpDirectory(std::string path) {
  dumpDirectory_ = std::move(path);
  return *this;
}

std::string Options::str() const {
  return fmt::format(
      "deviceIterations: {}\noutputMode: {}\noutputPeriod: {}\nrandomSeed: {}\nthreads: {}\n"
      "memoryPerDevice: {}\nfusion: {}\nverifyPrograms: {}\ntuningTable: {}\ndumpDirectory: {}\n"
      "training.gradientAccumulation: {}\ntraining.accumulationReduction: {}\n",
      deviceIterations_,
      name(outputMode_),
      outputPeriod_,
      randomSeed_ ? std::to_string(*randomSeed_) : "not set",
      threads_,
      memoryPerDevice_ == 0 ? "not limited" : std::to_string(memoryPerDevice_),
      fusion_,
      verifyPrograms_,
      tuningTable_.empty() ? "shipped" : tuningTable_,
      dumpDirectory_.empty() ? "none" : dumpDirectory_,
      training.gradientAccumulation(),
      training.accumulationReduction() == Reduction::Mean ? "Mean" : "Sum");
}

}  // namespace sluice
