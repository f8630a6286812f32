// A small loop with the interface of those that kernels/source.py writes: compiled first, to find out whether the
// compiler takes our options and makes what can be loaded.
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
