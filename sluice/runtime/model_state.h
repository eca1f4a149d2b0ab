// ModelState: the memory of one model on its devices. It holds the variables, which all programs of
// the model share, and one transient arena per device, in which the programs' plans overlap. Data
// that does not fit the devices is in remote memory, which also has both arenas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
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
  /// The devices must outlive this object. `seed` determines the first values of variables. Remote
  /// memory is in files whose names begin with `remotePath`; if empty, it is host memory.
  ModelState(std::vector<device::Device*> devices,
             std::uint64_t seed,
             const std::string& remotePath = {});

  /// Adds a device after the others. Not while a step runs.
  void addDevice(device::Device* device);
  /// Leaves a device to another process: it has no memory here, what is written to it is dropped,
  /// and what it holds cannot be read. Before its first variable.
  void leaveToOthers(std::int32_t device);
  bool isHere(std::int32_t device) const {
    return device == program::kRemote || !others_[static_cast<std::size_t>(device)];
  }
  const program::StatePlan& plan() const { return plan_; }
  /// Takes over a plan that has grown: allocates memory; new variables have their first values and
  /// the others keep theirs. First values are computed when they are needed, because most models
  /// are given other ones before that. Changes nothing if it throws.
  void adopt(program::StatePlan plan);
  /// For variables with slices on several devices, copies the value to the slices that this program
  /// uses. From then on the slices that the program writes hold the value.
  void bringTo(const program::Program& program);
  /// Makes the transient arena of a device, or of remote memory, at least this large.
  void reserveTransient(std::int32_t device, std::size_t bytes);
  /// Same as above, for the pinned memory through which data reaches a device.
  void reserveStaging(std::int32_t device, std::size_t bytes);
  RemoteMemory& remote(program::Region region) {
    return region == program::Region::State ? remoteState_ : remoteTransient_;
  }

  /// Whether the state that a step overwrites is copied, so that a failed step can be undone.
  enum class Copies : std::uint8_t { No, Yes };
  /// Begins a step that writes these slices. With copies, undoStep() restores the current values;
  /// without a failure, keepStep() ends the step. If remote memory is in files, it keeps the old
  /// values itself, and then the slices on devices are always copied.
  void beginStep(const WrittenState& written, Copies copies);
  void keepStep() { remoteState_.keep(); }
  void undoStep(const WrittenState& written);
  /// Whether undoStep() can undo the newest step.
  bool canUndo() const { return copied_; }

  /// Moves all variables to the host and frees the memory of the devices; attach() reverses this.
  /// Not while a step runs. Variables can be read and written meanwhile.
  void detach();
  void attach();
  bool isAttached() const { return saved_.empty(); }

  bool contains(std::string_view variable) const { return plan_.find(variable) != nullptr; }
  /// Copies a variable to or from the host; throws InvalidArgument for an unknown name or a wrong
  /// type. Not while a step runs.
  HostTensor read(std::string_view variable) const;
  void write(std::string_view variable, const HostTensor& value);

  /// Null if there is none.
  const device::Memory* state(std::int32_t device) const { return at(state_, device); }
  const device::Memory* transient(std::int32_t device) const { return at(transient_, device); }
  const device::Memory* staging(std::int32_t device) const { return at(staging_, device); }
  /// A number that changes whenever an arena may have moved.
  std::uint64_t generation() const { return generation_; }
  /// A number that changes whenever the host has changed the value of a variable.
  std::uint64_t writes() const { return writes_; }
  const std::vector<device::Device*>& devices() const { return devices_; }
  /// The queue for copies between steps.
  device::Queue& queueOf(std::int32_t device) const {
    return *queues_[static_cast<std::size_t>(device)];
  }

 private:
  const program::PlacedVariable& require(std::string_view variable) const;
  /// The address on its device, or in the copy on the host while detached.
  device::Address address(const program::StateSlice& slice) const;
  void load(const program::StateSlice& slice, HostTensor& value) const;
  void store(const program::StateSlice& slice, const HostTensor& value);
  /// A slice that holds the variable's value.
  program::StateSlice currentSlice(const program::PlacedVariable& placed) const;

  static const device::Memory* at(const std::vector<std::unique_ptr<device::Memory>>& memories,
                                  std::int32_t device) {
    return memories[static_cast<std::size_t>(device)].get();
  }
  /// Writes the first values of variables that nobody has written yet. Whatever uses the memory of
  /// the devices calls it before.
  void writeFirstValues();
  /// Calls `issue` and waits for all copies that it issues, even if one fails, so that nothing uses
  /// their memory afterwards.
  void awaitCopies(FunctionRef<void()> issue);
  void lockRemote();
  bool hasJournal() const { return remoteState_.isUndoable() && remoteState_.bytes() > 0; }

  std::vector<device::Device*> devices_;
  std::vector<std::unique_ptr<device::Queue>> queues_;  // one per device, for copies
  std::vector<bool> others_;                            // by device: another process has it
  std::uint64_t seed_;
  program::StatePlan plan_;
  /// For variables with several slices: which of them hold the value. Not listed: the home does.
  std::map<std::string, std::vector<bool>, std::less<>> current_;
  std::set<std::string, std::less<>> unwritten_;  // variables without a value in memory
  std::vector<std::unique_ptr<device::Memory>> state_;
  std::vector<std::unique_ptr<device::Memory>> transient_;
  std::vector<std::unique_ptr<device::Memory>> staging_;
  RemoteMemory remoteState_;
  RemoteMemory remoteTransient_;
  std::vector<std::unique_ptr<device::Memory>> saved_;  // state by device, while detached
  std::vector<std::byte> before_;                       // the written slices when the step began
  bool copied_ = false;
  std::uint64_t generation_ = 0;
  std::uint64_t writes_ = 0;
};

}  // namespace sluice::runtime
