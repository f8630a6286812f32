// Runs a fused loop (source.py) over a tile for XLA: rows in parallel chunks, results in place where XLA agreed to that.
//
// A result that overwrites a field of which something is still to be read waits: each chunk keeps as many rows of it as are
// read further down, and the rows that other chunks read too are put in their place after all chunks are done.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

struct RowCall {  // as in source.py
  const void* const* in;
  const int64_t* stride;
  const int64_t* limits;
  const void* const* scalars;
  void* const* out;
  int64_t cells, rows, j, since;
  char* kept;
};

struct Kernel {
  void (*row)(const RowCall*);
  int64_t (*kept_bytes)(int64_t);
};

constexpr int64_t kCellsOfChunk = 16384;  // fewer are not worth another thread
constexpr int64_t kBytesOfPiece = 1 << 18;

std::mutex registry_mutex;
std::unordered_map<std::string, Kernel>& Registry() {
  static auto* registry = new std::unordered_map<std::string, Kernel>;
  return *registry;
}

struct Source {
  const char* data;
  int64_t size, stride, member_stride;  // bytes of an element; elements of a row; bytes of a member
  int64_t row, column, is_column;       // where cell (0, 0) lies
  int64_t ahead, below, above;          // first row read in one round; rows read for one row of results, all rounds
};

struct Result {
  char* data;
  int64_t size, stride, member_stride;
  int64_t behind;        // rows that it waits, counted from its own
  int64_t below, above;  // rows of the overwritten field that are read for one row of results
  int64_t when;          // it is put in its place: kAtOnce, kUnlessShared or kLater
};

// At once where the overwritten field is read at the result's own cell alone; else rows that other chunks read are late,
// and the others wait where a later cell or row of this chunk reads the old value.
enum { kAtOnce, kUnlessShared, kLater };

struct Loop {
  Kernel kernel;
  std::vector<Source> sources;
  std::vector<Result> results;
  std::vector<int64_t> strides, limits;
  std::vector<std::pair<const char*, int64_t>> scalars;  // and bytes to the next member's
  int64_t rows, columns, ghosts, margin, members, early;

  int64_t cells() const { return columns + 2 * margin; }
  char* place(const Result& r, int64_t member, int64_t j) const {
    return r.data + member * r.member_stride + ((j + ghosts) * r.stride + ghosts - margin) * r.size;
  }
};

// Room that a thread keeps from loop to loop.
char* Scratch(size_t bytes) {
  thread_local std::vector<char> room;
  if (room.size() < bytes + 64) room.resize(bytes + 64);
  return room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
}

// Rows [first, last) of one member; rows that other chunks read are left in `late`.
class Chunk {
 public:
  Chunk(const Loop& loop, int64_t member, int64_t first, int64_t last, bool others_below, bool others_above)
      : loop_(loop), member_(member), first_(first), last_(last), below_(others_below), above_(others_above) {}

  void Run() {
    const auto& loop = loop_;
    std::vector<const void*> in(loop.sources.size()), scalars;
    std::vector<void*> out(loop.results.size());
    for (const auto& [data, step] : loop.scalars) scalars.push_back(data + member_ * step);
    char* room = Scratch(Place());
    for (size_t k = 0; k < rings_.size(); ++k) rings_[k] += reinterpret_cast<uintptr_t>(room);
    RowCall call{in.data(), loop.strides.data(), loop.limits.data(), scalars.data(), out.data(), loop.cells(),
                 loop.rows + 2 * loop.margin, 0, 0, room};
    for (int64_t j = first_ - loop.early; j < last_; ++j) {
      for (size_t k = 0; k < in.size(); ++k) {
        const auto& s = loop.sources[k];
        in[k] = s.data + member_ * s.member_stride +
                ((s.row + j) * s.stride + (s.is_column ? 0 : s.column - loop.margin)) * s.size;
      }
      for (size_t k = 0; k < out.size(); ++k)
        out[k] = j < first_ ? nullptr : Target(k, j);  // early rounds have no results
      call.j = j + loop.margin, call.since = j - first_;
      loop.kernel.row(&call);
      for (size_t k = 0; k < out.size(); ++k)
        if (loop.results[k].when == kLater && j - loop.results[k].behind >= first_) Store(k, j - loop.results[k].behind);
    }
    for (size_t k = 0; k < out.size(); ++k)
      if (loop.results[k].when == kLater)
        for (int64_t j = std::max(first_, last_ - loop.results[k].behind); j < last_; ++j) Store(k, j);
  }

