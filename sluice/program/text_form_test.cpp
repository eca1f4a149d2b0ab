// The text form of a Program parses back to the same Program, and a change of the text is a change
// of the Program that the verifier notices.
#include "sluice/program/text_form.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/op_list.h"
#include "tests/support/message_of.h"
#include "tests/support/small_models.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_program.h"

namespace sluice::program {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

Program trainingProgram() {
  return lowered(sluice::testing::trainingModel(), {.microBatchesPerRound = 3});
}

std::string withoutLine(const std::string& text, std::size_t begin) {
  return text.substr(0, begin) + text.substr(text.find('\n', begin) + 1);
}

TEST(TextForm, ParsesBackToTheSameProgram) {
  for (const Program& program :
       {trainingProgram(), lowered(sluice::testing::inferenceModel(), {})}) {
    const std::string text = toText(program);
    const Program again = fromText(text, ops::opSet());
    EXPECT_EQ(toText(again), text);
    EXPECT_EQ(hash(again), hash(program));
    EXPECT_EQ(complaint(again), "");
  }
}

TEST(TextForm, AWaitThatIsTakenOutIsMissed) {
  const std::string text = toText(trainingProgram());
  // The first wait of the round: kernels of micro-batch 0 wait for their input.
  const std::size_t lane = text.find("kind=\"compute\"");
  const std::size_t wait = text.find("wait lane=", lane);
  ASSERT_NE(wait, std::string::npos);
  const Program changed = fromText(withoutLine(text, wait), ops::opSet());
  EXPECT_NE(complaint(changed), "");
}

TEST(TextForm, AnOperandThatIsChangedIsNoticed) {
  std::string text = toText(trainingProgram());
  const std::size_t call = text.find("\ncall ");
  const std::size_t inputs = text.find("inputs=[", call) + std::string("inputs=[").size();
  const std::size_t end = text.find_first_of(",]", inputs);
  text.replace(inputs, end - inputs, "0");
  EXPECT_NE(complaint(fromText(text, ops::opSet())), "");
}

TEST(TextForm, SaysWhereATextIsNoProgram) {
  const auto refused = [](const std::string& text) {
    return messageOf<InvalidArgument>([&] { fromText(text, ops::opSet()); });
  };
  const std::string start = "program name=\"p\" microBatches=1 training=false keepsPacked=false\n";
  EXPECT_THAT(refused(""), HasSubstr("a record"));
  EXPECT_THAT(refused("lane"), HasSubstr("begins with 'program'"));
  EXPECT_THAT(refused(start + "shelf"), AllOf(HasSubstr("'shelf'"), HasSubstr("line 2")));
  EXPECT_THAT(refused(start + "task"), HasSubstr("follows no lane"));
  EXPECT_THAT(refused(start + "lane device=0 kind=\"side\""), HasSubstr("'side' is unknown"));
  EXPECT_THAT(refused(start + "lane kind"), HasSubstr("'device='"));
  EXPECT_THAT(refused(start + "buffer name=\"b\" device=0 region=7"), HasSubstr("0 to 1"));
  EXPECT_THAT(refused(start + "transfer name=\"t\" from=one"), HasSubstr("a number"));
  EXPECT_THAT(
      refused(start + "segment kind=\"forward\" device=0 stage=0 part=0 bucket=0 loop=false\n"
                      "call op=\"no_op\""),
      HasSubstr("there is no op 'no_op'"));
}

}  // namespace
}  // namespace sluice::program
