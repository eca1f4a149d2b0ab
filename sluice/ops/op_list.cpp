#include "sluice/ops/op_list.h"

#include <algorithm>
#include <atomic>
#include <forward_list>
#include <mutex>
#include <utility>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::ops {

#define SLUICE_OP(Name) extern const ir::OpDef k##Name;
#include "sluice/ops/op_list.inc"  // IWYU pragma: keep
#undef SLUICE_OP

namespace {

using Defs = std::vector<const ir::OpDef*>;

struct Snapshot {
  explicit Snapshot(Defs sorted) : defs(std::move(sorted)), set(defs) {}
  ~Snapshot() = default;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  Defs defs;
  ir::OpSet set;
};

/// Readers take the newest set without a lock. Older ones are kept for those who still hold them:
/// there is one per library that was loaded.
struct Table {
  std::mutex mutex;  // guards snapshots and who writes newest
  std::forward_list<Snapshot> snapshots;
  std::atomic<const ir::OpSet*> newest = nullptr;

  explicit Table(Defs defs) { publish(std::move(defs)); }

  void publish(Defs defs) {
    std::ranges::sort(defs, {}, &ir::OpDef::name);
    newest.store(&snapshots.emplace_front(std::move(defs)).set, std::memory_order_release);
  }
};

Table& table() {
  static Table theTable({
      &ir::kInput,
      &ir::kVariable,
      &ir::kConstant,
      &ir::kAssign,
#define SLUICE_OP(Name) &k##Name,
#include "sluice/ops/op_list.inc"
#undef SLUICE_OP
  });
  return theTable;
}

}  // namespace

const ir::OpSet& opSet() {
  return *table().newest.load(std::memory_order_acquire);
}

void addOps(std::span<const ir::OpDef* const> defs) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  Defs all = t.snapshots.front().defs;
  for (const ir::OpDef* def : defs) {
    if (std::ranges::find(all, def->name, &ir::OpDef::name) != all.end()) {
      raise<InvalidArgument>("there is an op {} already", def->name);
    }
    all.push_back(def);
  }
  t.publish(std::move(all));
}

}  // namespace sluice::ops
