#include "sluice/data/files.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "sluice/base/error.h"
#include "sluice/data/inflate.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::data {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using Doubles = std::vector<double>;

// Written by NumPy 1.24: savez_compressed(a=arange(6, dtype f4) as [2, 3], b=[1, -2] of i8).
const char* const kArchive =
    "504b0304140000000800000021004fe9002a550000009800000005001400612e6e7079010010009800000000"
    "00000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f5452"
    "9498179f5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e063068b007120e40"
    "04c40d40bcc00100504b0304140000000800000021009afbf5234b0000009000000005001400622e6e707901"
    "00100090000000000000004b000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1"
    "aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14002e4606"
    "08f8f71f0200504b01021403140000000800000021004fe9002a550000009800000005000000000000000000"
    "0000800100000000612e6e7079504b01021403140000000800000021009afbf5234b00000090000000050000"
    "00000000000000000080018c000000622e6e7079504b05060000000002000200660000000e0100000000";
// And save(asfortranarray(arange(6, dtype '>i2') as [2, 3])).
const char* const kFortran =
    "934e554d5059010076007b276465736372273a20273e6932272c2027666f727472616e5f6f72646572273a20"
    "547275652c20277368617065273a2028322c2033292c207d2020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020200a00000003"
    "0001000400020005";

std::string fromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string gzip(std::string_view plain) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(plain.size() + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

template <class E, class Action>
std::string failure(const Action& action) {
  return testing::messageOf<E>(action);
}

/// A file that is gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  const std::string& path() const { return path_; }

 private:
  testing::TempFolder folder_;
  std::string path_ = (folder_ / "data.bin").string();
};

TEST(IdxGzip, ReadsWhatThePlainFileHoldsAndRefusesDamage) {
  const std::string plain = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03\1\2\3\4\5\6"s;
  const std::string packed = gzip(plain);
  EXPECT_TRUE(parseIdx(packed, "t").sameBits(parseIdx(plain, "t")));
  const TemporaryFile file(packed);
  EXPECT_TRUE(readIdx(file.path()).sameBits(parseIdx(plain, "t")));
  for (std::size_t n = 2; n < packed.size(); ++n) {
    EXPECT_THROW(parseIdx(packed.substr(0, n), "t"), FileError) << n;
  }
  std::string damaged = packed;
  damaged[packed.size() - 7] ^= 1;  // in the CRC
  EXPECT_THAT(failure<FileError>([&] { parseIdx(damaged, "t.gz"); }), HasSubstr("damaged"));
  EXPECT_THAT(failure<FileError>([&] { parseIdx(gzip(plain + "x"), "t.gz"); }),
              HasSubstr("holds 7"));
  // 4 GB that are promised are not 4 GB that are allocated.
  const std::string promise = "\0\0\x08\x01\xff\xff\xff\xff\1"s;
  EXPECT_THAT(failure<FileError>([&] { parseIdx(gzip(promise), "t.gz", UINT64_MAX); }),
              HasSubstr("holds 1"));
}

TEST(Inflate, StopsAtTheLimit) {
  const std::string packed = gzip(std::string(1000000, 'a'));
  EXPECT_EQ(inflate(packed, Packing::Gzip, 10, "t"), std::string(10, 'a'));
  EXPECT_EQ(inflate(packed, Packing::Gzip, 2000000, "t").size(), 1000000U);
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const HostTensor fortran = parseNpy(fromHex(kFortran), "t");
  EXPECT_EQ(fortran.type(), (TensorType{DType::I16, {2, 3}}));
  EXPECT_EQ(fortran.toDoubles(), (Doubles{0, 1, 2, 3, 4, 5}));
}

TEST(Npy, WhatIsWrittenReadsBackWithTheSameBits) {
  for (const DType dtype :
       {DType::F32, DType::F16, DType::F64, DType::I8, DType::U64, DType::Bool}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 1, 2}}) {
      HostTensor tensor(dtype, shape);
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        tensor.set(i, static_cast<double>(i));
      }
      const std::string bytes = npyBytes(tensor);
      EXPECT_EQ((bytes.size() - tensor.byteCount()) % 64, 0U);
      EXPECT_TRUE(parseNpy(bytes, "t").sameBits(tensor)) << tensor.type().str();
    }
  }
  EXPECT_THROW(npyBytes(HostTensor(DType::BF16, Shape{1})), Unsupported);
}

