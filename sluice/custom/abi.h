// What passes between Sluice and a library of custom ops: plain structs and functions, so that a
// library needs no part of Sluice to link and may come from another compiler. Authors use op.h,
// which wraps all of it. A change of anything here changes kVersion.
#pragma once

#include <cstdint>

namespace sluice::custom::abi {

inline constexpr std::uint32_t kVersion = 1;
/// The function that a library exports: `const Library* sluiceCustomOps()`, of C linkage. What it
/// returns lives as long as the library is loaded.
inline constexpr const char* kEntryPoint = "sluiceCustomOps";

/// Row-major; `dtype` is a custom::DType. `data` is null while types are inferred, and for operands
/// of a gradient that it does not read or need not write.
struct Tensor {
  std::int32_t dtype;
  std::int32_t rank;
  const std::int64_t* dims;
  void* data;
};

struct Text {
  const char* data;  ///< ASCII, not terminated
  std::int64_t size;
};

/// `kind` is a custom::AttrKind; of the three pointers the one of its kind is set.
struct Attr {
  const char* name;
  std::int32_t kind;
  std::int32_t required;  ///< in a declaration: there is no default
  std::int64_t count;     ///< 1 unless it is a list
  const float* reals;
  const std::int64_t* integers;
  const Text* texts;
};

/// One call of an op. Backward: `outputs` are those of the forward run, and gradients are set.
struct Call {
  const Tensor* inputs;
  const Tensor* outputs;
  const Tensor* outputGrads;
  const Tensor* inputGrads;
  const Attr* attrs;
  std::int32_t numInputs;
  std::int32_t numOutputs;
  std::int32_t numAttrs;
  std::int32_t reserved;
  void* host;
  /// Ends the run with an error; the op returns at once behind it.
  void (*fail)(void* host, const char* message);
  /// While types are inferred: the type of the next result.
  void (*result)(void* host, std::int32_t dtype, std::int32_t rank, const std::int64_t* dims);
};

using Function = void (*)(const void* self, const Call* call);

struct Op {
  const char* domain;
  const char* name;
  std::int32_t version;
  std::int32_t minInputs;
  std::int32_t maxInputs;  ///< -1: any number
  std::int32_t outputs;    ///< -1: any number
  std::int32_t numAttrs;
  std::int32_t reserved;
  const Attr* attrs;              ///< with their defaults
  std::uint64_t backwardInputs;   ///< bit i: backward reads input i; bit 63: all from there
  std::uint64_t backwardOutputs;  ///< bit i: backward reads output i
  double flopsPerElement;         ///< of the first result; for planners
  const void* self;               ///< handed to the functions
  Function infer;                 ///< null: types are those of the example outputs
  Function forward;
  Function backward;  ///< null: no gradient
};

struct Library {
  std::uint32_t abiVersion;  ///< kVersion of the header it was built with; stays the first field
  std::uint32_t numOps;
  const Op* ops;
};

}  // namespace sluice::custom::abi
