#include "sluice/api/processes.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/program/owners.h"

namespace sluice {
namespace {

/// The number of all messages of sessions; those of programs are below it.
constexpr std::int64_t kNumber = std::int64_t{1} << 40;

void requireOneByOne(const Options& options) {
  const auto refuse = [](std::string_view what) {
    raise<Unsupported>("{} works in one process only: switch it off, or distributed.disable()",
                       what);
  };
  if (options.recovery().retries > 0) {
    refuse("recovery of failed steps");
  }
  if (!options.state().broadcastBuffers) {
    refuse("broadcastBuffers(false)");
  }
}

/// The lines in which two texts differ.
std::string difference(const std::string& a, const std::string& b) {
  const auto linesOf = [](const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  const std::vector<std::string> left = linesOf(a);
  const std::vector<std::string> right = linesOf(b);
  std::string result;
  const auto addMissing = [&](const auto& from, const auto& in, std::string_view mark) {
    for (const std::string& line : from) {
      if (std::ranges::find(in, line) == in.end()) {
        result += fmt::format("\n  {} {}", mark, line);
      }
    }
  };
  addMissing(left, right, "-");
  addMissing(right, left, "+");
  return result;
}

std::string textOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::unique_ptr<Processes> Processes::of(const Options& options) {
  const DistributedOptions& asked = options.distributed;
  if (asked.numProcesses() == 1 || options.device().connection == ConnectionType::Never) {
    return nullptr;
  }
  requireOneByOne(options);
  std::shared_ptr<runtime::ProcessWorld> world = runtime::ProcessWorld::open();
  if (world->size() != asked.numProcesses() || world->rank() != asked.processId()) {
    raise<InvalidArgument>(
        "distributed.configureProcessId says that this is process {} of {}, and MPI that it is {} "
        "of {}",
        asked.processId(),
        asked.numProcesses(),
        world->rank(),
        world->size());
  }
  const std::int32_t replicas = options.allReplicas();
  const std::int32_t processes = world->size();
  if (replicas % processes != 0 && processes % replicas != 0) {
    raise<InvalidArgument>(
        "{} processes cannot share {} replicas: one number must divide the other "
        "(replicationFactor)",
        processes,
        replicas);
  }
  return std::unique_ptr<Processes>(new Processes(options, std::move(world)));
}

Processes::Processes(const Options& options, std::shared_ptr<runtime::ProcessWorld> world)
    : world_(std::move(world)),
      communicator_(world_->makeCommunicator()),
      shares_(options.distributed.shareModel()),
      connects_(isSwitchedOn("SLUICE_NCCL")),  // until it has run on two GPUs
      replicas_(options.allReplicas()),
      parts_(std::max(world_->size() / replicas_, 1)) {
  if (connects_) {
    communicator_->connectDevices();
  }
  peers_.emplace(runtime::Peers{*communicator_, {}, {}, shares_});
  peers_->group = {.communicator = communicator_.get(), .ranks = {}, .me = myPlace()};
  for (std::size_t place = 0; place < groupSize(); ++place) {
    peers_->group.ranks.push_back(rankOf(place, myPart()));
  }
}

std::size_t Processes::replicasHere(const Options& options) const {
  if (!shares_) {
    return static_cast<std::size_t>(options.replicationFactor());
  }
  if (options.allReplicas() != replicas_) {
    raise<InvalidArgument>(
        "processes that share a model have dealt out {} replicas; a model of the same module asks "
        "for {}: use the same replicationFactor",
        replicas_,
        options.allReplicas());
  }
  return static_cast<std::size_t>(replicas_) / groupSize();
}

void Processes::requireKinds(std::span<const device::Device* const> devices) const {
  for (const device::Device* device : devices) {
    const std::string& kind = device->info().kind;
    if (kind != "cpu" && kind != "far" && !(kind == "cuda" && connects_)) {
      raise<Unsupported>("devices of kind '{}' work in one process only", kind);
    }
  }
}

void Processes::dealOut(std::size_t devices) {
  if (devices_ != 0) {
    return;
  }
  const auto count = static_cast<std::int32_t>(devices);
  if (count < parts_) {
    raise<InvalidArgument>(
        "{} processes share {} replicas, so that each replica needs {} devices, and the model uses "
        "{}: start fewer processes, or give it more devices",
        size(),
        groupSize(),
        parts_,
        count);
  }
  devices_ = count;
}

std::int32_t Processes::partOf(std::int32_t device) const {
  return program::partOf(device, devices_, parts_);
}

std::int32_t Processes::partOf(std::string_view variable, std::int32_t device) const {
  if (device != program::kRemote) {
    return partOf(device);
  }
  const auto found = remoteParts_.find(variable);
  return found == remoteParts_.end() ? 0 : found->second;
}

std::vector<std::int32_t> Processes::partsOf(std::size_t devices) const {
  std::vector<std::int32_t> parts;
  for (std::size_t d = 0; d < devices; ++d) {
    parts.push_back(partOf(static_cast<std::int32_t>(d)));
  }
  return parts;
}

void Processes::noteRemote(const program::Program& whole) {
  peers_->rankOf = partsOf(whole.devices.size());
  for (std::int32_t& part : peers_->rankOf) {
    part = rankOf(myPlace(), part);
  }
  if (parts_ == 1) {
    return;
  }
  std::map<std::int32_t, std::int32_t> partOfBuffer;
  for (const program::Transfer& transfer : whole.transfers) {
    const bool fetches = whole.buffer(transfer.from).isRemote();
    if (!fetches && !whole.buffer(transfer.to).isRemote()) {
      continue;
    }
    const program::BufferId remote = fetches ? transfer.from : transfer.to;
    const std::int32_t part = partOf(whole.buffer(fetches ? transfer.to : transfer.from).device);
    const program::Buffer& buffer = whole.buffer(remote);
    const auto known = partOfBuffer.emplace(static_cast<std::int32_t>(remote.index()), part).first;
    bool agrees = known->second == part;
    if (buffer.region == program::Region::State) {
      agrees = agrees && remoteParts_.try_emplace(buffer.name, part).first->second == part;
    }
    if (!agrees) {
      raise<Unsupported>(
          "'{}' is in remote memory, and devices of several processes use it: remote memory "
          "belongs "
          "to one process; keep it on the devices, or start as many processes as there are "
          "replicas",
          buffer.name);
    }
  }
}

void Processes::post(std::int32_t to,
                     std::string_view what,
                     std::span<const std::byte> bytes) const {
  const auto length = static_cast<std::uint32_t>(what.size());
  runtime::MessageBytes message(sizeof(length) + what.size() + bytes.size());
  std::memcpy(message.data(), &length, sizeof(length));
  std::memcpy(message.data() + sizeof(length), what.data(), what.size());
  runtime::putBytes(message, sizeof(length) + length, bytes);
  communicator_->post(to, kNumber, std::move(message));
}

runtime::MessageBytes Processes::take(std::int32_t from, std::string_view what) const {
  runtime::MessageBytes message = communicator_->take(from, kNumber, [&] { lookAround(what); });
  std::uint32_t length = 0;
  SLUICE_CHECK(message.size() >= sizeof(length), "a message of {} bytes", message.size());
  std::memcpy(&length, message.data(), sizeof(length));
  SLUICE_CHECK(message.size() - sizeof(length) >= length, "a message without its name");
  const std::string found = textOf(std::span(message).subspan(sizeof(length), length));
  if (found != what) {
    const std::string text = fmt::format(
        "the processes make different calls: {} is at {}, {} at {}; all must make the same ones in "
        "the same order",
        world_->nameOf(from),
        found,
        world_->nameOf(rank()),
        what);
    communicator_->interrupt(text);
    raise<InvalidArgument>("{}", text);
  }
  return runtime::copyOf(std::span(message).subspan(sizeof(length) + length));
}

void Processes::lookAround(std::string_view what) const {
  if (!look_) {
    return;
  }
  try {
    look_();
  } catch (const std::exception& error) {
    communicator_->interrupt(
        fmt::format("rank {}, at {}, has ended: {}", rank(), what, error.what()));
    throw;
  }
}

void Processes::requireSame(std::string_view what, const std::string& text) const {
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(size()));
  for (std::int32_t r = 0; r < size(); ++r) {
    if (r != rank()) {
      post(r, what, bytesOf(text));
    }
  }
  for (std::int32_t r = 0; r < size(); ++r) {
    texts.push_back(r == rank() ? text : textOf(take(r, what)));
  }
  for (std::int32_t r = 1; r < size(); ++r) {
    const std::string& other = texts[static_cast<std::size_t>(r)];
    if (other != texts[0]) {
      raise<InvalidArgument>("{} has another {} than {}:{}",
                             world_->nameOf(r),
                             what,
                             world_->nameOf(0),
                             difference(texts[0], other));
    }
  }
}

std::string Processes::inFirst(std::string_view what, const std::function<std::string()>& f) const {
  constexpr char kDone = '+';
  if (rank() != 0) {
    const std::string answer = textOf(take(0, what));
    if (answer.empty() || answer[0] != kDone) {
      raise<FileError>("{} failed in rank 0: {}", what, answer.empty() ? "" : answer.substr(1));
    }
    return answer.substr(1);
  }
  const auto tell = [&](const std::string& answer) {
    for (std::int32_t r = 1; r < size(); ++r) {
      post(r, what, bytesOf(answer));
    }
  };
  try {
    std::string result = f();
    tell(kDone + result);
    return result;
  } catch (const std::exception& error) {
    tell(std::string("-") + error.what());
    throw;
  }
}

std::int64_t Processes::largest(std::string_view what, std::int64_t number) const {
  const auto tell = [&](std::int32_t to) { post(to, what, std::as_bytes(std::span(&number, 1))); };
  const auto hear = [&](std::int32_t from) {
    const runtime::MessageBytes theirs = take(from, what);
    std::int64_t heard = 0;
    SLUICE_CHECK(theirs.size() == sizeof(heard), "'{}' is a message of another kind", what);
    std::memcpy(&heard, theirs.data(), sizeof(heard));
    return heard;
  };
  if (rank() != 0) {
    tell(0);
    return hear(0);
  }
  for (std::int32_t r = 1; r < size(); ++r) {
    number = std::max(number, hear(r));
  }
  for (std::int32_t r = 1; r < size(); ++r) {
    tell(r);
  }
  return number;
}

std::uint64_t sampleOf(std::span<const HostTensor> tensors) {
  constexpr std::size_t kBlock = 64;
  constexpr std::size_t kBlocks = 256;
  Hasher hasher;
  for (const HostTensor& tensor : tensors) {
    const std::span bytes(tensor.bytes(), tensor.byteCount());
    if (bytes.size() <= kBlock * kBlocks) {
      hasher.add(bytes);
      continue;
    }
    const std::size_t stride = (bytes.size() - kBlock) / (kBlocks - 1);  // almost to the end
    for (std::size_t b = 0; b < kBlocks; ++b) {
      hasher.add(bytes.subspan(b * stride, kBlock));
    }
  }
  return hasher.digest();
}

SharedSink::SharedSink(const program::Program& program,
                       std::vector<BatchLayout> layouts,
                       const Processes& processes,
                       DataDigest data)
    : TensorSink(program, std::move(layouts)), processes_(processes), data_(std::move(data)) {
  for (const program::Port& drain : program.drains) {
    parts_.push_back(processes.partOf(program.buffer(drain.buffer).device));
  }
}

/// Calls f(bytes) for every piece of a result that a process has.
template <class F>
void SharedSink::forEachSlot(std::int32_t rank, const F& f) {
  const std::int64_t place = rank / processes_.parts();
  for (std::size_t o = 0; o < results_.size(); ++o) {
    if (parts_[o] != rank % processes_.parts()) {
      continue;
    }
    const std::int64_t replicas = layouts_[o].replicationFactor;
    const std::int64_t each = replicas / static_cast<std::int64_t>(processes_.groupSize());
    for (std::int64_t slot = 0; slot < layouts_[o].outputMicroBatches(); ++slot) {
      if (slot % replicas / each == place) {
        f(std::span(results_[o].bytes() + bytes_[o] * static_cast<std::size_t>(slot), bytes_[o]));
      }
    }
  }
}

void SharedSink::putResults(std::int32_t rank, std::span<const std::byte> theirs) {
  std::size_t at = 0;
  forEachSlot(rank, [&](std::span<std::byte> slot) {
    SLUICE_CHECK(theirs.size() - at >= slot.size(), "results of {} bytes", theirs.size());
    std::memcpy(slot.data(), theirs.data() + at, slot.size());
    at += slot.size();
  });
}

std::vector<HostTensor> SharedSink::takeResults() {
  constexpr std::string_view kWhat = "the results of a step";
  // The digest of the data costs no message of its own here.
  std::vector<std::uint64_t> data(static_cast<std::size_t>(processes_.size()), data_());
  runtime::MessageBytes mine;
  runtime::appendBytes(mine, std::as_bytes(std::span(data).first(1)));
  forEachSlot(processes_.rank(),
              [&](std::span<std::byte> slot) { runtime::appendBytes(mine, slot); });
  for (std::int32_t r = 0; r < processes_.size(); ++r) {
    if (r != processes_.rank()) {
      processes_.post(r, kWhat, mine);
    }
  }
  for (std::int32_t r = 0; r < processes_.size(); ++r) {
    if (r == processes_.rank()) {
      continue;
    }
    const runtime::MessageBytes theirs = processes_.take(r, kWhat);
    constexpr std::size_t kDigest = sizeof(data[0]);
    SLUICE_CHECK(theirs.size() >= kDigest, "results of {} bytes", theirs.size());
    std::memcpy(&data[static_cast<std::size_t>(r)], theirs.data(), kDigest);
    putResults(r, std::span(theirs).subspan(kDigest));
  }
  const auto other = std::ranges::find_if(data, [&](auto digest) { return digest != data[0]; });
  if (other != data.end()) {
    raise<InvalidArgument>(
        "{} was called with other data than {}: processes that share a model must all be called "
        "with the same data (do they shuffle with one seed?)",
        processes_.nameOf(static_cast<std::int32_t>(other - data.begin())),
        processes_.nameOf(0));
  }
  return TensorSink::takeResults();
}

}  // namespace sluice
