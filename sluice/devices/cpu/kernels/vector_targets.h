// The instruction sets that vector code is compiled for: SSE4, AVX2 and AVX-512 besides the plain
// baseline. Included first in every file that uses Highway.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
