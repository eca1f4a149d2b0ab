#include "sluice/devices/cpu/kernels/block_program.h"

#include <algorithm>
#include <string>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/block_draft.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::Layout;

/// Between registers: elements of one index must not agree in the low bits of their addresses,
/// which the processor takes for a dependence of loads on stores.
constexpr std::size_t kRegisterGap = 320;

/// From here on a list of instructions fetches the operands of its next block.
constexpr std::size_t kMinFetchingInstructions = 2;

bool isSixteenBit(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

class Compiler {
 public:
  Compiler(const BlockBody& body,
           std::span<const Layout> inputs,
           const StoredShape& output,
           Writes writes)
      : body_(body), writes_(writes), program_{.space = makeSpace(body, inputs, output)} {}

  std::optional<BlockProgram> compile() {
    program_.numInputs = body_.numInputs();
    program_.constants = body_.constants;
    const std::size_t operands = body_.numInputs() + body_.constants.size();
    for (std::size_t i = 0; i < operands; ++i) {
      program_.operandBytes.push_back(byteSize(body_.values[i].dtype));
    }
    places_.resize(body_.values.size());
    if (program_.space.extents().size() > IterationSpace::kMaxAxes) {
      return std::nullopt;
    }
    for (const BodyOp& op : body_.ops) {
      if (!emit(op)) {
        return std::nullopt;
      }
    }
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) {
      program_.outputBytes.push_back(byteSize(body_.values[body_.outputs[i]].dtype));
      emitOutput(i);
    }
    return allocate() ? std::optional(std::move(program_)) : std::nullopt;
  }

 private:
  static IterationSpace makeSpace(const BlockBody& body,
                                  std::span<const Layout> inputs,
                                  const StoredShape& output) {
    std::vector<StoredShape> operands;
    for (std::size_t i = 0; i < body.numInputs() + body.constants.size(); ++i) {
      operands.push_back({body.values[i].shape, i < inputs.size() ? inputs[i] : Layout::plain()});
    }
    return {output, operands};
  }

  static Level levelOf(Access access) {
    switch (access) {
      case Access::Uniform:
        return Level::Tile;
      case Access::RowUniform:
        return Level::Row;
      default:
        return Level::Block;
    }
  }

  Place newRegister(Level level, std::size_t bytes) {
    registerBytes_.push_back(bytes);
    return {Place::Kind::Register, registerBytes_.size() - 1, level};
  }

  /// The value as instructions read it; loads and gathers operands when they are first used.
  Place placeOf(std::size_t value) {
    Place& place = places_[value];
    if (place.kind != Place::Kind::None) {
      return place;
    }
    const Access access = program_.space.operand(value).access;
    const DType dtype = body_.values[value].dtype;
    place = {Place::Kind::Memory, value, levelOf(access)};
    if (access == Access::Gathered || access == Access::Periodic) {
      const Place to = newRegister(Level::Block, byteSize(dtype));
      gathers_.emplace_back(value, to.index);
      place = to;
    }
    if (isSixteenBit(dtype)) {
      const Place to = newRegister(place.level, sizeof(float));
      drafts_.push_back({loadFunction(dtype), {place}, to, place.level});
      place = to;
    }
    return place;
  }

  bool emit(const BodyOp& op) {
    const TensorType& type = body_.values[op.output];
    std::vector<Place> in;
    Level level = Level::Tile;
    for (const std::size_t value : op.inputs) {
      in.push_back(placeOf(value));
      level = std::max(level, in.back().level);
    }
    const DType from = body_.values[op.inputs[op.name == "where" ? 1 : 0]].dtype;
    if (op.name == "broadcast_to" || op.name == "identity" ||
        (op.name == "cast" && from == type.dtype) ||
        (op.name == "cast" && isSixteenBit(from) && type.dtype == DType::F32)) {
      places_[op.output] = in[0];
      return true;
    }
    Draft draft{functionOf(op, from, type.dtype), std::move(in), {}, level, paramsOf(op)};
    if (draft.function == nullptr) {
      return false;
    }
    draft.out = newRegister(level, byteSize(heldAs(type.dtype)));
    places_[op.output] = draft.out;
    drafts_.push_back(draft);
    if (isSixteenBit(type.dtype) && !(op.name == "cast" && heldAs(from) == DType::F32)) {
      drafts_.push_back({roundFunction(type.dtype), {draft.out}, draft.out, level});
    }
    return true;
  }

  static BlockFunction functionOf(const BodyOp& op, DType from, DType to) {
    if (op.name == "cast") {
      // Between the 16-bit types and from float32 only the rounding is left.
      return isSixteenBit(to) && heldAs(from) == DType::F32
                 ? roundFunction(to)
                 : castFunction(heldAs(from), heldAs(to));
    }
    if (op.name == "clamp" && (from == DType::I64 || from == DType::U64)) {
      return nullptr;  // limits beyond the exact whole numbers of a double
    }
    return findBlockFunction(nameOf(op), heldAs(from));
  }

  /// With the form of ops that have several.
  static std::string nameOf(const BodyOp& op) {
    const std::string name(op.name);
    if (op.attrs->find("approximate") != nullptr && op.attrs->text("approximate") == "tanh") {
      return name + ":tanh";
    }
    if (op.name == "mod" && op.attrs->flag("fmod")) {
      return name + ":fmod";
    }
    return op.name == "bit_shift" ? name + ":" + op.attrs->text("direction") : name;
  }

  std::array<double, 2> paramsOf(const BodyOp& op) const {
    if (op.name == "clamp") {
      const DType dtype = body_.values[op.output].dtype;
      const auto rounded = [&](std::string_view name) {
        return HostTensor::full({dtype, Shape{}}, op.attrs->real(name)).at(0);
      };
      return {rounded("low"), rounded("high")};
    }
    if (op.name == "elu" || op.name == "leaky_relu") {
      return {op.attrs->real("alpha"), 0.0};
    }
    return {};
  }

  /// Results go straight to the output where nothing read later may lie in the same memory (an
  /// output may take the place of an input); else from their register at the end of the block.
  void emitOutput(std::size_t i) {
    const std::size_t value = body_.outputs[i];
    const DType dtype = body_.values[value].dtype;
    const Place output{Place::Kind::Output, i, Level::Block};
    Place place = placeOf(value);
    if (place.kind == Place::Kind::Memory && place.level == Level::Block && body_.ops.size() > 1) {
      const Place copy = newRegister(Level::Block, byteSize(dtype));
      drafts_.insert(drafts_.begin(), {copyFunction(byteSize(dtype)), {place}, copy});
      place = copy;
    }
    const BlockFunction store =
        isSixteenBit(dtype) ? storeFunction(dtype) : copyFunction(byteSize(dtype));
    stores_.push_back({store, {place}, output});
  }

  /// Lets the producer of a stored register write the output itself where that is safe.
  void writeDirectly() {
    for (std::size_t s = 0; s < stores_.size();) {
      const Place from = stores_[s].in[0];
      const Place output = stores_[s].out;
      const bool native = !isSixteenBit(body_.values[body_.outputs[output.index]].dtype);
      std::size_t producer = drafts_.size();
      while (producer > 0 && !sameRegister(drafts_[producer - 1].out, from)) {
        --producer;
      }
      std::vector<LateRead> late = lateReads(producer, output.index);
      const bool safe = late.empty() || writes_ == Writes::AtOnce;
      if (!native || from.level != Level::Block || producer == 0 || !safe) {
        ++s;
        continue;
      }
      program_.lateReads.insert(program_.lateReads.end(), late.begin(), late.end());
      stores_.erase(stores_.begin() + static_cast<std::ptrdiff_t>(s));
      replaceRegister(from, output);
    }
    drafts_.insert(drafts_.end(), stores_.begin(), stores_.end());
  }

  /// Reads of inputs, element by element, from an instruction on. No output lies in a constant.
  std::vector<LateRead> lateReads(std::size_t first, std::size_t output) const {
    std::vector<LateRead> late;
    for (std::size_t i = first; i < drafts_.size(); ++i) {
      for (const Place& place : drafts_[i].in) {
        if (place.kind == Place::Kind::Memory && place.level == Level::Block &&
            place.index < body_.numInputs()) {
          late.push_back({place.index, output});
        }
      }
    }
    return late;
  }

  void replaceRegister(const Place& from, const Place& output) {
    for (std::vector<Draft>* list : {&drafts_, &stores_}) {
      for (Draft& draft : *list) {
        for (Place& place : draft.in) {
          place = sameRegister(place, from) ? output : place;
        }
        draft.out = sameRegister(draft.out, from) ? output : draft.out;
      }
    }
  }

  /// Gives block registers storage, reusing it after the last read; singles keep theirs.
  bool allocate() {
    fuseSteps(drafts_, stores_);
    writeDirectly();
    std::vector<std::size_t> lastRead(registerBytes_.size(), 0);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      for (const Place& place : drafts_[i].in) {
        if (place.kind == Place::Kind::Register) {
          lastRead[place.index] = i;
        }
      }
    }
    home_.assign(registerBytes_.size(), -1);
    for (const auto& [value, reg] : gathers_) {
      take(reg);
      if (program_.space.operand(value).access == Access::Periodic) {
        lastRead[reg] = drafts_.size();  // holds for all blocks of a tile
      }
    }
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      assign(drafts_[i], i, lastRead);
    }
    return layOut();
  }

  void take(std::size_t reg) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::int32_t>(program_.numRegisters++));
    }
    home_[reg] = free_.back();
    free_.pop_back();
  }

  void assign(const Draft& draft, std::size_t at, const std::vector<std::size_t>& lastRead) {
    const Place& out = draft.out;
    if (out.kind == Place::Kind::Register && home_[out.index] < 0) {
      if (out.level == Level::Block) {
        take(out.index);
      } else {
        home_[out.index] = static_cast<std::int32_t>(program_.numSingles++);
      }
    }
    for (std::size_t i = 0; i < draft.in.size(); ++i) {
      const Place& place = draft.in[i];
      const bool again = std::any_of(draft.in.begin(),
                                     draft.in.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Place& p) { return sameRegister(p, place); });
      if (place.kind == Place::Kind::Register && place.level == Level::Block &&
          lastRead[place.index] == at && !again && !sameRegister(place, out)) {
        free_.push_back(home_[place.index]);
      }
    }
  }

  std::int32_t slotOf(const Place& place) const {
    switch (place.kind) {
      case Place::Kind::Memory:
        return static_cast<std::int32_t>(place.index);
      case Place::Kind::Output:
        return static_cast<std::int32_t>(program_.firstOutput() + place.index);
      default:
        break;
    }
    const auto first = static_cast<std::int32_t>(
        program_.firstRegister() + (place.level == Level::Block ? 0 : program_.numRegisters));
    return first + home_[place.index];
  }

  bool layOut() {
    if (program_.numSlots() > kMaxSlots) {
      return false;
    }
    std::size_t widest = 1;
    for (const std::size_t bytes : registerBytes_) {
      widest = std::max(widest, bytes);
    }
    program_.blockElements = blockElements(widest);
    program_.registerBytes =
        static_cast<std::size_t>(program_.blockElements) * widest + kRegisterGap;
    if (program_.numRegisters * program_.registerBytes + program_.numSingles * kSingleBytes >
        kArenaBytes) {
      return false;
    }
    for (const auto& [value, reg] : gathers_) {
      const bool periodic = program_.space.operand(value).access == Access::Periodic;
      (periodic ? program_.tileGathers : program_.gathers)
          .push_back({static_cast<std::int32_t>(value),
                      slotOf({Place::Kind::Register, reg, Level::Block})});
    }
    for (const Draft& draft : drafts_) {
      BlockInstruction instruction{.function = draft.function,
                                   .out = slotOf(draft.out),
                                   .level = draft.level,
                                   .params = draft.params};
      for (std::size_t i = 0; i < draft.in.size(); ++i) {
        instruction.in[i] = slotOf(draft.in[i]);
        instruction.single |= draft.in[i].level != Level::Block ? 1U << i : 0U;
      }
      listOf(draft.level).push_back(instruction);
    }
    chooseStreams();
    return true;
  }

  /// One instruction reads memory all the time, and the processor looks ahead by itself.
  void chooseStreams() {
    if (program_.block.size() < kMinFetchingInstructions) {
      return;
    }
    for (std::size_t i = 0; i < program_.numInputs; ++i) {
      if (program_.space.operand(i).access == Access::Contiguous) {
        program_.streams.push_back(i);
      }
    }
  }

  /// Of one instruction without registers whole tiles; else what keeps the registers and the blocks
  /// of all operands in half a level 1 cache.
  std::int64_t blockElements(std::size_t widest) const {
    const auto instructions = std::ranges::count(drafts_, Level::Block, &Draft::level);
    if (program_.numRegisters == 0 && instructions == 1) {
      return kTileElements;
    }
    std::size_t blocks = program_.numRegisters + program_.outputBytes.size();
    for (std::size_t i = 0; i < program_.operandBytes.size(); ++i) {
      blocks += levelOf(program_.space.operand(i).access) == Level::Block ? 1U : 0U;
    }
    const auto fit = static_cast<std::int64_t>(16384 / (blocks * widest)) / 64 * 64;
    const std::int64_t elements = std::clamp<std::int64_t>(fit, 64, 1024);
    const std::int64_t period = program_.space.period();
    return std::max(elements / period, std::int64_t{1}) * period;
  }

  std::vector<BlockInstruction>& listOf(Level level) {
    switch (level) {
      case Level::Tile:
        return program_.tile;
      case Level::Row:
        return program_.row;
      default:
        return program_.block;
    }
  }

  const BlockBody& body_;
  const Writes writes_;
  BlockProgram program_;
  std::vector<Place> places_;
  std::vector<Draft> drafts_;
  std::vector<Draft> stores_;
  std::vector<std::pair<std::size_t, std::size_t>> gathers_;  // operand, register
  std::vector<std::size_t> registerBytes_;
  std::vector<std::int32_t> home_;
  std::vector<std::int32_t> free_;
};

}  // namespace

std::optional<BlockProgram> compileBlocks(const BlockBody& body,
                                          std::span<const Layout> inputs,
                                          const StoredShape& output,
                                          Writes writes) {
  return Compiler(body, inputs, output, writes).compile();
}

std::optional<BlockProgram> compileBlocks(const ir::OpView& op,
                                          const Choice& choice,
                                          Writes writes) {
  for (const TensorType& type : op.outputs) {
    if (type.shape != op.outputs[0].shape) {
      return std::nullopt;
    }
  }
  const std::optional<BlockBody> body =
      op.def.name == "fused" ? fusedBody(op) : std::optional(singleBody(op));
  if (!body) {
    return std::nullopt;
  }
  return compileBlocks(*body, choice.inputs, {op.outputs[0].shape, choice.outputs[0]}, writes);
}

}  // namespace sluice::devices::cpu
