#include "cli/schedule_input.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/schedule/lock_step.h"

namespace sluice::cli {
namespace {

using schedule::PipelineKind;
using schedule::PipelineProblem;

constexpr std::size_t kMostPlaces = 6;
constexpr std::size_t kMostDigits = 12;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

/// digits / 10^places
struct Decimal {
  std::int64_t digits = 0;
  std::size_t places = 0;
};

std::optional<std::int64_t> readWhole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = error == std::errc() && end == text.data() + text.size();
  return all && value >= 0 ? std::optional(value) : std::nullopt;
}

Decimal readDecimal(std::string_view option, std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  const std::string digits = std::string(text.substr(0, point)) + std::string(fraction);
  const std::optional<std::int64_t> value =
      digits.size() > kMostDigits || digits.starts_with('-') ? std::nullopt : readWhole(digits);
  if (!value || fraction.size() > kMostPlaces) {
    raise<InvalidArgument>(
        "{}: expected a number of at least 0 with at most {} digits and {} decimals, got '{}'",
        option,
        kMostDigits,
        kMostPlaces,
        text);
  }
  return {*value, fraction.size()};
}

std::vector<std::int32_t> readList(std::string_view option, std::string_view text) {
  std::vector<std::int32_t> list;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<std::int64_t> value = readWhole(part);
    if (!value || *value >= 1 << 16) {
      raise<InvalidArgument>(
          "{}: expected whole numbers separated by commas, got '{}' in '{}'", option, part, text);
    }
    list.push_back(static_cast<std::int32_t>(*value));
  }
  return list;
}

/// Rows of decimals, `;` between rows and `,` within.
using Table = std::vector<std::vector<Decimal>>;

Table readTable(std::string_view option, std::string_view text, std::size_t columns) {
  Table table;
  for (const std::string_view row : split(text, ';')) {
    auto& numbers = table.emplace_back();
    for (const std::string_view part : split(row, ',')) {
      numbers.push_back(readDecimal(option, part));
    }
    if (numbers.size() != columns) {
      raise<InvalidArgument>("{}: expected {} numbers separated by commas for each stage, got '{}'",
                             option,
                             columns,
                             row);
    }
  }
  return table;
}

std::size_t mostPlaces(const Table& table) {
  std::size_t places = 0;
  for (const auto& row : table) {
    for (const Decimal& number : row) {
      places = std::max(places, number.places);
    }
  }
  return places;
}

std::int64_t powerOfTen(std::size_t exponent) {
  std::int64_t power = 1;
  for (std::size_t i = 0; i < exponent; ++i) {
    power *= 10;
  }
  return power;
}

std::int64_t scaled(const Decimal& number, std::size_t places) {
  return number.digits * powerOfTen(places - number.places);
}

/// The number of all chunks that share it.
std::int64_t scaled(std::string_view option,
                    const Decimal& number,
                    std::size_t places,
                    std::int32_t shares) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(scaled(number, places), shares, &product)) {
    raise<InvalidArgument>(
        "{}: a number of {} digits for each of {} chunks is too large: give fewer digits or "
        "decimals",
        option,
        fmt::formatted_size("{}", scaled(number, places)),
        shares);
  }
  return product;
}

/// Stages, devices and chunks before costs are looked at.
struct PipelineShape {
  std::vector<std::int32_t> devices;
  std::int32_t chunks = 1;  ///< stages that share the cost of one device
  std::int32_t stages = 0;  ///< as given by --stages; 0 with --devices
  std::size_t numDevices() const { return static_cast<std::size_t>(std::ranges::max(devices)) + 1; }
  /// How many stages share a row of costs, given the number of rows.
  std::int32_t shares(std::string_view option, std::size_t rows) const;
  /// The row of costs of a stage, given the number of rows.
  std::size_t rowOf(std::size_t stage, std::size_t rows) const {
    if (rows == 1) {
      return 0;
    }
    return rows == devices.size() ? stage : static_cast<std::size_t>(devices[stage]);
  }
};

