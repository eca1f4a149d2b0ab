#include <algorithm>
#include <set>

#include "sluice/base/error.h"
#include "sluice/program/verify_parts.h"

namespace sluice::program {
namespace {

/// Calls f(buffer, what writes it, whether that is a segment that packs).
template <class F>
void forEachWrite(const Program& p, const F& f) {
  for (const Segment& segment : p.segments) {
    for (const device::KernelCall& call : segment.calls) {
      for (const std::int32_t output : call.outputs) {
        f(BufferId(output), name(segment), segment.kind == SegmentKind::Pack);
      }
    }
  }
  for (const Transfer& transfer : p.transfers) {
    f(transfer.to, "the transfer of " + transfer.name, false);
  }
  for (const Collective& collective : p.collectives) {
    f(collective.to, "the sum of " + collective.name, false);
  }
  for (const Port& feed : p.feeds) {
    f(feed.buffer, "the feed of " + feed.name, false);
  }
}

/// What packing segments write, except for scratch.
std::set<BufferId> packedCopies(const Program& p) {
  std::set<BufferId> packed;
  forEachWrite(p, [&](BufferId buffer, const std::string& /*by*/, bool packs) {
    if (packs) {
      packed.insert(buffer);
    }
  });
  return packed;
}

}  // namespace

void verifyKept(const Program& p) {
  if (!p.keepsPacked) {
    return;
  }
  const std::set<BufferId> packed = packedCopies(p);
  forEachWrite(p, [&](BufferId id, const std::string& by, bool packs) {
    const Buffer& buffer = p.buffer(id);
    SLUICE_CHECK(buffer.region != Region::State,
                 "a program that keeps packed variables has {} write the variable '{}'",
                 by,
                 buffer.name);
    SLUICE_CHECK(packs || !packed.contains(id),
                 "{} writes the packed copy of '{}', which the program keeps",
                 by,
                 buffer.name);
  });
  for (const BufferId id : packed) {
    for (std::size_t other = 0; other < p.buffers.size(); ++other) {
      SLUICE_CHECK(BufferId(other) == id || !overlap(p.buffer(id), p.buffers[other]),
                   "the packed copy of '{}', which the program keeps, shares bytes with '{}'",
                   p.buffer(id).name,
                   p.buffers[other].name);
    }
  }
}

}  // namespace sluice::program
