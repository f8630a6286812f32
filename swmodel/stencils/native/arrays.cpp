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

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kBytesOfPiece = 1 << 18;
constexpr int64_t kLine = 64;            // [bytes] of a cache line
constexpr int64_t kLarge = 1 << 23;      // [bytes] larger arrays do not stay in a cache

inline bool IsLarge(const ffi::AnyBuffer& array) { return static_cast<int64_t>(array.size_bytes()) > kLarge; }

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
char* Slot(const ffi::AnyBuffer& slots, int64_t index) {
  const int64_t count = slots.dimensions()[0];
  return static_cast<char*>(slots.untyped_data()) + std::clamp<int64_t>(index, 0, count - 1) * (slots.size_bytes() / count);
}

// Copies arrays into slot `index` of arrays of slots. Operands: index, arrays of slots, arrays; results: arrays of slots,
// arrays, both in place. Because the arrays are results, too, XLA cannot overwrite one of them before it has been copied.
ffi::Error PushSlot(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t count = results.size() / 2, index = *operands.get<ffi::BufferR0<ffi::S32>>(0).value().typed_data();
  Copies copies;
  bool streaming = false;
  for (int64_t k = 0; k < count; ++k) {
    auto slots = *results.get<ffi::AnyBuffer>(k).value();
    auto array = *results.get<ffi::AnyBuffer>(count + k).value();
    streaming |= IsLarge(slots);
    copies.Add(Slot(slots, index), static_cast<const char*>(array.untyped_data()), array.size_bytes());
  }
  copies.Run(pool.num_threads(), streaming);
  return ffi::Error::Success();
}

// Copies slot `index` of arrays of slots. Operands: index, arrays of slots; results: arrays.
ffi::Error ReadSlot(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t index = *operands.get<ffi::BufferR0<ffi::S32>>(0).value().typed_data();
  Copies copies;
  for (size_t k = 0; k < results.size(); ++k) {
    auto array = *results.get<ffi::AnyBuffer>(k).value();
    copies.Add(static_cast<char*>(array.untyped_data()), Slot(operands.get<ffi::AnyBuffer>(k + 1).value(), index),
               array.size_bytes());
  }
  copies.Run(pool.num_threads(), false);
  return ffi::Error::Success();
}

// Returns its first operands. The other operands are dependencies: XLA executes this call, and all operations that overwrite
// its results, after the operations that compute them.
ffi::Error DependsOn(ffi::RemainingArgs, ffi::RemainingRets) { return ffi::Error::Success(); }

