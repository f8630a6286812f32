// Linear interpolation of planes to cells that are a whole number of times smaller; strips.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

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
  std::vector<T> line(width);
  const int64_t count = columns.cell.size(), *cell = columns.cell.data(), *next = columns.next.data();
  const T* weight = columns.weight.data();
  for (size_t j = 0; j < rows.cell.size(); ++j, to += count) {
    const T *a = from + rows.cell[j] * width, *b = from + rows.next[j] * width, w = rows.weight[j];
    for (int64_t i = 0; i < width; ++i) line[i] = (1 - w) * a[i] + w * b[i];
    for (int64_t i = 0; i < count; ++i) to[i] = (1 - weight[i]) * line[cell[i]] + weight[i] * line[next[i]];
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

// Plan: whether to apply the transpose, ratio, first row and column of new cells, and for each plane whether its values lie on
// faces along y, and along x.
template <typename T>
void EachPlane(const Array& x, const Array& y, const int64_t* plan, int64_t length) {
  const bool back = plan[0] != 0;
  const int64_t *old_shape = (back ? y : x).sizes, *new_shape = (back ? x : y).sizes, n = x.rank;
  const int64_t rows = old_shape[n - 2], columns = old_shape[n - 1], down = new_shape[n - 2], across = new_shape[n - 1];
  const T* from = x.As<T>();
  T* to = y.As<T>();
  if (back) std::fill_n(to, y.count(), T{});
  if (down * across == 0) return;
  const int64_t count = (back ? x : y).count() / (down * across), planes = (length - 4) / 2;
  const Points<T> along_y[] = {{rows, plan[1], false, plan[2], down}, {rows, plan[1], true, plan[2], down}};
  const Points<T> along_x[] = {{columns, plan[1], false, plan[3], across}, {columns, plan[1], true, plan[3], across}};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t* faces = plan + 4 + 2 * (k % planes);
    const auto &of_rows = along_y[faces[0] != 0], &of_columns = along_x[faces[1] != 0];
    if (back) GatherPlane(from + k * down * across, to + k * rows * columns, columns, of_rows, of_columns);
    else InterpolatePlane(from + k * rows * columns, to + k * down * across, columns, of_rows, of_columns);
  }
}

XLA_FFI_Error* Interpolate(const Call& call) {
  const Array x = call.operand(0), y = call.result(0);
  int64_t length;
  const int64_t* plan = call.plan(&length);
  if (x.type == XLA_FFI_DataType_F32) EachPlane<float>(x, y, plan, length);
  else if (x.type == XLA_FFI_DataType_F64) EachPlane<double>(x, y, plan, length);
  else return call.Fail("swmodel_interpolate takes floats of 4 or 8 bytes");
  return nullptr;
}

}  // namespace

SWMODEL_FUNCTION(swmodel_interpolate, Interpolate)
