#include "sluice/devices/cuda/kernels/attention_text.h"

namespace sluice::devices::cuda {

// In a product of the tensor cores, lane 4 g + t of a warp has, of the left 16 x 16 operand, the
// pairs of columns 2 t and 2 t + 8 of rows g and g + 8; of the right 16 x 8 operand the pairs of
// rows 2 t and 2 t + 8 of column g; and of the 16 x 8 result columns 2 t and 2 t + 1 of rows g and
// g + 8. So a result, packed, is the left operand of the next product.
constinit const std::string_view kAttentionTools = R"(
#define TILE 64
#define PITCH (DIM + 8)
#define PARTS (DIM / 16)
D float exp2Of(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
D float log2Of(float x) { float y; asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
D u32 pack(float low, float high) {
  u32 y;
  asm(PACK " %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
D void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
D u32 pairAt(const T* from) { return *(const u32*)from; }
/// Rows first .. first + 63 of a matrix to shared memory, zeros after its last row.
D void startTile(T* to, const T* from, int first, int rows) {
  for (int p = threadIdx.x; p < TILE * (DIM / 8); p += 128) {
    const int r = p / (DIM / 8), c = p % (DIM / 8) * 8;
    const bool inside = first + r < rows;
    const T* source = from + (i64)(inside ? first + r : 0) * DIM + c;
    const u32 place = (u32)__cvta_generic_to_shared(to + r * PITCH + c);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(place), "l"(source), "r"(inside ? 16 : 0) : "memory");
  }
}
D void endOfCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups but the newest ones.
template <int NEWEST> D void awaitCopies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(NEWEST) : "memory");
}
/// Rows row and row + 8 of a matrix in global memory as left operands.
D void loadLeft(u32 (&to)[PARTS][4], const T* from, int row, int rows, int t) {
#pragma unroll
  for (int k = 0; k < PARTS; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + i % 2 * 8, c = k * 16 + 2 * t + i / 2 * 8;
      to[k][i] = r < rows ? pairAt(from + (i64)r * DIM + c) : 0;
    }
  }
}
/// out[n] = rows of `left` times row 8 n + .. of the tile: products along DIM.
D void timesRows(float (&out)[8][4], const u32 (&left)[PARTS][4], const T* tile, int g, int t) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[n][i] = 0;
#pragma unroll
    for (int k = 0; k < PARTS; ++k) {
      const T* at = tile + (n * 8 + g) * PITCH + k * 16 + 2 * t;
      multiply(out[n], left[k], pairAt(at), pairAt(at + 8));
    }
  }
}
/// sum[n] += left (16 x 64) times the tile (64 x DIM): products along its rows.
D void timesTile(float (&sum)[DIM / 8][4], const float (&left)[8][4], const T* tile) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const u32 a[4] = {pack(left[2 * k][0], left[2 * k][1]), pack(left[2 * k][2], left[2 * k][3]),
                      pack(left[2 * k + 1][0], left[2 * k + 1][1]),
                      pack(left[2 * k + 1][2], left[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < DIM / 8; n += 2) {
      u32 b[4];
      const u32 place = (u32)__cvta_generic_to_shared(
          tile + (k * 16 + lane % 16) * PITCH + n * 8 + lane / 16 * 8);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(place) : "memory");
      multiply(sum[n], a, b[0], b[1]);
      multiply(sum[n + 1], a, b[2], b[3]);
    }
  }
}
template <int N> D void clear(float (&x)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    for (int i = 0; i < 4; ++i) x[n][i] = 0;
}
/// Rows row and row + 8 of the result, each times its factor.
D void storeRows(T* to, const float (&from)[DIM / 8][4], int row, int rows, int t, float f0, float f1) {
#pragma unroll
  for (int n = 0; n < DIM / 8; ++n) {
    if (row < rows) *(u32*)(to + (i64)row * DIM + n * 8 + 2 * t) = pack(from[n][0] * f0, from[n][1] * f0);
    if (row + 8 < rows)
      *(u32*)(to + (i64)(row + 8) * DIM + n * 8 + 2 * t) = pack(from[n][2] * f1, from[n][3] * f1);
  }
}
/// The four lanes of a row.
D float rowMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
D float rowSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
#define INFINITE __int_as_float(0x7f800000)
)";

