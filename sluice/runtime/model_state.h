// ModelState: the memory of one model on its devices: the variables, which every program of the
// model shares, and one transient arena per device, in which the programs' plans overlap. What the
// devices have no room for is in remote memory, which has both arenas, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"
#include "sluice/runtime/remote_memory.h"
#include "sluice/runtime/written_state.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::runtime {

class ModelState {
 public:
  /// The devices must outlive it. `seed` gives the variables their first values. Remote memory is
  /// in files whose names begin with `remotePath`; empty: in the memory of the host.
  ModelState(std::vector<device::Device*> devices,
             std::uint64_t seed,
             const std::string& remotePath = {});

  /// Adds a device behind the others; not while a step runs.
  void addDevice(device::Device* device);
  const program::StatePlan& plan() const { return plan_; }
  /// Takes over a plan that grew: makes room and gives new variables their first values; what was
  /// there keeps its values. Leaves everything as it was when it throws.
  void adopt(program::StatePlan plan);
  /// Brings the values of variables that have slices on several devices to those that this program
  /// uses; from then on its own writes count.
  void bringTo(const program::Program& program);
  /// Makes the transient arena of a device, or of remote memory, at least this large.
  void reserveTransient(std::int32_t device, std::size_t bytes);
  /// The same for the pinned memory through which data comes to a device.
  void reserveStaging(std::int32_t device, std::size_t bytes);
  RemoteMemory& remote(program::Region region) {
    return region == program::Region::State ? remoteState_ : remoteTransient_;
  }

  /// Copies of the state that a step overwrites, so that a step which fails can be undone.
  enum class Copies : std::uint8_t { No, Yes };
  /// A step begins that writes these slices. With copies, undoStep() puts everything back as it is
  /// now; keepStep() ends the step instead. Remote memory in files keeps what was there by itself,
  /// and then everything is copied.
  void beginStep(const WrittenState& written, Copies copies);
  void keepStep() { remoteState_.keep(); }
  void undoStep(const WrittenState& written);
  /// Whether undoStep() can undo the newest step.
  bool canUndo() const { return copied_; }

  /// Moves all variables to the host and gives the memory of the devices back; attach() undoes it.
  /// Not while a step runs; variables can be read and written meanwhile.
  void detach();
  void attach();
  bool isAttached() const { return saved_.empty(); }

  bool contains(std::string_view variable) const { return plan_.find(variable) != nullptr; }
  /// Copies a variable to or from the host; throws InvalidArgument for an unknown name or a wrong
  /// type. Not while a step runs.
  HostTensor read(std::string_view variable) const;
  void write(std::string_view variable, const HostTensor& value);

  /// Null while there is none.
  const device::Memory* state(std::int32_t device) const { return at(state_, device); }
  const device::Memory* transient(std::int32_t device) const { return at(transient_, device); }
  const device::Memory* staging(std::int32_t device) const { return at(staging_, device); }
  /// Changes whenever an arena may have moved.
  std::uint64_t generation() const { return generation_; }
  const std::vector<device::Device*>& devices() const { return devices_; }
  /// For copies between steps.
  device::Queue& queueOf(std::int32_t device) const {
    return *queues_[static_cast<std::size_t>(device)];
  }

 private:
  const program::PlacedVariable& require(std::string_view variable) const;
  /// On its device, or in the copy on the host.
  device::Address address(const program::StateSlice& slice) const;
  void load(const program::StateSlice& slice, HostTensor& value) const;
  void store(const program::StateSlice& slice, const HostTensor& value);
  /// A slice that holds the variable's value.
  program::StateSlice currentSlice(const program::PlacedVariable& placed) const;

  static const device::Memory* at(const std::vector<std::unique_ptr<device::Memory>>& memories,
                                  std::int32_t device) {
    return memories[static_cast<std::size_t>(device)].get();
  }
  /// Waits for all copies that it issues, also if one fails: then nobody uses their memory any
  /// more.
  void awaitCopies(FunctionRef<void()> issue);
  bool hasJournal() const { return remoteState_.isUndoable() && remoteState_.bytes() > 0; }

  std::vector<device::Device*> devices_;
  std::vector<std::unique_ptr<device::Queue>> queues_;  // one per device, for copies
  std::uint64_t seed_;
  program::StatePlan plan_;
  /// Of variables with several slices: which of them hold the value. Not listed: the home.
  std::map<std::string, std::vector<bool>, std::less<>> current_;
  std::vector<std::unique_ptr<device::Memory>> state_;
  std::vector<std::unique_ptr<device::Memory>> transient_;
  std::vector<std::unique_ptr<device::Memory>> staging_;
  RemoteMemory remoteState_;
  RemoteMemory remoteTransient_;
  std::vector<std::unique_ptr<device::Memory>> saved_;  // state by device, while detached
  std::vector<std::byte> before_;                       // the written slices when the step began
  bool copied_ = false;
  std::uint64_t generation_ = 0;
};

}  // namespace sluice::runtime
