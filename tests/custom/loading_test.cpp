// Loading libraries of custom ops: what is refused, and that a refused one leaves nothing behind.
#include <fstream>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sluice/custom/op.h"
#include "sluice/ops/op_list.h"
#include "tests/custom/test_library.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::TempFolder;

std::string refusal(custom::Op op) {
  const custom::Library library{std::move(op)};
  return messageOf([&] { registerCustomOps(library.table(), "the test"); });
}

void nothing(const custom::Call& /*call*/) {}

TEST(LoadCustomOps, GivesTheNamesAndTwiceIsAsOnce) {
  const std::vector<std::string> names = loadCustomOps(LIBRARY_TEST_OPS);
  EXPECT_THAT(names, Contains("com.example.test.LeakyRelu.1"));
  const std::size_t before = ops::opSet().all().size();
  EXPECT_EQ(loadCustomOps(LIBRARY_TEST_OPS), names);
  EXPECT_EQ(ops::opSet().all().size(), before);
  for (const std::string& name : names) {
    EXPECT_NE(ops::opSet().find(name), nullptr) << name;
  }
}

TEST(LoadCustomOps, RefusesAMissingFile) {
  EXPECT_THAT(messageOf<FileError>([] { loadCustomOps("no/such/library.so"); }),
              HasSubstr("no/such/library.so"));
}

TEST(LoadCustomOps, RefusesAFileThatIsNoLibrary) {
  const TempFolder folder;
  const auto path = folder / "no_library.so";
  std::ofstream(path) << "no library at all";
  EXPECT_THAT(messageOf<FileError>([&] { loadCustomOps(path); }),
              HasSubstr("cannot be loaded as a shared library"));
}

/// The system's loader would read mapped memory after the end of the file.
TEST(LoadCustomOps, RefusesALibraryThatIsCutOff) {
  std::ifstream file(LIBRARY_TEST_OPS, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  ASSERT_GT(whole.size(), 1000U);
  const TempFolder folder;
  const auto path = folder / "cut_off.so";
  const auto refused = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return messageOf<FileError>([&] { loadCustomOps(path); });
  };
  for (std::size_t part = 0; part < 16; ++part) {
    const std::size_t bytes = part < 8 ? part * 16 : whole.size() * part / 16;
    EXPECT_THAT(refused(whole.substr(0, bytes)), HasSubstr("cannot be loaded as a shared library"))
        << bytes;
  }
  EXPECT_THAT(refused(whole.substr(0, whole.size() - 1)), HasSubstr("cut off"));
  EXPECT_THAT(refused(whole.substr(0, 4096)), HasSubstr("cut off"));
  std::string other = whole;
  other[4] ^= 3;  // of 32 bits
  EXPECT_THAT(refused(other), HasSubstr("another machine"));
  std::string damaged = whole;
  damaged[54] = 7;  // the size of a record of the table of segments
  EXPECT_THAT(refused(damaged), HasSubstr("tables are damaged"));
}

TEST(LoadCustomOps, RefusesWhatIsNoRegularFile) {
  const TempFolder folder;
  const auto path = folder / "fifo.so";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(messageOf<FileError>([&] { loadCustomOps(path); }), HasSubstr("it is a FIFO"));
  EXPECT_THAT(messageOf<FileError>([&] { loadCustomOps(folder.path()); }),
              HasSubstr("it is a folder"));
}

TEST(LoadCustomOps, RefusesALibraryWithoutTheEntryPoint) {
  EXPECT_THAT(messageOf<FileError>([] { loadCustomOps(LIBRARY_NO_ENTRY); }),
              AllOf(HasSubstr("does not export sluiceCustomOps"), HasSubstr("SLUICE_CUSTOM_OPS")));
}

/// The library without an entry point is linked with -ffast-math.
TEST(LoadCustomOps, KeepsTheFloatingPointEnvironment) {
  volatile float small = std::numeric_limits<float>::min();
  messageOf<FileError>([] { loadCustomOps(LIBRARY_NO_ENTRY); });
  EXPECT_NE(small / 2, 0.0F);
}

TEST(LoadCustomOps, RefusesALibraryOfAnotherInterface) {
  EXPECT_THAT(messageOf<Unsupported>([] { loadCustomOps(LIBRARY_WRONG_ABI); }),
              AllOf(HasSubstr("version 42 of the interface"), HasSubstr("has version 1")));
}

