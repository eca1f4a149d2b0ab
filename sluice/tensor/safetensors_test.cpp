#include "sluice/tensor/safetensors.h"

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sluice/base/error.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempFolder;

/// A file of this header and these many bytes behind it.
std::string fileOf(const std::string& header, std::size_t payload = 0) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(payload, '\1');
}

std::string refusal(const std::string& bytes) {
  try {
    parseSafeTensors(bytes, "weights.safetensors");
  } catch (const FileError& error) {
    EXPECT_THAT(error.message(), HasSubstr("'weights.safetensors'"));
    return error.message();
  }
  return "accepted";
}

SafeTensors example() {
  SafeTensors content;
  content.metadata = {{"format", "pt"}, {"note", "gr\u00fc\u00df \"dich\"\n"}};
  content.tensors.emplace("fc.bias", HostTensor::of<float>(Shape{2}, {1.5F, -2.0F}));
  content.tensors.emplace("a.mask", HostTensor::of<bool>(Shape{3}, {true, false, true}));
  content.tensors.emplace("steps", HostTensor::scalar<std::int64_t>(-7));
  content.tensors.emplace("none", HostTensor(DType::F16, Shape{4, 0}));
  return content;
}

void expectSame(const SafeTensors& a, const SafeTensors& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    ASSERT_TRUE(b.tensors.contains(name)) << name;
    EXPECT_TRUE(tensor.sameBits(b.tensors.find(name)->second)) << name;
  }
}

TEST(SafeTensors, AnyByteButZeroIsTrue) {
  std::string bytes = fileOf(R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})");
  bytes += std::string("\x7b\0\x01", 3);
  const SafeTensors content = parseSafeTensors(bytes, "weights.safetensors");
  EXPECT_TRUE(
      content.tensors.at("m").sameBits(HostTensor::of<bool>(Shape{3}, {true, false, true})));
}

TEST(SafeTensors, HaveTheBytesOfTheFormat) {
  SafeTensors content;
  content.metadata = {{"k", "v"}};
  content.tensors.emplace("b", HostTensor::of<std::uint8_t>(Shape{1, 2}, {5, 6}));
  content.tensors.emplace("c", HostTensor::of<float>(Shape{1}, {1.0F}));
  const std::string bytes = serializeSafeTensors(content);
  // By hand: wide elements first, the header filled up with spaces to a multiple of 8.
  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"data_offsets":[4,6],"dtype":"U8","shape":[1,2]},)"
      R"("c":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(bytes.substr(0, 8), static_cast<char>(padded) + std::string(7, '\0'));
  EXPECT_EQ(bytes.substr(8, padded), header + std::string(padded - header.size(), ' '));
  EXPECT_EQ(bytes.substr(8 + padded), std::string("\x00\x00\x80\x3f\x05\x06", 6));
}

TEST(SafeTensors, AreReadAsWrittenOfEveryType) {
  SafeTensors content = example();
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    HostTensor tensor = HostTensor::full({dtype, Shape{2, 3}}, 1);
    tensor.set(4, 0);
    content.tensors.emplace("type." + std::string(name(dtype)), tensor);
  }
  expectSame(parseSafeTensors(serializeSafeTensors(content), "x"), content);
  const TempFolder folder;
  const fs::path path = folder / "all_types.safetensors";
  writeSafeTensors(path, content);
  expectSame(readSafeTensors(path), content);
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), serializeSafeTensors(content));
}

TEST(SafeTensors, AreReadFromRegularFilesAlone) {
  const TempFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& [path, kind] :
       {std::pair(fifo, "a FIFO"), std::pair(fs::path("/dev/zero"), "a character device")}) {
    try {
      readSafeTensors(path);
      ADD_FAILURE() << path << " was read";
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr(kind));
    }
  }
}

TEST(SafeTensors, OfManyNamesAreReadInTimeThatGrowsWithTheirNumber) {
  // If every tensor looked at all others, this would take minutes.
  constexpr int kCount = 100'000;
  std::string header = "{";
  for (int i = 0; i < kCount; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const SafeTensors content = parseSafeTensors(fileOf(header + "}"), "x");
  EXPECT_EQ(content.tensors.size(), static_cast<std::size_t>(kCount));
  EXPECT_TRUE(content.tensors.contains("t99999"));
}

TEST(SafeTensors, BehindManyTextsAreReadInTimeThatGrowsWithTheirNumber) {
  // If every tensor took as long as the texts, this would take an hour.
  constexpr int kCount = 500'000;
  std::string header = R"({"__metadata__":{"first":"")";
  for (int i = 0; i < kCount; ++i) {
    header += ",\"" + std::to_string(i) + R"(":"")";
  }
  header += "}";
  for (int i = 0; i < kCount; ++i) {
    header += ",\"t" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const SafeTensors content = parseSafeTensors(fileOf(header + "}"), "x");
  EXPECT_EQ(content.tensors.size(), static_cast<std::size_t>(kCount));
  EXPECT_EQ(content.metadata.size(), static_cast<std::size_t>(kCount) + 1);
}

TEST(SafeTensors, WithoutTensorsAreAFile) {
  expectSame(parseSafeTensors(serializeSafeTensors({}), "x"), {});
  expectSame(parseSafeTensors(fileOf("{} \n  "), "x"), {});
}

TEST(SafeTensors, ThatAreCutOffAnywhereAreRefused) {
  const std::string bytes = serializeSafeTensors(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(refusal(bytes.substr(0, length)), "accepted") << length;
  }
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("1 bytes behind its last tensor"));
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  EXPECT_THAT(refusal(bytes.substr(0, bytes.size() - 1)), HasSubstr("cut off"));
  EXPECT_THAT(refusal(bytes.substr(0, 20)), HasSubstr("cut off"));
}