  void StoreLateRows() {
    for (auto& [k, j, row] : late_) std::memcpy(loop_.place(loop_.results[k], member_, j), row.data(), row.size());
  }

 private:
  int64_t RowBytes(size_t k) const { return (loop_.cells() * loop_.results[k].size + 63) / 64 * 64; }

  // Shares out the room after the kernel's own rows; returns how much is needed.
  size_t Place() {
    size_t used = (loop_.kernel.kept_bytes(loop_.cells()) + 63) / 64 * 64;
    rings_.assign(loop_.results.size(), 0);
    for (size_t k = 0; k < rings_.size(); ++k)
      if (loop_.results[k].when == kLater) rings_[k] = used, used += (loop_.results[k].behind + 1) * RowBytes(k);
    return used;
  }

  bool IsShared(const Result& r, int64_t j) const {
    return (below_ && j < first_ + r.above) || (above_ && j >= last_ - r.below);
  }

  // Where row j of a result is computed.
  char* Target(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    if (r.when == kLater) return Kept(k, j);
    if (r.when == kAtOnce || !IsShared(r, j)) return loop_.place(r, member_, j);
    late_.emplace_back(k, j, std::vector<char>(loop_.cells() * r.size));
    return std::get<2>(late_.back()).data();
  }

  char* Kept(size_t k, int64_t j) {
    return reinterpret_cast<char*>(rings_[k]) + ((j - first_) % (loop_.results[k].behind + 1)) * RowBytes(k);
  }

  void Store(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    const char* row = Kept(k, j);
    const int64_t bytes = loop_.cells() * r.size;
    if (IsShared(r, j))
      late_.emplace_back(k, j, std::vector<char>(row, row + bytes));
    else
      std::memcpy(loop_.place(r, member_, j), row, bytes);
  }

  const Loop& loop_;
  int64_t member_, first_, last_;
  bool below_, above_;
  std::vector<uintptr_t> rings_;
  std::vector<std::tuple<size_t, int64_t, std::vector<char>>> late_;
};

// Calls work(0), ..., work(count - 1) on the pool's threads and this one, which never waits for a thread to become free.
template <typename Work>
void InParallel(ffi::ThreadPool& pool, int64_t threads, int64_t count, const Work& work) {
  struct Shared {
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
  };
  auto shared = std::make_shared<Shared>();
  auto help = [shared, count, work = &work] {
    for (int64_t k; (k = shared->next.fetch_add(1)) < count;) {
      (*work)(k);
      if (shared->done.fetch_add(1) + 1 == count) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->finished.notify_all();
      }
    }
  };
  for (int64_t k = 1; k < std::min(threads, count); ++k) pool.Schedule(decltype(help)(help));
  help();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done.load() == count; });
}

void ClearGhosts(const Loop& loop, const Result& r, int64_t member) {
  char* data = r.data + member * r.member_stride;
  const int64_t edge = loop.ghosts - loop.margin, rows = loop.rows + 2 * loop.ghosts, bytes = r.stride * r.size;
  std::memset(data, 0, edge * bytes);
  std::memset(data + (rows - edge) * bytes, 0, edge * bytes);
  for (int64_t j = edge; j < rows - edge; ++j) {
    std::memset(data + j * bytes, 0, edge * r.size);
    std::memset(data + (j + 1) * bytes - edge * r.size, 0, edge * r.size);
  }
}

