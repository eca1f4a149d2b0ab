#include "sluice/runtime/group.h"

#include <algorithm>
#include <deque>

#include "sluice/base/error.h"
#include "sluice/runtime/reduce.h"

namespace sluice::runtime {
namespace {

/// Sends every rank the bytes of the local terms that it adds up, and adds up those of this rank.
MessageBytes sumShare(const Group& group,
                      device::Queue& queue,
                      std::int64_t number,
                      std::span<const device::Address> sources,
                      DType type,
                      std::span<const Part> shares) {
  queue.finish();
  for (std::size_t q = 0; q < group.ranks.size(); ++q) {
    const Part& share = shares[q];
    if (q == group.me) {
      continue;
    }
    MessageBytes terms(share.bytes * sources.size());
    for (std::size_t r = 0; r < sources.size() && share.bytes > 0; ++r) {
      device::copyOut(queue, terms.data() + r * share.bytes, sources[r] + share.begin, share.bytes);
    }
    group.communicator->post(group.ranks[q], number, std::move(terms));
  }
  const Part& mine = shares[group.me];
  std::vector<MessageBytes> received(group.ranks.size());
  std::deque<device::HostMemory> memories;  // addresses refer to them
  std::vector<device::Address> terms;
  for (std::size_t q = 0; q < group.ranks.size(); ++q) {
    if (q != group.me) {
      received[q] = group.communicator->take(group.ranks[q], number, mine.bytes * sources.size());
    }
    const device::HostMemory& memory =
        memories.emplace_back(received[q].data(), received[q].size());
    for (std::size_t r = 0; r < sources.size(); ++r) {
      terms.push_back(q == group.me ? sources[r] + mine.begin : memory.at(r * mine.bytes));
    }
  }
  MessageBytes sum(mine.bytes);
  const device::HostMemory result(sum.data(), sum.size());
  queue.sum(result.at(), terms, type, static_cast<std::int64_t>(mine.bytes / byteSize(type)));
  queue.finish();
  return sum;
}

/// Puts the shares of all ranks together.
MessageBytes gathered(const Group& group,
                      std::int64_t number,
                      MessageBytes mine,
                      std::span<const Part> shares) {
  MessageBytes whole(shares.back().begin + shares.back().bytes);
  const auto put = [&](std::size_t q, const MessageBytes& bytes) {
    putBytes(whole, shares[q].begin, bytes);
  };
  const std::size_t ranks = group.ranks.size();
  const auto rankAfter = [&](std::size_t i) { return group.ranks[(group.me + i) % ranks]; };
  for (std::size_t i = 1; i + 1 < ranks; ++i) {  // the next one first, so that not all send to one
    group.communicator->post(rankAfter(i), number, copyOf(mine));
  }
  put(group.me, mine);
  if (ranks > 1) {
    group.communicator->post(rankAfter(ranks - 1), number, std::move(mine));
  }
  for (std::size_t q = 0; q < ranks; ++q) {
    if (q != group.me) {
      put(q, group.communicator->take(group.ranks[q], number, shares[q].bytes));
    }
  }
  return whole;
}

/// Equal shares for all ranks; the last ones may be shorter or empty.
std::vector<Part> sharesOf(std::size_t ranks, std::size_t wholeBytes, std::size_t shareBytes) {
  std::vector<Part> shares;
  for (std::size_t q = 0; q < ranks; ++q) {
    shares.push_back(partOf(wholeBytes, shareBytes, q));
  }
  return shares;
}

MessageBytes gatherOver(const Group& group,
                        device::Queue& queue,
                        std::int64_t number,
                        const program::Collective& collective,
                        std::span<const device::Address> sources) {
  const std::size_t partBytes = collective.operand.bytes();
  queue.finish();
  MessageBytes mine(partBytes * sources.size());
  for (std::size_t r = 0; r < sources.size() && partBytes > 0; ++r) {
    device::copyOut(queue, mine.data() + r * partBytes, sources[r], partBytes);
  }
  const std::size_t padded = mine.size() * group.ranks.size();
  MessageBytes whole = gathered(group,
                                number,
                                std::move(mine),
                                sharesOf(group.ranks.size(), padded, padded / group.ranks.size()));
  whole.resize(collective.type.bytes());
  return whole;
}

}  // namespace

MessageBytes sumOf(const Group& group,
                   device::Queue& queue,
                   std::int64_t number,
                   std::span<const device::Address> sources,
                   DType type,
                   std::int64_t elements) {
  const std::size_t ranks = group.ranks.size();
  const std::size_t whole = static_cast<std::size_t>(elements) * byteSize(type);
  if (addsWhole(ranks * sources.size(), whole)) {
    const std::vector<Part> all(ranks, {.begin = 0, .bytes = whole});
    return sumShare(group, queue, number, sources, type, all);
  }
  const std::size_t each = (static_cast<std::size_t>(elements) + ranks - 1) / ranks;
  const std::vector<Part> shares = sharesOf(ranks, whole, each * byteSize(type));
  return gathered(group, number, sumShare(group, queue, number, sources, type, shares), shares);
}

MessageBytes reduceOver(const Group& group,
                        device::Queue& queue,
                        std::int64_t number,
                        const program::Collective& collective,
                        std::span<const device::Address> sources) {
  const DType type = collective.type.dtype;
  switch (collective.kind) {
    case program::CollectiveKind::Sum:
      return sumOf(group, queue, number, sources, type, collective.type.shape.elements());
    case program::CollectiveKind::SumPart: {
      const std::size_t share = collective.type.bytes() * sources.size();
      const std::vector<Part> shares =
          sharesOf(group.ranks.size(), collective.operand.bytes(), share);
      MessageBytes sums = sumShare(group, queue, number, sources, type, shares);
      sums.resize(share, std::byte{0});
      return sums;
    }
    case program::CollectiveKind::Gather:
      break;
  }
  return gatherOver(group, queue, number, collective, sources);
}

std::span<const std::byte> shareOf(const program::Collective& collective,
                                   const MessageBytes& reduced,
                                   std::size_t local) {
  const std::size_t bytes = collective.type.bytes();
  const bool apart = collective.kind == program::CollectiveKind::SumPart;
  return std::span(reduced).subspan(apart ? local * bytes : 0, bytes);
}

}  // namespace sluice::runtime
