#include "sluice/runtime/post_office.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"

namespace sluice::runtime {
namespace {

/// A payload of at most so many bytes travels with its header.
constexpr std::size_t kInline = 4096;
/// How long the thread sleeps if nothing moves, while messages are awaited and while none are.
constexpr std::chrono::microseconds kNap{20};
constexpr std::chrono::microseconds kLongNap{500};
constexpr int kShortNaps = 2000;
/// How long the last messages of a process may take if another one is lost.
constexpr std::chrono::seconds kGrace{1};

MessageBytes bytesOf(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string textOf(const MessageBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Three lines; neither versions nor hosts have line ends.
MessageBytes packed(const Introduction& introduction) {
  return bytesOf(
      fmt::format("{}\n{}\n{}", introduction.library, introduction.host, introduction.process));
}

Introduction unpacked(const MessageBytes& bytes) {
  const std::string text = textOf(bytes);
  const std::size_t first = text.find('\n');
  const std::size_t second = text.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    return {.library = text};
  }
  return {.library = text.substr(0, first),
          .host = text.substr(first + 1, second - first - 1),
          .process = std::atoll(text.c_str() + second + 1)};
}

}  // namespace

PostOffice::PostOffice(const mpi::Transport& transport,
                       std::int32_t rank,
                       std::int32_t size,
                       Milliseconds timeout)
    : transport_(transport),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      lastBeat_(Clock::now()),
      lastTurn_(lastBeat_),
      peers_(static_cast<std::size_t>(size)) {
  for (Peer& peer : peers_) {
    peer.heard = lastBeat_;
  }
  thread_ = startThread("the thread for messages between processes", [this] { run(); });
}

PostOffice::~PostOffice() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void PostOffice::put(std::int32_t to, Header header, MessageBytes body) {
  header.bytes = static_cast<std::int64_t>(body.size());
  header.inlined = body.size() <= kInline ? 1 : 0;
  Outgoing message{.to = to, .head = MessageBytes(sizeof(Header)), .body = {}};
  std::memcpy(message.head.data(), &header, sizeof(Header));
  if (header.inlined != 0) {
    message.head.insert(message.head.end(), body.begin(), body.end());
  } else {
    message.body = std::move(body);
  }
  const std::scoped_lock lock(mutex_);
  posted_.push_back(std::move(message));
  idle_ = false;
  changed_.notify_all();
}

void PostOffice::post(std::int32_t to,
                      std::int32_t context,
                      std::int64_t number,
                      MessageBytes bytes) {
  put(to, {.kind = Kind::Data, .context = context, .number = number}, std::move(bytes));
}

void PostOffice::tellAll(Kind kind, const MessageBytes& body) {
  for (std::int32_t other = 0; other < size_; ++other) {
    // Who has left still waits for the last word of the others.
    if (other != rank_ && (kind == Kind::Goodbye || !inbox_.hasLeft(other))) {
      put(other, {.kind = kind}, body);
    }
  }
}

void PostOffice::interrupt(std::string_view reason) {
  if (!inbox_.isInterrupted()) {
    inbox_.interrupt(reason);
    tellAll(Kind::Abort, bytesOf(reason));
  }
}

std::string PostOffice::nameOf(std::int32_t rank) const {
  const std::scoped_lock lock(mutex_);
  const std::optional<Introduction>& known = peers_[static_cast<std::size_t>(rank)].introduction;
  return known ? fmt::format("rank {} (process {} on host {})", rank, known->process, known->host)
               : fmt::format("rank {}", rank);
}

void PostOffice::introduce(const Introduction& mine) {
  tellAll(Kind::Hello, packed(mine));
  std::unique_lock lock(mutex_);
  peers_[static_cast<std::size_t>(rank_)].introduction = mine;
  changed_.wait_for(lock, timeout_, [&] {
    return std::ranges::all_of(peers_, [](const Peer& p) { return p.introduction.has_value(); });
  });
  std::vector<std::string> others;
  for (std::int32_t r = 0; r < size_; ++r) {
    const std::optional<Introduction>& known = peers_[static_cast<std::size_t>(r)].introduction;
    if (!known) {
      raise<DeviceError>(
          "rank {} has not answered for {} s: do all processes make a model of several processes?",
          r,
          timeout_.count() / 1000);
    }
    others.push_back(fmt::format("rank {} has {}", r, known->library));
  }
  if (std::ranges::any_of(peers_,
                          [&](const Peer& p) { return p.introduction->library != mine.library; })) {
    raise<DeviceError>("the processes run different versions of Sluice: {}",
                       fmt::join(others, ", "));
  }
}

bool PostOffice::sayGoodbye() {
  tellAll(Kind::Goodbye, {});
  std::unique_lock lock(mutex_);
  const auto allLeft = [&] {
    for (std::int32_t r = 0; r < size_; ++r) {
      if (r != rank_ && !inbox_.hasLeft(r)) {
        return false;
      }
    }
    return true;
  };
  // Whoever is alive may take as long as it likes; the thread notices if one is lost. What is still
  // to be sent after that may be for the one that is lost.
  std::optional<Clock::time_point> interrupted;
  while (!(idle_ && (allLeft() || inbox_.isInterrupted()))) {
    changed_.wait_for(lock, Milliseconds(10));
    if (inbox_.isInterrupted()) {
      interrupted = interrupted.value_or(Clock::now());
      if (Clock::now() - *interrupted > kGrace) {
        break;
      }
    }
  }
  return allLeft() && !inbox_.isInterrupted();
}

void PostOffice::fail(const std::string& reason) {
  interrupt(reason);
}

bool PostOffice::isDone(std::vector<void*>& requests) {
  std::erase_if(requests, [&](void* request) {
    const int result = transport_.test(request);
    if (result < 0) {
      fail("MPI reports that a message between processes failed");
    }
    return result != 0;
  });
  return requests.empty();
}

bool PostOffice::sendPosted() {
  std::deque<Outgoing> fresh;
  {
    const std::scoped_lock lock(mutex_);
    fresh.swap(posted_);
  }
  for (Outgoing& message : fresh) {
    sending_.push_back(std::move(message));
    Outgoing& kept = sending_.back();
    const auto begin = [&](const std::byte* data, std::size_t bytes) {
      void* request = transport_.send(data, bytes, kept.to);
      if (request == nullptr) {
        fail(fmt::format("MPI refuses a message to rank {}", kept.to));
      } else {
        kept.requests.push_back(request);
      }
    };
    begin(kept.head.data(), kept.head.size());
    for (std::size_t at = 0; at < kept.body.size(); at += mpi::kMostBytes) {
      begin(kept.body.data() + at, std::min(mpi::kMostBytes, kept.body.size() - at));
    }
  }
  const std::size_t before = sending_.size();
  std::erase_if(sending_, [&](Outgoing& message) { return isDone(message.requests); });
  const std::scoped_lock lock(mutex_);
  if (sending_.empty() && posted_.empty() && !idle_) {
    idle_ = true;
    changed_.notify_all();
  }
  return !fresh.empty() || sending_.size() != before;
}

/// A message is a header, or the next piece of a payload whose header has come.
void PostOffice::beginReceive(std::int32_t from, std::size_t bytes, void* message) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  peer.heard = Clock::now();
  Incoming* open = peer.incoming.empty() ? nullptr : &peer.incoming.back();
  std::byte* to = nullptr;
  if (open != nullptr && open->begun < open->bytes.size()) {
    to = open->bytes.data() + open->begun;
    open->begun += bytes;
  } else {
    // A header is short: it has come when it is found, and tells how long the payload is.
    MessageBytes head(bytes);
    void* request = transport_.receive(message, head.data(), bytes);
    int result = request == nullptr ? -1 : 0;
    while (result == 0) {
      result = transport_.test(request);
    }
    Incoming made;
    if (result < 0 || bytes < sizeof(Header)) {
      fail(fmt::format("a message from rank {} is broken", from));
      return;
    }
    std::memcpy(&made.header, head.data(), sizeof(Header));
    if (made.header.inlined != 0) {
      made.bytes.assign(head.begin() + sizeof(Header), head.end());
      made.begun = made.bytes.size();
    } else {
      made.bytes.resize(static_cast<std::size_t>(made.header.bytes));
    }
    peer.incoming.push_back(std::move(made));
    return;
  }
  if (void* request = transport_.receive(message, to, bytes)) {
    open->requests.push_back(request);
  } else {
    fail(fmt::format("MPI refuses a message from rank {}", from));
  }
}

bool PostOffice::receiveArrived() {
  bool moved = false;
  int from = 0;
  std::size_t bytes = 0;
  void* message = nullptr;
  for (;;) {
    const int found = transport_.probe(&from, &bytes, &message);
    if (found < 0) {
      fail("MPI reports that it cannot receive messages");
    }
    if (found <= 0) {
      return moved;
    }
    beginReceive(from, bytes, message);
    moved = true;
  }
}

void PostOffice::deliver(std::int32_t from, Incoming& message) {
  switch (message.header.kind) {
    case Kind::Data:
      inbox_.deliver({from, message.header.context, message.header.number},
                     std::move(message.bytes));
      break;
    case Kind::Hello: {
      const std::scoped_lock lock(mutex_);
      peers_[static_cast<std::size_t>(from)].introduction = unpacked(message.bytes);
      changed_.notify_all();
      break;
    }
    case Kind::Abort:
      inbox_.interrupt(textOf(message.bytes));
      break;
    case Kind::Goodbye: {
      inbox_.leave(from);
      const std::scoped_lock lock(mutex_);
      changed_.notify_all();
      break;
    }
    case Kind::Beat:
      break;
  }
}

bool PostOffice::deliverArrived() {
  bool moved = false;
  for (std::int32_t from = 0; from < size_; ++from) {
    std::deque<Incoming>& incoming = peers_[static_cast<std::size_t>(from)].incoming;
    for (Incoming& message : incoming) {
      isDone(message.requests);
    }
    while (!incoming.empty() && incoming.front().requests.empty() &&
           incoming.front().begun == incoming.front().bytes.size()) {
      deliver(from, incoming.front());
      incoming.pop_front();
      moved = true;
    }
  }
  return moved;
}

void PostOffice::watchPeers(Clock::time_point now) {
  const Clock::time_point before = std::exchange(lastTurn_, now);
  if (now - before > timeout_ / 2) {  // this process was stopped itself
    for (Peer& peer : peers_) {
      peer.heard = now;
    }
  }
  if (now - lastBeat_ >= timeout_ / 6) {
    lastBeat_ = now;
    tellAll(Kind::Beat, {});
  }
  for (std::int32_t r = 0; r < size_; ++r) {
    if (r != rank_ && !inbox_.hasLeft(r) && !inbox_.isInterrupted() &&
        now - peers_[static_cast<std::size_t>(r)].heard > timeout_) {
      fail(fmt::format(
          "{} is lost: nothing was heard of it for {} s. It was killed, is stopped, or cannot be "
          "reached (SLUICE_PEER_TIMEOUT sets these seconds)",
          nameOf(r),
          std::chrono::duration<double>(timeout_).count()));
    }
  }
}

/// Whether MPI needs to be called for a large message to move.
bool PostOffice::isMoving() const {
  return std::ranges::any_of(sending_, [](const Outgoing& m) { return !m.body.empty(); }) ||
         std::ranges::any_of(peers_, [](const Peer& peer) { return !peer.incoming.empty(); });
}

void PostOffice::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // naps of 20 microseconds would else take 70
  int naps = 0;
  for (;;) {
    const bool sent = sendPosted();
    const bool received = receiveArrived();
    const bool delivered = deliverArrived();
    watchPeers(Clock::now());
    naps = sent || received || delivered ? 0 : naps + 1;
    if (naps > 0 && naps < kShortNaps && isMoving()) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    if (stop_) {
      return;
    }
    if (naps > 0 && posted_.empty()) {
      changed_.wait_for(lock, naps > kShortNaps ? kLongNap : kNap);
    }
  }
}

}  // namespace sluice::runtime