constinit const std::string_view kAttentionForward = R"(
  const int tile = ROW_TILES - 1 - blockIdx.x % ROW_TILES;  // the longest first
  const i64 matrix = blockIdx.x / ROW_TILES;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row = tile * TILE + threadIdx.x / 32 * 16 + g;
  const T* keys = in1 + matrix * KEYS * DIM;
  const T* values = in2 + matrix * KEYS * DIM;
  __shared__ __align__(16) T keyTile[STAGES][TILE * PITCH];
  __shared__ __align__(16) T valueTile[STAGES][TILE * PITCH];
  u32 q[PARTS][4];
  loadLeft(q, in0 + matrix * ROWS * DIM, row, ROWS, t);
  float sum[DIM / 8][4];
  clear(sum);
  float top[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0};
  const int end = CAUSAL && tile + 1 < KEY_TILES ? tile + 1 : KEY_TILES;
  if (STAGES == 2) {
    startTile(keyTile[0], keys, 0, KEYS);
    startTile(valueTile[0], values, 0, KEYS);
    endOfCopies();
  }
  for (int now = 0; now < end; ++now) {
    const int stage = now % STAGES, next = now + STAGES - 1;
    if (next < end) {
      startTile(keyTile[next % STAGES], keys, next * TILE, KEYS);
      startTile(valueTile[next % STAGES], values, next * TILE, KEYS);
    }
    endOfCopies();
    awaitCopies<STAGES - 1>();
    __syncthreads();
    float s[8][4];
    timesRows(s, q, keyTile[stage], g, t);
    if (now * TILE + TILE > KEYS || (CAUSAL && now * TILE + TILE > tile * TILE)) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = now * TILE + n * 8 + 2 * t + i % 2;
          if (key >= KEYS || (CAUSAL && key > row + i / 2 * 8)) s[n][i] = -INFINITE;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = top[h];
#pragma unroll
      for (int n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      most = rowMax(most);
      const float factor = exp2Of((top[h] - most) * SCALE2);
      top[h] = most;
      total[h] *= factor;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          s[n][i] = exp2Of(__fmaf_rn(s[n][i], SCALE2, -(most * SCALE2)));
          total[h] += s[n][i];
        }
#pragma unroll
      for (int n = 0; n < DIM / 8; ++n) {
        sum[n][2 * h] *= factor;
        sum[n][2 * h + 1] *= factor;
      }
    }
    timesTile(sum, s, valueTile[stage]);
    __syncthreads();
  }
  total[0] = rowSum(total[0]);
  total[1] = rowSum(total[1]);
  storeRows(out0 + matrix * ROWS * DIM, sum, row, ROWS, t, 1.0f / total[0], 1.0f / total[1]);
  if (t == 0) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (row + 8 * h < ROWS)
        out1[matrix * ROWS + row + 8 * h] =
            (top[h] * SCALE2 + log2Of(total[h])) * 0.693147180559945309f;
  }
)";

constinit const std::string_view kAttentionRowSums = R"(
  const i64 r = (i64)blockIdx.x * 4 + threadIdx.x / 32;
  if (r >= ALL_ROWS) return;
  float sum = 0;
  for (int c = threadIdx.x % 32; c < DIM; c += 32) sum += wide(in3[r * DIM + c]) * wide(in5[r * DIM + c]);
  for (int by = 16; by > 0; by /= 2) sum += shuffleDown(sum, by);
  if (threadIdx.x % 32 == 0) ((float*)scratch)[r] = sum;
)";