std::int32_t PipelineShape::shares(std::string_view option, std::size_t rows) const {
  if (rows == devices.size() && rows != 1) {
    return 1;
  }
  if (rows == 1 || (stages > 0 && rows == static_cast<std::size_t>(stages))) {
    return chunks;
  }
  raise<InvalidArgument>("{}: expected numbers for 1 or {} stages, got {} groups separated by ';'",
                         option,
                         devices.size(),
                         rows);
}

/// Devices 0..p-1 forth and back: two chunks make a V.
std::vector<std::int32_t> zigzag(std::int32_t devices, std::int32_t chunks) {
  std::vector<std::int32_t> placement = schedule::roundRobinPlacement(devices, chunks);
  for (std::int32_t c = 1; c < chunks; c += 2) {
    const auto begin = placement.begin() + std::ptrdiff_t{c} * devices;
    std::reverse(begin, begin + devices);
  }
  return placement;
}

PipelineShape readShape(const ScheduleSettings& settings, PipelineKind kind) {
  PipelineShape shape;
  if (!settings.devices.empty()) {
    shape.devices = readList("--devices", settings.devices);
    const auto count = static_cast<std::int32_t>(shape.devices.size());
    if (settings.chunks > 0 || (settings.stages > 0 && settings.stages != count)) {
      raise<InvalidArgument>(
          "--devices: names a device for each of {} stages; leave out --stages and --chunks",
          count);
    }
    return shape;
  }
  if (settings.stages < 1) {
    raise<InvalidArgument>("--stages: expected at least 1, or --devices with a list of devices");
  }
  const bool chunked = kind == PipelineKind::Chunked || kind == PipelineKind::ZeroBubble;
  shape.stages = settings.stages;
  shape.chunks = settings.chunks > 0 ? settings.chunks : chunked ? 2 : 1;
  if (std::int64_t{shape.stages} * shape.chunks > kMostStages) {
    raise<InvalidArgument>("--stages: {} stages of {} chunks are more than the limit of {}",
                           shape.stages,
                           shape.chunks,
                           kMostStages);
  }
  shape.devices = kind == PipelineKind::ZeroBubble
                      ? zigzag(shape.stages, shape.chunks)
                      : schedule::roundRobinPlacement(shape.stages, shape.chunks);
  return shape;
}

void takeCosts(const ScheduleSettings& settings,
               const PipelineShape& shape,
               ScheduleRequest& request) {
  // Inference needs no more than the forward pass.
  const bool forwardOnly = settings.inference && settings.costs.find(',') == std::string::npos;
  Table costs = readTable("--costs", settings.costs, forwardOnly ? 1 : 3);
  for (auto& row : costs) {
    row.resize(3);
  }
  const Table transfer = readTable("--transfer", settings.transfer, 1);
  if (transfer.size() != 1) {
    raise<InvalidArgument>("--transfer: expected one number, got '{}'", settings.transfer);
  }
  const Table copies =
      settings.copies.empty() ? Table() : readTable("--copies", settings.copies, 2);
  if (copies.size() > 1) {
    raise<InvalidArgument>("--copies: expected two numbers, got '{}'", settings.copies);
  }
  const std::int32_t shares = shape.shares("--costs", costs.size());
  const std::size_t places =
      std::max({mostPlaces(costs), mostPlaces(transfer), mostPlaces(copies)});
  PipelineProblem& problem = request.problem;
  request.timeUnit = powerOfTen(places) * shares;
  problem.transferCost = scaled("--transfer", transfer[0][0], places, shares);
  std::int64_t common = std::gcd(request.timeUnit, problem.transferCost);
  if (!copies.empty()) {
    request.copies = {scaled("--copies", copies[0][0], places, shares),
                      scaled("--copies", copies[0][1], places, shares)};
    common = std::gcd(common, std::gcd(request.copies->busy, request.copies->latency));
  }
  for (std::size_t stage = 0; stage < shape.devices.size(); ++stage) {
    const auto& row = costs[shape.rowOf(stage, costs.size())];
    const schedule::StageCost cost{
        scaled(row[0], places), scaled(row[1], places), scaled(row[2], places)};
    common =
        std::gcd(common, std::gcd(cost.forward, std::gcd(cost.backwardInput, cost.backwardWeight)));
    problem.costs.push_back(cost);
  }
  request.timeUnit /= common;
  problem.transferCost /= common;
  if (request.copies) {
    request.copies = {request.copies->busy / common, request.copies->latency / common};
  }
  for (schedule::StageCost& cost : problem.costs) {
    cost = {cost.forward / common, cost.backwardInput / common, cost.backwardWeight / common};
  }
}

