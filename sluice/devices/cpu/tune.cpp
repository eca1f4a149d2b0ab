#include "sluice/devices/cpu/tune.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/devices/cpu/kernels/tuning_options.h"
#include "sluice/ops/fused.h"

namespace sluice::devices::cpu {
namespace {

constexpr int kRounds = 9;
constexpr double kShortestMs = 0.2;  // of one measurement
constexpr double kWorthIt = 0.97;

/// CPU time of this thread: less disturbed by what else runs than the wall clock.
double nowMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// A kernel with memory for its operands. Packing operands that it takes packed counts as well:
/// whether it can be hoisted out of a loop is not known here.
class Candidate {
 public:
  Candidate(const device::KernelCall& call, const device::Tuning& tuning) {
    const device::KernelTable table("cpu", tableEntries(), tuning);
    const device::Choice choice = table.choose(call.view());
    kernel_ = makeKernel(call.view(), choice);
    config_ = choice.config;
    for (std::size_t i = 0; i < call.inputTypes.size(); ++i) {
      const device::Layout& layout = choice.inputs[i];
      inputs_.push_back(add(layout.bytes(call.inputTypes[i])));
      if (layout.kind == device::Layout::Kind::Opaque) {
        addPacking(table, call.inputTypes[i], layout);
      }
    }
    for (std::size_t i = 0; i < call.outputTypes.size(); ++i) {
      outputs_.push_back(add(choice.outputs[i].bytes(call.outputTypes[i])));
    }
    scratch_ = add(choice.scratchBytes);
  }

  const std::string& config() const { return config_; }

  /// Milliseconds per run.
  double measure(Workers& workers) {
    for (int count = 1;; count *= 2) {
      const double start = nowMs();
      for (int i = 0; i < count; ++i) {
        for (const Packing& packing : packings_) {
          packing.kernel->run({{&packing.from, 1}, {&packing.to, 1}, nullptr, {}, workers});
        }
        kernel_->run({inputs_, outputs_, scratch_, {}, workers});
      }
      const double took = nowMs() - start;
      if (took >= kShortestMs) {
        return took / count;
      }
    }
  }

 private:
  void* add(std::size_t bytes) {
    memory_.emplace_back(DType::U8, Shape{static_cast<std::int64_t>(bytes)});
    return memory_.back().bytes();
  }

  struct Packing {
    std::unique_ptr<Kernel> kernel;
    const void* from;
    void* to;
  };

  /// From plain storage to the operand that was added last.
  void addPacking(const device::KernelTable& table,
                  const TensorType& type,
                  const device::Layout& layout) {
    device::KernelCall call;
    call.def = &device::kReorder;
    call.inputTypes = {type};
    call.outputTypes = {type};
    device::Choice choice = table.choose(call.view());
    choice.outputs = {layout};
    void* to = memory_.back().bytes();
    packings_.push_back({makeKernel(call.view(), choice), add(type.bytes()), to});
  }

  std::unique_ptr<Kernel> kernel_;
  std::string config_;
  std::vector<Packing> packings_;
  std::vector<HostTensor> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  void* scratch_ = nullptr;
};

/// The entry of one op, or nothing.
std::string tuneOne(const device::KernelCall& call, const TuningOptions& options) {
  std::vector<Candidate> candidates;
  candidates.emplace_back(call, device::Tuning{});
  std::vector<std::string> values;
  for (const std::string& value : options.values) {
    if (value != candidates[0].config()) {
      candidates.emplace_back(call, device::Tuning{{options.key, value}});
      values.push_back(value);
    }
  }
  Workers workers(1);
  std::vector<std::vector<double>> times(candidates.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      times[i].push_back(candidates[i].measure(workers));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& list : times) {
    std::ranges::nth_element(list, list.begin() + kRounds / 2);
    medians.push_back(list[kRounds / 2]);
  }
  const auto best = std::ranges::min_element(medians);
  if (*best > kWorthIt * medians[0]) {
    return "";
  }
  return fmt::format(
      "{} {}\n", options.key, values[static_cast<std::size_t>(best - medians.begin()) - 1]);
}

/// The call itself, or that of the anchor of a fused op, which is chosen as if it stood alone.
device::KernelCall anchorOf(const device::KernelCall& call) {
  if (call.def != &ops::kFused) {
    return call;
  }
  const ir::Graph& body = call.attrs.subgraph("body");
  const ir::Op* anchor = ops::anchorOf(body);
  if (anchor == nullptr) {
    return call;
  }
  device::KernelCall result;
  result.def = anchor->def;
  result.attrs = anchor->attrs;
  result.inputTypes = body.inputTypes(*anchor);
  result.outputTypes = anchor->outputs;
  return result;
}

/// What can be tuned about the calls, each key once: f(call, options).
template <class F>
void eachTunable(std::span<const device::KernelCall> calls, const F& f) {
  std::set<std::string> seen;
  for (const device::KernelCall& one : calls) {
    const device::KernelCall call = anchorOf(one);
    const std::optional<TuningOptions> options = tuningOptions(call.view());
    if (options && seen.insert(options->key).second) {
      f(call, *options);
    }
  }
}

}  // namespace

std::string tune(std::span<const device::KernelCall> calls,
                 const std::function<void(std::string_view)>& progress) {
  const onednn::OneThread oneThread;
  std::string table;
  eachTunable(calls, [&](const device::KernelCall& call, const TuningOptions& options) {
    if (progress) {
      progress(options.key);
    }
    table += tuneOne(call, options);
  });
  return table;
}

std::vector<std::string> tuningKeys(std::span<const device::KernelCall> calls) {
  std::vector<std::string> keys;
  eachTunable(calls, [&](const device::KernelCall&, const TuningOptions& options) {
    keys.push_back(options.key);
  });
  return keys;
}

}  // namespace sluice::devices::cpu