TEST(LoadCustomOps, RefusesANameThatIsTakenAndKeepsNothingOfTheLibrary) {
  testing::loadTestOps();
  EXPECT_THAT(messageOf([] { loadCustomOps(LIBRARY_SAME_NAME); }),
              AllOf(HasSubstr("com.example.test.LeakyRelu.1 is there already"),
                    HasSubstr(LIBRARY_TEST_OPS),
                    HasSubstr(LIBRARY_SAME_NAME)));
  EXPECT_FALSE(ops::findCustomOp("com.example.test", "Fresh", 1));
  const custom::Library twice{custom::Op("com.example.twice", "A", 1).forward(nothing),
                              custom::Op("com.example.twice", "A", 1).forward(nothing)};
  EXPECT_THAT(messageOf([&] { registerCustomOps(twice.table(), "the test"); }),
              HasSubstr("there is an op com.example.twice.A.1 already"));
  EXPECT_FALSE(ops::findCustomOp("com.example.twice", "A", 1));
}

TEST(RegisterCustomOps, RefusesDeclarationsThatCannotBeOps) {
  using custom::Op;
  const auto op = [] { return Op("com.example", "Op", 1).forward(nothing); };
  EXPECT_THAT(refusal(Op("com.example", "Op", 1)), HasSubstr("no forward function"));
  EXPECT_THAT(refusal(Op("", "Op", 1).forward(nothing)), HasSubstr("the domain of a custom op"));
  EXPECT_THAT(refusal(Op("com..example", "Op", 1).forward(nothing)), HasSubstr("com..example"));
  EXPECT_THAT(refusal(Op("ai.onnx", "Op", 1).forward(nothing)), HasSubstr("reserved"));
  EXPECT_THAT(refusal(Op("com.example", "My Op", 1).forward(nothing)), HasSubstr("My Op"));
  EXPECT_THAT(refusal(Op("com.example", "a.b", 1).forward(nothing)), HasSubstr("a.b"));
  EXPECT_THAT(refusal(Op("com.example", "Op", 0).forward(nothing)), HasSubstr("start at 1"));
  EXPECT_THAT(refusal(op().inputs(3, 2)), HasSubstr("3 to 2 inputs"));
  EXPECT_THAT(refusal(op().outputs(0)), HasSubstr("outputs, got 0"));
  EXPECT_THAT(refusal(op().outputs(64)), HasSubstr("outputs, got 64"));
  EXPECT_THAT(refusal(op().attribute("1st", 1)), HasSubstr("1st"));
  EXPECT_THAT(refusal(op().attribute("var", 1)), HasSubstr("reserved"));
  EXPECT_THAT(refusal(op().attribute("sluice_dtypes", 1)), HasSubstr("reserved"));
  EXPECT_THAT(refusal(op().attribute("a", 1).attribute("a", 2)), HasSubstr("'a' exists twice"));
  EXPECT_THAT(refusal(op().requiredAttribute("a", static_cast<custom::AttrKind>(9))),
              HasSubstr("of no kind"));
}

/// What only a library that does not use op.h can get wrong.
TEST(RegisterCustomOps, RefusesRecordsThatAreNotWhole) {
  const custom::abi::Attr noDefault = {.name = "a",
                                       .kind = static_cast<std::int32_t>(custom::AttrKind::Real)};
  custom::abi::Op op = {.domain = "com.example.raw",
                        .name = "Op",
                        .version = 1,
                        .outputs = 1,
                        .numAttrs = 1,
                        .attrs = &noDefault,
                        .forward = [](const void* /*self*/, const custom::abi::Call* /*call*/) {}};
  const custom::abi::Library library = {custom::abi::kVersion, 1, &op};
  const auto refused = [&] { return messageOf([&] { registerCustomOps(library, "the test"); }); };
  EXPECT_THAT(refused(), HasSubstr("'a' has no default"));
  op.name = nullptr;
  EXPECT_THAT(refused(), HasSubstr("the name of a custom op"));
  op.name = "Op";
  op.domain = nullptr;
  EXPECT_THAT(refused(), HasSubstr("the domain of a custom op"));
}

