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
#include "sluice/runtime/doorbell.h"
#include "sluice/runtime/inbox.h"
#include "sluice/runtime/mail_carrier.h"

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
  struct Peer {
    Clock::time_point heard;
    std::optional<std::string> bell;  ///< none: it cannot be rung
    std::optional<Introduction> introduction;
  };

  void run();
  void put(std::int32_t to, MailHeader header, MessageBytes body);
  void tellAll(MailKind kind, const MessageBytes& body);
  bool sendPosted();
  void ringAt(Peer& peer) const;
  void deliver(Mail mail);
  void meet(std::int32_t rank, const MessageBytes& introduction);
  void noteIdle();
  void watchPeers(Clock::time_point now);
  std::chrono::microseconds napAfter(int naps) const;
  void fail(const std::string& reason);

  std::int32_t rank_;
  std::int32_t size_;
  Milliseconds timeout_;
  Inbox inbox_;
  Doorbell bell_;
  // Only the thread uses these:
  MailCarrier carrier_;
  Clock::time_point lastBeat_;
  Clock::time_point lastTurn_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Mail> posted_;
  std::vector<Peer> peers_;  // heard and bell belong to the thread
  bool asleep_ = false;
  bool stop_ = false;
  bool idle_ = false;  // all that was posted has been sent
  std::thread thread_;
};

}  // namespace sluice::runtime
