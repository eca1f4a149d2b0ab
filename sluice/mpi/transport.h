// Transport: messages between the processes of one mpirun, as a table of functions. The library
// opens it from libsluice_mpi.so when a program has several processes, so that all other programs
// neither load nor start MPI. One thread at a time may call these functions. None of them waits for
// another process, except open, which has a deadline once MPI itself has started.
#pragma once

#include <cstddef>

namespace sluice::mpi {

inline constexpr int kTransportVersion = 1;

struct Transport {
  int version;
  /// Starts MPI unless the program has done so. Returns null or the text of an error.
  const char* (*open)(int* rank, int* size, double seconds);
  /// Begins to send; the bytes must stay until the request is done. Null: MPI refused.
  void* (*send)(const void* data, std::size_t bytes, int to);
  /// 1: a message is there and will be received by `receive`; 0: none is there; -1: MPI failed.
  int (*probe)(int* from, std::size_t* bytes, void** message);
  /// Begins to receive a message that probe has found. Null: MPI refused.
  void* (*receive)(void* message, void* to, std::size_t bytes);
  /// 1: the request is done and gone; 0: it is under way; -1: it failed and is gone.
  int (*test)(void* request);
  /// Ends MPI if open has started it. All processes must call it.
  void (*close)();
};

/// The most bytes of one message.
inline constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// The name of the function in libsluice_mpi.so that returns the table.
inline constexpr char kTransportFunction[] = "sluiceMpiTransport";

}  // namespace sluice::mpi
