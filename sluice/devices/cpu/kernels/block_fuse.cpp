#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "sluice/devices/cpu/kernels/block_draft.h"

namespace sluice::devices::cpu {
namespace {

/// How many reads of each register there are.
std::map<std::size_t, int> countReads(const std::vector<Draft>& drafts,
                                      const std::vector<Draft>& stores) {
  std::map<std::size_t, int> reads;
  for (const std::vector<Draft>* list : {&drafts, &stores}) {
    for (const Draft& draft : *list) {
      for (const Place& place : draft.in) {
        reads[place.index] += place.kind == Place::Kind::Register ? 1 : 0;
      }
    }
  }
  return reads;
}

/// Functions that are looked for in every instruction, so that names are looked up once.
struct Known {
  BlockFunction add = findF32Function("add");
  BlockFunction mul = findF32Function("mul");
  BlockFunction sub = findF32Function("sub");
  BlockFunction norm = findF32Function("add:norm");
  std::array<NamedBlock, 4> scaling = named({"add", "sub", "div", "sqrt"});
  std::array<NamedBlock, 2> summing = named({"relu", "clamp"});

  template <std::size_t n>
  static std::array<NamedBlock, n> named(const char* const (&names)[n]) {
    std::array<NamedBlock, n> rows;
    std::ranges::transform(names, rows.begin(), [](const char* name) {
      return NamedBlock{name, findF32Function(name)};
    });
    return rows;
  }
};

const Known& known() {
  static const Known kKnown;
  return kKnown;
}

/// Empty if the function is none of these.
std::string_view nameOf(BlockFunction function, std::span<const NamedBlock> rows) {
  const auto row = std::ranges::find(rows, function, &NamedBlock::function);
  return row == rows.end() ? std::string_view() : row->op;
}

bool areBlocks(const std::vector<Place>& places) {
  return std::ranges::all_of(places,
                             [](const Place& place) { return place.level == Level::Block; });
}

bool isScale(const Draft& draft) {
  return draft.function == known().mul && draft.level == Level::Block &&
         draft.in[0].level == Level::Block && draft.in[1].level != Level::Block;
}

bool isOfBlocks(const Draft& draft, BlockFunction function) {
  return draft.function == function && draft.level == Level::Block && areBlocks(draft.in);
}

class Fuser {
 public:
  Fuser(std::vector<Draft>& drafts, const std::vector<Draft>& stores)
      : drafts_(drafts), reads_(countReads(drafts, stores)), fused_(drafts.size(), false) {}

  void run() {
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      fuseNorm(i);
      fuseSum(i);
      const std::string_view op = nameOf(drafts_[i].function, known().scaling);
      if (!op.empty() && areBlocks(drafts_[i].in)) {
        fuse(i, std::string(op) + ":");
      }
    }
    std::size_t next = 0;
    std::erase_if(drafts_, [&](const Draft&) { return fused_[next++]; });
  }

 private:
  /// The instruction that makes an operand and is of no other use; drafts_.size(): none.
  std::size_t makerOf(std::size_t reader, const Place& place) const {
    for (std::size_t i = reader; i-- > 0;) {
      if (sameRegister(drafts_[i].out, place)) {
        return reads_.at(place.index) == 1 ? i : drafts_.size();
      }
    }
    return drafts_.size();
  }

  /// (x - y) * z + w, of blocks.
  void fuseNorm(std::size_t reader) {
    Draft& draft = drafts_[reader];
    if (!isOfBlocks(draft, known().add)) {
      return;
    }
    const std::size_t mul = makerOf(reader, draft.in[0]);
    if (mul == drafts_.size() || !isOfBlocks(drafts_[mul], known().mul)) {
      return;
    }
    const std::size_t sub = makerOf(mul, drafts_[mul].in[0]);
    if (sub == drafts_.size() || !isOfBlocks(drafts_[sub], known().sub)) {
      return;
    }
    draft.function = known().norm;
    draft.in = {drafts_[sub].in[0], drafts_[sub].in[1], drafts_[mul].in[1], draft.in[1]};
    fused_[mul] = true;
    fused_[sub] = true;
  }

  /// The sum of two blocks, or a norm, in the relu or clamp that alone reads it.
  void fuseSum(std::size_t reader) {
    Draft& draft = drafts_[reader];
    const std::string_view op = nameOf(draft.function, known().summing);
    if (op.empty() || draft.level != Level::Block) {
      return;
    }
    const std::size_t maker = makerOf(reader, draft.in[0]);
    if (maker == drafts_.size()) {
      return;
    }
    const bool norm = isOfBlocks(drafts_[maker], known().norm);
    if (norm || isOfBlocks(drafts_[maker], known().add)) {
      fused_[maker] = true;
      draft.function = findF32Function(std::string(op) + (norm ? ":norm" : ":sum"));
      draft.in = drafts_[maker].in;
    }
  }

  void fuse(std::size_t reader, std::string name) {
    Draft& draft = drafts_[reader];
    std::vector<Place> scales;
    for (std::size_t k = 0; k < draft.in.size(); ++k) {
      const std::size_t scale = makerOf(reader, draft.in[k]);
      if (scale != drafts_.size() && isScale(drafts_[scale])) {
        fused_[scale] = true;
        scales.push_back(drafts_[scale].in[1]);
        draft.in[k] = drafts_[scale].in[0];
        name += k == 0 ? "x" : "y";
      }
    }
    if (!scales.empty()) {
      draft.function = findF32Function(name);
      draft.in.insert(draft.in.end(), scales.begin(), scales.end());
    }
  }

  std::vector<Draft>& drafts_;
  std::map<std::size_t, int> reads_;
  std::vector<bool> fused_;
};

}  // namespace

void fuseSteps(std::vector<Draft>& drafts, const std::vector<Draft>& stores) {
  Fuser(drafts, stores).run();
}

}  // namespace sluice::devices::cpu
