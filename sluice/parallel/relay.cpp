#include "sluice/parallel/relay.h"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sluice/ops/shape_ops.h"
#include "sluice/parallel/op_replacer.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;

class Relayer {
 public:
  Relayer(ir::Graph& graph, std::span<const std::int32_t> deviceOfStage)
      : graph_(graph), deviceOfStage_(deviceOfStage) {}

  void run() {
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const OpId id : before) {
      const Op op = graph_.op(id);
      std::vector<Value> inputs = op.inputs;
      if (op.place.pass != Pass::Update) {
        for (Value& v : inputs) {
          v = near(v, op);
        }
      }
      replacer_.replace(graph_.op(id), std::move(inputs));
    }
    replacer_.finish();
  }

 private:
  /// The value as it is one stage before its reader.
  Value near(Value v, const Op& reader) {
    const Op producer = graph_.op(v.op);
    if (producer.is(ir::kConstant) || producer.is(ir::kVariable) ||
        producer.place.device == reader.place.device) {
      return v;
    }
    const std::int32_t step = producer.place.stage < reader.place.stage ? 1 : -1;
    // Data flows to later stages in the forward pass and to earlier ones in the backward pass.
    const Pass pass = step > 0 ? Pass::Forward : Pass::Backward;
    // Once on the reader's device, it need not be copied there again.
    std::int32_t end = reader.place.stage;
    while (deviceOf(end - step) == reader.place.device) {
      end -= step;
    }
    Value at = v;
    std::int32_t device = producer.place.device;
    for (std::int32_t stage = producer.place.stage + step; stage != end; stage += step) {
      if (deviceOf(stage) != device) {
        device = deviceOf(stage);
        at = handedOn(v, at, {.pass = pass, .stage = stage, .device = device});
      }
    }
    return at;
  }

  std::int32_t deviceOf(std::int32_t stage) const {
    return deviceOfStage_[static_cast<std::size_t>(stage)];
  }

  /// `original`, which has come as far as `from`, at a place.
  Value handedOn(Value original, Value from, ir::Placement place) {
    const auto [known, isNew] =
        relays_.try_emplace({original.op.index(), original.out, place.stage, place.pass});
    if (isNew) {
      // To its own shape it is a copy; views such as nop would stay in the operand's memory.
      known->second = {replacer_.add({.def = ops::kBroadcastTo,
                                      .inputs = {from},
                                      .attrs = {{"shape", graph_.type(from).shape.dims()}},
                                      .name = fmt::format(
                                          "relay{}/{}", place.stage, graph_.op(original.op).name),
                                      .place = place}),
                       0};
    }
    return known->second;
  }

  ir::Graph& graph_;
  std::span<const std::int32_t> deviceOfStage_;
  std::map<std::tuple<std::size_t, std::uint16_t, std::int32_t, Pass>, Value> relays_;
  OpReplacer replacer_{graph_};
};

}  // namespace

void relayCopies(ir::Graph& graph, std::span<const std::int32_t> deviceOfStage) {
  Relayer(graph, deviceOfStage).run();
}

}  // namespace sluice::parallel
