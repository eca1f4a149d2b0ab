// PostOffice: the thread that sends and receives the messages of a process. Private to the runtime.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/mpi/transport.h"
#include "sluice/runtime/inbox.h"

namespace sluice::runtime {

/// What a process says of itself when it comes.
struct Introduction {
  std::string library;  ///< version
  std::string host;
  std::int64_t process = 0;
};

class PostOffice {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  PostOffice(const mpi::Transport& transport,
             std::int32_t rank,
             std::int32_t size,
             Milliseconds timeout);
  PostOffice(const PostOffice&) = delete;
  PostOffice& operator=(const PostOffice&) = delete;
  ~PostOffice();

  Inbox& inbox() { return inbox_; }
  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }

  void post(std::int32_t to, std::int32_t context, std::int64_t number, MessageBytes bytes);
  /// Ends the waits of all ranks.
  void interrupt(std::string_view reason);
  /// Tells the others who this is and waits until all have done so; throws DeviceError otherwise.
  void introduce(const Introduction& mine);
  std::string nameOf(std::int32_t rank) const;
  /// Tells the others that nothing more comes and waits until they have, too. False: one was lost,
  /// or the ranks were interrupted.
  bool sayGoodbye();

 private:
  enum class Kind : std::int32_t { Data, Beat, Hello, Abort, Goodbye };
  struct Header {
    Kind kind = Kind::Data;
    std::int32_t context = 0;
    std::int64_t number = 0;
    std::int64_t bytes = 0;    ///< of the payload
    std::int64_t inlined = 0;  ///< 1: it follows in the same message
  };
  struct Outgoing {
    std::int32_t to = 0;
    MessageBytes head;  ///< the header, and a short payload
    MessageBytes body;  ///< a long payload
    std::vector<void*> requests = {};
  };
  struct Incoming {
    Header header;
    MessageBytes bytes;
    std::size_t begun = 0;             ///< bytes of the payload that are being received
    std::vector<void*> requests = {};  ///< under way
  };
  struct Peer {
    std::deque<Incoming> incoming;  ///< in the order in which they were sent
    Clock::time_point heard;
    std::optional<Introduction> introduction;
  };

  void run();
  bool isMoving() const;
  void put(std::int32_t to, Header header, MessageBytes body);
  void tellAll(Kind kind, const MessageBytes& body);
  bool sendPosted();
  bool receiveArrived();
  void beginReceive(std::int32_t from, std::size_t bytes, void* message);
  bool deliverArrived();
  void deliver(std::int32_t from, Incoming& message);
  bool isDone(std::vector<void*>& requests);
  void watchPeers(Clock::time_point now);
  void fail(const std::string& reason);

  const mpi::Transport& transport_;
  std::int32_t rank_;
  std::int32_t size_;
  Milliseconds timeout_;
  Inbox inbox_;
  // Only the thread uses these:
  std::deque<Outgoing> sending_;
  Clock::time_point lastBeat_;
  Clock::time_point lastTurn_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Outgoing> posted_;
  std::vector<Peer> peers_;  // incoming and heard belong to the thread
  bool stop_ = false;
  bool idle_ = false;  // all that was posted has been sent
  std::thread thread_;
};

}  // namespace sluice::runtime
