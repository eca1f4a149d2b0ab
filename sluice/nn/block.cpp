#include "sluice/nn/block.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

std::int32_t checkedDevice(std::string_view id, std::optional<std::int64_t> device) {
  if (device && (*device < 0 || *device > std::numeric_limits<std::int32_t>::max())) {
    raise<InvalidArgument>("block '{}': a device has a number from 0 on, got {}", id, *device);
  }
  return static_cast<std::int32_t>(device.value_or(-1));
}

bool needsBlock(const ir::Op& op) {
  return !op.is(ir::kInput) && !op.is(ir::kConstant) && !op.is(ir::kVariable);
}

void setDevice(ir::Graph& graph, BlockPlace to) {
  for (const ir::OpId id : graph.order()) {
    ir::Placement place = graph.op(id).place;
    if (place.block == to.block) {
      place.device = to.device;
      graph.setPlacement(id, place);
    }
  }
}

std::string nextAutoId(Tracer& tracer) {
  BlockState& state = tracer.blocks();
  if (!state.nextAutoId) {
    raise<InvalidArgument>(
        "a block needs an id; call Block::useAutoId() at the start of forward to number them");
  }
  return std::to_string((*state.nextAutoId)++);
}

/// The block's place in the current graph; the device is the one it was first given.
BlockPlace placeOf(Tracer& tracer, std::string_view id, std::optional<std::int64_t> device) {
  if (id.empty()) {
    raise<InvalidArgument>("a block needs a name that is not empty");
  }
  const std::int32_t wanted = checkedDevice(id, device);
  std::vector<std::int32_t>& devices = tracer.blocks().devices;
  const std::int32_t index = tracer.graph().blockIndex(id);
  const auto i = static_cast<std::size_t>(index);
  devices.resize(std::max(devices.size(), i + 1), -1);
  if (wanted >= 0 && devices[i] >= 0 && wanted != devices[i]) {
    raise<InvalidArgument>(
        "block '{}' is on device {} and given device {} here; a block has one device",
        id,
        devices[i],
        wanted);
  }
  if (wanted >= 0 && devices[i] < 0) {
    devices[i] = wanted;
    setDevice(tracer.graph(), {index, wanted});
  }
  return {index, devices[i]};
}

/// Ops that were made outside any block so far become the implicit block.
void closeImplicitBlock(Tracer& tracer, std::optional<std::int64_t> nextDevice) {
  ir::Graph& graph = tracer.graph();
  std::vector<ir::OpId> open;
  for (const ir::OpId id : graph.order()) {
    if (graph.op(id).place.block < 0 && needsBlock(graph.op(id))) {
      open.push_back(id);
    }
  }
  if (open.empty()) {
    return;
  }
  std::optional<std::int64_t> device;
  if (nextDevice) {
    device = std::max<std::int64_t>(*nextDevice - 1, 0);
  }
  const BlockPlace implicit = placeOf(tracer, kImplicitBlock, device);
  for (const ir::OpId id : open) {
    ir::Placement place = graph.op(id).place;
    place.block = implicit.block;
    place.device = implicit.device;
    graph.setPlacement(id, place);
  }
}

BlockPlace current(Tracer& tracer) {
  const ir::Placement& place = tracer.builder().place;
  return {place.block, place.device};
}

void enter(Tracer& tracer, BlockPlace place) {
  tracer.builder().place.block = place.block;
  tracer.builder().place.device = place.device;
}

void mark(Module& layer, BlockMark mark) {
  checkedDevice(mark.id, mark.device);
  if (layer.blockMark() != nullptr) {
    raise<InvalidArgument>(
        "{} already begins block '{}'; call removeBlocks first to annotate it anew",
        moduleCalled(layer.path()),
        layer.blockMark()->id);
  }
  layer.setBlockMark(std::move(mark));
}

}  // namespace

Block::Block(std::string_view id, std::optional<std::int64_t> device)
    : tracer_(Tracer::current()), outer_(current(tracer_)) {
  enter(tracer_, placeOf(tracer_, id, device));
  ++tracer_.blocks().depth;
}

Block::Block() : Block(nextId()) {}

std::string Block::nextId() {
  return nextAutoId(Tracer::current());
}

Block::~Block() {
  BlockState& state = tracer_.blocks();
  --state.depth;
  // A layer may have begun a block meanwhile; it goes on when the outermost scope ends.
  enter(tracer_, state.depth == 0 ? state.begun : outer_);
}

void Block::useAutoId() {
  std::optional<std::int64_t>& next = Tracer::current().blocks().nextAutoId;
  if (!next) {
    next = 0;
  }
}

