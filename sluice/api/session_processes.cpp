// What the processes of a session do together between steps.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "sluice/api/compile_plan.h"
#include "sluice/api/processes.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/program/owners.h"
#include "sluice/runtime/reduce.h"

namespace sluice {
namespace {

/// Options that may differ: who a process is, and where it has its files.
constexpr std::string_view kOwn[] = {"distributed.configureProcessId:",
                                     "dumpDirectory:",
                                     "enableExecutableCaching:",
                                     "enableProfiling:",
                                     "logDir:",
                                     "remoteMemory:",
                                     "tuningTable:"};

/// What all processes must have in common, line by line.
std::string commonText(const program::Program& whole, const Options& options) {
  std::string text = fmt::format("program '{}' {:016x}\n", whole.name, program::hash(whole));
  const std::string all = options.str();
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string line = all.substr(at, end - at);
    const bool own =
        std::ranges::any_of(kOwn, [&](std::string_view name) { return line.starts_with(name); });
    if (!own) {
      text += line + "\n";
    }
    at = end + 1;
  }
  return text;
}

std::span<const std::byte> bytesOf(const HostTensor& tensor) {
  return {tensor.bytes(), tensor.byteCount()};
}

HostTensor tensorOf(const TensorType& type, const runtime::MessageBytes& bytes) {
  HostTensor value(type);
  SLUICE_CHECK(bytes.size() == value.byteCount(), "{} bytes for {}", bytes.size(), type.str());
  std::memcpy(value.bytes(), bytes.data(), bytes.size());
  return value;
}

}  // namespace

void Session::agree(const program::Program& whole, const Options& options) {
  if (processes_ == nullptr) {
    return;
  }
  const std::string_view copies = processes_->connectsDevices() ? "SLUICE_NCCL: on\n" : "";
  processes_->requireSame("program or options",
                          fmt::format("{}{}", commonText(whole, options), copies));
  processes_->dealOut(whole.devices.size());
  processes_->noteRemote(whole);
}

program::Program Session::ownPart(program::Program whole) {
  if (processes_ == nullptr || processes_->parts() == 1) {
    return whole;
  }
  const std::vector<std::int32_t> parts = processes_->partsOf(whole.devices.size());
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (parts[d] != processes_->myPart()) {
      for (Replica& replica : replicas_) {
        replica.state->leaveToOthers(static_cast<std::int32_t>(d));
      }
    }
  }
  return program::split(whole, parts)[static_cast<std::size_t>(processes_->myPart())].program;
}

/// The values of variables that the plan adds: all processes begin with those of the first.
void Session::shareNew(const program::StatePlan& plan) {
  for (const program::PlacedVariable& placed : plan.variables()) {
    shareFirst(placed.variable);
  }
}

/// Gives a variable that no program has yet the value that it has in the first process.
void Session::shareFirst(const ir::Variable& variable) {
  if (processes_ == nullptr || state().contains(variable.name)) {
    return;
  }
  const std::string what = fmt::format("the first value of '{}'", variable.name);
  if (processes_->rank() != 0) {
    presets_.insert_or_assign(variable.name,
                              tensorOf(variable.wholeType(), processes_->take(0, what)));
    return;
  }
  const auto preset = presets_.find(variable.name);
  const HostTensor value =
      preset != presets_.end() ? preset->second : ir::initialValue(variable, seed_);
  for (std::int32_t r = 1; r < processes_->size(); ++r) {
    processes_->post(r, what, bytesOf(value));
  }
}

void Session::shareConstants(std::span<const ir::Variable> variables) {
  const runtime::Turn::Hold turn(turn_);
  for (const ir::Variable& variable : variables) {
    shareFirst(variable);
  }
}

/// Statistics are those of the first replica, which the first process of a group has.
void Session::shareBuffers(const program::Program& program) {
  if (processes_ == nullptr || !program.training || processes_->groupSize() == 1) {
    return;
  }
  for (const program::PlacedVariable& placed : state().plan().variables()) {
    const ir::Variable& variable = placed.variable;
    if (variable.role != ir::VariableRole::Buffer || variable.name.starts_with(kSyntheticPrefix) ||
        processes_->partOf(variable.name, placed.device) != processes_->myPart()) {
      continue;
    }
    const std::string what = fmt::format("the statistics '{}'", variable.name);
    const std::vector<std::int32_t>& ranks = processes_->peers().group.ranks;
    if (processes_->myPlace() != 0) {
      const HostTensor value = tensorOf(variable.type, processes_->take(ranks[0], what));
      for (Replica& replica : replicas_) {
        replica.state->write(variable.name, value);
      }
      continue;
    }
    const HostTensor value = state().read(variable.name);
    for (std::size_t q = 1; q < ranks.size(); ++q) {
      processes_->post(ranks[q], what, bytesOf(value));
    }
  }
}

/// Reads what a process has and sends it to all others that have it not.
HostTensor Session::readShared(const program::PlacedVariable& placed) {
  const ir::Variable& variable = placed.variable;
  const std::int32_t part = processes_->partOf(variable.name, placed.device);
  const std::string what = fmt::format("reading '{}'", variable.name);
  if (!variable.split) {
    if (processes_->parts() == 1) {
      return state().read(variable.name);
    }
    const std::int32_t owner = processes_->rankOf(processes_->myPlace(), part);
    if (owner != processes_->rank()) {
      return tensorOf(variable.type, processes_->take(owner, what));
    }
    HostTensor value = state().read(variable.name);
    for (std::int32_t p = 0; p < processes_->parts(); ++p) {
      if (p != part) {
        processes_->post(processes_->rankOf(processes_->myPlace(), p), what, bytesOf(value));
      }
    }
    return value;
  }
  const std::size_t each =
      static_cast<std::size_t>(variable.split->parts) / processes_->groupSize();
  runtime::MessageBytes mine;
  if (part == processes_->myPart()) {
    for (std::size_t r = 0; r < each; ++r) {
      const HostTensor value = replicas_.at(r).state->read(variable.name);
      runtime::appendBytes(mine, {value.bytes(), value.byteCount()});
    }
    for (std::int32_t r = 0; r < processes_->size(); ++r) {
      if (r != processes_->rank()) {
        processes_->post(r, what, mine);
      }
    }
  }
  HostTensor whole(variable.wholeType());
  for (std::size_t place = 0; place < processes_->groupSize(); ++place) {
    const std::int32_t owner = processes_->rankOf(place, part);
    const runtime::MessageBytes bytes =
        owner == processes_->rank() ? mine : processes_->take(owner, what);
    const auto [begin, count] =
        runtime::partOf(whole.byteCount(), each * variable.type.bytes(), place);
    std::memcpy(whole.bytes() + begin, bytes.data(), count);
  }
  return whole;
}

}  // namespace sluice
