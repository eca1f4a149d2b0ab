#include "sluice/runtime/remote_memory.h"

#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sluice/base/recoverable_error.h"
#include "tests/support/message_of.h"

namespace sluice::runtime {
namespace {

using ::testing::HasSubstr;
using testing::messageOf;

std::string freshPath() {
  return (std::filesystem::temp_directory_path() / fmt::format("sluice-memory-{}", ::getpid()))
      .string();
}

class RemoteMemoryPlaces : public ::testing::TestWithParam<bool> {};

TEST_P(RemoteMemoryPlaces, KeepWhatTheyHoldWhenTheyGrow) {
  const std::string path = GetParam() ? freshPath() : "";
  {
    RemoteMemory memory(path);
    memory.grow(64);
    const std::array<std::byte, 3> in = {std::byte{1}, std::byte{2}, std::byte{3}};
    memory.write(61, in.data(), in.size());
    memory.grow(1 << 20);
    memory.grow(128);  // never shrinks
    EXPECT_EQ(memory.bytes(), std::size_t{1} << 20);
    std::array<std::byte, 4> out = {};
    memory.read(60, out.data(), out.size());
    EXPECT_EQ(out, (std::array{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}}));
    memory.read(memory.bytes(), out.data(), 0);
    EXPECT_THROW(memory.read(memory.bytes() - 1, out.data(), 2), InternalError);
    EXPECT_THROW(memory.write(memory.bytes() + 1, in.data(), 0), InternalError);
  }
  EXPECT_FALSE(GetParam() && std::filesystem::exists(path));
}

INSTANTIATE_TEST_SUITE_P(Places, RemoteMemoryPlaces, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "file" : "memory");
});

TEST(RemoteMemory, NamesTheFileThatFails) {
  std::array<std::byte, 8> data = {};
  RemoteMemory nowhere("/no/such/folder/memory");
  EXPECT_THAT(messageOf<RecoverableError>([&] { nowhere.grow(8); }),
              HasSubstr("/no/such/folder/memory"));
  const std::string path = freshPath();
  RemoteMemory memory(path);
  memory.grow(64);
  std::filesystem::resize_file(path, 4);
  EXPECT_THAT(messageOf<RecoverableError>([&] { memory.read(0, data.data(), data.size()); }),
              HasSubstr("'" + path + "': the file is shorter"));
  try {
    memory.read(0, data.data(), data.size());
  } catch (const RecoverableError& error) {
    EXPECT_EQ(error.recoveryAction(), RecoveryAction::DeviceReset);
    EXPECT_EQ(error.type(), "RecoverableError");
  }
  // More than any disk has.
  EXPECT_THAT(messageOf<RecoverableError>([&] { memory.grow(std::size_t{1} << 60); }),
              HasSubstr("no room for 1152921504606846976 bytes"));
  EXPECT_EQ(memory.bytes(), 64U);
}

}  // namespace
}  // namespace sluice::runtime
