// PostOffice: sends and receives the messages of a process. A thread that posts one sends it, and
// the first of those that wait for one sits at the desk: it looks after all messages and sleeps
// until the bell rings. If nobody waits, a thread of the office sits there. So a message wakes
// nobody but the thread that it is for. Private to the runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/base/function_ref.h"
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
  /// Inbox::await and Inbox::take, by a thread that looks after messages while it waits.
  bool await(const Inbox::Key& key, Milliseconds atMost);
  MessageBytes take(const Inbox::Key& key, Milliseconds patience);
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

  void lookNow();
  bool look();
  bool mayNap(int asks);
  void serveUntil(FunctionRef<bool()> isOver);
  bool isDeserted() const;
  void wakeDesk();
  void sitDown();
  void run();
  void put(std::int32_t to, MailHeader header, MessageBytes body);
  void tellAll(MailKind kind, const MessageBytes& body);
  bool hasPosted() const;
  void sendPosted();
  void ringAt(Peer& peer) const;
  void deliver(Mail mail);
  void meet(std::int32_t rank, const MessageBytes& introduction);
  void noteIdle();
  void watchPeers(Clock::time_point now);
  std::chrono::microseconds napAfter(Clock::duration idle) const;
  void fail(const std::string& reason);

  std::int32_t rank_;
  std::int32_t size_;
  Milliseconds timeout_;
  Inbox inbox_;
  Doorbell bell_;
  std::atomic<bool> stop_{false};
  std::atomic<int> waiting_{0};           // threads in take
  std::atomic<int> officeSits_{0};        // threads of the office at the desk: one or none
  std::atomic<std::thread::id> looking_;  // the thread that looks
  std::atomic<int> attended_{0};          // threads at the desk: one or none
  std::mutex desk_;                       // of the one thread that may sleep on the bell
  std::mutex look_;                       // guards these:
  MailCarrier carrier_;
  bool delivered_ = false;  // since the thread that looks began
  Clock::time_point lastBeat_;
  Clock::time_point lastTurn_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Mail> posted_;
  std::vector<Peer> peers_;  // heard and bell are guarded by `look_`
  bool asleep_ = false;      // who is at the desk waits for the bell
  bool called_ = false;      // who is at the desk, or will be, has something to look after
  bool idle_ = false;        // all that was posted has been sent
  std::thread thread_;
};

}  // namespace sluice::runtime
