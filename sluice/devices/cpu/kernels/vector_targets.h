// The instruction sets for which vector code is compiled: SSE4, AVX2 and AVX-512 in addition to the
// baseline. Included first in every file that uses Highway.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif

/// In front of loops over vectors that must stay in registers.
#ifdef __clang__
#define SLUICE_UNROLL  // it does by itself
#else
#define SLUICE_UNROLL _Pragma("GCC unroll 16")
#endif
