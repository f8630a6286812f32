// From the cells of a grid to cells that are a whole number of times smaller, and back; refinement.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#pragma GCC push_options
#pragma GCC optimize("O3")  // with vectors
namespace {

// Values along an axis: (1 - weight) x[cell] + weight x[next].
template <typename T>
struct Points {
  std::vector<int64_t> cell, next;
  std::vector<T> weight;

  Points(int64_t cells, int64_t ratio, bool faces, int64_t first, int64_t count) : cell(count), next(count), weight(count) {
    std::vector<double> at(ratio);
    for (int64_t part = 0; part < ratio; ++part) at[part] = (faces ? part + 1.0 : part + 0.5) / ratio - (faces ? 1.0 : 0.5);
    int64_t c = first / ratio, part = first % ratio;
    for (int64_t k = 0; k < count; ++k) {
      cell[k] = c;
      next[k] = std::clamp<int64_t>(at[part] < 0 ? c - 1 : c + 1, 0, cells - 1);
      weight[k] = std::abs(at[part]);
      if (++part == ratio) part = 0, ++c;
    }
  }
};

// From old cells to new ones.
template <typename T>
void InterpolatePlane(const T* from, T* to, int64_t width, const Points<T>& rows, const Points<T>& columns) {
  constexpr int64_t kNarrow = 16;  // columns, for which a pass over each of many rows costs more than the values in it
  const int64_t count = columns.cell.size(), height = rows.cell.size();
  const T *weight = columns.weight.data(), *high = rows.weight.data();
  if (count < kNarrow) {
    for (int64_t i = 0; i < count; ++i) {
      const T *cell = from + columns.cell[i], *next = from + columns.next[i], v = weight[i];
      for (int64_t j = 0; j < height; ++j) {
        const int64_t a = rows.cell[j] * width, b = rows.next[j] * width;
        const T w = high[j], x = (1 - w) * cell[a] + w * cell[b], y = (1 - w) * next[a] + w * next[b];
        to[j * count + i] = (1 - v) * x + v * y;
      }
    }
    return;
  }
  std::vector<T> line(width);
  for (int64_t j = 0; j < height; ++j, to += count) {
    const T *a = from + rows.cell[j] * width, *b = from + rows.next[j] * width, w = high[j];
    for (int64_t i = 0; i < width; ++i) line[i] = (1 - w) * a[i] + w * b[i];
    for (int64_t i = 0; i < count; ++i) to[i] = (1 - weight[i]) * line[columns.cell[i]] + weight[i] * line[columns.next[i]];
  }
}

// The transpose: what new cells take from old ones is added to these, which are 0 before.
template <typename T>
void GatherPlane(const T* from, T* to, int64_t width, const Points<T>& rows, const Points<T>& columns) {
  std::vector<T> line(width);
  const int64_t count = columns.cell.size(), *cell = columns.cell.data(), *next = columns.next.data();
  const T* weight = columns.weight.data();
  for (size_t j = 0; j < rows.cell.size(); ++j, from += count) {
    std::fill(line.begin(), line.end(), T{});
    for (int64_t i = 0; i < count; ++i) {
      line[cell[i]] += (1 - weight[i]) * from[i];
      line[next[i]] += weight[i] * from[i];
    }
    T *a = to + rows.cell[j] * width, *b = to + rows.next[j] * width, w = rows.weight[j];
    for (int64_t i = 0; i < width; ++i) a[i] += (1 - w) * line[i];
    for (int64_t i = 0; i < width; ++i) b[i] += w * line[i];
  }
}

// Plan: whether to apply the transpose, ratio, numbers of fields and of boxes. Then for each field, whether its values lie on
// faces along y, and along x, and its boxes: the rows and columns of the old cells, the first row and column of the new ones,
// and their number. Threads share fields and boxes.
template <typename T>
void EachBox(const Array& x, const Array& y, const int64_t* plan, int64_t threads) {
  struct Job {
    const int64_t *faces, *box;
    int64_t old_at, new_at;
  };
  const bool back = plan[0] != 0;
  const int64_t ratio = plan[1], fields = plan[2], boxes = plan[3];
  std::vector<Job> jobs;
  int64_t old_cells = 0, new_cells = 0;
  for (int64_t k = 0; k < fields; ++k) {
    const int64_t* faces = plan + 4 + k * (2 + 6 * boxes);
    for (const int64_t* box = faces + 2; box < faces + 2 + 6 * boxes; box += 6) {
      if (box[4] * box[5] > 0) jobs.push_back({faces, box, old_cells, new_cells});
      old_cells += box[0] * box[1], new_cells += box[4] * box[5];
    }
  }
  const int64_t from_cells = back ? new_cells : old_cells, to_cells = back ? old_cells : new_cells;
  if (back) std::fill_n(y.As<T>(), y.count(), T{});
  if (jobs.empty() || from_cells == 0 || to_cells == 0) return;
  const int64_t count = jobs.size(), members = x.count() / from_cells;
  ThreadPool::Get().Run(threads, members * count, [&](int64_t n) {
    const Job& job = jobs[n % count];
    const int64_t* box = job.box;
    const T* from = x.As<T>() + n / count * from_cells + (back ? job.new_at : job.old_at);
    T* to = y.As<T>() + n / count * to_cells + (back ? job.old_at : job.new_at);
    const Points<T> rows(box[0], ratio, job.faces[0], box[2], box[4]), columns(box[1], ratio, job.faces[1], box[3], box[5]);
    (back ? GatherPlane<T> : InterpolatePlane<T>)(from, to, box[1], rows, columns);
  });
}

XLA_FFI_Error* Interpolate(const Call& call) {
  const Array x = call.operand(0), y = call.result(0);
  if (x.type == XLA_FFI_DataType_F32) EachBox<float>(x, y, call.plan(), call.threads());
  else if (x.type == XLA_FFI_DataType_F64) EachBox<double>(x, y, call.plan(), call.threads());
  else return call.Fail("swmodel_interpolate takes floats of 4 or 8 bytes");
  return nullptr;
}

// An array's part of a plan: the number of its weights, and whether only the last row and column of a block are summed.
struct Plane {
  int64_t weights, last_row, last_column;
};

// Sums of weights times the cells of an array over blocks, and their transpose, which is added to the cells.
// Plan: row and column of the box's first cell in arrays, ratio, rows and columns of the first block before the box, and a
// Plane for each array.
template <typename T>
class BlocksOf {
 public:
  BlocksOf(const Array& weights, const Array& sums, const int64_t* plan)
      : weights_(weights.As<T>()), rows_(weights.sizes[1]), columns_(weights.sizes[2]), row_(plan[0]), column_(plan[1]),
        ratio_(plan[2]), above_(plan[3]), before_(plan[4]), across_(sums.sizes[sums.rank - 1]) {}

