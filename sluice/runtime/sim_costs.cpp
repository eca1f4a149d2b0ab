#include "sluice/runtime/sim_costs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/program/owners.h"
#include "sluice/runtime/group.h"

namespace sluice::runtime {
namespace {

using program::Program;

/// So that sums of many stay far from the end of 64 bits.
constexpr double kMostTicks = 1e15;

class Costing {
 public:
  Costing(const Program& program,
          std::span<const device::CostModel* const> models,
          std::int32_t replicas)
      : p_(program), models_(models), m_(models[0]->machine()), replicas_(replicas) {
    result_.ticksPerSecond = models[0]->ticksPerSecond();
    parts_ = std::max(1, m_.processes / replicas);
    group_ = std::max(1, m_.processes / parts_);
    if (parts_ * group_ != m_.processes || replicas % group_ != 0 ||
        (parts_ > 1 && std::ssize(p_.devices) < parts_)) {
      raise<InvalidArgument>("{} processes of target '{}' cannot share {} replicas of {} devices",
                             m_.processes,
                             models[0]->target(),
                             replicas,
                             p_.devices.size());
    }
  }

  SimCosts run() {
    for (const program::Segment& segment : p_.segments) {
      result_.segments.push_back(kernelsOf(segment));
    }
    for (const program::Port& port : p_.feeds) {
      result_.feeds.push_back(hostCopy(port, "host in"));
    }
    for (const program::Port& port : p_.drains) {
      result_.drains.push_back(hostCopy(port, "host out"));
    }
    for (const program::Transfer& transfer : p_.transfers) {
      result_.transfers.push_back(copyOf(transfer));
    }
    for (const program::Collective& collective : p_.collectives) {
      result_.collectives.push_back(sumOf(collective));
    }
    for (const program::Message& message : p_.messages) {
      result_.messages.push_back(
          message.transfer < 0 ? over(m_.processes > 1 ? m_.process : m_.peer, 0)
                               : copyOf(p_.transfers[static_cast<std::size_t>(message.transfer)]));
    }
    result_.barrier.busy = ticks(m_.syncSeconds);
    result_.wake = ticks(m_.wakeSeconds);
    return std::move(result_);
  }

 private:
  std::int64_t ticks(double seconds) const {
    const double all = std::ceil(seconds * static_cast<double>(result_.ticksPerSecond));
    return static_cast<std::int64_t>(std::clamp(all, 0.0, kMostTicks));
  }

  std::int32_t resource(const std::string& name, std::int32_t capacity = 1, bool shared = false) {
    const auto number = static_cast<std::int32_t>(result_.resources.size());
    const auto [known, isNew] = numbers_.try_emplace(name, number);
    if (isNew) {
      result_.resources.push_back({.name = name, .capacity = capacity, .shared = shared});
    }
    return known->second;
  }
  std::int32_t port(std::string_view what, std::int32_t device) {
    return resource(fmt::format("{} {}", what, device));
  }
  bool hasCores() const { return m_.cores > 0; }
  std::int32_t part(std::int32_t device) const {
    return program::partOf(device, static_cast<std::int32_t>(p_.devices.size()), parts_);
  }
  /// Those of the process that has a device. Replicas share cores where one process has several of
  /// them; what each of several such processes has is counted together.
  std::int32_t ofProcess(std::string_view what, std::int32_t capacity, std::int32_t device) {
    if (parts_ > 1) {
      return resource(fmt::format("{} {}", what, part(device)), capacity);
    }
    return resource(std::string(what),
                    replicas_ == group_ ? capacity : capacity * group_,
                    replicas_ != group_ || group_ == 1);
  }
  std::int32_t cores(std::int32_t device) { return ofProcess("cores", m_.cores, device); }

  /// What a copy of this many bytes takes, with the fixed cost of its task.
  SimCost over(const device::Link& link, std::size_t bytes) const {
    const double time =
        link.bytesPerSecond > 0 ? static_cast<double>(bytes) / link.bytesPerSecond : 0;
    return {.busy = ticks(m_.taskSeconds + time), .latency = ticks(link.latencySeconds)};
  }

  SimCost kernelsOf(const program::Segment& segment) {
    const auto device = static_cast<std::size_t>(segment.device);
    const device::CostModel& model = *models_[std::min(device, models_.size() - 1)];
    double sum = 0;
    for (const device::KernelCall& call : segment.calls) {
      sum += static_cast<double>(model.kernelTicks(call));
    }
    SimCost cost{.busy =
                     ticks(m_.taskSeconds) + static_cast<std::int64_t>(std::min(sum, kMostTicks))};
    if (hasCores()) {
      cost.resources.push_back(cores(segment.device));
    }
    return cost;
  }

  SimCost hostCopy(const program::Port& stream, std::string_view direction) {
    SimCost cost = over(m_.host, stream.type.bytes());
    const std::int32_t device = p_.buffer(stream.buffer).device;
    cost.resources.push_back(hasCores() ? cores(device) : port(direction, device));
    if (m_.hostStreams > 0) {
      cost.resources.push_back(ofProcess("host", m_.hostStreams, device));
    }
    return cost;
  }