void takeBytes(const ScheduleSettings& settings,
               const PipelineShape& shape,
               ScheduleRequest& request) {
  const Table bytes = readTable("--bytes", settings.bytes, 2);
  Table caps;
  for (const std::string_view cap : split(settings.memoryCap, ',')) {
    if (!settings.memoryCap.empty()) {
      caps.push_back({readDecimal("--memory-cap", cap)});
    }
  }
  if (caps.size() > 1 && caps.size() != shape.numDevices()) {
    raise<InvalidArgument>(
        "--memory-cap: expected 1 or {} numbers, got {}", shape.numDevices(), caps.size());
  }
  const std::int32_t shares = shape.shares("--bytes", bytes.size());
  const std::size_t places = std::max(mostPlaces(bytes), mostPlaces(caps));
  request.byteUnit = powerOfTen(places) * shares;
  for (std::size_t stage = 0; stage < shape.devices.size(); ++stage) {
    const auto& row = bytes[shape.rowOf(stage, bytes.size())];
    request.problem.bytes.push_back({scaled(row[0], places), scaled(row[1], places)});
  }
  for (std::size_t d = 0; !caps.empty() && d < shape.numDevices(); ++d) {
    const Decimal& cap = caps.size() == 1 ? caps[0][0] : caps[d][0];
    request.problem.byteCap.push_back(scaled("--memory-cap", cap, places, shares));
  }
}

PipelineKind readKind(std::string_view text) {
  std::vector<std::string_view> known;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    if (name(kind) == text) {
      return kind;
    }
    known.push_back(name(kind));
  }
  raise<InvalidArgument>(
      "--schedule: unknown schedule '{}'; known are {}", text, fmt::join(known, ", "));
}

}  // namespace

ScheduleRequest readSchedule(const ScheduleSettings& settings) {
  ScheduleRequest request;
  request.kind = readKind(settings.schedule);
  if (settings.microBatches < 1) {
    raise<InvalidArgument>("--micro-batches: expected at least 1, got {}", settings.microBatches);
  }
  const PipelineShape shape = readShape(settings, request.kind);
  // A device without a stage is a row of the result as well.
  const auto stages = static_cast<std::int64_t>(std::max(shape.devices.size(), shape.numDevices()));
  const std::int64_t most = settings.summary ? kMostSummedCells : kMostCells;
  if (stages > kMostStages || stages * settings.microBatches > most) {
    raise<InvalidArgument>(
        "--micro-batches: {} stages (with chunks) or devices x {} micro-batches are {}, more than "
        "the limit of {}{}",
        stages,
        settings.microBatches,
        stages * settings.microBatches,
        most,
        settings.summary ? "" : "; --summary leaves the chart out and takes more");
  }
  request.problem.deviceOfStage = shape.devices;
  request.problem.microBatches = settings.microBatches;
  request.problem.training = !settings.inference;
  if (!settings.slots.empty()) {
    request.problem.slotOfStage = readList("--slots", settings.slots);
  }
  takeCosts(settings, shape, request);
  takeBytes(settings, shape, request);
  // What is still wrong is wrong with the command line, so it is found before anything runs.
  schedule::lowerBound(request.problem, schedule::splitsBackward(request.kind));
  if (settings.view == "cycles") {
    schedule::countRule(request.kind, request.problem);
  }
  return request;
}

}  // namespace sluice::cli