TEST(Npy, BrokenFilesAreFileErrorsThatSayWhy) {
  const std::string good = npyBytes(HostTensor::of<float>({2}, {1, 2}));
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_THROW(parseNpy(good.substr(0, n), "t"), FileError) << n;
  }
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const auto message = [](const std::string& bytes) {
    return failure<FileError>([&] { parseNpy(bytes, "x.npy"); });
  };
  EXPECT_THAT(message("PK\3\4"), HasSubstr("'x.npy' is not an .npy file"));
  EXPECT_THAT(message(with("NUMPY\1", "NUMPY\4")), HasSubstr("version 4"));
  EXPECT_THAT(message(with("<f4", "|O8")), HasSubstr("'|O8'"));
  EXPECT_THAT(message(with("(2,)", "(9,)")), HasSubstr("holds 8"));
  EXPECT_THAT(message(with("(2,)", "(-2)")), HasSubstr("extent"));
  EXPECT_THAT(message(with("'shape'", "'shipe'")), HasSubstr("unknown key"));
  EXPECT_THAT(message(with("False", "Falsh")), HasSubstr("True nor False"));
  EXPECT_THAT(message(good + "x"), HasSubstr("holds 9"));
}

TEST(Npz, ReadsWhatNumpyWrites) {
  const auto arrays = parseNpz(fromHex(kArchive), "t");
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_EQ(arrays.at("a").type(), (TensorType{DType::F32, {2, 3}}));
  EXPECT_EQ(arrays.at("a").toDoubles(), (Doubles{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(arrays.at("b").toDoubles(), (Doubles{1, -2}));
}

TEST(IdxGzip, ThatUnpacksToMoreThanTheLimitIsRefusedBeforeTheWork) {
  // 2^31 bytes are claimed, and none follows.
  const std::string claimed = gzip("\0\0\x08\x01\x80\0\0\0"s);
  EXPECT_THAT(failure<FileError>([&] { parseIdx(claimed, "x.gz"); }),
              HasSubstr("unpacks to 2147483648 bytes, the limit is 1073741824"));
  const std::string four = gzip("\0\0\x08\x01\0\0\0\x04"s + "\1\2\3\4");
  EXPECT_EQ(parseIdx(four, "x.gz", 4).toDoubles(), (Doubles{1, 2, 3, 4}));
  EXPECT_THAT(failure<FileError>([&] { parseIdx(four, "x.gz", 3); }), HasSubstr("maxBytes"));
}

TEST(Npz, ThatUnpacksToMoreThanTheLimitIsRefused) {
  const std::string archive = fromHex(kArchive);
  const auto arrays = parseNpz(archive, "x.npz");
  // Each member is the array and a header of 128 bytes.
  std::uint64_t bytes = 0;
  for (const auto& [name, array] : arrays) {
    bytes += 128 + array.byteCount();
  }
  EXPECT_EQ(parseNpz(archive, "x.npz", bytes).size(), arrays.size());
  EXPECT_THAT(failure<FileError>([&] { parseNpz(archive, "x.npz", bytes - 1); }),
              HasSubstr("limit is " + std::to_string(bytes - 1)));
}

TEST(Npz, ArraysHaveDifferentNames) {
  std::string twice = fromHex(kArchive);
  for (std::size_t at = twice.find("b.npy"); at != std::string::npos; at = twice.find("b.npy")) {
    twice[at] = 'a';
  }
  EXPECT_THAT(failure<FileError>([&] { parseNpz(twice, "x.npz"); }),
              HasSubstr("'x.npz': the array 'a' comes twice"));
}

std::string littleEndianOf(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

/// The archive with the end of one that has more than 4 GiB.
std::string archive64() {
  std::string bytes = fromHex(kArchive);
  const std::size_t end = bytes.rfind("PK\5\6");
  const auto number = [&](std::size_t at, std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) {
      value = value << 8U | static_cast<unsigned char>(bytes[end + at + i]);
    }
    return value;
  };
  const std::string count = littleEndianOf(number(10, 2), 8);
  std::string end64 = "PK\6\6" + littleEndianOf(44, 8) + std::string(12, '\0');  // versions, disks
  end64 += count + count + littleEndianOf(number(12, 4), 8) + littleEndianOf(number(16, 4), 8);
  end64 += "PK\6\7" + littleEndianOf(0, 4) + littleEndianOf(end, 8) + littleEndianOf(1, 4);
  bytes.replace(end + 8, 12, 12, '\xff');  // counts, size and offset
  return bytes.insert(end, end64);
}

TEST(Npz, Of64BitsIsRead) {
  const std::string bytes = archive64();
  const auto arrays = parseNpz(bytes, "t");
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_EQ(arrays.at("b").toDoubles(), (Doubles{1, -2}));
  const std::size_t place = bytes.rfind("PK\6\7") + 8;
  std::string elsewhere = bytes;
  elsewhere.replace(place, 8, littleEndianOf(0, 8));
  EXPECT_THAT(failure<FileError>([&] { parseNpz(elsewhere, "x.npz"); }),
              HasSubstr("the 64-bit end of its directory is damaged"));
  elsewhere.replace(place, 8, littleEndianOf(bytes.size() - 55, 8));
  EXPECT_THAT(failure<FileError>([&] { parseNpz(elsewhere, "x.npz"); }),
              HasSubstr("'x.npz' is too short: the 64-bit end of its directory"));
  std::string many = bytes;
  many.replace(bytes.rfind("PK\6\6") + 32, 8, 8, '\xff');
  EXPECT_THAT(failure<FileError>([&] { parseNpz(many, "x.npz"); }), HasSubstr("its directory"));
}

TEST(Npz, EveryTruncationAndFlippedByteIsReadOrRefused) {
  const std::string whole = archive64();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW(parseNpz(whole.substr(0, n), "t"), FileError) << n;
  }
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x55);
    try {
      parseNpz(flipped, "t");  // a byte that nothing reads, such as a date
    } catch (const FileError&) {
    }
  }
  EXPECT_THAT(failure<FileError>([] { parseNpz("no zip", "x.npz"); }), HasSubstr("'x.npz'"));
}

