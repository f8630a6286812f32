// Definitions that all generated loops (source.py) share. The text of library.py and the constants kLeft, kRight, kKept and
// kMasks come before them. What loops call is declared here, because a compiler takes longer to read <math.h> than a small
// loop.
extern "C" {
double sqrt(double), exp(double), log(double), tanh(double), sin(double), cos(double), floor(double), fabs(double);
float sqrtf(float), expf(float), logf(float), tanhf(float), sinf(float), cosf(float), floorf(float), fabsf(float);
double pow(double, double), copysign(double, double);
float powf(float, float), copysignf(float, float);
void* memcpy(void*, const void*, decltype(sizeof 0));
void* memset(void*, int, decltype(sizeof 0));
}
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

// `is ? x : y` without a branch. Compilers turn `? :` into masked loads, which are slow when the whole mask is false.
template <typename Bits, typename T>
static inline T Select(bool is, T x, T y) {
  Bits a, b;
  memcpy(&a, &x, sizeof(T)), memcpy(&b, &y, sizeof(T));
  a = (a & -(Bits)is) | (b & ~-(Bits)is);
  memcpy(&x, &a, sizeof(T));
  return x;
}

// The value, or 0 where the mask is 0, also in place of infinities and NaN.
template <typename Bits, typename T>
static inline T Masked(T x, Bits mask) {
  Bits a;
  memcpy(&a, &x, sizeof(T));
  a &= mask;
  memcpy(&x, &a, sizeof(T));
  return x;
}

// Cube roots without function calls, branches or divisions, so that compilers vectorise loops that contain them. r approximates
// a^(-1/3), first from the exponent of a, with |1 - a r^3| < 0.103, and then by one step of the series in e = 1 - a r^3
// (Moroz et al. 2021, doi:10.3390/en14041058). The root is a r^2 (1 - e)^(-2/3), with an error of at most 1.6 units in the
// last place. The root of a zero, of an infinity or of NaN is the argument itself. For a subnormal argument the result is
// less than the root of the smallest normal number, and has no correct digits.
static inline float sw_cbrtf(float x) {
  const float a = fabsf(x);
  int32_t bits;
  memcpy(&bits, &a, 4);
  bits = (int32_t)(1419890000.0f - (float)bits * (1.0f / 3.0f));
  float r;
  memcpy(&r, &bits, 4);
  float e = 1.0f - a * r * r * r;
  r += r * e * (1.0f / 3.0f + e * (2.0f / 9.0f + e * (14.0f / 81.0f)));
  const float y = a * r * r;
  e = 1.0f - y * r;
  const float root = y + y * e * (2.0f / 3.0f);
  return copysignf(root, x);
}

static inline double sw_cbrt(double x) {
  const double a = fabs(x);
  int64_t bits;
  memcpy(&bits, &a, 8);
  bits = (1430186000 - ((bits >> 32) * 1431655766 >> 32)) << 32;  // the upper half over three
  double r;
  memcpy(&r, &bits, 8);
  double e = 1.0 - a * r * r * r;
  r += r * e * (1.0 / 3.0 + e * (2.0 / 9.0 + e * (14.0 / 81.0 + e * (35.0 / 243.0))));
  const double y = a * r * r;
  e = 1.0 - y * r;
  const double root = y + y * e * (2.0 / 3.0 + e * (5.0 / 9.0));
  return copysign(root, x);
}

static inline int64_t WholeVectors(int64_t cells) { return (cells + kVector - 1) / kVector * kVector; }
static inline int64_t Width(int64_t cells) { return WholeVectors(cells + kLeft + kRight); }
static inline int64_t Width(const RowCall& c) { return Width(c.lead + c.cells); }

// The first column of a pass that extends `left` cells beyond the results; a vector begins there.
static inline int64_t Before(const RowCall& c, int64_t left) {
  return -c.lead - WholeVectors(left > c.lead ? left - c.lead : 0);
}

// Whether a source contains the row at the offset `row` from that of the call. If it does not, Zeros is read instead.
static inline bool Has(const RowCall& c, int64_t source, int64_t row) {
  return c.j + row >= c.limits[4 * source] && c.j + row < c.limits[4 * source + 1];
}
static inline const void* Zeros(const RowCall& c) { return c.kept + Width(c) * kKept + (kLeft + c.lead) * 8; }

// The element of a row of masks that belongs to the first cell.
template <typename Bits>
static inline Bits* Masks(const RowCall& c, int64_t k) {
  return (Bits*)(c.kept + Width(c) * (kKept + 8 * (1 + k))) + kLeft + c.lead;
}

// Sets a row of masks: all bits in the columns of a box, else 0.
template <typename Bits>
static inline void Fill(Bits* masks, const RowCall& c, int64_t west, int64_t east) {
  for (int64_t i = -kLeft - c.lead; i < Width(c) - kLeft - c.lead; ++i) masks[i] = -(Bits)(i >= west && i < c.cells - east);
}

struct Range {
  int64_t low, high;

  void Meet(int64_t first, int64_t end) {
    if (low < first) low = first;
    if (high > end) high = end;
  }
};

struct Rows;
using Pass = void (*)(const RowCall&, const Rows&, int64_t, int64_t);

// Runs a pass from column `from` to column `to`, with the variant that each part of the row requires; `loads` are the columns
// where no load leaves its array. Columns beyond both ends may be computed, too, to complete the vectors. Rolling rows are not
// read there, and results are not changed.
template <Pass kPlain, Pass kEnds, Pass kEdge>
static inline void run(const RowCall& c, const Rows& r, int64_t from, int64_t to, bool more, Range loads) {
  if (more && from + WholeVectors(to - from) <= loads.high) to = from + WholeVectors(to - from);
  loads.Meet(from, to);
  if (loads.low >= loads.high) return kEdge(c, r, from, to);
  if (from < loads.low) kEdge(c, r, from, loads.low);
  int64_t low = loads.low, high = loads.high;
  if (kEnds != kPlain) {
    if (low < 0) low += WholeVectors(-low);
    if (high > c.cells) high = low < c.cells ? low + (c.cells - low) / kVector * kVector : low;
    if (low > loads.high) low = high = loads.high;
    if (loads.low < low) kEnds(c, r, loads.low, low);
  }
  if (low < high) kPlain(c, r, low, high);
  if (high < loads.high) kEnds(c, r, high, loads.high);
  if (loads.high < to) kEdge(c, r, loads.high, to);
}
