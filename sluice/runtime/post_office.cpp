#include "sluice/runtime/post_office.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"

namespace sluice::runtime {
namespace {

/// How long the last messages of a process may take if another one is lost.
constexpr std::chrono::milliseconds kGrace{1000};

/// What is sent over a network at once. Open MPI asks the receiver before it sends more than 64 KiB
/// over TCP (btl_tcp_eager_limit), and its answer comes behind all that travels the other way.
constexpr std::size_t kPiece = std::size_t{60} * 1024;

MessageBytes bytesOf(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string textOf(const MessageBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Four lines; none of them has line ends.
MessageBytes packed(const Introduction& introduction, const std::string& bell) {
  return bytesOf(fmt::format(
      "{}\n{}\n{}\n{}", introduction.library, introduction.host, introduction.process, bell));
}

std::array<std::string, 4> linesOf(const std::string& text) {
  std::array<std::string, 4> lines;
  std::size_t begin = 0;
  for (std::string& line : lines) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    line = text.substr(begin, end - begin);
    begin = std::min(end + 1, text.size());
  }
  return lines;
}

}  // namespace

PostOffice::PostOffice(const mpi::Transport& transport,
                       std::int32_t rank,
                       std::int32_t size,
                       Milliseconds timeout)
    : rank_(rank),
      size_(size),
      timeout_(timeout),
      carrier_(
          transport,
          size,
          [this](std::int32_t from) {
            peers_[static_cast<std::size_t>(from)].heard = Clock::now();
          },
          [this](const std::string& reason) { fail(reason); }),
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
  bell_.ring(bell_.address());
  thread_.join();
}

void PostOffice::put(std::int32_t to, MailHeader header, MessageBytes body) {
  {
    const std::scoped_lock lock(mutex_);
    posted_.push_back({.rank = to, .header = header, .body = std::move(body)});
    idle_ = false;
  }
  if (looking_.load() != std::this_thread::get_id()) {  // else it sends what it tells others
    lookNow();
  }
}

void PostOffice::post(std::int32_t to,
                      std::int32_t context,
                      std::int64_t number,
                      MessageBytes bytes) {
  put(to, {.kind = MailKind::Data, .context = context, .number = number}, std::move(bytes));
}

void PostOffice::tellAll(MailKind kind, const MessageBytes& body) {
  for (std::int32_t other = 0; other < size_; ++other) {
    // Who has left still waits for the last word of the others.
    if (other != rank_ && (kind == MailKind::Goodbye || !inbox_.hasLeft(other))) {
      put(other, {.kind = kind}, body);
    }
  }
}

void PostOffice::interrupt(std::string_view reason) {
  if (!inbox_.isInterrupted()) {
    inbox_.interrupt(reason);
    tellAll(MailKind::Abort, bytesOf(reason));
  }
}

std::string PostOffice::nameOf(std::int32_t rank) const {
  const std::scoped_lock lock(mutex_);
  const std::optional<Introduction>& known = peers_[static_cast<std::size_t>(rank)].introduction;
  return known ? fmt::format("rank {} (process {} on host {})", rank, known->process, known->host)
               : fmt::format("rank {}", rank);
}

void PostOffice::introduce(const Introduction& mine) {
  tellAll(MailKind::Hello, packed(mine, bell_.address()));
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
  tellAll(MailKind::Goodbye, {});
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
  // to be sent after that may be for the one that is lost. Nobody watches those that have left: one
  // that is killed then never takes what is on the way to it.
  std::optional<Clock::time_point> over;
  while (!(idle_ && (allLeft() || inbox_.isInterrupted()))) {
    changed_.wait_for(lock, Milliseconds(10));
    if (inbox_.isInterrupted() || allLeft()) {
      over = over.value_or(Clock::now());
      if (Clock::now() - *over > (inbox_.isInterrupted() ? kGrace : timeout_)) {
        break;
      }
    }
  }
  return idle_ && allLeft() && !inbox_.isInterrupted();
}

void PostOffice::fail(const std::string& reason) {
  interrupt(reason);
}

void PostOffice::ringAt(Peer& peer) const {
  if (peer.bell && !bell_.ring(*peer.bell)) {
    peer.bell.reset();
  }
}

bool PostOffice::hasPosted() const {
  const std::scoped_lock lock(mutex_);
  return !posted_.empty();
}

void PostOffice::sendPosted() {
  std::deque<Mail> fresh;
  {
    const std::scoped_lock lock(mutex_);
    fresh.swap(posted_);
  }
  std::set<std::int32_t> to;
  for (Mail& mail : fresh) {
    to.insert(mail.rank);
    const bool isNear = peers_[static_cast<std::size_t>(mail.rank)].bell.has_value();
    carrier_.send(std::move(mail), isNear ? mpi::kMostBytes : kPiece);
  }
  for (const std::int32_t rank : to) {
    ringAt(peers_[static_cast<std::size_t>(rank)]);
  }
}

void PostOffice::noteIdle() {
  const std::scoped_lock lock(mutex_);
  if (carrier_.hasSent() && posted_.empty() && !idle_) {
    idle_ = true;
    changed_.notify_all();
  }
}

void PostOffice::meet(std::int32_t rank, const MessageBytes& introduction) {
  const auto [library, host, process, bell] = linesOf(textOf(introduction));
  const std::scoped_lock lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.introduction = {library, host, std::atoll(process.c_str())};
  if (bell_.reaches(bell)) {
    peer.bell = bell;
  }
  changed_.notify_all();
}

void PostOffice::deliver(Mail mail) {
  delivered_ = true;
  switch (mail.header.kind) {
    case MailKind::Data:
      inbox_.deliver({mail.rank, mail.header.context, mail.header.number}, std::move(mail.body));
      break;
    case MailKind::Hello:
      meet(mail.rank, mail.body);
      break;
    case MailKind::Abort:
      inbox_.interrupt(textOf(mail.body));
      break;
    case MailKind::Goodbye: {
      inbox_.leave(mail.rank);
      const std::scoped_lock lock(mutex_);
      changed_.notify_all();
      break;
    }
    case MailKind::Beat:
      break;
  }
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
    tellAll(MailKind::Beat, {});
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

}  // namespace sluice::runtime