  /// Remote memory is on the link to the host. With cores, a thread of the host does the copying.
  SimCost copyOf(const program::Transfer& transfer) {
    const program::Buffer& from = p_.buffer(transfer.from);
    const program::Buffer& to = p_.buffer(transfer.to);
    if (from.isRemote() || to.isRemote()) {
      SimCost cost = over(m_.remote, transfer.bytes);
      cost.resources.push_back(from.isRemote() ? port("host in", to.device)
                                               : port("host out", from.device));
      if (hasCores()) {
        cost.resources.push_back(cores(from.isRemote() ? to.device : from.device));
      }
      return cost;
    }
    if (part(from.device) != part(to.device)) {
      return messageOf(transfer, from.device, to.device);
    }
    SimCost cost = over(m_.peer, transfer.bytes);
    if (hasCores()) {
      cost.resources.push_back(cores(from.device));
    } else if (from.device != to.device) {
      cost.resources = {port("out", from.device), port("in", to.device)};
    }
    return cost;
  }

  /// Both processes copy, each with a core of its own.
  SimCost messageOf(const program::Transfer& transfer, std::int32_t from, std::int32_t to) {
    SimCost cost = over(m_.process, transfer.bytes);
    cost.resources = {port("process out", part(from)), port("process in", part(to))};
    if (hasCores()) {
      cost.resources.push_back(cores(from));
      cost.resources.push_back(cores(to));
    }
    return cost;
  }

  /// As in runtime/group.h: each process sends its terms to those that add them up, adds up its
  /// part, and sends that to all; or all add up everything. The first replica of a process does it,
  /// the others wait.
  SimCost sumOverProcesses(const program::Collective& collective) {
    const auto result = static_cast<double>(collective.type.bytes());
    const auto operand = static_cast<double>(collective.operand.bytes());
    const auto all = static_cast<double>(group_);
    const double here = static_cast<double>(replicas_) / all;
    double read = 0;   // by each process, to be added or copied
    double moved = 0;  // by each process
    double trips = 1;
    switch (collective.kind) {
      case program::CollectiveKind::Sum:
        if (addsWhole(static_cast<std::size_t>(replicas_), collective.type.bytes())) {
          read = static_cast<double>(replicas_) * result;
          moved = here * (all - 1) * result;
          break;
        }
        read = here * result;
        moved = (here + 1) * (all - 1) / all * result;
        trips = 2;
        break;
      case program::CollectiveKind::SumPart:
        read = here * static_cast<double>(replicas_) * result;
        moved = here * (all - 1) / all * operand;
        break;
      case program::CollectiveKind::Gather:
        read = result;
        moved = (all - 1) / all * result;
        break;
    }
    SimCost cost = over(m_.process, static_cast<std::size_t>(moved));
    cost.busy += ticks(m_.sumBytesPerSecond > 0 ? read / m_.sumBytesPerSecond : 0);
    cost.busy += ticks(trips * std::max(0.0, all - 2) * m_.messageSeconds);
    cost.latency = ticks(trips * m_.process.latencySeconds);
    const std::int64_t mine = cost.busy / static_cast<std::int64_t>(here);
    cost.latency += cost.busy - mine;
    cost.busy = mine;
    const std::int32_t device = p_.buffer(collective.to).device;
    cost.resources = {port("process out", part(device)), port("process in", part(device))};
    if (hasCores()) {
      cost.resources.push_back(cores(device));
    }
    return cost;
  }

  /// With cores, each replica reads the memory of all. Otherwise parts travel in a ring, and each
  /// port carries as much in as out.
  SimCost sumOf(const program::Collective& collective) {
    if (group_ > 1) {
      return sumOverProcesses(collective);
    }
    const std::int32_t device = p_.buffer(collective.to).device;
    const auto result = static_cast<double>(collective.type.bytes());
    const auto operand = static_cast<double>(collective.operand.bytes());
    const auto count = static_cast<double>(replicas_);
    double read = 0;   // of the memory of all replicas, to be added or copied
    double moved = 0;  // through each port
    switch (collective.kind) {
      case program::CollectiveKind::Sum:
        read = count * result;
        moved = 2 * (count - 1) / count * result;
        break;
      case program::CollectiveKind::SumPart:
        read = count * result;
        moved = (count - 1) / count * operand;
        break;
      case program::CollectiveKind::Gather:
        read = result;
        moved = (count - 1) / count * result;
        break;
    }
    const double sums = m_.sumBytesPerSecond > 0 ? read / m_.sumBytesPerSecond : 0;
    if (hasCores()) {
      return {.busy = ticks(m_.taskSeconds + sums), .resources = {cores(device)}};
    }
    SimCost cost = over(m_.peer, static_cast<std::size_t>(moved));
    cost.busy += ticks(sums);
    cost.latency = replicas_ > 1 ? cost.latency : 0;
    cost.resources = {port("out", device), port("in", device)};
    return cost;
  }

  const Program& p_;
  std::span<const device::CostModel* const> models_;
  const device::MachineRates& m_;
  std::int32_t replicas_;
  std::int32_t parts_ = 1;  // of a replica, each of another process
  std::int32_t group_ = 1;  // processes with the same part of different replicas
  std::map<std::string, std::int32_t> numbers_;  // of resources
  SimCosts result_;
};

}  // namespace

SimCosts costsOf(const Program& program,
                 std::span<const device::CostModel* const> models,
                 std::int32_t replicas) {
  if (models.empty() || std::ranges::find(models, nullptr) != models.end()) {
    raise<InvalidArgument>(
        "the time of a device is not modelled: simulate programs of devices of kind sim");
  }
  for (const device::CostModel* model : models) {
    if (model->ticksPerSecond() != models[0]->ticksPerSecond()) {
      raise<InvalidArgument>("the clocks of targets '{}' and '{}' differ, {} and {} per second",
                             models[0]->target(),
                             model->target(),
                             models[0]->ticksPerSecond(),
                             model->ticksPerSecond());
    }
  }
  return Costing(program, models, replicas).run();
}

}  // namespace sluice::runtime