BeginBlock::BeginBlock(Module& layer, std::string id, std::optional<std::int64_t> device) {
  if (id.empty()) {
    raise<InvalidArgument>("{}: a block needs a name that is not empty",
                           moduleCalled(layer.path()));
  }
  mark(layer, {.id = std::move(id), .device = device});
}

BeginBlock::BeginBlock(Module& layer) : BeginBlock(layer, kNumbered, std::nullopt) {}

BeginBlock::BeginBlock(Module& layer, Numbered /*numbered*/, std::optional<std::int64_t> device) {
  mark(layer, {.id = {}, .device = device});
}

void removeBlocks(Module& module) {
  module.setBlockMark(std::nullopt);
  for (Module* child : module.children()) {
    removeBlocks(*child);
  }
}

void Tracer::beginMarkedBlock(const Module& module) {
  const BlockMark* mark = module.blockMark();
  if (mark == nullptr) {
    return;
  }
  const auto known = std::ranges::find(blocks_.applied, &module, &BlockState::Applied::module);
  std::string id = mark->id;
  if (known != blocks_.applied.end()) {
    id = known->id;  // applied before: the same block goes on
  } else {
    if (blocks_.applied.empty()) {
      closeImplicitBlock(*this, mark->device);
    }
    if (id.empty()) {
      id = nextAutoId(*this);
    }
    blocks_.applied.push_back({&module, id});
  }
  blocks_.begun = placeOf(*this, id, mark->device);
  enter(*this, blocks_.begun);
}

void requireBlocks(const ir::Graph& graph) {
  if (graph.blocks().empty()) {
    return;
  }
  const bool used = std::ranges::any_of(graph.order(),
                                        [&](ir::OpId id) { return graph.op(id).place.block >= 0; });
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.place.block < 0 && needsBlock(op)) {
      raise<InvalidArgument>(
          "there is no active block for op '{}'{}: where a model uses blocks, every op must be in "
          "one; put it into a Block or mark the layer before it with BeginBlock",
          op.name,
          used ? "" : fmt::format(", and block '{}' has no op", graph.blocks()[0]));
    }
  }
}

std::vector<std::string> joinBlocks(ir::Graph& graph) {
  std::vector<std::string> joined;
  if (graph.blocks().empty()) {
    return joined;
  }
  const std::vector<ir::OpId> order(graph.order().begin(), graph.order().end());
  ir::Placement before;
  before.block = 0;                  // if no block has an op
  for (const ir::OpId id : order) {  // of the first op in a block
    if (graph.op(id).place.block >= 0) {
      before = graph.op(id).place;
      break;
    }
  }
  for (const ir::OpId id : order) {
    const ir::Op& op = graph.op(id);
    if (op.place.block >= 0) {
      before = op.place;
    } else if (needsBlock(op)) {
      ir::Placement place = op.place;
      place.block = before.block;
      place.device = before.device;
      joined.push_back(op.name);
      graph.setPlacement(id, place);
    }
  }
  return joined;
}

void requireLiveBlocks(const ir::Graph& graph) {
  if (graph.blocks().empty()) {
    return;
  }
  std::unordered_set<ir::OpId> live;
  for (const ir::Output& output : graph.outputs()) {
    live.insert(output.value.op);
  }
  const ir::Op* dead = nullptr;
  // Readers come after what they read, so one walk from the end sees them first.
  for (std::size_t i = graph.numOps(); i-- > 0;) {
    const ir::Op& op = graph.op(graph.order()[i]);
    if (live.contains(op.id) || op.def->traits.effect || op.def->traits.keep) {
      for (const ir::Value v : op.inputs) {
        live.insert(v.op);
      }
    } else if (needsBlock(op) && op.place.block >= 0 && !op.def->traits.view &&
               !op.def->traits.once) {
      dead = &op;  // the first of them in the order of the graph comes last
    }
  }
  if (dead != nullptr) {
    raise<InvalidArgument>(
        "block '{}' has an unused layer: the result of op '{}' reaches no output of the model; "
        "remove it, or return or anchor what it makes",
        graph.blocks()[static_cast<std::size_t>(dead->place.block)],
        dead->name);
  }
}

void requireBegunBlocks(const Module& module) {
  const auto& applied = Tracer::current().blocks().applied;
  if (module.blockMark() != nullptr &&
      std::ranges::find(applied, &module, &BlockState::Applied::module) == applied.end()) {
    raise<InvalidArgument>(
        "{} begins block '{}' but forward never applies it: take the mark off with "
        "removeBlocks, or call the layer itself and not its forward",
        moduleCalled(module.path()),
        module.blockMark()->id);
  }
  for (const Module* child : module.children()) {
    requireBegunBlocks(*child);
  }
}

}  // namespace sluice::nn
