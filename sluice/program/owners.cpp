#include "sluice/program/owners.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sluice/program/program_text.h"
#include "sluice/program/task_lists.h"

namespace sluice::program {
namespace {

std::size_t index(std::int32_t number) {
  return static_cast<std::size_t>(number);
}

/// Cuts the whole into one list of lanes first, those of messages behind the others, and deals them
/// out in the end.
class Cutter {
 public:
  Cutter(const Program& whole, std::span<const std::int32_t> ownerOf)
      : whole_(whole), ownerOf_(ownerOf), lists_(takeApart(whole)), lanes_(whole.lanes) {}

  std::vector<Part> run() {
    findTransfers();
    findSignals();
    addTransfers();
    addSignals();
    replaceWaits();
    std::vector<Part> parts;
    const std::int32_t last = *std::ranges::max_element(ownerOf_);
    for (std::int32_t owner = 0; owner <= last; ++owner) {
      parts.push_back(partOf(owner));
    }
    return parts;
  }

 private:
  std::int32_t ownerOfDevice(std::int32_t device) const { return ownerOf_[index(device)]; }
  std::int32_t ownerOfLane(std::int32_t lane) const {
    return ownerOfDevice(lanes_[index(lane)].device);
  }
  TaskEntry& entryAt(TaskPlace at) { return lists_[index(at.lane)][index(at.task)]; }

  /// Calls f(place, entry) for every task of the whole.
  template <class F>
  void forEachTask(F f) {
    for (std::size_t l = 0; l < whole_.lanes.size(); ++l) {
      for (std::size_t t = 0; t < whole_.lanes[l].tasks.size(); ++t) {
        const TaskPlace at{static_cast<std::int32_t>(l), static_cast<std::int32_t>(t)};
        f(at, entryAt(at));
      }
    }
  }

  /// The copies from one owner to another.
  void findTransfers() {
    forEachTask([&](TaskPlace at, const TaskEntry& entry) {
      const Lane& lane = lanes_[index(at.lane)];
      if (entry.task.kind != TaskKind::Transfer || lane.kind != LaneKind::Exchange) {
        return;
      }
      const Transfer& transfer = whole_.transfers[index(entry.task.subject)];
      const std::int32_t source = whole_.buffer(transfer.from).device;
      if (ownerOfDevice(source) != ownerOfDevice(lane.device)) {
        transferAt_.emplace(at, messages_.count());
        messages_.push_back({.name = transfer.name,
                             .from = source,
                             .to = lane.device,
                             .transfer = entry.task.subject});
      }
    });
  }

  /// The message that the task at a place sends or receives as a copy; -1: none.
  std::int32_t messageAt(TaskPlace at) const {
    const auto found = transferAt_.find(at);
    return found == transferAt_.end() ? -1 : found->second;
  }

  /// Whether a wait is for a copy away from this owner: its end of it is the sender.
  bool isForOwnSend(const Wait& wait, std::int32_t owner) const {
    const std::int32_t message = messageAt({wait.lane, wait.task});
    return message >= 0 && ownerOfDevice(messages_[index(message)].from) == owner;
  }

  /// Whether the wait of a copy is kept by its sender.
  bool isOfSender(TaskPlace at, const Wait& wait) const {
    const std::int32_t message = messageAt(at);
    return message >= 0 && ownerOfLane(wait.lane) == ownerOfDevice(messages_[index(message)].from);
  }

  /// What else an owner has to hear of from another one.
  void findSignals() {
    forEachTask([&](TaskPlace at, const TaskEntry& entry) {
      const std::int32_t device = lanes_[index(at.lane)].device;
      for (const Wait& wait : entry.waits) {
        if (ownerOfLane(wait.lane) != ownerOfDevice(device) && !isOfSender(at, wait) &&
            !isForOwnSend(wait, ownerOfDevice(device))) {
          signals_.emplace(std::pair(TaskPlace{wait.lane, wait.task}, device), -1);
        }
      }
    });
    for (auto& [key, message] : signals_) {
      message = messages_.count();
      messages_.push_back(
          {.name = "done", .from = lanes_[index(key.first.lane)].device, .to = key.second});
    }
  }