// What the plan and the buffers say; see stencil.py for the order of the numbers.
void Describe(Loop& loop, ffi::RemainingArgs& operands, ffi::RemainingRets& results, const int64_t* p) {
  loop.rows = p[0], loop.columns = p[1], loop.ghosts = p[2], loop.margin = p[3], loop.early = p[4], loop.members = 1;
  const int64_t sources = p[6], scalars = p[7];
  p += 8;
  auto member_stride = [&](const ffi::AnyBuffer& buffer, size_t rank) {
    auto dims = buffer.dimensions();
    if (dims.size() == rank) return int64_t{0};
    loop.members = dims[0];
    int64_t bytes = ffi::ByteWidth(buffer.element_type());
    for (size_t k = 1; k < dims.size(); ++k) bytes *= dims[k];
    return bytes;
  };
  for (int64_t k = 0; k < sources; ++k, p += 6) {
    auto buffer = operands.get<ffi::AnyBuffer>(k).value();
    auto dims = buffer.dimensions();
    const Source s{static_cast<const char*>(buffer.untyped_data()),
                   static_cast<int64_t>(ffi::ByteWidth(buffer.element_type())), dims.back(), member_stride(buffer, 2),
                   p[0], p[1], p[2], p[3], p[4], p[5]};
    loop.sources.push_back(s);
    loop.strides.push_back(s.stride);
    const int64_t row = s.row - loop.margin, column = s.is_column ? 0 : s.column - loop.margin;
    for (int64_t limit : {-row, dims[dims.size() - 2] - row, -column, dims.back() - column}) loop.limits.push_back(limit);
  }
  for (int64_t k = sources; k < sources + scalars; ++k) {
    auto buffer = operands.get<ffi::AnyBuffer>(k).value();
    loop.scalars.emplace_back(static_cast<const char*>(buffer.untyped_data()), member_stride(buffer, 0));
  }
  for (size_t k = 0; k < results.size(); ++k, p += 2) {
    auto buffer = *results.get<ffi::AnyBuffer>(k).value();
    Result r{static_cast<char*>(buffer.untyped_data()), static_cast<int64_t>(ffi::ByteWidth(buffer.element_type())),
             buffer.dimensions().back(), member_stride(buffer, 2), 0, 0, 0, p[1]};
    if (r.when != kAtOnce) {
      const auto& s = loop.sources[p[0]];
      r.behind = std::max<int64_t>(0, -s.ahead), r.below = std::max<int64_t>(0, -s.below), r.above = std::max<int64_t>(0, s.above);
    }
    loop.results.push_back(r);
    if (p[0] < 0)
      for (int64_t m = 0; m < loop.members; ++m) ClearGhosts(loop, r, m);
  }
}

// plan: rows, columns, ghosts, margin, early rounds, sharers of the threads, sources, scalars; six numbers a source (row,
// column, is_column, first row read in a round, first and last in all), two a result (the operand it overwrites or -1,
// and when its rows may be put in their place).
ffi::Error FusedLoop(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results, std::string_view kernel,
                     ffi::Span<const int64_t> plan) {
  Loop loop;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    auto found = Registry().find(std::string(kernel));
    if (found == Registry().end())
      return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                        "swmodel: the fused loop of this program is not loaded; compile the program in this process.");
    loop.kernel = found->second;
  }
  Describe(loop, operands, results, plan.begin());
  const int64_t first = -loop.margin, rows = loop.rows + 2 * loop.margin;
  const int64_t threads = std::max<int64_t>(1, pool.num_threads() / plan[5]);
  int64_t reach = 1;  // chunks thinner than the stencil would have to wait for others than their neighbours
  for (const auto& r : loop.results) reach = std::max(reach, r.below + r.above);
  const int64_t most = std::min(rows / reach, rows * loop.cells() / kCellsOfChunk);
  const int64_t chunks = threads == 1 ? 1 : std::clamp<int64_t>(4 * threads / loop.members + 1, 1, std::max<int64_t>(1, most));
  std::vector<Chunk> work;
  work.reserve(chunks * loop.members);
  for (int64_t m = 0; m < loop.members; ++m)
    for (int64_t c = 0; c < chunks; ++c)
      work.emplace_back(loop, m, first + rows * c / chunks, first + rows * (c + 1) / chunks, c > 0, c + 1 < chunks);
  const int64_t count = static_cast<int64_t>(work.size());
  InParallel(pool, threads, count, [&](int64_t k) { work[k].Run(); });
  for (auto& chunk : work) chunk.StoreLateRows();
  return ffi::Error::Success();
}