// Arrays with undefined values, in large pages. The operating system maps new memory page by page, and mapping a small page
// takes as long as a step of the few cells that fit in it.
ffi::Error Empty(ffi::RemainingArgs, ffi::RemainingRets results) {
  for (size_t k = 0; k < results.size(); ++k) {
    auto array = *results.get<ffi::AnyBuffer>(k).value();
    AdviseLargePages(array.untyped_data(), array.size_bytes());
  }
  return ffi::Error::Success();
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

// A strip of an array of shape (..., rows, columns). EachRow calls a function for each of its rows.
class Strip {
 public:
  Strip(const ffi::AnyBuffer& array, const ffi::AnyBuffer& strip, const int32_t* place)
      : array_(static_cast<char*>(array.untyped_data())), strip_(static_cast<char*>(strip.untyped_data())) {
    auto whole = array.dimensions(), part = strip.dimensions();
    const size_t n = whole.size();
    size_ = ffi::ByteWidth(array.element_type()), rows_ = part[n - 2], row_bytes_ = part[n - 1] * size_;
    stride_ = whole[n - 1] * size_, member_stride_ = whole[n - 2] * stride_, members_ = 1;
    for (size_t k = 0; k + 2 < n; ++k) members_ *= whole[k];
    const int64_t row = std::clamp<int64_t>(place[0], 0, whole[n - 2] - part[n - 2]);
    const int64_t column = std::clamp<int64_t>(place[1], 0, whole[n - 1] - part[n - 1]);
    array_ += row * stride_ + column * size_;
  }

  template <typename Row>
  void EachRow(const Row& row) const {
    for (int64_t m = 0; m < members_; ++m)
      for (int64_t j = 0; j < rows_; ++j)
        row(array_ + m * member_stride_ + j * stride_, strip_ + (m * rows_ + j) * row_bytes_, row_bytes_);
  }

 private:
  char *array_, *strip_;
  int64_t size_, rows_, row_bytes_, stride_, member_stride_, members_;
};

// Operands: places (n, 2), arrays, and for each place a strip of each array; results: the arrays, in place.
ffi::Error Paste(ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t count = results.size(), places = (operands.size() - 1) / count - 1;
  const int32_t* place = operands.get<ffi::Buffer<ffi::S32>>(0).value().typed_data();
  for (int64_t p = 0; p < places; ++p)
    for (int64_t k = 0; k < count; ++k)
      Strip(*results.get<ffi::AnyBuffer>(k).value(), operands.get<ffi::AnyBuffer>(1 + count * (p + 1) + k).value(), place + 2 * p)
          .EachRow([](char* array, char* strip, int64_t bytes) { CopyRow(array, strip, bytes); });
  return ffi::Error::Success();
}

// Operands: places (n, 2), arrays; results: the arrays with zeros there, in place, and for each place a strip of each.
ffi::Error Cut(ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t count = operands.size() - 1, places = results.size() / count - 1;
  const int32_t* place = operands.get<ffi::Buffer<ffi::S32>>(0).value().typed_data();
  for (int64_t p = places - 1; p >= 0; --p)
    for (int64_t k = 0; k < count; ++k)
      Strip(*results.get<ffi::AnyBuffer>(k).value(), *results.get<ffi::AnyBuffer>(count * (p + 1) + k).value(), place + 2 * p)
          .EachRow([](char* array, char* strip, int64_t bytes) {
            std::memcpy(strip, array, bytes);
            std::memset(array, 0, bytes);
          });
  return ffi::Error::Success();
}

// Operands: places (n, 2), arrays; results: the arrays, in place, and for each place a copy of the strip of each.
ffi::Error ReadStrips(ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t count = operands.size() - 1, places = results.size() / count - 1;
  const int32_t* place = operands.get<ffi::Buffer<ffi::S32>>(0).value().typed_data();
  for (int64_t p = 0; p < places; ++p)
    for (int64_t k = 0; k < count; ++k)
      Strip(*results.get<ffi::AnyBuffer>(k).value(), *results.get<ffi::AnyBuffer>(count * (p + 1) + k).value(), place + 2 * p)
          .EachRow([](char* array, char* strip, int64_t bytes) { CopyRow(strip, array, bytes); });
  return ffi::Error::Success();
}

template <typename T>
void AddRow(char* array, char* strip, int64_t bytes) {
  T* sum = reinterpret_cast<T*>(array);
  const T* more = reinterpret_cast<const T*>(strip);
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(T)); ++i) sum[i] += more[i];
}

// Operands: places (n, 2), arrays, and for each place a strip of each array, of floats; results: the sums, in place.
ffi::Error AddStrips(ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t count = results.size(), places = (operands.size() - 1) / count - 1;
  const int32_t* place = operands.get<ffi::Buffer<ffi::S32>>(0).value().typed_data();
  for (int64_t p = 0; p < places; ++p)
    for (int64_t k = 0; k < count; ++k) {
      auto array = *results.get<ffi::AnyBuffer>(k).value();
      const Strip strip(array, operands.get<ffi::AnyBuffer>(1 + count * (p + 1) + k).value(), place + 2 * p);
      if (array.element_type() == ffi::F32) strip.EachRow(AddRow<float>);
      else if (array.element_type() == ffi::F64) strip.EachRow(AddRow<double>);
      else return ffi::Error::InvalidArgument("swmodel_add_strips adds floats of 4 or 8 bytes");
    }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_push_slot, PushSlot,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_read_slot, ReadSlot,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_empty, Empty, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_paste, Paste, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_cut, Cut, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_read_strips, ReadStrips, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_add_strips, AddStrips, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_depends_on, DependsOn, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
