// The structs of DLPack 1.3 (https://dmlc.github.io/dlpack) with their memory layout, declared here
// so that fusec depends on no other header: tensors, their two managed forms, and the table of
// functions with which a library passes tensors without Python calls.
#pragma once

#include <cstdint>

namespace fusec::python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Version {
  uint32_t major, minor;
};
inline constexpr Version kVersion = {1, 3};

struct Device {
  int32_t type;  // a DeviceType
  int32_t id;
};

struct DataType {
  uint8_t code;  // a TypeCode
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null for dense row-major
  uint64_t byte_offset;
};

// The content of a capsule "dltensor", which libraries older than DLPack 1.0 create.
struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

inline constexpr uint64_t kReadOnly = 1;  // flags
inline constexpr uint64_t kIsCopied = 2;

// The content of a capsule "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* manager;
  void (*deleter)(ManagedTensorVersioned*);
  uint64_t flags;
  Tensor tensor;
};

inline constexpr const char* kCapsule = "dltensor";
inline constexpr const char* kUsedCapsule = "used_dltensor";
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";
inline constexpr const char* kUsedVersionedCapsule = "used_dltensor_versioned";

// The table of functions: the attribute __dlpack_c_exchange_api__ of a type is a capsule
// "dlpack_exchange_api" that contains it. Functions return 0, or -1 with a Python exception set.
// None of them waits for a stream.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;  // of an older major version
  using SetError = void (*)(void* context, const char* kind, const char* message);
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* context, SetError);
  int (*managed_from_object)(void* object, ManagedTensorVersioned** out);
  int (*object_from_managed)(ManagedTensorVersioned* tensor, void** object);  // takes ownership
  int (*tensor_from_object)(void* object, Tensor* out);                       // a view; may be null
  int (*current_stream)(DeviceType type, int32_t id, void** stream);
};

}  // namespace fusec::python::dlpack