  /// The lane for messages that follow the tasks of another lane; made if need be.
  std::int32_t laneOf(LaneKind kind, std::int32_t follows, const Message& message) {
    const auto [found, isNew] = messageLanes_.try_emplace(
        std::tuple(kind, follows, message.from, message.to), lanes_.count());
    if (isNew) {
      const bool sends = kind == LaneKind::Send;
      lanes_.push_back({.device = sends ? message.from : message.to,
                        .kind = kind,
                        .peer = sends ? message.to : message.from});
      lists_.emplace_back();
    }
    return found->second;
  }

  TaskPlace append(std::int32_t lane, TaskEntry entry) {
    lists_[index(lane)].push_back(std::move(entry));
    return {lane, static_cast<std::int32_t>(lists_[index(lane)].size()) - 1};
  }

  /// The receiver keeps the place of the copy. The sender waits for what the copy waited for on its
  /// side.
  void addTransfers() {
    sends_.resize(messages_.size());
    receives_.resize(messages_.size());
    for (const auto& [at, number] : transferAt_) {
      TaskEntry send = entryAt(at);
      send.task.kind = TaskKind::Send;
      send.task.subject = number;
      std::erase_if(send.waits,
                    [&, place = at](const Wait& wait) { return !isOfSender(place, wait); });
      const std::int32_t lane = laneOf(LaneKind::Send, at.lane, messages_[index(number)]);
      sends_[index(number)] = append(lane, std::move(send));
      receives_[index(number)] = at;
      TaskEntry& receive = entryAt(at);
      receive.task.kind = TaskKind::Receive;
      receive.task.subject = number;
      lanes_[index(at.lane)].kind = LaneKind::Receive;  // all that it copies is from there
      std::erase_if(receive.waits,
                    [&, place = at](const Wait& wait) { return isOfSender(place, wait); });
    }
  }

  /// In the order of the tasks that they follow, so that none is held up by a later one.
  void addSignals() {
    for (const auto& [key, number] : signals_) {
      const TaskPlace awaited = key.first;
      const Task like{.subject = number,
                      .microBatch = entryAt(awaited).task.microBatch,
                      .plannedStart = entryAt(awaited).task.plannedStart};
      TaskEntry send{like, {{.lane = awaited.lane, .task = awaited.task}}};
      send.task.kind = TaskKind::Send;
      TaskEntry receive{like, {}};
      receive.task.kind = TaskKind::Receive;
      const Message& message = messages_[index(number)];
      sends_[index(number)] =
          append(laneOf(LaneKind::Send, awaited.lane, message), std::move(send));
      receives_[index(number)] =
          append(laneOf(LaneKind::Receive, awaited.lane, message), std::move(receive));
    }
  }

  void replaceWaits() {
    forEachTask([&](TaskPlace at, TaskEntry& entry) {
      const std::int32_t device = lanes_[index(at.lane)].device;
      for (Wait& wait : entry.waits) {
        if (ownerOfLane(wait.lane) == ownerOfDevice(device)) {
          continue;
        }
        SLUICE_CHECK(!wait.allReplicas, "a wait for all replicas goes to another owner");
        const TaskPlace awaited{wait.lane, wait.task};
        const TaskPlace here = isForOwnSend(wait, ownerOfDevice(device))
                                   ? sends_[index(messageAt(awaited))]
                                   : receives_[index(signals_.at({awaited, device}))];
        wait.lane = here.lane;
        wait.task = here.task;
      }
    });
  }

  Part partOf(std::int32_t owner) const {
    Part part{.owner = owner, .program = whole_, .laneOfWhole = {}};
    part.program.messages = messages_;
    part.program.lanes.clear();
    std::vector<std::int32_t> numbers(lanes_.size(), -1);
    TaskLists lists;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (ownerOfDevice(lanes_[l].device) != owner) {
        continue;
      }
      numbers[l] = lists.count();
      lists.push_back(lists_[l]);
      part.program.lanes.push_back(lanes_[l]);
      part.laneOfWhole.push_back(l < whole_.lanes.size() ? static_cast<std::int32_t>(l) : -1);
    }
    for (Table<TaskEntry>& list : lists) {
      for (TaskEntry& entry : list) {
        for (Wait& wait : entry.waits) {
          wait.lane = numbers[index(wait.lane)];
        }
      }
    }
    putTogether(lists, part.program);
    return part;
  }

