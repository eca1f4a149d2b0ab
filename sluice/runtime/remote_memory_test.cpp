#include "sluice/runtime/remote_memory.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sluice/base/error.h"
#include "sluice/base/recoverable_error.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::runtime {
namespace {

using ::testing::HasSubstr;
using testing::messageOf;
using testing::TempFolder;

class RemoteMemoryPlaces : public ::testing::TestWithParam<bool> {};

TEST_P(RemoteMemoryPlaces, KeepWhatTheyHoldWhenTheyGrow) {
  const TempFolder folder;
  const std::string path = GetParam() ? (folder / "memory").string() : "";
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

/// A device that only locks memory, and knows what is locked.
class LockingDevice final : public device::Device {
 public:
  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return table_; }
  std::unique_ptr<device::Queue> makeQueue() override { return nullptr; }
  std::unique_ptr<device::Event> makeEvent() override { return nullptr; }

  std::vector<std::pair<std::byte*, std::size_t>> locked;
  std::size_t locks = 0;

 private:
  class Lock final : public device::Memory {
   public:
    Lock(LockingDevice& device, std::byte* host, std::size_t bytes)
        : Memory(device::MemoryKind::Pinned, host, bytes), device_(device) {
      device_.locked.emplace_back(host, bytes);
      ++device_.locks;
    }
    ~Lock() override { device_.locked.clear(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    LockingDevice& device_;
  };

  std::unique_ptr<device::Memory> doAllocate(std::size_t) override { return nullptr; }
  std::unique_ptr<device::Executable> doPrepare(std::span<const device::KernelCall>) override {
    return nullptr;
  }
  std::unique_ptr<device::Memory> doPin(std::byte* host, std::size_t bytes) override {
    EXPECT_TRUE(locked.empty()) << "locked while another lock lives";
    return std::make_unique<Lock>(*this, host, bytes);
  }

  device::DeviceInfo info_;
  device::KernelTable table_{"locking", {}, {}};
};

TEST(RemoteMemory, IsLockedWhereItIsAfterItHasGrown) {
  LockingDevice device;
  {
    RemoteMemory memory;
    memory.copiedBy(device);
    EXPECT_EQ(device.locks, 0U);  // nothing to lock yet
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{1} << 24U}) {
      memory.grow(bytes);
      ASSERT_EQ(device.locked.size(), 1U);
      EXPECT_EQ(device.locked[0].first, device::hostPointer(memory.at(0)));
      EXPECT_EQ(device.locked[0].second, bytes);
    }
    memory.grow(8);
    EXPECT_EQ(device.locks, 2U);
  }
  EXPECT_TRUE(device.locked.empty());
}

TEST(RemoteMemory, NamesTheFileThatFails) {
  std::array<std::byte, 8> data = {};
  RemoteMemory nowhere("/no/such/folder/memory");
  EXPECT_THAT(messageOf<RecoverableError>([&] { nowhere.grow(8); }),
              HasSubstr("/no/such/folder/memory"));
  const TempFolder folder;
  const std::string path = (folder / "memory").string();
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

/// Every bit of what was written, at any length; never bytes that were written in other pieces.
TEST(RemoteMemory, FindsEveryBitThatChangesInItsFile) {
  const TempFolder folder;
  const std::string path = (folder / "memory").string();
  for (const std::size_t bytes : {1U, 7U, 8U, 31U, 32U, 33U, 71U}) {
    RemoteMemory memory(path);
    memory.grow(200);
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      data[i] = static_cast<std::byte>(31 * i + bytes);
    }
    constexpr std::size_t kOffset = 16;
    memory.write(kOffset, data.data(), bytes);
    std::vector<std::byte> read(bytes);
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
      const auto flip = [&] {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(kOffset + bit / 8));
        const auto old = static_cast<char>(file.get());
        file.seekp(static_cast<std::streamoff>(kOffset + bit / 8));
        file.put(static_cast<char>(old ^ (1 << (bit % 8))));
      };
      flip();
      EXPECT_THAT(messageOf<RecoverableError>([&] { memory.read(kOffset, read.data(), bytes); }),
                  HasSubstr(path + "' is damaged"));
      flip();
      memory.read(kOffset, read.data(), bytes);
      EXPECT_EQ(read, data);
    }
    // Pieces that overlap it: what was noted for the old one is forgotten.
    const std::array<std::byte, 4> other = {};
    memory.write(kOffset - 3, other.data(), other.size());
    memory.read(kOffset, read.data(), bytes);
    EXPECT_EQ(read[0], std::byte{0});
  }
}

TEST(RemoteMemory, UndoesWhatWasWrittenSinceItWasKept) {
  const TempFolder folder;
  const std::string path = (folder / "memory").string();
  {
    RemoteMemory memory(path, RemoteMemory::Undo::Yes);
    memory.grow(128);
    const auto put = [&](std::size_t offset, unsigned char value) {
      const std::array<std::byte, 2> data = {std::byte{value}, std::byte{value}};
      memory.write(offset, data.data(), data.size());
    };
    const auto get = [&](std::size_t offset) {
      std::array<std::byte, 2> data = {};
      memory.read(offset, data.data(), data.size());
      EXPECT_EQ(data[0], data[1]);
      return std::to_integer<int>(data[0]);
    };
    put(0, 1);
    put(64, 2);
    memory.keep();
    put(0, 3);
    EXPECT_EQ(get(0), 3);
    put(0, 4);
    EXPECT_EQ(get(0), 4);
    memory.undo();
    EXPECT_EQ(get(0), 1);
    EXPECT_EQ(get(64), 2);
    put(0, 5);
    memory.keep();
    memory.undo();  // nothing is left to be undone
    EXPECT_EQ(get(0), 5);
    EXPECT_EQ(get(64), 2);
    memory.grow(256);
    EXPECT_EQ(get(0), 5);
    EXPECT_EQ(get(192), 0);
    std::array<std::byte, 1> part = {};
    EXPECT_THROW(memory.read(0, part.data(), part.size()), InternalError);
    EXPECT_THROW(memory.write(0, part.data(), part.size()), InternalError);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".next"));
}

TEST(RemoteMemory, LeavesAFileAloneThatIsInUse) {
  const TempFolder folder;
  const std::string path = (folder / "memory").string();
  std::array<std::byte, 4> data = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const std::array<std::byte, 4> written = data;
  RemoteMemory first(path);
  first.grow(4);
  first.write(0, data.data(), data.size());
  {
    RemoteMemory second(path);
    EXPECT_THAT(messageOf<FileError>([&] { second.grow(4); }), HasSubstr("in use by another"));
  }
  data = {};
  first.read(0, data.data(), data.size());
  EXPECT_EQ(data, written);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(RemoteMemory, LeavesWhatIsNoFileAlone) {
  const TempFolder folder;
  const std::string path = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  {
    RemoteMemory memory(path);
    EXPECT_THAT(messageOf<FileError>([&] { memory.grow(64); }), HasSubstr("a FIFO"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

}  // namespace
}  // namespace sluice::runtime