// Copies arrays into slot `index` of rooms for many of them, and hands all of them on: operands index, rooms, arrays;
// results rooms, arrays, in place of these. So that nobody writes over an array before it is stored.
ffi::Error Store(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const int64_t count = results.size() / 2, index = *operands.get<ffi::BufferR0<ffi::S32>>(0).value().typed_data();
  std::vector<std::tuple<char*, const char*, int64_t>> pieces;
  for (int64_t k = 0; k < count; ++k) {
    auto room = *results.get<ffi::AnyBuffer>(k).value();
    auto array = *results.get<ffi::AnyBuffer>(count + k).value();
    const int64_t bytes = array.size_bytes(), slots = room.dimensions()[0];
    char* slot = static_cast<char*>(room.untyped_data()) + std::clamp<int64_t>(index, 0, slots - 1) * bytes;
    const char* data = static_cast<const char*>(array.untyped_data());
    for (int64_t at = 0; at < bytes; at += kBytesOfPiece)
      pieces.emplace_back(slot + at, data + at, std::min(kBytesOfPiece, bytes - at));
  }
  InParallel(pool, std::max<int64_t>(1, pool.num_threads()), pieces.size(), [&](int64_t k) {
    auto [to, from, bytes] = pieces[k];
    std::memcpy(to, from, bytes);
  });
  return ffi::Error::Success();
}

// Hands on its results' operands; that it has others keeps it behind what they were made by.
ffi::Error After(ffi::RemainingArgs, ffi::RemainingRets) { return ffi::Error::Success(); }

// Rooms with nothing in them yet, in large pages: the system hands out new memory page by page, each as dear as a step of
// the few cells that fit in a small one.
ffi::Error Vacant(ffi::RemainingRets results) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  for (size_t k = 0; k < results.size(); ++k) {
    auto room = *results.get<ffi::AnyBuffer>(k).value();
    const uintptr_t first = reinterpret_cast<uintptr_t>(room.untyped_data()), end = first + room.size_bytes();
    const uintptr_t low = (first + kPage - 1) / kPage * kPage, high = end / kPage * kPage;
    if (low < high) madvise(reinterpret_cast<void*>(low), high - low, MADV_HUGEPAGE);
  }
#endif
  return ffi::Error::Success();
}

// A strip of an array of (..., rows, columns), and its rows one after the other.
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
          .EachRow([](char* array, char* strip, int64_t bytes) { std::memcpy(array, strip, bytes); });
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

}  // namespace

extern "C" void swmodel_register(const char* kernel, void* row, void* kept_bytes) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  Registry()[kernel] = {reinterpret_cast<void (*)(const RowCall*)>(row), reinterpret_cast<int64_t (*)(int64_t)>(kept_bytes)};
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_fused_loop, FusedLoop,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("kernel")
                                  .Attr<ffi::Span<const int64_t>>("plan"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_store, Store,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_vacant, Vacant, ffi::Ffi::Bind().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_paste, Paste, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_cut, Cut, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_after, After, ffi::Ffi::Bind().RemainingArgs().RemainingRets());