TEST(SafeTensors, WithAnAbsurdHeaderAreRefusedWithoutTakingMemory) {
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(refusal(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)), HasSubstr("at most 100000000"));
  EXPECT_THAT(refusal(fileOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],)"
                             R"("data_offsets":[0,0]}})")),
              HasSubstr("tensor 'a'"));
  EXPECT_THAT(refusal(fileOf(R"({"a":{"dtype":"F64","shape":[1000000000000],)"
                             R"("data_offsets":[0,8000000000000]}})")),
              HasSubstr("cut off"));
  EXPECT_THAT(refusal(fileOf("{\"a\":" + std::string(100'000, '['))), HasSubstr("not an object"));
  std::string extents = "1";
  for (int i = 0; i < 100; ++i) {
    extents += ",1";
  }
  EXPECT_THAT(refusal(fileOf(
                  R"({"a":{"dtype":"U8","shape":[)" + extents + R"(],"data_offsets":[0,1]}})", 1)),
              HasSubstr("64 dimensions"));
}

TEST(SafeTensors, WithAHeaderOfAnotherKindAreRefused) {
  for (const auto& [header, word] : std::vector<std::pair<std::string, std::string>>{
           {"", "not JSON"},
           {"{", "not JSON"},
           {"{}}", "not JSON"},
           {"\"text\"", "not an object"},
           {"[]", "not an object"},
           {"{\"a\\ud800\":1}", "not JSON"},
           {"{\"\xff\":1}", "not JSON"},
           {R"({"__metadata__":[]})", "map names to texts"},
           {R"({"__metadata__":{"a":1}})", "map names to texts"},
           {R"({"__metadata__":{"a":"b","a":"c"}})", "'a' comes twice"},
           {R"({"a":1})", "dtype, shape and data_offsets"},
           {R"({"a":{"dtype":"F32","shape":[]}})", "dtype, shape and data_offsets"},
           {R"({"a":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[0,0]}})", "type 'F8_E4M3'"},
           {R"({"a":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})", "not supported"},
           {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", "integers from 0"},
           {R"({"a":{"dtype":"F32","shape":[0.5],"data_offsets":[0,0]}})", "integers from 0"},
           {R"({"a":{"dtype":"F32","shape":3,"data_offsets":[0,0]}})", "integers from 0"},
           {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}})", "first and a last byte"},
           {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}})", "first and a last byte"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "which is 8 bytes"},
       }) {
    EXPECT_THAT(refusal(fileOf(header)), HasSubstr(word)) << header;
  }
}

TEST(SafeTensors, WhoseRangesDoNotCoverTheFileOnceAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(refusal(fileOf(two("[4,8]", "[0,4]"), 8)), "accepted");
  EXPECT_THAT(refusal(fileOf(two("[0,4]", "[2,6]"), 8)), HasSubstr("tensors overlap"));
  EXPECT_THAT(refusal(fileOf(two("[0,4]", "[0,4]"), 4)), HasSubstr("tensors overlap"));
  EXPECT_THAT(refusal(fileOf(two("[0,4]", "[5,9]"), 9)), HasSubstr("bytes of no tensor"));
  EXPECT_THAT(refusal(fileOf(two("[1,5]", "[5,9]"), 9)), HasSubstr("bytes of no tensor"));
  EXPECT_THAT(refusal(fileOf(two("[0,4]", "[4,8]"), 9)), HasSubstr("behind its last tensor"));
  const std::string twice = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_THAT(refusal(fileOf(twice, 1)), HasSubstr("'a' comes twice"));
}

TEST(SafeTensors, ThatAreMissingOrNoFileAreRefused) {
  for (const fs::path& path : {fs::path("/missing/file"), fs::path(::testing::TempDir())}) {
    try {
      readSafeTensors(path);
      ADD_FAILURE() << path << " was read";
    } catch (const FileError& error) {
      EXPECT_THAT(error.message(), HasSubstr(path.string()));
    }
  }
}

TEST(SafeTensors, RefuseNamesThatTheFormatCannotHold) {
  SafeTensors reserved;
  reserved.tensors.emplace("__metadata__", HostTensor::scalar(1.0F));
  EXPECT_THROW(serializeSafeTensors(reserved), InvalidArgument);
  SafeTensors binary;
  binary.tensors.emplace("\xff\xfe", HostTensor::scalar(1.0F));
  EXPECT_THROW(serializeSafeTensors(binary), InvalidArgument);
}

}  // namespace
}  // namespace sluice
