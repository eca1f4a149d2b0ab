// Chains: the tasks that a task waited for, followed back in time. Private to the module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sluice/profile/explain.h"

namespace sluice::profile {

/// A time that belongs to one task: to its work, or to its waiting although it could run.
struct ChainPart {
  Cause cause = Cause::Ramp;  ///< Ramp: it computes
  bool waiting = false;
  const runtime::TaskTime* task = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The tasks of one step, which must outlive it.
class Chains {
 public:
  Chains(const Trace& trace, const Trace::Step& step);

  /// Calls f(ChainPart) for parts that cover the time from `begin` to `end` without gaps, from the
  /// end back, until it returns false. The chain begins with what `next` waited for; null: with the
  /// task that ends last.
  template <class F>
  void follow(const runtime::TaskTime* next,
              std::int64_t begin,
              std::int64_t end,
              const F& f) const {
    std::int64_t t = end;
    bool more = true;
    const auto add = [&](const runtime::TaskTime& task, bool waiting, std::int64_t from) {
      const std::int64_t to = std::clamp(from, begin, t);
      if (to < t && more) {
        more = f(ChainPart{waiting ? waitCause(task) : workCause(task), waiting, &task, to, t});
      }
      t = to;
    };
    if (next == nullptr) {
      next = last_;
      add(*next, true, next->end);
      add(*next, false, next->start);
    }
    while (t > begin && more) {
      const runtime::TaskTime* before = lastNeeded(*next);
      add(*next, true, before == nullptr ? begin : before->end);
      if (before == nullptr) {
        return;
      }
      add(*before, false, before->start);
      next = before;
    }
  }

 private:
  /// Of the task before it in its lane and those that it waits for, the one that ended last.
  const runtime::TaskTime* lastNeeded(const runtime::TaskTime& time) const;
  const runtime::TaskTime* find(std::int32_t replica, std::int32_t lane, std::int64_t place) const;
  std::int64_t placeOf(const runtime::TaskTime& time) const;
  Cause workCause(const runtime::TaskTime& time) const;
  Cause waitCause(const runtime::TaskTime& time) const;

  const Trace& t_;
  std::vector<std::vector<const runtime::TaskTime*>> lanes_;  // by replica and lane, in order
  const runtime::TaskTime* last_ = nullptr;
};

}  // namespace sluice::profile
