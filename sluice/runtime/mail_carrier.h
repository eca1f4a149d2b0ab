// MailCarrier: takes messages of any size over a transport, whose messages are pieces of them. One
// thread uses it. Messages from the same rank arrive in the order in which they were sent. Private
// to the runtime module.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sluice/mpi/transport.h"
#include "sluice/runtime/message_bytes.h"

namespace sluice::runtime {

enum class MailKind : std::int32_t { Data, Beat, Hello, Abort, Goodbye };

struct MailHeader {
  MailKind kind = MailKind::Data;
  std::int32_t context = 0;
  std::int64_t number = 0;
  std::int64_t bytes = 0;    ///< of the body
  std::int64_t inlined = 0;  ///< 1: it follows in the same message
};

struct Mail {
  std::int32_t rank = 0;  ///< the other one
  MailHeader header;
  MessageBytes body;
};

class MailCarrier {
 public:
  using Deliver = std::function<void(Mail mail)>;
  using Fail = std::function<void(const std::string& reason)>;
  using Hear = std::function<void(std::int32_t from)>;

  /// Calls `hear` for each piece that comes, and `fail` if the transport does not work or there is
  /// no memory for a message; of what comes after a message that was lost it receives nothing.
  MailCarrier(const mpi::Transport& transport, std::int32_t size, Hear hear, Fail fail);

  /// In pieces of at most so many bytes.
  void send(Mail mail, std::size_t mostBytes);
  /// Receives what has come, and calls `deliver` for each message that is complete. False: nothing
  /// has changed.
  bool move(const Deliver& deliver);
  /// Whether all that was sent has left.
  bool hasSent() const { return sending_.empty(); }
  /// Whether the transport must be called for a message to move on.
  bool isMoving() const;

 private:
  struct Outgoing {
    MessageBytes head;  ///< the header, and a short body
    MessageBytes body;  ///< a long body
    std::vector<void*> requests;
  };
  struct Incoming {
    Mail mail;
    std::size_t begun = 0;        ///< bytes of the body that are being received
    std::vector<void*> requests;  ///< under way
  };

  void begin(Outgoing& outgoing, const std::byte* data, std::size_t bytes, std::int32_t to);
  bool receiveArrived();
  void receivePiece(std::int32_t from, std::size_t bytes, void* message);
  void receiveHeader(std::int32_t from, std::size_t bytes, void* message);
  void giveUp(const std::string& reason);
  bool deliverComplete(const Deliver& deliver);
  bool isDone(std::vector<void*>& requests);

  const mpi::Transport& transport_;
  Hear hear_;
  Fail fail_;
  bool receives_ = true;
  std::deque<Outgoing> sending_;
  std::vector<std::deque<Incoming>> incoming_;  // by rank, in the order in which they were sent
};

}  // namespace sluice::runtime
