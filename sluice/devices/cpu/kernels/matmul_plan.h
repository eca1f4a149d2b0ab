// How a matmul is divided into primitives: the operands as oneDNN sees them, the tiles of the
// output, and the format of the right operand. Private to the matmul kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/devices/cpu/kernels/tiled.h"
#include "sluice/ops/matmul.h"

namespace sluice::devices::cpu::product {

/// The product as primitives see it: one primitive computes `batch` matrices and runs `loop` times.
struct Problem {
  DType compute = DType::F32;  ///< the primitives' type; storage may be narrower
  ops::MatMulDims d = {};
  std::int64_t batch = 1;
  std::int64_t loop = 1;
  bool batchedA = false;
  bool batchedB = false;
  dnnl::memory::desc packedB =
      {};  ///< all of B in the format that is best for the primitives; empty: not packed
};

/// The offsets of one primitive call, in elements.
struct Offsets {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

/// The work that one thread takes at a time.
struct Tile {
  std::vector<Offsets> runs = {};
  dnnl::matmul::primitive_desc desc = {};
  OutputTile output = {};   ///< empty if the tile is not a range of the output (columns)
  std::int64_t staged = 0;  ///< columns that are written to scratch first
};

struct Plan {
  Problem problem;
  std::vector<Tile> tiles = {};
  std::size_t padBytes = 0;    ///< the scratchpad of a tile
  std::size_t stageBytes = 0;  ///< the result of a tile after it, if staged
  std::int64_t elements = 0;

  std::size_t perTile() const { return padBytes + stageBytes; }
  std::size_t scratchBytes() const { return perTile() * tiles.size(); }
};

Problem normalize(const ir::OpView& op);

/// Whether this is one product of float32 matrices, which vector code of our own can compute.
bool isOneFloatProduct(const ir::OpView& op);

/// The format of B that oneDNN prefers, or an empty one if that is not packed.
dnnl::memory::desc packedFormat(const Problem& p);

/// The key of the op in the tuning table.
std::string keyOf(const ir::OpView& op);

/// The cut from the tuning table or by rule, like "cols 4 packed". Throws ConfigFileError.
std::string chooseCut(const ir::OpView& op, const device::Tuning& tuning);

Plan planOf(const ir::OpView& op, const std::string& cut);

/// The layout of the right operand, in the order of its own axes.
device::Layout layoutOfB(const Problem& p);

}  // namespace sluice::devices::cpu::product
