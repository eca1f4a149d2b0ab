// Readers of files with data: CSV, IDX, NumPy, tokens, and MNIST.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/data/dataset.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {

// Reads tables of numbers from comma-separated text (RFC 4180: fields may be quoted, lines end in
// LF or CRLF). Errors name the file, the line and the column.

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  ///< the first line names the columns
  DType dtype = DType::F32;
};

struct CsvTable {
  std::vector<std::string> names;  ///< names of the columns; "0", "1", ... without a header
  HostTensor values;               ///< [rows, columns]

  /// These columns in this order, [rows, n]. Throws InvalidArgument for an unknown name.
  HostTensor columns(const std::vector<std::string>& wanted) const;
  /// One column, [rows], converted to another type, for labels for instance.
  HostTensor column(const std::string& name, DType dtype) const;
};

/// Throws FileError for a file that cannot be read, for a line with another number of fields than
/// the first, and for a field that is not a number of the type.
CsvTable readCsv(const std::string& path, const CsvOptions& options = {});
/// Parses the contents of a file; `name` is for messages.
CsvTable parseCsv(std::string_view text, const std::string& name, const CsvOptions& options = {});

// Reads the IDX format of the MNIST files: a big-endian header (type, rank, extents), then the
// elements. Files may be plain or packed with gzip.

/// Reads a whole file. Throws FileError, which names the file and what is wrong with it: the file
/// is missing, has no IDX magic number or an unknown element type, its size does not match the
/// extents, or it has more than `maxBytes` bytes when unpacked (default: defaultInflateLimit).
HostTensor readIdx(const std::string& path, std::optional<std::uint64_t> maxBytes = {});

/// Parses the contents of a file; `name` is for messages.
HostTensor parseIdx(std::string_view bytes,
                    const std::string& name,
                    std::optional<std::uint64_t> maxBytes = {});

// NumPy's file formats: an .npy file holds one array, an .npz file is a zip archive of such files,
// plain or deflated. The files need not be trusted: anything invalid is a FileError that names the
// file.

/// Reads one array of numbers or booleans, with either byte order and in C or Fortran order. The
/// tensor is row-major. Throws FileError.
HostTensor readNpy(const std::string& path);
/// Parses the contents of a file; `name` is for messages.
HostTensor parseNpy(std::string_view bytes, const std::string& name);

/// The arrays of an archive by their names, without ".npy". Checks sizes and CRC-32. Throws
/// FileError, also if the arrays have more than `maxBytes` bytes when unpacked (default:
/// defaultInflateLimit).
std::map<std::string, HostTensor> readNpz(const std::string& path,
                                          std::optional<std::uint64_t> maxBytes = {});
std::map<std::string, HostTensor> parseNpz(std::string_view bytes,
                                           const std::string& name,
                                           std::optional<std::uint64_t> maxBytes = {});

/// The bytes of an .npy file, format 1.0. Throws Unsupported for bfloat16, which NumPy lacks.
std::string npyBytes(const HostTensor& tensor);

// A file of token numbers for language models, mapped into memory, so that even a large file takes
// no memory of its own. Sample i is a window of the file and the same window one token later: what
// the model reads and what it should predict.

struct TokenOptions {
  std::int64_t sequence = 128;  ///< tokens per sample
  std::int64_t stride = 0;      ///< tokens from one sample to the next; 0: `sequence`
  DType stored = DType::U16;    ///< integer type in the file, little-endian
  DType as = DType::I64;        ///< type in a sample
  std::size_t headerBytes = 0;  ///< skipped at the start of the file
  std::int64_t vocabulary = 0;  ///< tokens must be below this; 0: not checked
};

/// Samples are {tokens, next tokens}, [sequence] each. Throws FileError for a file that cannot be
/// mapped, ends with a part of a token, or has less than one sample, and InvalidArgument for
/// options that make no sense.
DatasetPtr tokenDataset(const std::string& path, const TokenOptions& options);

// MNIST and Fashion-MNIST from their four IDX files, plain or packed (.gz), ready for a network.

enum class Split : std::uint8_t { Train, Test };

/// Samples are {image f32[1, 28, 28], label i64[]}. Images are normalised (mean 0.1307, deviation
/// 0.3081) while they are read. The files are <folder>/train-images-idx3-ubyte and so on. Throws
/// FileError for a file that is missing or invalid; the message says how to get the data.
DatasetPtr mnistDataset(const std::string& folder, Split split);

}  // namespace sluice::data

#pragma GCC visibility pop
