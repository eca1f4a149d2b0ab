// Every stage and kind has two counters: micro-batches that have arrived (all predecessors have
// ended and their data is here) and micro-batches that have started. If they differ, a piece is
// ready. Each device has one heap of ready stages per kind, so a decision takes time logarithmic in
// the number of its stages. Every piece causes one arrival, one decision and one end.
#include "sluice/schedule/list_scheduler.h"

#include <algorithm>
#include <array>
#include <queue>
#include <random>
#include <tuple>

#include "sluice/base/error.h"
#include "sluice/schedule/device_memory.h"

namespace sluice::schedule {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

template <class T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

/// A stage with a ready piece; stale once the stage has gone past the micro-batch.
struct Ready {
  std::int64_t rank;
  std::int32_t stage;
  std::int32_t microBatch;
  bool operator>(const Ready& other) const {
    return std::tie(rank, stage) > std::tie(other.rank, other.stage);
  }
};

/// An arrival at a stage, or (stage -1) the end of what a device runs.
struct Event {
  std::int64_t time;
  std::int32_t device;
  std::int32_t stage;
  WorkKind kind;
  bool operator>(const Event& other) const {
    return std::tie(time, device, stage, kind) >
           std::tie(other.time, other.device, other.stage, other.kind);
  }
};

struct Device {
  explicit Device(DeviceMemory m) : memory(std::move(m)) {}
  DeviceMemory memory;
  std::array<MinHeap<Ready>, 3> ready;
  MinHeap<std::int64_t> arrivals;  ///< times that are known and may be past
  Piece running;
  bool busy = false;
  bool touched = false;
};

class ListScheduler {
 public:
  ListScheduler(const CheckedProblem& checked, const ListPolicy& policy)
      : checked_(checked),
        policy_(policy),
        random_(policy.seed),
        orders_(static_cast<std::size_t>(checked.numDevices())),
        missing_(checked.numPieces(), 0),
        arrivalTime_(checked.numPieces(), 0) {
    for (std::int32_t d = 0; d < checked.numDevices(); ++d) {
      devices_.emplace_back(DeviceMemory(checked, d, policy));
    }
    for (const WorkKind kind : checked.kinds()) {
      arrived_[rowOf(kind)].resize(static_cast<std::size_t>(checked.numStages()), 0);
      started_[rowOf(kind)].resize(static_cast<std::size_t>(checked.numStages()), 0);
      for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
        std::int32_t before = 0;
        checked.eachBefore(kind, stage, [&](WorkKind, std::int32_t) { ++before; });
        for (std::int32_t m = 0; m < checked.microBatches(); ++m) {
          missing_[checked.id(kind, stage, m)] = before;
        }
      }
    }
  }

  std::optional<Orders> run() {
    for (const std::int32_t stage : checked_.stagesOfSlot(0)) {
      for (std::int32_t m = 0; m < checked_.microBatches(); ++m) {
        announce(WorkKind::Forward, stage, 0);
      }
    }
    std::vector<std::int32_t> touched;
    while (!events_.empty()) {
      const std::int64_t now = events_.top().time;
      touched.clear();
      while (!events_.empty() && events_.top().time == now) {
        const Event event = events_.top();
        events_.pop();
        apply(event);
        Device& device = at(event.device);
        if (!device.touched) {
          device.touched = true;
          touched.push_back(event.device);
        }
      }
      for (const std::int32_t d : touched) {
        at(d).touched = false;
        if (!at(d).busy) {
          decide(d, now);
        }
      }
    }
    return remaining() == 0 ? std::optional(std::move(orders_)) : std::nullopt;
  }

 private:
  Device& at(std::int32_t d) { return devices_[static_cast<std::size_t>(d)]; }
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  std::size_t remaining() const {
    std::size_t left = checked_.numPieces();
    for (const auto& order : orders_) {
      left -= order.size();
    }
    return left;
  }

  /// Small goes first: group of micro-batches, then step, then micro-batch. Parts of a split
  /// backward pass are not grouped: the oldest one must be able to go first when memory is short.
  std::int64_t rank(WorkKind kind, std::int32_t stage, std::int32_t microBatch) const {
    const std::int32_t size =
        kind == WorkKind::Forward || !checked_.split() ? policy_.group : std::int32_t{1};
    const std::int64_t group = microBatch / size;
    return (group * 2 * checked_.numSlots() + checked_.stepOf(kind, stage)) * size +
           microBatch % size;
  }

  void announce(WorkKind kind, std::int32_t stage, std::int64_t time) {
    const std::int32_t d = checked_.device(stage);
    events_.push({time, d, stage, kind});
    if ((policy_.fillOnlyGaps || policy_.seed != 0) && kind != WorkKind::BackwardWeight) {
      at(d).arrivals.push(time);
    }
  }

  void apply(const Event& event) {
    Device& device = at(event.device);
    if (event.stage < 0) {
      device.memory.finish(device.running);
      device.busy = false;
      return;
    }
    const std::size_t row = rowOf(event.kind);
    const std::int32_t next = started_[row][index(event.stage)];
    if (arrived_[row][index(event.stage)]++ == next) {
      device.ready[row].push({rank(event.kind, event.stage, next), event.stage, next});
    }
  }

