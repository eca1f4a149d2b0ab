// ProcessWorld: the processes that one mpirun has started. A thread of its own looks after the
// messages, so that nobody computes less while others wait, and hears whether the other processes
// live: each tells all others so several times within the time after which it counts as lost. A
// process that is lost, or that fails, ends the waits of all.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/runtime/communicator.h"

namespace sluice::runtime {

struct WorldOptions {
  /// A process that was not heard of for so long is lost (SLUICE_PEER_TIMEOUT, in seconds).
  std::chrono::milliseconds timeout{30'000};
  /// How long to wait for a message of a process that lives (SLUICE_PEER_PATIENCE, in seconds).
  std::chrono::milliseconds patience{kPatience};

  /// Throws InvalidArgument for numbers that are not positive.
  static WorldOptions ofEnvironment();
};

class ProcessWorld {
 public:
  /// The world of this process, which is opened by the first call. Throws InvalidArgument if no
  /// mpirun has started this process, Unsupported if there is no libsluice_mpi.so or MPI, and
  /// DeviceError if the other processes do not answer or run another version of the library.
  static std::shared_ptr<ProcessWorld> open();

  std::int32_t rank() const;
  std::int32_t size() const;
  /// "rank 1 (process 123 on host a)"
  std::string nameOf(std::int32_t rank) const;
  /// A communicator whose messages do not meet those of others. All processes must make theirs in
  /// the same order.
  std::unique_ptr<Communicator> makeCommunicator();

  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;
  /// Waits until the others are done, too, unless one is lost.
  ~ProcessWorld();

 private:
  class Post;
  friend class WorldCommunicator;
  ProcessWorld();
  std::unique_ptr<Post> post_;
};

}  // namespace sluice::runtime
