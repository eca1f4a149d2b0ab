// Processes: the processes that run the models of one session together, and how replicas and
// devices are dealt out to them. With R replicas and n processes, each process has R / n replicas;
// or, if there are fewer replicas than processes, n / R processes share the devices of one replica,
// each has a part of them. Processes with the same part of different replicas are a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/api/step.h"
#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/process_world.h"

namespace sluice {

class Processes {
 public:
  /// Null if the options ask for one process, or for none to be run. Throws InvalidArgument if this
  /// is not the process that they ask for or if replicas and processes do not fit, Unsupported for
  /// options that need one process, and what ProcessWorld::open throws.
  static std::unique_ptr<Processes> of(const Options& options);

  bool sharesModel() const { return shares_; }
  /// Whether SLUICE_NCCL asks for copies from device to device.
  bool connectsDevices() const { return connects_; }
  std::int32_t rank() const { return communicator_->rank(); }
  std::int32_t size() const { return communicator_->size(); }
  /// Parts into which the devices of a replica are divided.
  std::int32_t parts() const { return parts_; }
  std::int32_t myPart() const { return rank() % parts_; }
  /// The place of this process in its group.
  std::size_t myPlace() const { return static_cast<std::size_t>(rank() / parts_); }
  std::size_t groupSize() const { return static_cast<std::size_t>(size() / parts_); }
  /// Throws InvalidArgument if a model shares devices and has another number of replicas than the
  /// first one.
  std::size_t replicasHere(const Options& options) const;

  /// Throws Unsupported for kinds of devices that have only run in one process.
  void requireKinds(std::span<const device::Device* const> devices) const;
  /// Deals out the devices; the first call counts. Throws InvalidArgument if there are too few.
  void dealOut(std::size_t devices);
  /// Notes who uses the variables that the program has in remote memory. Throws Unsupported if
  /// processes would share them.
  void noteRemote(const program::Program& whole);
  /// The part that a device belongs to.
  std::int32_t partOf(std::int32_t device) const;
  std::int32_t partOf(std::string_view variable, std::int32_t device) const;
  std::vector<std::int32_t> partsOf(std::size_t devices) const;
  /// The process that has a part, in the group's place that a process has there.
  std::int32_t rankOf(std::size_t place, std::int32_t part) const {
    return static_cast<std::int32_t>(place) * parts_ + part;
  }
  const runtime::Peers& peers() const { return *peers_; }
  std::string nameOf(std::int32_t rank) const { return world_->nameOf(rank); }

  /// Waits for others call it now and then. What it throws ends the wait, and those of all
  /// processes.
  void lookBy(std::function<void()> look) { look_ = std::move(look); }

  // All processes make the same calls in the same order; `what` says which, so that it is noticed
  // if they do not.

  void post(std::int32_t to, std::string_view what, std::span<const std::byte> bytes) const;
  runtime::MessageBytes take(std::int32_t from, std::string_view what) const;
  /// Throws InvalidArgument, in all processes, unless all have the same text.
  void requireSame(std::string_view what, const std::string& text) const;
  /// Calls `f` in the first process and returns its result in all; its error is one in all.
  std::string inFirst(std::string_view what, const std::function<std::string()>& f) const;
  /// The largest number that a process gives, in all of them.
  std::int64_t largest(std::string_view what, std::int64_t number) const;

 private:
  Processes(const Options& options, std::shared_ptr<runtime::ProcessWorld> world);
  void lookAround(std::string_view what) const;

  std::shared_ptr<runtime::ProcessWorld> world_;
  std::unique_ptr<runtime::Communicator> communicator_;
  bool shares_ = false;
  bool connects_ = false;
  std::int32_t replicas_ = 1;  // of all processes; if they share them
  std::int32_t parts_ = 1;
  std::int32_t devices_ = 0;  // of a replica; 0: not dealt out yet
  std::map<std::string, std::int32_t, std::less<>> remoteParts_;  // by variable
  std::optional<runtime::Peers> peers_;
  std::function<void()> look_;  // may be empty
};

/// A digest of some of the bytes of every tensor: few enough to cost little, and so many that other
/// data has another digest.
std::uint64_t sampleOf(std::span<const HostTensor> tensors);

/// Brings the results of all processes together, in all of them.
class SharedSink : public TensorSink {
 public:
  /// The digest of what a call was given, once it has ended.
  using DataDigest = std::function<std::uint64_t()>;
  SharedSink(const program::Program& program,
             std::vector<BatchLayout> layouts,
             const Processes& processes,
             DataDigest data);
  /// Throws InvalidArgument, in all processes, if they were not given the same data.
  std::vector<HostTensor> takeResults() override;

 private:
  template <class F>
  void forEachSlot(std::int32_t rank, const F& f);
  void putResults(std::int32_t rank, std::span<const std::byte> theirs);

  const Processes& processes_;
  DataDigest data_;
  std::vector<std::int32_t> parts_;  // by output
};

}  // namespace sluice