TEST(Csv, ReadsNumbersByColumn) {
  const CsvTable table = parseCsv("a, b ,\"c,d\"\r\n1,2.5,-3e2\n\n4,\"5\",+6", "t");
  EXPECT_EQ(table.names, (std::vector<std::string>{"a", "b", "c,d"}));
  EXPECT_EQ(table.values.type(), (TensorType{DType::F32, {2, 3}}));
  EXPECT_EQ(table.values.toDoubles(), (Doubles{1, 2.5, -300, 4, 5, 6}));
  EXPECT_EQ(table.columns({"c,d", "a"}).toDoubles(), (Doubles{-300, 1, 6, 4}));
  EXPECT_EQ(table.column("a", DType::I64).type(), (TensorType{DType::I64, {2}}));
  EXPECT_THROW(table.columns({"z"}), InvalidArgument);
}

TEST(Csv, KeepsAllBitsOfIntegers) {
  const CsvTable table = parseCsv("9007199254740993;1\n", "t", {';', false, DType::I64});
  EXPECT_EQ(table.names, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(table.values.data<std::int64_t>()[0], 9007199254740993);
}

TEST(Csv, ErrorsNameLineAndColumn) {
  const auto message = [](const char* text) {
    return failure<FileError>([&] { parseCsv(text, "x.csv"); });
  };
  EXPECT_THAT(message(""), HasSubstr("'x.csv' has no line"));
  EXPECT_THAT(message("a,b\n1,2\n3\n"), HasSubstr("line 3: expected 2 fields, got 1"));
  EXPECT_THAT(message("a,b\n1,zwei\n"), HasSubstr("line 2, column 2: 'zwei'"));
  EXPECT_THAT(message("a\n\"1\n"), HasSubstr("no end"));
  EXPECT_THAT(message("a\n\"1\"2\n"), HasSubstr("follows"));
  EXPECT_THAT(failure<FileError>([] { readCsv("/nonexistent.csv"); }), HasSubstr("cannot open"));
  EXPECT_THAT(failure<FileError>([] { readCsv(std::filesystem::temp_directory_path().string()); }),
              HasSubstr("it is a folder"));
}

TEST(Csv, ColumnsHaveDifferentNames) {
  EXPECT_THAT(failure<FileError>([] { parseCsv("a,b, a\n1,2,3\n", "x.csv"); }),
              HasSubstr("two columns are called 'a'"));
  EXPECT_EQ(parseCsv("1,1\n2,3\n", "x.csv", {.header = false}).values.shape(), (Shape{2, 2}));
}

TEST(Csv, LinesThatEndInCarriageReturnsAloneAreRefused) {
  for (const char* text : {"a,b\r1,2\r", "a,b\n1,2\r3,4\n", "a,b\n1,2\r"}) {
    EXPECT_THAT(failure<FileError>([&] { parseCsv(text, "x.csv"); }),
                HasSubstr("carriage return without a line feed"));
  }
  EXPECT_EQ(parseCsv("a,b\r\n1,2\r\n", "x.csv").values.shape(), (Shape{1, 2}));
}

TEST(Csv, BytesThatCannotBePrintedAreEscapedInMessages) {
  const std::string text = "a\n1\0"s + "2\n";
  const std::string message = failure<FileError>([&] { parseCsv(text, "x.csv"); });
  EXPECT_THAT(message, HasSubstr("'1\\x002' is no f32 number"));
}

TEST(Readers, RefuseWhatIsNoRegularFileAtOnce) {
  const testing::TempFolder folder;
  const std::string fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);  // nobody writes: who opens it to read waits for ever
  const std::vector<std::function<void(const std::string&)>> readers = {
      [](const std::string& path) { readCsv(path); },
      [](const std::string& path) { readNpy(path); },
      [](const std::string& path) { readNpz(path); },
      [](const std::string& path) { readIdx(path); },
      [](const std::string& path) { tokenDataset(path, {.sequence = 2}); }};
  for (const auto& read : readers) {
    EXPECT_THAT(failure<FileError>([&] { read(fifo); }), HasSubstr("it is a FIFO"));
    EXPECT_THAT(failure<FileError>([&] { read("/dev/zero"); }),
                HasSubstr("it is a character device"));
  }
}

