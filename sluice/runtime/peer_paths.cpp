#include "sluice/runtime/peer_paths.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/runtime/communicator.h"

namespace sluice::runtime {
namespace {

// Are parts of the numbers of what the ranks of a copy tell each other.
constexpr std::int64_t kRequest = std::int64_t{1} << 61;
constexpr std::int64_t kGrant = std::int64_t{1} << 60;
constexpr std::int64_t kDone = std::int64_t{1} << 59;

MessageBytes bytesOf(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string textOf(const MessageBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// The place of the device, if it takes part, and how many bytes its rank expects.
std::string requestOf(device::Queue& queue, std::size_t bytes) {
  device::PeerPort* const port = queue.peerPort();
  return fmt::format("{}\n{}", port == nullptr ? "" : port->place(), bytes);
}

}  // namespace

/// What the host of a meeting says: who takes part, and how they find each other if they are new.
struct PeerPaths::Grant {
  Places places;  ///< none: the bytes go through the host
  device::PeerPort::Invitation invitation;

  MessageBytes packed() const {
    const auto length = static_cast<std::uint32_t>(invitation.size());
    MessageBytes bytes(sizeof(length));
    std::memcpy(bytes.data(), &length, sizeof(length));
    appendBytes(bytes, invitation);
    appendBytes(bytes, bytesOf(fmt::format("{}", fmt::join(places, "\n"))));
    return bytes;
  }

  static Grant of(const MessageBytes& bytes) {
    std::uint32_t length = 0;
    SLUICE_CHECK(bytes.size() >= sizeof(length), "a grant of {} bytes", bytes.size());
    std::memcpy(&length, bytes.data(), sizeof(length));
    SLUICE_CHECK(bytes.size() - sizeof(length) >= length, "a grant without its invitation");
    const std::string text = textOf(bytes).substr(sizeof(length));
    Grant grant;
    const auto* begin = bytes.data() + sizeof(length);
    grant.invitation.assign(begin, begin + length);
    if (text.size() > length) {
      grant.places = linesOf(std::string_view(text).substr(length));
    }
    return grant;
  }
};

PeerDeadline::PeerDeadline(const Communicator& communicator,
                           std::span<const std::int32_t> ranks,
                           std::chrono::milliseconds patience)
    : communicator_(communicator),
      ranks_(ranks),
      patience_(patience),
      end_(std::chrono::steady_clock::now() + patience) {}

void PeerDeadline::operator()() const {
  communicator_.requireGoing();
  if (std::chrono::steady_clock::now() >= end_) {
    raise<DeviceError>(
        "rank {} has waited {} s for a copy between the devices of ranks {}, which have all begun "
        "it: is the link between them up? SLUICE_PEER_PATIENCE sets these seconds",
        communicator_.rank(),
        patience_.count() / 1000,
        fmt::join(ranks_, " and "));
  }
}

bool PeerPaths::send(device::Queue& queue,
                     std::int32_t to,
                     std::int64_t number,
                     device::Address from,
                     std::size_t bytes) {
  return move(queue, to, number, {.way = device::PeerMove::Way::Send, .at = from, .bytes = bytes});
}

bool PeerPaths::receive(device::Queue& queue,
                        std::int32_t from,
                        std::int64_t number,
                        device::Address to,
                        std::size_t bytes) {
  return move(
      queue, from, number, {.way = device::PeerMove::Way::Receive, .at = to, .bytes = bytes});
}

bool PeerPaths::gather(device::Queue& queue,
                       std::span<const std::int32_t> ranks,
                       std::int64_t number,
                       device::Address part,
                       device::Address whole,
                       std::size_t bytes) {
  return meet(queue,
              {ranks.begin(), ranks.end()},
              number,
              bytes,
              [&](device::PeerGroup& group, device::PeerWait wait) {
                group.gather(queue, part, whole, bytes, wait);
              });
}

bool PeerPaths::move(device::Queue& queue,
                     std::int32_t other,
                     std::int64_t number,
                     device::PeerMove move) {
  const std::int32_t me = communicator_.rank();
  move.peer = other < me ? 0 : 1;
  return meet(queue,
              {std::min(me, other), std::max(me, other)},
              number,
              move.bytes,
              [&](device::PeerGroup& group, device::PeerWait wait) {
                group.exchange(queue, {&move, 1}, wait);
              });
}

bool PeerPaths::meet(
    device::Queue& queue, const Ranks& ranks, std::int64_t number, std::size_t bytes, Copy copy) {
  // Nobody meets for a mere signal: another program may have bytes under its number.
  if (bytes == 0 || isStaged(ranks, number)) {
    return false;
  }
  const std::string request = requestOf(queue, bytes);
  const bool direct = ranks[0] == communicator_.rank()
                          ? hostMeeting(queue, ranks, number, request, copy)
                          : joinMeeting(queue, ranks, number, request, copy);
  if (!direct) {
    noteStaged(ranks, number);
  }
  return direct;
}

/// One after the other: nobody is told to begin before all have ended what came before.
bool PeerPaths::hostMeeting(device::Queue& queue,
                            const Ranks& ranks,
                            std::int64_t number,
                            const std::string& request,
                            Copy copy) {
  const std::span others = std::span(ranks).subspan(1);
  Grant grant;
  const std::vector<std::string> mine = linesOf(request);
  grant.places.push_back(mine[0]);
  bool direct = !mine[0].empty();
  for (const std::int32_t other : others) {
    const std::vector<std::string> theirs =
        linesOf(textOf(communicator_.take(other, number | kRequest)));
    SLUICE_CHECK(theirs.size() == 2, "a request of {} lines", theirs.size());
    // Other sizes are an error, which the way through the host finds.
    direct = direct && !theirs[0].empty() && theirs[1] == mine[1] &&
             std::ranges::find(grant.places, theirs[0]) == grant.places.end();
    grant.places.push_back(theirs[0]);
  }
  if (!direct) {
    grant.places.clear();
  }
  const auto tell = [&] {
    for (const std::int32_t other : others) {
      communicator_.post(other, number | kGrant, grant.packed());
    }
  };
  if (!direct) {
    tell();
    return false;
  }
  const std::scoped_lock order(circleOf(ranks).order);
  device::PeerGroup* group = find(ranks, grant.places);
  if (group == nullptr) {
    grant.invitation = queue.peerPort()->invite();
  }
  tell();
  if (group == nullptr) {
    group = &join(queue, ranks, grant.places, grant.invitation);
  }
  const PeerDeadline deadline(communicator_, ranks, patience_);
  copy(*group, deadline);
  for (const std::int32_t other : others) {
    communicator_.take(other, number | kDone, 0);
  }
  return true;
}

bool PeerPaths::joinMeeting(device::Queue& queue,
                            const Ranks& ranks,
                            std::int64_t number,
                            const std::string& request,
                            Copy copy) {
  communicator_.post(ranks[0], number | kRequest, bytesOf(request));
  const Grant grant = Grant::of(communicator_.take(ranks[0], number | kGrant));
  if (grant.places.empty()) {
    return false;
  }
  device::PeerGroup* group = grant.invitation.empty()
                                 ? find(ranks, grant.places)
                                 : &join(queue, ranks, grant.places, grant.invitation);
  SLUICE_CHECK(group != nullptr, "a copy in a group that rank {} has not joined", ranks[0]);
  const PeerDeadline deadline(communicator_, ranks, patience_);
  copy(*group, deadline);
  communicator_.post(ranks[0], number | kDone, {});
  return true;
}

PeerPaths::Circle& PeerPaths::circleOf(const Ranks& ranks) {
  const std::scoped_lock lock(mutex_);
  return circles_[ranks];
}

bool PeerPaths::isStaged(const Ranks& ranks, std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  return circles_[ranks].staged.contains(number);
}

void PeerPaths::noteStaged(const Ranks& ranks, std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  circles_[ranks].staged.insert(number);
}

device::PeerGroup* PeerPaths::find(const Ranks& ranks, const Places& places) {
  const std::scoped_lock lock(mutex_);
  const auto& groups = circles_[ranks].groups;
  const auto found = groups.find(places);
  return found == groups.end() ? nullptr : found->second.get();
}

/// The others wait for this rank until it has joined, so that no lock is needed meanwhile.
device::PeerGroup& PeerPaths::join(device::Queue& queue,
                                   const Ranks& ranks,
                                   const Places& places,
                                   const device::PeerPort::Invitation& invitation) {
  const auto me = std::ranges::find(ranks, communicator_.rank()) - ranks.begin();
  const PeerDeadline deadline(communicator_, ranks, patience_);
  std::unique_ptr<device::PeerGroup> group = queue.peerPort()->join(
      invitation, static_cast<std::int32_t>(me), static_cast<std::int32_t>(ranks.size()), deadline);
  const std::scoped_lock lock(mutex_);
  return *(circles_[ranks].groups[places] = std::move(group));
}

}  // namespace sluice::runtime