TEST(RegisterCustomOps, RefusesTablesThatAreNull) {
  const custom::abi::Library noOps = {custom::abi::kVersion, 2, nullptr};
  EXPECT_THAT(messageOf([&] { registerCustomOps(noOps, "the test"); }),
              AllOf(HasSubstr("2 custom ops"), HasSubstr("null")));
  custom::abi::Attr attr = {};
  custom::abi::Op op = {.domain = "com.example.null",
                        .name = "Op",
                        .version = 1,
                        .outputs = 1,
                        .numAttrs = 1,
                        .attrs = nullptr,
                        .forward = [](const void* /*self*/, const custom::abi::Call* /*call*/) {}};
  const custom::abi::Library library = {custom::abi::kVersion, 1, &op};
  const auto refused = [&] { return messageOf([&] { registerCustomOps(library, "the test"); }); };
  EXPECT_THAT(refused(), AllOf(HasSubstr("1 attributes"), HasSubstr("null")));
  op.attrs = &attr;
  op.numAttrs = -1;
  EXPECT_THAT(refused(), HasSubstr("-1 attributes"));
  op.numAttrs = 1;
  EXPECT_THAT(refused(), HasSubstr("the attribute of a custom op"));  // a null name
  using custom::AttrKind;
  for (const AttrKind kind : {AttrKind::Real,
                              AttrKind::Integer,
                              AttrKind::Text,
                              AttrKind::Reals,
                              AttrKind::Integers,
                              AttrKind::Texts}) {
    attr = {.name = "a", .kind = static_cast<std::int32_t>(kind), .count = 1};
    EXPECT_THAT(refused(), HasSubstr("'a' says 1 values, and they are null"));
  }
  for (const custom::abi::Text text : {custom::abi::Text{nullptr, 3}, custom::abi::Text{"a", -1}}) {
    attr.texts = &text;
    EXPECT_THAT(refused(), HasSubstr("text 0"));
  }
  EXPECT_FALSE(ops::findCustomOp("com.example.null", "Op", 1));
}

TEST(RegisterCustomOps, EveryFailureOfAFunctionIsAnError) {
  using Types = std::vector<custom::TensorType>;
  const auto op = [](const char* name, custom::Op::Infer infer) {
    return custom::Op("com.example.failing", name, 1).inputs(0).infer(infer).forward(nothing);
  };
  static const custom::Library library{
      op("ThrowsANumber", [](const custom::Call&) -> Types { throw 1; }),
      op("TooLarge",
         [](const custom::Call&) -> Types {
           const std::int64_t large = std::int64_t{1} << 40;
           return {{custom::DType::F32, {large, large}}};
         }),
      op("NoSuchOperand",
         [](const custom::Call& call) -> Types { return {call.input(0).type()}; })};
  registerCustomOps(library.table(), "the test");
  const auto failure = [](const char* name) {
    return messageOf([&] {
      ir::Graph graph;
      ir::GraphBuilder b(graph);
      ops::customOp(b, {}, {.name = name, .domain = "com.example.failing"});
    });
  };
  EXPECT_THAT(failure("ThrowsANumber"), HasSubstr("no std::exception"));
  EXPECT_THAT(failure("TooLarge"), HasSubstr("com.example.failing.TooLarge.1"));
  EXPECT_THAT(failure("NoSuchOperand"), HasSubstr("no operand 0"));
}

/// An op that is part of the program itself, with any number of operands and results.
TEST(RegisterCustomOps, TakesOpsOfTheProgramItself) {
  static const custom::Library library{custom::Op("com.example.program", "Reversed", 1)
                                           .anyInputs(1)
                                           .anyOutputs()
                                           .infer([](const custom::Call& call) {
                                             std::vector<custom::TensorType> types;
                                             for (std::size_t i = call.numInputs(); i-- > 0;) {
                                               types.push_back(call.input(i).type());
                                             }
                                             return types;
                                           })
                                           .forward(nothing)};
  registerCustomOps(library.table(), "the test");
  ir::Graph graph;
  ir::GraphBuilder b(graph);
  const ir::Value x = b.input("x", {DType::F32, Shape{1}});
  const ir::Value y = b.input("y", {DType::I64, Shape{2}});
  const auto reversed =
      ops::customOp(b, {x, y, y}, {.name = "Reversed", .domain = "com.example.program"});
  ASSERT_EQ(reversed.size(), 3U);
  EXPECT_EQ(b.type(reversed[0]), b.type(y));
  EXPECT_EQ(b.type(reversed[2]), b.type(x));
}

/// A set that somebody holds stays as it was while others register.
TEST(RegisterCustomOps, WhileOthersReadTheTable) {
  const ir::OpSet& held = ops::opSet();
  const std::size_t before = held.all().size();
  static const custom::Library libraries[] = {
      {custom::Op("com.example.threads", "A", 1).forward(nothing)},
      {custom::Op("com.example.threads", "B", 1).forward(nothing)}};
  std::thread first([] { registerCustomOps(libraries[0].table(), "a thread"); });
  std::thread second([] { registerCustomOps(libraries[1].table(), "a thread"); });
  while (ops::opSet().find("com.example.threads.A.1") == nullptr ||
         ops::opSet().find("com.example.threads.B.1") == nullptr) {
    EXPECT_NE(ops::opSet().find("matmul"), nullptr);
  }
  first.join();
  second.join();
  EXPECT_EQ(held.all().size(), before);
  EXPECT_EQ(ops::opSet().all().size(), before + 2);
}

}  // namespace
}  // namespace sluice