TEST(Readers, FollowLinks) {
  const TemporaryFile file("a,b\n1,2\n");
  const std::string link = file.path() + ".link";
  std::filesystem::create_symlink(file.path(), link);
  EXPECT_EQ(readCsv(link).values.at(1), 2);
}

TEST(Tokens, SamplesAreWindowsAndTheSameOneTokenFurther) {
  std::string bytes = "head";
  for (int i = 0; i < 11; ++i) {
    bytes += {static_cast<char>(i), '\1'};  // 256 + i
  }
  const TemporaryFile file(bytes);
  const DatasetPtr tokens = tokenDataset(file.path(), {.sequence = 4, .headerBytes = 4});
  EXPECT_EQ(tokens->size(), 2);  // 0..4 and 4..8; from 8 on there are only 3
  const Sample sample = tokens->get(1);
  EXPECT_EQ(sample[0].toDoubles(), (Doubles{260, 261, 262, 263}));
  EXPECT_EQ(sample[1].toDoubles(), (Doubles{261, 262, 263, 264}));
  EXPECT_EQ(sample[0].dtype(), DType::I64);
  EXPECT_EQ(tokenDataset(file.path(), {.sequence = 4, .stride = 1, .headerBytes = 4})->size(), 7);
  EXPECT_THROW(tokens->get(2), InvalidArgument);
}

TEST(Tokens, BadFilesAndOptionsAreRefused) {
  const TemporaryFile file("123456789");
  const auto refused = [&](const TokenOptions& options) {
    return failure<FileError>([&] { tokenDataset(file.path(), options)->get(0); });
  };
  EXPECT_THAT(refused({.sequence = 2}), HasSubstr("no whole number of u16 tokens"));
  EXPECT_THAT(refused({.sequence = 9, .stored = DType::U8}), HasSubstr("has 9 tokens"));
  EXPECT_THAT(refused({.sequence = 3, .stored = DType::U8, .vocabulary = 50}),
              HasSubstr("token 50 is not in a vocabulary of 50"));
  EXPECT_THROW(tokenDataset(file.path(), {.sequence = 0, .stored = DType::U8}), InvalidArgument);
  EXPECT_THROW(tokenDataset(file.path(), {.sequence = 1, .stored = DType::F32}), InvalidArgument);
  EXPECT_THROW(tokenDataset("/nonexistent", {}), FileError);
}

}  // namespace
}  // namespace sluice::data