  const Program& whole_;
  std::span<const std::int32_t> ownerOf_;
  TaskLists lists_;
  Table<Lane> lanes_;
  Table<Message> messages_;
  std::map<TaskPlace, std::int32_t> transferAt_;  // messages that are copies
  std::map<std::pair<TaskPlace, std::int32_t>, std::int32_t>
      signals_;  // by task and who waits for it
  std::map<std::tuple<LaneKind, std::int32_t, std::int32_t, std::int32_t>, std::int32_t>
      messageLanes_;
  std::vector<TaskPlace> sends_;  // by message
  std::vector<TaskPlace> receives_;
};

/// Where a task is: in which part, and where there.
struct Place {
  std::size_t part = 0;
  TaskPlace at;
};

class Joiner {
 public:
  explicit Joiner(std::span<const Part> parts) : parts_(parts), whole_(parts.front().program) {
    for (const Part& part : parts_) {
      lists_.push_back(takeApart(part.program));
    }
  }

  Program run() {
    findMessages();
    checkOrders();
    std::vector<Place> lanes = findLanes();
    whole_.lanes.clear();
    TaskLists joined;
    for (const Place& lane : lanes) {
      const auto number = index(lane.at.lane);
      whole_.lanes.push_back(parts_[lane.part].program.lanes[number]);
      if (whole_.lanes.back().kind == LaneKind::Receive) {
        whole_.lanes.back().kind = LaneKind::Exchange;
      }
      Table<TaskEntry>& list = joined.emplace_back();
      for (const TaskEntry& entry : lists_[lane.part][number]) {
        list.push_back(joinedTask(lane.part, entry));
      }
    }
    whole_.messages.clear();
    putTogether(joined, whole_);
    return std::move(whole_);
  }

 private:
  const Message& message(std::int32_t number) const {
    return parts_.front().program.messages[index(number)];
  }
  const TaskEntry& entryAt(const Place& place) const {
    return lists_[place.part][index(place.at.lane)][index(place.at.task)];
  }
  std::string textOf(std::int32_t number) const {
    const Message& m = message(number);
    return fmt::format("message {} '{}' from device {} to device {}", number, m.name, m.from, m.to);
  }

