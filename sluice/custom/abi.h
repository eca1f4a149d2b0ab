// The binary interface between Sluice and a library of custom ops. It consists of plain structs and
// functions, so that a library need not link Sluice and may come from another compiler. Authors use
// op.h, which wraps all of it. Any change here must change kVersion.
#pragma once

#include <cstdint>

namespace sluice::custom::abi {

inline constexpr std::uint32_t kVersion = 1;
/// The function that a library exports, with C linkage: `const Library* sluiceCustomOps()`. Its
/// result must live as long as the library is loaded.
inline constexpr const char* kEntryPoint = "sluiceCustomOps";

/// A row-major tensor; `dtype` is a custom::DType. `data` is null while types are inferred, and for
/// tensors that a backward function does not read or need not write.
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

/// `kind` is a custom::AttrKind; only the pointer for that kind is set.
struct Attr {
  const char* name;
  std::int32_t kind;
  std::int32_t required;  ///< in a declaration: not 0 if there is no default
  std::int64_t count;     ///< 1 unless the attribute is a list
  const float* reals;
  const std::int64_t* integers;
  const Text* texts;
};

/// One call of an op. For backward, `outputs` are those of the forward run, and the gradients are
/// set.
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
  /// Ends the run with an error; the op must return immediately after this call.
  void (*fail)(void* host, const char* message);
  /// Reports the type of the next result while types are inferred.
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
  const Attr* attrs;              ///< the attributes and their defaults
  std::uint64_t backwardInputs;   ///< bit i: backward reads input i; bit 63: 63 and above
  std::uint64_t backwardOutputs;  ///< bit i: backward reads output i
  double flopsPerElement;         ///< elements of the first result; for planners
  const void* self;               ///< passed to the functions
  Function infer;                 ///< null: example outputs give the types
  Function forward;
  Function backward;  ///< null: no gradient
};

struct Library {
  std::uint32_t abiVersion;  ///< kVersion of the header it was built with; always the first field
  std::uint32_t numOps;
  const Op* ops;
};

}  // namespace sluice::custom::abi
