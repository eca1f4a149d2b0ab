// Kernels: which implementation an op gets (a Choice, pure data, decided at compile time) and the
// object that runs it (a Kernel, made at load time). The table of a device decides both, so that
// "is it supported" cannot disagree with dispatch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/workers.h"
#include "sluice/device/layout.h"
#include "sluice/ir/op_def.h"

namespace sluice::device {

/// Storage the implementation works on. A kernel of LayoutRule::Follow gives the same bits in plain
/// and channels-last storage: every operand of the output's rank then has the layout that lowering
/// picks, and the kernel reads it from the Choice.
enum class LayoutRule : std::uint8_t { Fixed, Follow };

struct Choice {
  std::string implementation;
  LayoutRule rule = LayoutRule::Fixed;
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::size_t scratchBytes = 0;
  std::string config = {};  ///< what the implementation wants to remember: tiles, algorithm

  bool operator==(const Choice&) const = default;
};

/// One run of a kernel: operands in the layouts of its Choice.
struct KernelRun {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* scratch = nullptr;
  ir::RunInfo info;
  Workers& workers;

  template <class T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return static_cast<T*>(outputs[i]);
  }
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  virtual void run(const KernelRun& run) = 0;
};

/// Settings found by measurement, by key; `sluice tune` writes them, one table is shipped. Part of
/// the scope of bit equality (rules R2, R10).
using Tuning = std::map<std::string, std::string, std::less<>>;

/// Reads "key value" lines; '#' starts a comment. Throws ConfigFileError with the line.
Tuning parseTuning(std::string_view text);

struct KernelEntry {
  std::string_view op;
  std::string_view implementation;
  /// nullptr: every operand type and shape.
  bool (*supports)(const ir::OpView&) = nullptr;
  /// nullptr: plain layouts, no scratch. The implementation's name is filled in by the table.
  Choice (*choose)(const ir::OpView&, const Tuning&) = nullptr;
  std::unique_ptr<Kernel> (*make)(const ir::OpView&, const Choice&) = nullptr;
};

/// In the place of an implementation: the op runs on the host, between the kernels of its segment.
inline constexpr std::string_view kOnHost = "host";

/// What a device does about ops that only the host can do.
enum class HostOps : std::uint8_t { AsKernels, OnHost };

/// Changes only the layout of its operand; not part of any graph, placed by lowering.
extern const ir::OpDef kReorder;

class KernelTable {
 public:
  /// Entries of one op are tried in order; the first that supports it wins. Without one, an op's
  /// reference kernel serves if `referenceFallback`.
  KernelTable(std::string deviceKind,
              std::span<const KernelEntry> entries,
              Tuning tuning,
              bool referenceFallback,
              HostOps hostOps = HostOps::AsKernels);

  /// A pure function of the op, its attributes and types, and the tuning table. Throws Unsupported
  /// naming op, types and device kind.
  Choice choose(const ir::OpView& op) const;
  bool supports(const ir::OpView& op) const;
  /// The kernel of a Choice that this table gave; throws Unsupported if it no longer would.
  std::unique_ptr<Kernel> make(const ir::OpView& op, const Choice& choice) const;

  const Tuning& tuning() const { return tuning_; }
  /// The names of the op's implementations in the order they are tried; the reference is none.
  std::vector<std::string_view> implementations(std::string_view op) const;

 private:
  const KernelEntry* find(const ir::OpView& op) const;
  [[noreturn]] void refuse(const ir::OpView& op) const;

  std::string deviceKind_;
  std::multimap<std::string_view, const KernelEntry*> entries_;
  Tuning tuning_;
  bool referenceFallback_;
  HostOps hostOps_;
};

/// A Choice with plain layouts for every operand.
Choice plainChoice(const ir::OpView& op, std::string_view implementation);

}  // namespace sluice::device