  /// Both ends of every message, each once and on its device.
  void findMessages() {
    const std::size_t count = parts_.front().program.messages.size();
    sends_.resize(count);
    receives_.resize(count);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::size_t l = 0; l < lists_[p].size(); ++l) {
        for (std::size_t t = 0; t < lists_[p][l].size(); ++t) {
          noteEnd({p, {static_cast<std::int32_t>(l), static_cast<std::int32_t>(t)}});
        }
      }
    }
    for (std::size_t m = 0; m < count; ++m) {
      const auto number = static_cast<std::int32_t>(m);
      if (!sends_[m] || !receives_[m]) {
        broken(whole_, "{} has no {}", textOf(number), sends_[m] ? "receiver" : "sender");
      }
    }
  }

  void noteEnd(const Place& place) {
    const Task& task = entryAt(place).task;
    if (task.kind != TaskKind::Send && task.kind != TaskKind::Receive) {
      return;
    }
    const bool sends = task.kind == TaskKind::Send;
    const std::int32_t device = parts_[place.part].program.lanes[index(place.at.lane)].device;
    std::optional<Place>& end = (sends ? sends_ : receives_)[index(task.subject)];
    if (end) {
      broken(whole_, "{} has two {}", textOf(task.subject), sends ? "senders" : "receivers");
    }
    if (device != (sends ? message(task.subject).from : message(task.subject).to)) {
      broken(whole_, "{} ends on device {}", textOf(task.subject), device);
    }
    end = place;
  }

  /// Lanes run in order, so two of them that exchange messages must agree on theirs.
  void checkOrders() const {
    std::vector<std::int32_t> inOrder(sends_.size());  // of the senders
    std::iota(inOrder.begin(), inOrder.end(), 0);
    std::ranges::sort(inOrder, {}, [&](std::int32_t m) {
      return std::pair(sends_[index(m)]->part, sends_[index(m)]->at);
    });
    using LanePair = std::tuple<std::size_t, std::int32_t, std::size_t, std::int32_t>;
    std::map<LanePair, std::int32_t> lastReceived;  // the receiver's task
    for (const std::int32_t m : inOrder) {
      const Place& send = *sends_[index(m)];
      const Place& receive = *receives_[index(m)];
      std::int32_t& last =
          lastReceived.try_emplace({send.part, send.at.lane, receive.part, receive.at.lane}, -1)
              .first->second;
      if (receive.at.task < last) {
        broken(whole_, "{} is received before one that was sent before it", textOf(m));
      }
      last = receive.at.task;
    }
  }

  /// By lane of the whole.
  std::vector<Place> findLanes() const {
    std::map<std::int32_t, Place> lanes;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::size_t l = 0; l < parts_[p].laneOfWhole.size(); ++l) {
        if (parts_[p].laneOfWhole[l] >= 0) {
          lanes.emplace(parts_[p].laneOfWhole[l], Place{p, {static_cast<std::int32_t>(l), 0}});
        }
      }
    }
    std::vector<Place> all;
    all.reserve(lanes.size());
    for (const auto& [number, place] : lanes) {
      all.push_back(place);
    }
    return all;
  }

  /// What a wait of a part is for in the whole.
  Wait joinedWait(std::size_t part, const Wait& wait) const {
    const Program& program = parts_[part].program;
    if (wait.lane < 0 || index(wait.lane) >= program.lanes.size() || wait.task < 0 ||
        index(wait.task) >= program.lanes[index(wait.lane)].tasks.size()) {
      broken(program, "a task waits for task {} of lane {}", wait.task, wait.lane);
    }
    const Place place{part, {wait.lane, wait.task}};
    const Task& awaited = entryAt(place).task;
    Wait result = wait;
    if (awaited.kind == TaskKind::Send) {  // its end is that of the copy
      const Place& receive = *receives_[index(awaited.subject)];
      result.lane = parts_[receive.part].laneOfWhole[index(receive.at.lane)];
      result.task = receive.at.task;
    } else if (parts_[part].laneOfWhole[index(wait.lane)] < 0) {  // that something is done
      const Place& send = *sends_[index(awaited.subject)];
      if (entryAt(send).waits.empty()) {
        broken(whole_, "{} is sent before anything is done", textOf(awaited.subject));
      }
      result = joinedWait(send.part, entryAt(send).waits.front());
      result.roundsBack += wait.roundsBack;
    } else {
      result.lane = parts_[part].laneOfWhole[index(wait.lane)];
    }
    return result;
  }

  TaskEntry joinedTask(std::size_t part, const TaskEntry& entry) const {
    TaskEntry joined{entry.task, {}};
    const auto add = [&](std::size_t from, std::span<const Wait> waits) {
      for (const Wait& wait : waits) {
        joined.waits.push_back(joinedWait(from, wait));
      }
    };
    add(part, entry.waits);
    if (entry.task.kind == TaskKind::Receive) {
      const Place& send = *sends_[index(entry.task.subject)];
      add(send.part, entryAt(send).waits);
      joined.task.kind = TaskKind::Transfer;
      joined.task.subject = message(entry.task.subject).transfer;
    }
    return joined;
  }

  std::span<const Part> parts_;
  Program whole_;
  std::vector<TaskLists> lists_;  // by part
  std::vector<std::optional<Place>> sends_;
  std::vector<std::optional<Place>> receives_;
};

}  // namespace

std::vector<Part> split(const Program& whole, std::span<const std::int32_t> ownerOf) {
  SLUICE_CHECK(ownerOf.size() >= whole.devices.size(),
               "{} owners are named for {} devices",
               ownerOf.size(),
               whole.devices.size());
  return Cutter(whole, ownerOf).run();
}

Program join(std::span<const Part> parts) {
  return Joiner(parts).run();
}

}  // namespace sluice::program
