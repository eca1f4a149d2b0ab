// Nested values: how C++ types are taken apart and put together again.
#include "sluice/tensor/structure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace sluice {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Lists its fields.
template <class T>
struct Boxes {
  T corners;
  std::optional<T> weights;
  std::vector<T> more;
  static auto fields() {
    return std::tuple(field("corners", &Boxes::corners),
                      field("weights", &Boxes::weights),
                      field("more", &Boxes::more));
  }
};

/// Knows nothing of structures.
struct Span {
  HostTensor first;
  HostTensor last;
};

template <>
struct StructureParser<Span> {
  using Leaf = HostTensor;
  template <class>
  using With = Span;
  static HostStructure parse(const Span& span) { return std::pair(span.first, span.last); }
  static Span build(const HostStructure& structure) {
    return {structure[0].tensor(), structure[1].tensor()};
  }
};

namespace {

using sluice::testing::messageOf;

HostTensor number(float value) {
  return HostTensor::scalar(value);
}

std::vector<double> numbersOf(const HostStructure& structure) {
  std::vector<double> numbers;
  for (const HostTensor& leaf : structure.leaves()) {
    numbers.push_back(leaf.at(0));
  }
  return numbers;
}

TEST(Structure, ListsMapsAndOptionalsNest) {
  const std::map<std::string, std::vector<std::optional<HostTensor>>> value{
      {"b", {number(3), std::nullopt, number(4)}}, {"a", {number(1)}}};
  const HostStructure structure = value;
  EXPECT_EQ(structure.kind(), StructureKind::Named);
  EXPECT_THAT(structure.names(), ElementsAre("a", "b"));
  EXPECT_EQ(structure["b"].size(), 3U);
  EXPECT_TRUE(structure["b"][1].isAbsent());
  EXPECT_THAT(numbersOf(structure), ElementsAre(1, 3, 4));
  const auto again =
      build<std::map<std::string, std::vector<std::optional<HostTensor>>>>(structure);
  EXPECT_EQ(again.at("b")[1], std::nullopt);
  EXPECT_EQ(again.at("b")[2]->at(0), 4);
}

TEST(Structure, TuplesPairsAndArraysAreListsOfTheirLength) {
  using Value =
      std::tuple<HostTensor, std::pair<HostTensor, HostTensor>, std::array<HostTensor, 2>>;
  const Value value{number(1), {number(2), number(3)}, {number(4), number(5)}};
  const HostStructure structure = value;
  EXPECT_THAT(numbersOf(structure), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(std::get<1>(build<Value>(structure)).second.at(0), 3);
  EXPECT_EQ(std::get<2>(build<Value>(structure))[1].at(0), 5);
  EXPECT_THAT(messageOf([&] { build<std::pair<HostTensor, HostTensor>>(structure); }),
              HasSubstr("expected a list of 2, got a list of 3"));
  EXPECT_THAT(messageOf([&] { build<std::array<HostTensor, 2>>(number(1)); }),
              HasSubstr("expected a list of 2, got a tensor"));
}

TEST(Structure, AStructListsItsFields) {
  const Boxes<HostTensor> boxes{number(1), std::nullopt, {number(2), number(3)}};
  const HostStructure structure = boxes;
  EXPECT_THAT(structure.names(), ElementsAre("corners", "more", "weights"));
  EXPECT_TRUE(structure["weights"].isAbsent());
  const auto again = build<Boxes<HostTensor>>(structure);
  EXPECT_EQ(again.corners.at(0), 1);
  EXPECT_FALSE(again.weights);
  EXPECT_EQ(again.more.at(1).at(0), 3);
  static_assert(std::is_same_v<WithLeaf<Boxes<HostTensor>, TensorType>, Boxes<TensorType>>);
}

TEST(Structure, AParserIsRegisteredForOtherStructs) {
  const std::vector<Span> spans{{number(1), number(2)}, {number(3), number(4)}};
  const HostStructure structure = spans;
  EXPECT_THAT(numbersOf(structure), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(build<std::vector<Span>>(structure)[1].first.at(0), 3);
}

TEST(Structure, KeepsItsFormWithOtherLeaves) {
  const HostStructure structure = Boxes<HostTensor>{number(1), number(9), {number(2)}};
  std::vector<std::string> paths;
  structure.map(
      [&](const HostTensor& /*leaf*/, const std::string& path) {
        paths.push_back(path);
        return true;
      },
      "boxes");
  EXPECT_THAT(paths, ElementsAre("boxes.corners", "boxes.more.0", "boxes.weights"));
  const Structure<int> counted = structure.with(std::vector{10, 20, 30});
  EXPECT_EQ(counted["more"][0].tensor(), 20);
  EXPECT_EQ(difference(structure, counted, ""), "");
  EXPECT_EQ(
      difference(structure, HostStructure(Boxes<HostTensor>{number(1), {}, {number(2)}}), "b"),
      "b.weights: a tensor, now nothing");
  EXPECT_EQ(difference(structure, HostStructure(std::vector{number(1)}), "b"),
            "b: parts [corners, more, weights], now a list of 1");
}

TEST(Structure, RefusesPartsThatAreNotThere) {
  const HostStructure list = std::vector{number(1)};
  EXPECT_THAT(messageOf([&] { list[1]; }), HasSubstr("a part 1, got a list of 1"));
  EXPECT_THAT(messageOf([&] { list["a"]; }), HasSubstr("a part 'a', got a list of 1"));
  EXPECT_THAT(messageOf([&] { list.tensor(); }), HasSubstr("expected a tensor, got a list of 1"));
  EXPECT_THAT(messageOf([&] { build<std::vector<HostTensor>>(HostStructure()); }),
              HasSubstr("expected a list, got nothing"));
  EXPECT_THAT(messageOf([&] { build<Boxes<HostTensor>>(list); }),
              HasSubstr("expected parts by name, got a list of 1"));
}

}  // namespace
}  // namespace sluice