  /// The first ready stage of a kind, -1 if there is none.
  std::int32_t first(Device& device, WorkKind kind) {
    auto& heap = device.ready[rowOf(kind)];
    while (!heap.empty() &&
           heap.top().microBatch != started_[rowOf(kind)][index(heap.top().stage)]) {
      heap.pop();
    }
    return heap.empty() ? -1 : heap.top().stage;
  }

  Piece next(WorkKind kind, std::int32_t stage) const {
    return {kind, stage, started_[rowOf(kind)][index(stage)]};
  }

  /// The stage whose forward piece may start, -1 if there is none.
  std::int32_t chooseForward(Device& device) {
    const std::int32_t stage = first(device, WorkKind::Forward);
    if (stage < 0 || device.memory.admits(next(WorkKind::Forward, stage))) {
      return stage;
    }
    const std::int32_t oldest = device.memory.oldestNextForward();
    const bool ready = oldest >= 0 && arrived_[0][index(oldest)] > started_[0][index(oldest)];
    return ready && device.memory.admits(next(WorkKind::Forward, oldest)) ? oldest : -1;
  }

  void decide(std::int32_t d, std::int64_t now) {
    Device& device = at(d);
    const std::int32_t forward = chooseForward(device);
    const std::int32_t backward = checked_.training() ? first(device, checked_.kinds()[1]) : -1;
    const bool backwardFirst = policy_.backwardFirst != exception();
    std::array<std::optional<Piece>, 2> pieces;
    if (backward >= 0) {
      pieces[backwardFirst ? 0 : 1] = next(checked_.kinds()[1], backward);
    }
    if (forward >= 0) {
      pieces[backwardFirst ? 1 : 0] = next(WorkKind::Forward, forward);
    }
    if (exception() && nextArrival(device, now) != kNever) {
      return;
    }
    if (!pieces[0]) {
      std::swap(pieces[0], pieces[1]);
    }
    if (pieces[0] && device.memory.fits(*pieces[0])) {
      start(d, *pieces[0], now);
    } else if (!startWeightPart(d, pieces[0].has_value(), now) && pieces[1] &&
               device.memory.fits(*pieces[1])) {
      start(d, *pieces[1], now);
    }
  }

  bool exception() {
    constexpr std::uint32_t kOneIn = 8;
    return policy_.seed != 0 && random_() % kOneIn == 0;
  }

  /// `needed`: its memory is in the way of another piece.
  bool startWeightPart(std::int32_t d, bool needed, std::int64_t now) {
    Device& device = at(d);
    const std::int32_t stage = checked_.split() ? first(device, WorkKind::BackwardWeight) : -1;
    if (stage < 0) {
      return false;
    }
    const Piece part = next(WorkKind::BackwardWeight, stage);
    if (needed || device.memory.stashIsFull() || !policy_.fillOnlyGaps ||
        now + checked_.duration(part.kind, stage) <= nextArrival(device, now)) {
      start(d, part, now);
      return true;
    }
    return false;
  }

  static std::int64_t nextArrival(Device& device, std::int64_t now) {
    while (!device.arrivals.empty() && device.arrivals.top() <= now) {
      device.arrivals.pop();
    }
    return device.arrivals.empty() ? kNever : device.arrivals.top();
  }

  void start(std::int32_t d, const Piece& piece, std::int64_t now) {
    Device& device = at(d);
    const std::size_t row = rowOf(piece.kind);
    const std::int32_t following = ++started_[row][index(piece.stage)];
    if (arrived_[row][index(piece.stage)] > following) {
      device.ready[row].push({rank(piece.kind, piece.stage, following), piece.stage, following});
    }
    device.memory.start(piece);
    device.running = piece;
    device.busy = true;
    orders_[index(d)].push_back(piece);
    const std::int64_t end = now + checked_.duration(piece.kind, piece.stage);
    events_.push({end, d, -1, piece.kind});
    checked_.eachAfter(piece.kind, piece.stage, [&](WorkKind kind, std::int32_t stage) {
      const std::size_t id = checked_.id(kind, stage, piece.microBatch);
      arrivalTime_[id] = std::max(arrivalTime_[id], end + checked_.transfer(piece.stage, stage));
      if (--missing_[id] == 0) {
        announce(kind, stage, arrivalTime_[id]);
      }
    });
  }

  const CheckedProblem& checked_;
  const ListPolicy& policy_;
  std::mt19937 random_;
  Orders orders_;
  std::vector<Device> devices_;
  std::array<std::vector<std::int32_t>, 3> arrived_;
  std::array<std::vector<std::int32_t>, 3> started_;
  std::vector<std::int32_t> missing_;  ///< per piece: predecessors that have not started
  std::vector<std::int64_t> arrivalTime_;
  MinHeap<Event> events_;
};

}  // namespace

std::optional<Orders> listOrders(const CheckedProblem& checked, const ListPolicy& policy) {
  return ListScheduler(checked, policy).run();
}

}  // namespace sluice::schedule
