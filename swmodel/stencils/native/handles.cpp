// Calls of mpi4jax whose attributes hold numbers instead of MPI's handles.
//
// A handle of Open MPI is an address, which differs from process to process, so that a compiled program with such a handle
// cannot be stored on disk and reused. Programs of swmodel contain the index of an entry in the table below
// (parallel/mpi.py), and so do messages for the ranks of neighbours. The functions here look up the handles and call
// mpi4jax's own functions with them.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "xla/ffi/api/c_api.h"

namespace {

constexpr int kFunctions = 16, kHandles = 4096, kAttributes = 32;

XLA_FFI_Handler* originals[kFunctions];
int64_t handles[kHandles];

bool IsHandle(const XLA_FFI_ByteSpan& name) {
  const std::string_view text(name.ptr, name.len);
  return text == "comm" || text == "op" || text == "dtype" || text == "sendtype" || text == "recvtype" || text == "source" ||
         text == "dest";
}

template <int kFunction>
XLA_FFI_Error* Forward(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Attrs& attributes = frame->attrs;
  if (attributes.size == 0 || attributes.size > kAttributes) return originals[kFunction](frame);  // XLA queries the traits
  std::array<XLA_FFI_Scalar, kAttributes> scalars;
  std::array<void*, kAttributes> values;
  for (int64_t k = 0; k < attributes.size; ++k) {
    values[k] = attributes.attrs[k];
    if (!IsHandle(*attributes.names[k])) continue;
    scalars[k] = *static_cast<XLA_FFI_Scalar*>(values[k]);
    scalars[k].value = &handles[*static_cast<int64_t*>(scalars[k].value)];
    values[k] = &scalars[k];
  }
  void** numbered = std::exchange(attributes.attrs, values.data());
  XLA_FFI_Error* error = originals[kFunction](frame);
  attributes.attrs = numbered;
  return error;
}

template <int... kFunction>
constexpr std::array<XLA_FFI_Handler*, kFunctions> Forwards(std::integer_sequence<int, kFunction...>) {
  return {&Forward<kFunction>...};
}

}  // namespace

extern "C" void swmodel_set_handle(int64_t number, int64_t handle) { handles[number] = handle; }

// Returns forwarding function number k, which calls `original`.
extern "C" void* swmodel_forward(int64_t k, void* original) {
  static constexpr auto forwards = Forwards(std::make_integer_sequence<int, kFunctions>());
  originals[k] = reinterpret_cast<XLA_FFI_Handler*>(original);
  return reinterpret_cast<void*>(forwards[k]);
}
