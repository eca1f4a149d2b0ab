// Ops that move elements: reshape, transpose, slice, gather ...
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

Operand indices(Shape shape, std::initializer_list<std::int64_t> values) {
  return {{DType::I64, shape}, 0, 0, HostTensor::of<std::int64_t>(shape, values)};
}

}  // namespace

std::vector<OpCase> shapeCases() {
  return {
      {kBroadcastTo, {f32({3, 1})}, {{"shape", {2, 3, 4}}}},
      {kConcat, {f32({2, 3, 4}), f32({2, 1, 4}), f32({2, 2, 4})}, {{"axis", 1}}},
      {kConcat, {f32({2, 3})}, {{"axis", 0}}, "one"},
      {kConcat, {f32({2, 0}), f32({2, 3})}, {{"axis", -1}}, "empty"},
      {kConcat, {f32({2, 3, 2, 5}), f32({2, 4, 2, 5})}, {{"axis", 1}}, "channels"},
      {kConcat, {f32({3, 2, 7}), f32({3, 2, 1})}, {{"axis", 2}}, "inner"},
      {kConcat, {boolean({2}), boolean({3})}, {{"axis", 0}}, "bool"},
      {kGather, {f32({5, 3}), indices({2, 2}, {4, -1, 0, 4})}},
      {kGather, {f32({2, 5, 3}), indices({3}, {1, -5, 1})}, {{"axis", 1}}, "middle"},
      {kGather, {f32({2, 5}), indices({}, {3})}, {{"axis", -1}}, "scalar"},
      {kGather, {f32({4, 3, 5}), i32({7}, -5, 5)}, {{"axis", 2}}, "inner"},
      {kGather, {f32({5, 3}), indices({0}, {})}, {}, "empty"},
      {kGather, {f32({5, 0}), indices({2}, {0, 1})}, {}, "no_columns"},
      {kIota, {}, {{"shape", {2, 3, 4}}, {"axis", 1}}},
      {kIota, {}, {{"shape", {5}}, {"dtype", "f32"}}, "floats"},
      {kOneHot, {indices({2, 3}, {0, 3, -1, 2, 1, 9})}, {{"depth", 4}}},
      {kOneHot, {i32({0, 3}, 0, 4)}, {{"depth", 4}, {"axis", 1}}, "empty"},
      {kOneHot, {indices({3}, {0, 1, 1})}, {{"depth", 2}, {"axis", 0}, {"dtype", "i32"}}, "first"},
      {kPad, {f32({2, 3})}, {{"before", {1, 0}}, {"after", {0, 2}}, {"value", 0.5}}},
      {kPad,
       {f32({3, 4})},
       {{"before", {2, 1}}, {"after", {1, 3}}, {"mode", "reflect"}},
       "reflect"},
      {kPad, {f32({3, 4})}, {{"before", {2, 0}}, {"after", {1, 3}}, {"mode", "edge"}}, "edge"},
      {kPad,
       {f32({2, 3, 4, 5})},
       {{"before", {0, 1, 2, 0}}, {"after", {0, 0, 1, 3}}, {"value", -1.0}},
       "images"},
      {kPad,
       {f32({2, 3, 4, 5})},
       {{"before", {0, 0, 2, 1}}, {"after", {0, 0, 1, 3}}, {"mode", "reflect"}},
       "images_reflect"},
      {kPad, {f32({0, 2})}, {{"before", {1, 0}}, {"after", {1, 1}}}, "empty"},
      {kRandomNormal, {}, {{"shape", {3, 5}}, {"ordinal", 1}}},
      {kRandomUniform, {}, {{"shape", {3, 5}}, {"low", -2.0}, {"high", 3.0}, {"ordinal", 2}}},
      {kReshape, {f32({2, 6})}, {{"shape", {3, 4}}}},
      {kReverse, {f32({2, 3, 4})}, {{"axes", {0, -1}}}},
      {kReverse, {f32({3, 4})}, {}, "all"},
      {kReverse, {f32({0, 4})}, {}, "empty"},
      {kScatterAdd, {f32({5, 3}), indices({2, 2}, {4, -1, 0, 4}), f32({2, 2, 3})}, {}, "", true, 3},
      {kScatterAdd,
       {f32({2, 5, 3}), indices({3}, {1, -4, 1}), f32({2, 3, 3})},
       {{"axis", 1}},
       "middle",
       true,
       4},
      {kScatterAdd, {f32({5, 3}), indices({0}, {}), f32({0, 3})}, {}, "empty"},
      {kSlice, {f32({4, 5})}, {{"starts", {1, 0}}, {"ends", {3, 5}}, {"steps", {1, 2}}}},
      {kSlice,
       {f32({4, 5})},
       {{"starts", {-1, 4}}, {"ends", {-9, 0}}, {"steps", {-1, -2}}},
       "back"},
      {kSlice,
       {f32({2, 5, 4, 7})},
       {{"starts", {0, 4, 1, 6}}, {"ends", {2, -9, 4, -9}}, {"steps", {1, -2, 1, -3}}},
       "images"},
      {kSlice, {f32({4, 5})}, {{"starts", {3, 0}}, {"ends", {2, 99}}}, "empty"},
      {kSliceScatter,
       {f32({2, 3})},
       {{"shape", {4, 5}}, {"starts", {1, 0}}, {"ends", {3, 5}}, {"steps", {1, 2}}}},
      {kSliceScatter,
       {f32({4, 2})},
       {{"shape", {4, 5}}, {"starts", {-1, 4}}, {"ends", {-9, 0}}, {"steps", {-1, -2}}},
       "back"},
      {kSliceScatter,
       {f32({2, 3, 3, 3})},
       {{"shape", {2, 5, 4, 7}},
        {"starts", {0, 4, 1, 6}},
        {"ends", {2, -9, 4, -9}},
        {"steps", {1, -2, 1, -3}}},
       "images"},
      {kSliceScatter,
       {f32({0, 5})},
       {{"shape", {4, 5}}, {"starts", {3, 0}}, {"ends", {2, 99}}},
       "empty"},
      {kSplit, {f32({2, 6, 3})}, {{"axis", 1}, {"sizes", {1, 3, 2}}}},
      {kSplit, {f32({2, 6, 3, 5})}, {{"axis", 1}, {"sizes", {1, 5}}}, "channels"},
      {kSplit, {f32({3, 7})}, {{"axis", -1}, {"sizes", {4, 3}}}, "inner"},
      {kSplit, {f32({4})}, {{"axis", 0}, {"sizes", {4, 0}}}, "empty"},
      {kTile, {f32({2, 3})}, {{"repeats", {3, 2}}}},
      {kTile, {f32({2, 3})}, {{"repeats", {0, 2}}}, "empty"},
      {kTranspose, {f32({2, 3, 4})}, {{"permutation", {2, 0, 1}}}},
      {kTrilu, {f32({2, 4, 5})}},
      {kTrilu, {f32({4, 5})}, {{"upper", false}, {"diagonal", 1}}, "lower"},
      {kTrilu, {f32({0, 3})}, {}, "empty"},
  };
}

}  // namespace sluice::testing
