// A small loop with the two functions of every generated loop (source.py). It is compiled first, as a test of whether the
// compiler accepts the options and produces a library that can be loaded.
#include <cmath>
#include <cstdint>
#include <cstring>

struct Call {
  int64_t cells;
  const double* x;
  float* y;
};

extern "C" int64_t kept_bytes(int64_t cells) { return cells * 8; }

extern "C" void row(const Call* call) {
  for (int64_t i = 0; i < call->cells; ++i) call->y[i] = (float)(sqrt(fabs(call->x[i])) + call->x[i] * call->y[i]);
}
