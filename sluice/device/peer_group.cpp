#include "sluice/device/peer_group.h"

#include "sluice/base/error.h"

namespace sluice::device {
namespace {

void requireInside(Address address, std::size_t bytes) {
  SLUICE_CHECK(address.memory != nullptr && address.offset <= address.memory->bytes() &&
                   bytes <= address.memory->bytes() - address.offset,
               "{} bytes of a peer at {} are not in their memory",
               bytes,
               address.offset);
}

}  // namespace

PeerGroup::PeerGroup(std::int32_t rank, std::int32_t size) : rank_(rank), size_(size) {
  SLUICE_CHECK(rank >= 0 && rank < size, "member {} of {} devices", rank, size);
}

void PeerGroup::exchange(Queue& queue, std::span<const PeerMove> moves, PeerWait wait) {
  for (const PeerMove& move : moves) {
    SLUICE_CHECK(
        move.peer >= 0 && move.peer < size_, "a copy with member {} of {}", move.peer, size_);
    requireInside(move.at, move.bytes);
  }
  doExchange(queue, moves, wait);
}

void PeerGroup::gather(
    Queue& queue, Address part, Address whole, std::size_t bytes, PeerWait wait) {
  requireInside(part, bytes);
  requireInside(whole, bytes * static_cast<std::size_t>(size_));
  doGather(queue, part, whole, bytes, wait);
}

}  // namespace sluice::device
