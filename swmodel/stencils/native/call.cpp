// A call of XLA's, read by the C interface of its foreign functions: the C++ interface takes most of the time in which the
// rest of this library is compiled.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "xla/ffi/api/c_api.h"

namespace {

// An operand or a result.
struct Array {
  char* data;
  XLA_FFI_DataType type;
  int64_t rank;
  const int64_t* sizes;

  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(data);
  }

  int64_t count() const {
    int64_t product = 1;
    for (int64_t k = 0; k < rank; ++k) product *= sizes[k];
    return product;
  }

  // Bytes of an element.
  int64_t width() const {
    switch (type) {
      case XLA_FFI_DataType_PRED: case XLA_FFI_DataType_S8: case XLA_FFI_DataType_U8: return 1;
      case XLA_FFI_DataType_S16: case XLA_FFI_DataType_U16: case XLA_FFI_DataType_F16: case XLA_FFI_DataType_BF16: return 2;
      case XLA_FFI_DataType_S32: case XLA_FFI_DataType_U32: case XLA_FFI_DataType_F32: return 4;
      case XLA_FFI_DataType_S64: case XLA_FFI_DataType_U64: case XLA_FFI_DataType_F64: case XLA_FFI_DataType_C64: return 8;
      case XLA_FFI_DataType_C128: return 16;
      default: std::abort();  // float8 and the like
    }
  }

  int64_t bytes() const { return count() * width(); }
};

class Call {
 public:
  explicit Call(XLA_FFI_CallFrame* frame) : frame_(frame) {}

  int64_t operands() const { return frame_->args.size; }
  int64_t results() const { return frame_->rets.size; }
  Array operand(int64_t k) const { return Read(frame_->args.args[k]); }
  Array result(int64_t k) const { return Read(frame_->rets.rets[k]); }

  // Operand number k, a whole number.
  int32_t number(int64_t k) const { return *operand(k).As<int32_t>(); }

  // The only list of whole numbers among the attributes, and its length.
  const int64_t* plan(int64_t* length = nullptr) const {
    const auto* list = static_cast<const XLA_FFI_Array*>(Attribute(XLA_FFI_AttrType_ARRAY));
    if (length != nullptr) *length = static_cast<int64_t>(list->size);
    return static_cast<const int64_t*>(list->data);
  }

  // The only text among the attributes.
  std::string_view text() const {
    const auto* span = static_cast<const XLA_FFI_ByteSpan*>(Attribute(XLA_FFI_AttrType_STRING));
    return {span->ptr, span->len};
  }

  // The threads of XLA's pool.
  int64_t threads() const {
    int64_t count = 0;
    XLA_FFI_ThreadPool_NumThreads_Args request{XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr, frame_->ctx, &count};
    if (XLA_FFI_Error* error = frame_->api->XLA_FFI_ThreadPool_NumThreads(&request)) {
      XLA_FFI_Error_Destroy_Args destroyed{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
      frame_->api->XLA_FFI_Error_Destroy(&destroyed);
    }
    return count;
  }

  XLA_FFI_Error* Fail(const char* message) const {
    XLA_FFI_Error_Create_Args error{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, message, XLA_FFI_Error_Code_FAILED_PRECONDITION};
    return frame_->api->XLA_FFI_Error_Create(&error);
  }

 private:
  static Array Read(const void* buffer) {
    const auto* b = static_cast<const XLA_FFI_Buffer*>(buffer);
    return {static_cast<char*>(b->data), b->dtype, b->rank, b->dims};
  }

  const void* Attribute(XLA_FFI_AttrType type) const {
    int64_t k = 0;
    while (frame_->attrs.types[k] != type) ++k;
    return frame_->attrs.attrs[k];
  }

  XLA_FFI_CallFrame* frame_;
};

// Handles a frame: XLA queries the version of the interface once, and then calls `function`, which returns null or an error.
template <typename Function>
XLA_FFI_Error* Answer(XLA_FFI_CallFrame* frame, const Function& function) {
  const XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension == nullptr || extension->type != XLA_FFI_Extension_Metadata) return function(Call(frame));
  XLA_FFI_Metadata* metadata = reinterpret_cast<const XLA_FFI_Metadata_Extension*>(extension)->metadata;
  metadata->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  metadata->traits = 0;
#ifdef XLA_FFI_UNKNOWN_TYPE_ID
  metadata->state_type_id = XLA_FFI_UNKNOWN_TYPE_ID;
#endif
  return nullptr;
}

}  // namespace

// Defines the symbol `name` of a foreign function that calls `function(const Call&)`.
#define SWMODEL_FUNCTION(name, function) \
  extern "C" XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) { return Answer(frame, function); }