// Rows of the products are keys here, columns are rows of q.
constinit const std::string_view kAttentionKeysGrad = R"(
  const int tile = blockIdx.x % KEY_TILES;
  const i64 matrix = blockIdx.x / KEY_TILES;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int key = tile * TILE + threadIdx.x / 32 * 16 + g;
  const T* queries = in0 + matrix * ROWS * DIM;
  const T* slopes = in5 + matrix * ROWS * DIM;
  __shared__ __align__(16) T queryTile[STAGES][TILE * PITCH];
  __shared__ __align__(16) T slopeTile[STAGES][TILE * PITCH];
  __shared__ float logs[TILE], dots[TILE];
  u32 k[PARTS][4], v[PARTS][4];
  loadLeft(k, in1 + matrix * KEYS * DIM, key, KEYS, t);
  loadLeft(v, in2 + matrix * KEYS * DIM, key, KEYS, t);
  float dk[DIM / 8][4], dv[DIM / 8][4];
  clear(dk);
  clear(dv);
  const int begin = CAUSAL ? tile : 0;
  if (STAGES == 2 && begin < ROW_TILES) {
    startTile(queryTile[begin % STAGES], queries, begin * TILE, ROWS);
    startTile(slopeTile[begin % STAGES], slopes, begin * TILE, ROWS);
    endOfCopies();
  }
  for (int now = begin; now < ROW_TILES; ++now) {
    const int stage = now % STAGES, next = now + STAGES - 1;
    if (next < ROW_TILES) {
      startTile(queryTile[next % STAGES], queries, next * TILE, ROWS);
      startTile(slopeTile[next % STAGES], slopes, next * TILE, ROWS);
    }
    endOfCopies();
    if (threadIdx.x < TILE) {
      const int r = now * TILE + threadIdx.x;
      logs[threadIdx.x] = r < ROWS ? in4[matrix * ROWS + r] * 1.44269504088896341f : INFINITE;
      dots[threadIdx.x] = r < ROWS ? ((const float*)scratch)[matrix * ROWS + r] : 0.0f;
    }
    awaitCopies<STAGES - 1>();
    __syncthreads();
    float p[8][4], d[8][4];
    timesRows(p, k, queryTile[stage], g, t);
    const bool edge = tile * TILE + TILE > KEYS || (CAUSAL && now * TILE < tile * TILE + TILE);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = n * 8 + 2 * t + i % 2;
        p[n][i] = exp2Of(__fmaf_rn(p[n][i], SCALE2, -logs[r]));
        if (edge && (key + i / 2 * 8 >= KEYS || (CAUSAL && key + i / 2 * 8 > now * TILE + r)))
          p[n][i] = 0;
      }
    timesTile(dv, p, slopeTile[stage]);
    timesRows(d, v, slopeTile[stage], g, t);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) d[n][i] = p[n][i] * (d[n][i] - dots[n * 8 + 2 * t + i % 2]);
    timesTile(dk, d, queryTile[stage]);
    __syncthreads();
  }
  storeRows(out1 + matrix * KEYS * DIM, dk, key, KEYS, t, SCALE, SCALE);
  storeRows(out2 + matrix * KEYS * DIM, dv, key, KEYS, t, 1.0f, 1.0f);
)";

constinit const std::string_view kAttentionRowsGrad = R"(
  const int tile = ROW_TILES - 1 - blockIdx.x % ROW_TILES;
  const i64 matrix = blockIdx.x / ROW_TILES;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row = tile * TILE + threadIdx.x / 32 * 16 + g;
  const T* keys = in1 + matrix * KEYS * DIM;
  const T* values = in2 + matrix * KEYS * DIM;
  __shared__ __align__(16) T keyTile[STAGES][TILE * PITCH];
  __shared__ __align__(16) T valueTile[STAGES][TILE * PITCH];
  u32 q[PARTS][4], dy[PARTS][4];
  loadLeft(q, in0 + matrix * ROWS * DIM, row, ROWS, t);
  loadLeft(dy, in5 + matrix * ROWS * DIM, row, ROWS, t);
  float logs[2], dots[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const i64 r = matrix * ROWS + row + 8 * h;
    const bool inside = row + 8 * h < ROWS;
    logs[h] = inside ? in4[r] * 1.44269504088896341f : INFINITE;
    dots[h] = inside ? ((const float*)scratch)[r] : 0.0f;
  }
  float dq[DIM / 8][4];
  clear(dq);
  const int end = CAUSAL && tile + 1 < KEY_TILES ? tile + 1 : KEY_TILES;
  if (STAGES == 2) {
    startTile(keyTile[0], keys, 0, KEYS);
    startTile(valueTile[0], values, 0, KEYS);
    endOfCopies();
  }
  for (int now = 0; now < end; ++now) {
    const int stage = now % STAGES, next = now + STAGES - 1;
    if (next < end) {
      startTile(keyTile[next % STAGES], keys, next * TILE, KEYS);
      startTile(valueTile[next % STAGES], values, next * TILE, KEYS);
    }
    endOfCopies();
    awaitCopies<STAGES - 1>();
    __syncthreads();
    float p[8][4], d[8][4];
    timesRows(p, q, keyTile[stage], g, t);
    timesRows(d, dy, valueTile[stage], g, t);
    const bool edge = now * TILE + TILE > KEYS || (CAUSAL && now * TILE + TILE > tile * TILE);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = now * TILE + n * 8 + 2 * t + i % 2;
        float w = exp2Of(__fmaf_rn(p[n][i], SCALE2, -logs[i / 2]));
        if (edge && (key >= KEYS || (CAUSAL && key > row + i / 2 * 8))) w = 0;
        d[n][i] = w * (d[n][i] - dots[i / 2]);
      }
    timesTile(dq, d, keyTile[stage]);
    __syncthreads();
  }
  storeRows(out0 + matrix * ROWS * DIM, dq, row, ROWS, t, SCALE, SCALE);
)";

}  // namespace sluice::devices::cuda
