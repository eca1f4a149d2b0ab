// Which implementation an op gets on a kind of device: a Choice, pure data, decided at compile
// time by the kind's table. The object that runs it is made by the device at load time and is its
// own business; it goes by the name in the Choice, so that "is it supported" cannot disagree with
// dispatch.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

/// Settings found by measurement, by key; `sluice tune` writes them, one table is shipped. Part of
/// the scope of bit equality (rules R2, R10).
using Tuning = std::map<std::string, std::string, std::less<>>;

/// Reads "key value" lines; '#' starts a comment. Throws ConfigFileError with the line.
Tuning parseTuning(std::string_view text);

/// In the place of an op's name: an entry for every op.
inline constexpr std::string_view kAnyOp = "";

/// A line of a table.
struct KernelEntry {
  std::string_view op;
  std::string_view implementation;
  /// nullptr: every operand type and shape.
  bool (*supports)(const ir::OpView&) = nullptr;
  /// nullptr: plain layouts, no scratch. The implementation's name is filled in by the table.
  Choice (*choose)(const ir::OpView&, const Tuning&) = nullptr;
};

/// The implementation of an op that runs on the host, between the kernels of its segment.
inline constexpr std::string_view kOnHost = "host";

/// For tables of devices that do not run on the host: what only the host can do.
extern const KernelEntry kHostOps;

/// Changes only the layout of its operand; not part of any graph, placed by lowering.
extern const ir::OpDef kReorder;

class KernelTable {
 public:
  /// Entries of one op are tried in order, then those for every op; the first that supports it
  /// wins.
  KernelTable(std::string deviceKind, std::vector<KernelEntry> entries, Tuning tuning);

  /// A pure function of the op, its attributes and types, and the tuning table. Throws Unsupported
  /// naming op, types and device kind.
  Choice choose(const ir::OpView& op) const;
  bool supports(const ir::OpView& op) const { return find(op) != nullptr; }

  const Tuning& tuning() const { return tuning_; }
  /// The names of the op's own implementations in the order they are tried.
  std::vector<std::string_view> implementations(std::string_view op) const;

 private:
  const KernelEntry* find(const ir::OpView& op) const;

  std::string deviceKind_;
  std::vector<KernelEntry> entries_;  // by op, in the order they are tried
  Tuning tuning_;
};

/// A Choice with plain layouts for every operand.
Choice plainChoice(const ir::OpView& op, std::string_view implementation);

}  // namespace sluice::device
