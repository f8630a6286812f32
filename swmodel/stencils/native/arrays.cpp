// In-place operations on slots of an array and on strips at its edges, for which XLA would copy whole arrays; and arrays
// that are not initialised.

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace {

constexpr int64_t kBytesOfPiece = 1 << 18;
constexpr int64_t kLine = 64;            // [bytes] of a cache line
constexpr int64_t kAhead = 8;            // rows of a strip whose first cache line is requested before it is used
constexpr int64_t kLarge = 1 << 23;      // [bytes] larger arrays do not stay in a cache

inline bool IsLarge(const Array& array) { return array.bytes() > kLarge; }

// Advises the operating system to use large pages when it maps this memory.
inline void AdviseLargePages(const void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  const uintptr_t first = reinterpret_cast<uintptr_t>(data);
  const uintptr_t low = (first + kPage - 1) / kPage * kPage, high = (first + bytes) / kPage * kPage;
  if (low < high) madvise(reinterpret_cast<char*>(low), high - low, MADV_HUGEPAGE);
#endif
}

// Copies bytes. Streaming stores write whole cache lines to memory without reading the old ones.
template <bool kStreaming>
inline void Copy(char* to, const char* from, int64_t bytes) {
#ifdef __SSE2__
  if (kStreaming) {
    const int64_t head = std::min<int64_t>(bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
    std::memcpy(to, from, head);
    int64_t at = head;
    for (; at + kLine <= bytes; at += kLine)
      for (int64_t k = at; k < at + kLine; k += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k)));
    std::memcpy(to + at, from + at, bytes - at);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

// Has to be called by a thread that has used streaming stores, before other threads read the data.
inline void FenceStreamingStores() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// Copies of arrays, made in pieces by all threads.
class Copies {
 public:
  void Add(char* to, const char* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += kBytesOfPiece)
      pieces_.emplace_back(to + at, from + at, std::min(kBytesOfPiece, bytes - at));
  }

  void Run(int64_t threads, bool streaming) const {
    ThreadPool::Get().Run(threads, pieces_.size(), [&](int64_t k) {
      auto [to, from, bytes] = pieces_[k];
      streaming ? Copy<true>(to, from, bytes) : Copy<false>(to, from, bytes);
      if (streaming) FenceStreamingStores();
    });
  }

 private:
  std::vector<std::tuple<char*, const char*, int64_t>> pieces_;
};

// The first byte of slot `index` of an array of slots.
char* Slot(const Array& slots, int64_t index) {
  const int64_t count = slots.sizes[0];
  return slots.data + std::clamp<int64_t>(index, 0, count - 1) * (slots.bytes() / count);
}

// Copies arrays into slot `index` of arrays of slots. Operands: index, arrays of slots, arrays; results: arrays of slots,
// arrays, both in place. Because the arrays are results, too, XLA cannot overwrite one of them before it has been copied.
XLA_FFI_Error* PushSlot(const Call& call) {
  const int64_t count = call.results() / 2, index = call.number(0);
  Copies copies;
  bool streaming = false;
  for (int64_t k = 0; k < count; ++k) {
    const Array slots = call.result(k), array = call.result(count + k);
    streaming |= IsLarge(slots);
    copies.Add(Slot(slots, index), array.data, array.bytes());
  }
  copies.Run(call.threads(), streaming);
  return nullptr;
}

// Copies slot `index` of arrays of slots. Operands: index, arrays of slots; results: arrays.
XLA_FFI_Error* ReadSlot(const Call& call) {
  const int64_t index = call.number(0);
  Copies copies;
  for (int64_t k = 0; k < call.results(); ++k) {
    const Array array = call.result(k);
    copies.Add(array.data, Slot(call.operand(k + 1), index), array.bytes());
  }
  copies.Run(call.threads(), false);
  return nullptr;
}

// Returns its first operands. The other operands are dependencies: XLA executes this call, and all operations that overwrite
// its results, after the operations that compute them.
XLA_FFI_Error* DependsOn(const Call&) { return nullptr; }

// Arrays with undefined values, in large pages. The operating system maps new memory page by page, and mapping a small page
// takes as long as a step of the few cells that fit in it.
XLA_FFI_Error* Empty(const Call& call) {
  for (int64_t k = 0; k < call.results(); ++k) AdviseLargePages(call.result(k).data, call.result(k).bytes());
  return nullptr;
}

// Copies a row of a strip. A call of memcpy takes longer than to copy a few numbers.
inline void CopyRow(char* to, const char* from, int64_t bytes) {
  constexpr int64_t kWord = sizeof(uint32_t);
  if (bytes > kLine || bytes % kWord != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (int64_t at = 0; at < bytes; at += kWord) std::memcpy(to + at, from + at, kWord);
}

// The cells of a strip in its array (..., rows, columns) and in values (..., cells). EachRow calls a function for each row.
class Strip {
 public:
  Strip(const Array& array, const Array& values, const int32_t* place, const StripOfArray& plan) : array_(array.data) {
    const int64_t *whole = array.sizes, n = array.rank, size = array.width();
    rows_ = plan.rows, row_bytes_ = plan.columns * size;
    stride_ = whole[n - 1] * size, member_stride_ = whole[n - 2] * stride_, members_ = 1;
    for (int64_t k = 0; k + 2 < n; ++k) members_ *= whole[k];
    strip_ = values.data + plan.first * size, strip_stride_ = values.sizes[values.rank - 1] * size;
    const int64_t row = std::clamp<int64_t>(place[0], 0, whole[n - 2] - plan.rows);
    const int64_t column = std::clamp<int64_t>(place[1], 0, whole[n - 1] - plan.columns);
    array_ += row * stride_ + column * size;
  }

  template <typename Row>
  void EachRow(const Row& row) const {
    for (int64_t m = 0; m < members_; ++m) {
      char* first = array_ + m * member_stride_;
      for (int64_t j = 0; j < rows_; ++j) {
        __builtin_prefetch(first + std::min(j + kAhead, rows_ - 1) * stride_);
        row(first + j * stride_, strip_ + m * strip_stride_ + j * row_bytes_, row_bytes_);
      }
    }
  }

 private:
  char *array_, *strip_;
  int64_t rows_, row_bytes_, strip_stride_, stride_, member_stride_, members_;
};

// Calls `row` for each row of each strip. Operands: places (n, 2), arrays, and values if they are not results; results: the
// arrays, in place, and values. The plan has a StripOfArray for each place.
template <typename Row>
void EachStrip(const Call& call, bool backwards, const Row& row) {
  int64_t length;
  const auto* plan = reinterpret_cast<const StripOfArray*>(call.plan(&length));
  const int64_t places = length * sizeof(int64_t) / sizeof(StripOfArray);
  const bool written = call.operands() - 1 > call.results();
  const int64_t count = written ? call.results() : call.operands() - 1;
  const int32_t* place = call.operand(0).As<int32_t>();
  for (int64_t n = 0; n < places; ++n) {
    const StripOfArray& strip = plan[backwards ? places - 1 - n : n];
    const Array values = written ? call.operand(1 + count + strip.values) : call.result(count + strip.values);
    Strip(call.result(strip.array), values, place + 2 * (&strip - plan), strip).EachRow(row);
  }
}

XLA_FFI_Error* Paste(const Call& call) {
  EachStrip(call, false, [](char* array, char* strip, int64_t bytes) { CopyRow(array, strip, bytes); });
  return nullptr;
}

XLA_FFI_Error* Cut(const Call& call) {
  EachStrip(call, true, [](char* array, char* strip, int64_t bytes) {
    std::memcpy(strip, array, bytes);
    std::memset(array, 0, bytes);
  });
  return nullptr;
}

XLA_FFI_Error* ReadStrips(const Call& call) {
  EachStrip(call, false, [](char* array, char* strip, int64_t bytes) { CopyRow(strip, array, bytes); });
  return nullptr;
}

template <typename T>
void AddRow(char* array, char* strip, int64_t bytes) {
  T* sum = reinterpret_cast<T*>(array);
  const T* more = reinterpret_cast<const T*>(strip);
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(T)); ++i) sum[i] += more[i];
}

XLA_FFI_Error* AddStrips(const Call& call) {
  const auto type = call.result(0).type;
  if (type == XLA_FFI_DataType_F32) EachStrip(call, false, AddRow<float>);
  else if (type == XLA_FFI_DataType_F64) EachStrip(call, false, AddRow<double>);
  else return call.Fail("swmodel_add_strips adds floats of 4 or 8 bytes");
  return nullptr;
}

}  // namespace

SWMODEL_FUNCTION(swmodel_push_slot, PushSlot)
SWMODEL_FUNCTION(swmodel_read_slot, ReadSlot)
SWMODEL_FUNCTION(swmodel_empty, Empty)
SWMODEL_FUNCTION(swmodel_paste, Paste)
SWMODEL_FUNCTION(swmodel_cut, Cut)
SWMODEL_FUNCTION(swmodel_read_strips, ReadStrips)
SWMODEL_FUNCTION(swmodel_add_strips, AddStrips)
SWMODEL_FUNCTION(swmodel_depends_on, DependsOn)
