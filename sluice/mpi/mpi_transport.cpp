// The only file that knows MPI.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <mpi.h>

#include "sluice/mpi/transport.h"

namespace sluice::mpi {
namespace {

constexpr int kTag = 1;

/// Everything of this library is between these two ends of time.
struct State {
  MPI_Comm comm = MPI_COMM_NULL;
  bool started = false;  ///< MPI was started here, and is to be ended here
  std::string error;
};

State& state() {
  static State made;
  return made;
}

const char* failed(const std::string& text) {
  state().error = text;
  return state().error.c_str();
}

/// Starts MPI so that any thread may call it; null: done.
const char* start() {
  int running = 0;
  MPI_Initialized(&running);
  int level = MPI_THREAD_SINGLE;
  if (running != 0) {
    MPI_Query_thread(&level);
  } else {
    // A thread of ours calls MPI and sleeps in between. On a machine with more processes than
    // cores, each call of MPI would give the core away besides.
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
      return failed("MPI_Init_thread failed");
    }
    state().started = true;
  }
  if (level != MPI_THREAD_MULTIPLE) {
    return failed(
        "MPI was started without MPI_THREAD_MULTIPLE: a thread of its own looks after messages "
        "between processes");
  }
  return nullptr;
}

/// A communicator of our own, so that no message meets those of the program.
const char* copyWorld(double seconds) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Comm_idup(MPI_COMM_WORLD, &state().comm, &request) != MPI_SUCCESS) {
    return failed("MPI_Comm_idup failed");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (int done = 0; done == 0;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return failed("MPI_Comm_idup failed");
    }
    if (done == 0 && std::chrono::steady_clock::now() > end) {
      return failed("the other processes did not answer MPI_Comm_idup in time");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(done == 0 ? 100 : 0));
  }
  MPI_Comm_set_errhandler(state().comm, MPI_ERRORS_RETURN);
  return nullptr;
}

const char* open(int* rank, int* size, double seconds) {
  if (const char* error = start()) {
    return error;
  }
  if (const char* error = copyWorld(seconds)) {
    return error;
  }
  MPI_Comm_rank(state().comm, rank);
  MPI_Comm_size(state().comm, size);
  return nullptr;
}

void* send(const void* data, std::size_t bytes, int to) {
  auto request = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
  const int result =
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, state().comm, request.get());
  return result == MPI_SUCCESS ? request.release() : nullptr;
}

int probe(int* from, std::size_t* bytes, void** message) {
  int found = 0;
  MPI_Status status;
  auto handle = std::make_unique<MPI_Message>(MPI_MESSAGE_NULL);
  if (MPI_Improbe(MPI_ANY_SOURCE, kTag, state().comm, &found, handle.get(), &status) !=
      MPI_SUCCESS) {
    return -1;
  }
  if (found == 0) {
    return 0;
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *from = status.MPI_SOURCE;
  *bytes = static_cast<std::size_t>(count);
  *message = handle.release();
  return 1;
}

void* receive(void* message, void* to, std::size_t bytes) {
  const std::unique_ptr<MPI_Message> handle(static_cast<MPI_Message*>(message));
  auto request = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
  const int result = MPI_Imrecv(to, static_cast<int>(bytes), MPI_BYTE, handle.get(), request.get());
  return result == MPI_SUCCESS ? request.release() : nullptr;
}

int test(void* request) {
  auto* const handle = static_cast<MPI_Request*>(request);
  int done = 0;
  const int result = MPI_Test(handle, &done, MPI_STATUS_IGNORE);
  if (result == MPI_SUCCESS && done == 0) {
    return 0;
  }
  delete handle;
  return result == MPI_SUCCESS ? 1 : -1;
}

void close() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) {
    return;
  }
  MPI_Comm_free(&state().comm);
  if (state().started) {
    MPI_Finalize();
  }
}

}  // namespace
}  // namespace sluice::mpi

extern "C" __attribute__((visibility("default"))) const sluice::mpi::Transport*
sluiceMpiTransport() {
  static const sluice::mpi::Transport table{sluice::mpi::kTransportVersion,
                                            sluice::mpi::open,
                                            sluice::mpi::send,
                                            sluice::mpi::probe,
                                            sluice::mpi::receive,
                                            sluice::mpi::test,
                                            sluice::mpi::close};
  return &table;
}
