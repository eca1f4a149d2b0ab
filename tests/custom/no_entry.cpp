// A shared library that has no custom ops. It is linked with -ffast-math, which makes the thread
// that loads it flush subnormal numbers.
extern "C" __attribute__((visibility("default"))) int answer() {
  return 42;
}
