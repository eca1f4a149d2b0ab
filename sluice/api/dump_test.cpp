// Where compiling writes graphs and programs: dumpDirectory and the variable SLUICE_DUMP.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct DumpedNet : nn::Module {
  nn::Linear fc{*this, "fc", 2, 2};
  nn::Tensor forward(nn::Tensor x) { return nn::relu(fc(x)); }
};

class Dump : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override {
    ::unsetenv("SLUICE_DUMP");
    fs::remove_all(folder_);
  }
  static void setVariable(const fs::path& path) { ::setenv("SLUICE_DUMP", path.c_str(), 1); }

  static void run(const Options& options) {
    DumpedNet net;
    auto model = inferenceModel(net, options);
    model(HostTensor(DType::F32, Shape{1, 2}));
  }

  fs::path folder_ =
      fs::path(::testing::TempDir()) / ("sluice_dump_test_" + std::to_string(getpid()));
};

TEST_F(Dump, OfTheVariableGoesToAFolderPerProgram) {
  setVariable(folder_);
  run(Options());
  run(Options().modelName("tower"));
  for (const char* program : {"inference", "tower"}) {
    EXPECT_TRUE(fs::exists(folder_ / program / "07_eliminate_dead.txt")) << program;
    std::ostringstream text;
    text << std::ifstream(folder_ / program / "program.txt").rdbuf();
    EXPECT_THAT(text.str(), HasSubstr("program \"" + std::string(program) + "\""));
  }
}

TEST_F(Dump, OfTheOptionComesBeforeTheVariable) {
  setVariable(folder_ / "variable");
  run(Options().dumpDirectory((folder_ / "option").string()));
  EXPECT_TRUE(fs::exists(folder_ / "option" / "program.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "variable"));
}

TEST_F(Dump, IsNotWrittenForAnEmptyVariable) {
  setVariable("");
  EXPECT_NO_THROW(run(Options()));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(Dump, ThatCannotBeWrittenIsAFileErrorWithItsPath) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "in the way";
  setVariable(folder_ / "file");
  EXPECT_THAT(
      messageOf<FileError>([] { run(Options()); }),
      AllOf(HasSubstr("cannot write"), HasSubstr((folder_ / "file" / "inference").string())));
  EXPECT_THAT(
      messageOf<FileError>([&] { run(Options().dumpDirectory((folder_ / "file").string())); }),
      AllOf(HasSubstr("cannot write"), HasSubstr("file")));
  // Only the program's own file is in the way.
  fs::create_directories(folder_ / "half" / "program.txt");
  EXPECT_THAT(
      messageOf<FileError>([&] { run(Options().dumpDirectory((folder_ / "half").string())); }),
      HasSubstr("program.txt"));
}

}  // namespace
}  // namespace sluice
