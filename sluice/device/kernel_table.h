// Which implementation an op gets on a kind of device. The kind's table decides it at compile time;
// the result is a Choice, which is pure data. At load time the device makes the object that runs
// it. The object is found by the name in the Choice, so the answer to "is it supported" always
// agrees with dispatch.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/layout.h"
#include "sluice/ir/op_def.h"

namespace sluice::device {

/// Which storage layouts the implementation accepts. A kernel with LayoutRule::Follow gives the
/// same bits in plain and channels-last storage: every operand of the output's rank has the layout
/// that lowering picks, and the kernel reads this layout from the Choice.
enum class LayoutRule : std::uint8_t { Fixed, Follow };

struct Choice {
  std::string implementation;
  LayoutRule rule = LayoutRule::Fixed;
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::size_t scratchBytes = 0;
  std::string config = {};  ///< data for the implementation itself: tiles, algorithm

  bool operator==(const Choice&) const = default;
};

/// Settings found by measurement, by key; `sluice tune` writes them. They are part of the scope of
/// bit equality (rules R2, R10).
using Tuning = std::map<std::string, std::string, std::less<>>;

/// Reads "key value" lines; '#' starts a comment. Throws ConfigFileError naming the line.
Tuning parseTuning(std::string_view text);

/// Stands for an op's name in an entry that applies to every op.
inline constexpr std::string_view kAnyOp = "";

/// A line of a table.
struct KernelEntry {
  std::string_view op;
  std::string_view implementation;
  /// nullptr: supports every operand type and shape.
  bool (*supports)(const ir::OpView&) = nullptr;
  /// nullptr: plain layouts, no scratch. The table fills in the implementation's name.
  Choice (*choose)(const ir::OpView&, const Tuning&) = nullptr;
};

/// The implementation name of an op that the host runs between the kernels of its segment.
inline constexpr std::string_view kOnHost = "host";

/// The entry for ops that only the host can run; for tables of devices that do not run on the host.
extern const KernelEntry kHostOps;

/// Changes only the layout of its operand. It is not in any graph; lowering inserts it.
extern const ir::OpDef kReorder;

class KernelTable {
 public:
  /// The entries of an op are tried in order, then the entries for every op; the first one that
  /// supports the op wins.
  KernelTable(std::string deviceKind, std::vector<KernelEntry> entries, Tuning tuning);

  /// A pure function of the op, its attributes and types, and the tuning table. Throws Unsupported
  /// naming the op, its types and the device kind.
  Choice choose(const ir::OpView& op) const;
  bool supports(const ir::OpView& op) const { return find(op) != nullptr; }

  const Tuning& tuning() const { return tuning_; }
  /// The names of the op's own implementations, in the order in which they are tried.
  std::vector<std::string_view> implementations(std::string_view op) const;

 private:
  /// The entries of an op.
  std::span<const KernelEntry> entriesOf(std::string_view op) const;
  const KernelEntry* find(const ir::OpView& op) const;

  std::string deviceKind_;
  std::vector<KernelEntry> entries_;  // by op, in the order they are tried
  Tuning tuning_;
};

/// A Choice with plain layouts for every operand.
Choice plainChoice(const ir::OpView& op, std::string_view implementation);

}  // namespace sluice::device