  // Those of one row of blocks, into `sums`.
  void Sum(const T* x, int64_t width, const Plane& plane, int64_t block, T* sums) const {
    std::vector<T> memory(columns_);
    T* __restrict line = memory.data();
    EachRow(x, width, plane, block, [&](const T* __restrict weights, const T* __restrict cells) {
      for (int64_t i = 0; i < columns_; ++i) line[i] += weights[i] * cells[i];
    });
    for (int64_t k = 0; k < across_; ++k) {
      const auto [first, end] = Range(k, before_, columns_, plane.last_column);
      sums[k] = T{};
      for (int64_t i = first; i < end; ++i) sums[k] += line[i];
    }
  }

  void Spread(T* x, int64_t width, const Plane& plane, int64_t block, const T* sums) const {
    std::vector<T> memory(columns_);
    T* __restrict line = memory.data();
    for (int64_t k = 0; k < across_; ++k) {
      const auto [first, end] = Range(k, before_, columns_, plane.last_column);
      for (int64_t i = first; i < end; ++i) line[i] = sums[k];
    }
    EachRow(x, width, plane, block, [&](const T* __restrict weights, T* __restrict cells) {
      for (int64_t i = 0; i < columns_; ++i) cells[i] += weights[i] * line[i];
    });
  }

 private:
  // Calls row(weights, cells) for each row of a block.
  template <typename Cells, typename Row>
  void EachRow(Cells* x, int64_t width, const Plane& plane, int64_t block, const Row& row) const {
    const auto [first, end] = Range(block, above_, rows_, plane.last_row);
    for (int64_t j = first; j < end; ++j)
      row(weights_ + (plane.weights * rows_ + j) * columns_, x + (row_ + j) * width + column_);
  }

  // The cells (first, last + 1) of a block along an axis of `count` cells, or the last of a whole block alone.
  std::pair<int64_t, int64_t> Range(int64_t block, int64_t before, int64_t count, bool last) const {
    const int64_t end = (block + 1) * ratio_ - before;
    return {std::max<int64_t>(0, end - (last ? 1 : ratio_)), std::min(end, count)};
  }

  const T* weights_;
  int64_t rows_, columns_, row_, column_, ratio_, above_, before_, across_;
};

// All planes of all members, in pieces of some rows of blocks, which threads share.
template <typename T>
void EachPlane(const Call& call, const Array& sums, bool back) {
  constexpr int64_t kBlocksOfPiece = 1024;
  const Array weights = call.operand(0);
  const auto* planes = reinterpret_cast<const Plane*>(call.plan() + 5);
  const int64_t *sizes = sums.sizes + sums.rank - 3, count = sizes[0], down = sizes[1], across = sizes[2];
  if (down * across == 0) return;
  const BlocksOf<T> blocks(weights, sums, call.plan());
  const int64_t rows = std::max<int64_t>(1, kBlocksOfPiece / across), pieces = (down + rows - 1) / rows;
  ThreadPool::Get().Run(call.threads(), sums.count() / (down * across) * pieces, [&](int64_t n) {
    const int64_t k = n / pieces % count, member = n / pieces / count, first = n % pieces * rows;
    const Array array = call.result(k);
    const int64_t width = array.sizes[array.rank - 1];
    T *x = array.As<T>() + member * array.sizes[array.rank - 2] * width, *of_plane = sums.As<T>() + n / pieces * down * across;
    for (int64_t block = first; block < std::min(first + rows, down); ++block) {
      if (back) blocks.Spread(x, width, planes[k], block, of_plane + block * across);
      else blocks.Sum(x, width, planes[k], block, of_plane + block * across);
    }
  });
}

// Operands: weights, arrays, with `back` sums; results: the arrays, in place, and unless `back` sums.
template <bool back>
XLA_FFI_Error* SumsOrSpread(const Call& call) {
  const Array sums = back ? call.operand(call.operands() - 1) : call.result(call.results() - 1);
  if (sums.type == XLA_FFI_DataType_F32) EachPlane<float>(call, sums, back);
  else if (sums.type == XLA_FFI_DataType_F64) EachPlane<double>(call, sums, back);
  else return call.Fail("swmodel_block_sums takes floats of 4 or 8 bytes");
  return nullptr;
}

}  // namespace
#pragma GCC pop_options

SWMODEL_FUNCTION(swmodel_interpolate, Interpolate)
SWMODEL_FUNCTION(swmodel_block_sums, SumsOrSpread<false>)
SWMODEL_FUNCTION(swmodel_add_to_blocks, SumsOrSpread<true>)
