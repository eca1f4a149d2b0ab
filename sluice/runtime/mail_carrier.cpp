#include "sluice/runtime/mail_carrier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sluice::runtime {
namespace {

/// A body of at most so many bytes travels with its header: together they are less than what Open
/// MPI sends at once between processes of a machine (btl_vader_eager_limit, 4096).
constexpr std::size_t kInline = 3584;

}  // namespace

MailCarrier::MailCarrier(const mpi::Transport& transport, std::int32_t size, Hear hear, Fail fail)
    : transport_(transport),
      hear_(std::move(hear)),
      fail_(std::move(fail)),
      incoming_(static_cast<std::size_t>(size)) {}

void MailCarrier::begin(Outgoing& outgoing,
                        const std::byte* data,
                        std::size_t bytes,
                        std::int32_t to) {
  if (void* request = transport_.send(data, bytes, to)) {
    outgoing.requests.push_back(request);
  } else {
    fail_(fmt::format("MPI refuses a message to rank {}", to));
  }
}

void MailCarrier::send(Mail mail, std::size_t mostBytes) {
  mail.header.bytes = static_cast<std::int64_t>(mail.body.size());
  mail.header.inlined = mail.body.size() <= kInline ? 1 : 0;
  Outgoing& kept = sending_.emplace_back();
  kept.head.resize(sizeof(MailHeader));
  std::memcpy(kept.head.data(), &mail.header, sizeof(MailHeader));
  if (mail.header.inlined != 0) {
    appendBytes(kept.head, mail.body);
  } else {
    kept.body = std::move(mail.body);
  }
  begin(kept, kept.head.data(), kept.head.size(), mail.rank);
  for (std::size_t at = 0; at < kept.body.size(); at += mostBytes) {
    begin(kept, kept.body.data() + at, std::min(mostBytes, kept.body.size() - at), mail.rank);
  }
}

bool MailCarrier::isDone(std::vector<void*>& requests) {
  std::erase_if(requests, [&](void* request) {
    const int result = transport_.test(request);
    if (result < 0) {
      fail_("MPI reports that a message between processes failed");
    }
    return result != 0;
  });
  return requests.empty();
}

/// A header is short: it has come when it is found, and tells how long the body is.
void MailCarrier::receiveHeader(std::int32_t from, std::size_t bytes, void* message) {
  MessageBytes head(bytes);
  void* request = transport_.receive(message, head.data(), bytes);
  int result = request == nullptr ? -1 : 0;
  while (result == 0) {
    result = transport_.test(request);
  }
  if (result < 0 || bytes < sizeof(MailHeader)) {
    giveUp(fmt::format("a message from rank {} is broken", from));
    return;
  }
  Incoming made;
  made.mail.rank = from;
  std::memcpy(&made.mail.header, head.data(), sizeof(MailHeader));
  if (made.mail.header.inlined != 0) {
    made.mail.body = copyOf(std::span(head).subspan(sizeof(MailHeader)));
    made.begun = made.mail.body.size();
  } else {
    try {
      made.mail.body.resize(static_cast<std::size_t>(made.mail.header.bytes));
    } catch (const std::exception&) {
      giveUp(fmt::format(
          "no memory for a message of {} bytes from rank {}", made.mail.header.bytes, from));
      return;
    }
  }
  incoming_[static_cast<std::size_t>(from)].push_back(std::move(made));
}

/// What comes next may be a part of what could not be received.
void MailCarrier::giveUp(const std::string& reason) {
  receives_ = false;
  fail_(reason);
}

/// A piece is a header, or the next part of a body whose header has come.
void MailCarrier::receivePiece(std::int32_t from, std::size_t bytes, void* message) {
  hear_(from);
  std::deque<Incoming>& incoming = incoming_[static_cast<std::size_t>(from)];
  if (incoming.empty() || incoming.back().begun == incoming.back().mail.body.size()) {
    receiveHeader(from, bytes, message);
    return;
  }
  Incoming& open = incoming.back();
  if (void* request = transport_.receive(message, open.mail.body.data() + open.begun, bytes)) {
    open.requests.push_back(request);
  } else {
    fail_(fmt::format("MPI refuses a message from rank {}", from));
  }
  open.begun += bytes;
}

bool MailCarrier::receiveArrived() {
  bool found = false;
  while (receives_) {
    int from = 0;
    std::size_t bytes = 0;
    void* message = nullptr;
    const int result = transport_.probe(&from, &bytes, &message);
    if (result < 0) {
      fail_("MPI reports that it cannot receive messages");
    }
    if (result <= 0) {
      return found;
    }
    receivePiece(from, bytes, message);
    found = true;
  }
  return found;
}

bool MailCarrier::deliverComplete(const Deliver& deliver) {
  bool any = false;
  for (std::deque<Incoming>& incoming : incoming_) {
    for (Incoming& message : incoming) {
      isDone(message.requests);
    }
    while (!incoming.empty() && incoming.front().requests.empty() &&
           incoming.front().begun == incoming.front().mail.body.size()) {
      deliver(std::move(incoming.front().mail));
      incoming.pop_front();
      any = true;
    }
  }
  return any;
}

bool MailCarrier::move(const Deliver& deliver) {
  const bool received = receiveArrived();
  const bool delivered = deliverComplete(deliver);
  const std::size_t before = sending_.size();
  std::erase_if(sending_, [&](Outgoing& outgoing) { return isDone(outgoing.requests); });
  return received || delivered || sending_.size() != before;
}

bool MailCarrier::isMoving() const {
  return !sending_.empty() ||
         std::ranges::any_of(incoming_, [](const auto& incoming) { return !incoming.empty(); });
}

}  // namespace sluice::runtime
