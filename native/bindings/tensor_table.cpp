#include "tensor_table.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "error.hpp"
#include "lent_array.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using DlTensor = nb::dlpack::dltensor;

namespace {

constexpr std::uint8_t kComplexCode = 5;

std::optional<std::uint64_t> bytes_without_gaps(const DlTensor& tensor) {
  const std::size_t bits = std::size_t{tensor.dtype.bits} * tensor.dtype.lanes;
  if (tensor.dtype.code == kComplexCode || bits == 0 || bits % 8 != 0) return std::nullopt;
  std::int64_t values = 1;
  bool whole = true;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.strides != nullptr && tensor.shape[i] > 1)
      whole = whole && tensor.strides[i] == values;
    values *= tensor.shape[i];
  }
  if (!whole && values > 0) return std::nullopt;
  return static_cast<std::uint64_t>(values) * (bits / 8);
}

int gpu_of(const DlTensor& tensor) {
  if (tensor.device.device_type == nb::device::cpu::value) return -1;
  return tensor.device.device_type == nb::device::cuda::value ? tensor.device.device_id : -2;
}

/// Type and shape of the tensor before.
class Kind {
 public:
  /// Whether it is of this kind; it is so afterwards.
  bool becomes(const DlTensor& tensor) {
    const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
    const bool same = dtype_.code == tensor.dtype.code && dtype_.bits == tensor.dtype.bits &&
                      dtype_.lanes == tensor.dtype.lanes &&
                      std::equal(shape.begin(), shape.end(), shape_.begin(), shape_.end());
    if (same) return true;
    dtype_ = tensor.dtype;
    shape_.assign(shape.begin(), shape.end());
    return false;
  }

 private:
  nb::dlpack::dtype dtype_{};
  std::vector<std::int64_t> shape_;
};

using Room = LentArray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<std::uint64_t> room_for(const Room& room, std::size_t count) {
  if (room.size() != count)
    throw lanescope::Error("tensors", 0, "bad values", "there is not room for as many tensors");
  return {static_cast<std::uint64_t*>(room.data()), count};
}

/// Null where there is none of a version that is known.
const ExchangeApi* api_of(nb::handle capsule) {
  const auto* api =
      static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), ExchangeApi::kCapsule));
  if (api == nullptr) PyErr_Clear();
  return api != nullptr && api->major == ExchangeApi::kMajor ? api : nullptr;
}

/// Fetches tensors into the cache before they are looked at. A tensor is a chain of three objects
/// (Python's, the tensor, its storage), and in a list that was not used lately each is a cache
/// miss. Where they lie is only a hint: nothing but addresses is read, of objects that are alive.
class TensorPrefetch {
 public:
  explicit TensorPrefetch(const nb::list& tensors)
      : tensors_(tensors.ptr()), count_(tensors.size()) {}

  /// Finds where an object of Python has the tensor, in which its shape lies.
  void learn(PyObject* object, const DlTensor& tensor) {
    const auto shape = reinterpret_cast<std::uintptr_t>(tensor.shape);
    const auto bytes = nb::cast<std::size_t>(nb::handle(object).type().attr("__basicsize__"));
    const std::size_t words = bytes / sizeof(shape);
    for (word_ = kHeadWords; word_ < words; ++word_)
      if (const auto found = word_of(object, word_); found <= shape && shape - found < kLongest)
        return;
    word_ = 0;
  }

  /// Fetches parts of the next ones. Inline, as GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] void after(std::size_t i) const {
    if (word_ == 0) return;
    if (i + 3 * kDistance < count_) __builtin_prefetch(object(i + 3 * kDistance));
    if (const char* tensor = tensor_of(i + 2 * kDistance))
      for (std::size_t line = 0; line < kLongest; line += kLine) __builtin_prefetch(tensor + line);
    if (const char* tensor = tensor_of(i + kDistance))
      __builtin_prefetch(reinterpret_cast<const void*>(word_of(tensor, kStorageWord)));
  }

 private:
  static constexpr std::size_t kDistance = 6, kLine = 64, kLongest = 256;
  static constexpr std::size_t kHeadWords = sizeof(PyObject) / sizeof(void*);
  static constexpr std::size_t kStorageWord = 2;  // behind its table of functions and its count

  static std::uintptr_t word_of(const void* object, std::size_t word) {
    std::uintptr_t found = 0;
    std::memcpy(&found, static_cast<const char*>(object) + word * sizeof found, sizeof found);
    return found;
  }

  PyObject* object(std::size_t i) const {
    return PyList_GetItem(tensors_, static_cast<Py_ssize_t>(i));
  }

  /// Null behind the last, and of an object of another type than the first, which may be anything.
  const char* tensor_of(std::size_t i) const {
    if (i >= count_ || Py_TYPE(object(i)) != Py_TYPE(object(0))) return nullptr;
    return reinterpret_cast<const char*>(word_of(object(i), word_));
  }

  PyObject* tensors_;
  std::size_t count_, word_ = 0;
};

using Summary = std::tuple<std::size_t, std::uint64_t, std::uint64_t>;

std::optional<Summary> tensor_table(nb::handle capsule, const nb::list& tensors, int gpu,
                                    const Room& pointers, const Room& sizes, const Room& begins) {
  const std::size_t count = tensors.size();
  TensorTable table{room_for(pointers, count), room_for(sizes, count), room_for(begins, count)};
  const auto* api = api_of(capsule);
  const auto found = api == nullptr ? std::nullopt : table.fill(*api, tensors, gpu);
  if (!found) return std::nullopt;
  return Summary{found->runs, found->address_bits, found->size_bits};
}

/// Slices of a tensor along its first dimension.
struct Slices {
  std::uint64_t first, stride, bytes;
  std::int64_t count;
};

/// None where the tensor lies elsewhere, or its slices overlap or have gaps, or may be views that
/// are changed when they are read.
std::optional<Slices> slices_of(const DlTensor& tensor, int gpu) {
  if (tensor.ndim < 1 || gpu_of(tensor) != gpu) return std::nullopt;
  DlTensor one = tensor;
  --one.ndim;
  ++one.shape;
  if (one.strides != nullptr) ++one.strides;
  const auto bytes = bytes_without_gaps(one);
  if (!bytes || *bytes <= TensorTable::kShortBytes) return std::nullopt;
  const std::uint64_t item = std::uint64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  const bool apart = tensor.strides != nullptr && tensor.shape[0] > 1;
  if (apart && tensor.strides[0] < 0) return std::nullopt;
  const std::uint64_t stride =
      apart ? static_cast<std::uint64_t>(tensor.strides[0]) * item : *bytes;
  if (stride < *bytes) return std::nullopt;
  return Slices{reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset, stride, *bytes,
                tensor.shape[0]};
}

/// -1 where it is no plain whole number of a slice.
std::int64_t slice_number(PyObject* given, std::int64_t count) {
  if (!PyLong_CheckExact(given)) return -1;
  const long long number = PyLong_AsLongLong(given);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return number >= 0 && number < count ? number : -1;
}

using SliceSummary = std::tuple<std::uint64_t, std::uint64_t>;

std::optional<SliceSummary> slice_table(nb::handle capsule, nb::handle tensor,
                                        const nb::list& numbers, int gpu, const Room& pointers) {
  const auto out = room_for(pointers, numbers.size());
  const auto* api = api_of(capsule);
  DlTensor lent{};
  if (api == nullptr) return std::nullopt;
  if (api->lend(tensor.ptr(), &lent) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto slices = slices_of(lent, gpu);
  if (!slices) return std::nullopt;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t number =
        slice_number(PyList_GetItem(numbers.ptr(), static_cast<Py_ssize_t>(i)), slices->count);
    if (number < 0) return std::nullopt;
    out[i] = slices->first + static_cast<std::uint64_t>(number) * slices->stride;
  }
  return SliceSummary{slices->bytes, slices->first | slices->stride};
}

}  // namespace

std::optional<TensorSummary> TensorTable::fill(const ExchangeApi& api, const nb::list& tensors,
                                               int gpu) {
  Kind kind;
  TensorPrefetch prefetch(tensors);
  TensorSummary found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    prefetch.after(i);
    PyObject* const one = PyList_GetItem(tensors.ptr(), static_cast<Py_ssize_t>(i));
    if (Py_TYPE(one) != Py_TYPE(PyList_GetItem(tensors.ptr(), 0))) return std::nullopt;
    DlTensor tensor{};
    if (api.lend(one, &tensor) != 0) {
      PyErr_Clear();
      return std::nullopt;
    }
    if (i == 0) prefetch.learn(one, tensor);
    const auto bytes = bytes_without_gaps(tensor);
    if (!bytes || *bytes <= kShortBytes || gpu_of(tensor) != gpu) return std::nullopt;
    pointers[i] = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
    sizes[i] = *bytes;
    found.address_bits |= pointers[i];
    found.size_bits |= *bytes;
    if (!kind.becomes(tensor) || i == 0) begins[found.runs++] = i;
  }
  return found;
}

void bind_tensor_table(nb::module_& module) {
  module.def(
      "slice_table", &slice_table, "api"_a, "tensor"_a, "numbers"_a, "gpu"_a,
      "pointers"_a.noconvert(),
      nb::sig("def slice_table(api: object, tensor: object, numbers: list[int], gpu: int, "
              "pointers: object) -> tuple[int, int] | None"),
      "Find where numbered slices of a tensor along its first dimension lie; returns the bytes of "
      "each, and all bits of their addresses, or None where they have to be looked at one by one.");
  module.def(
      "tensor_table", &tensor_table, "api"_a, "tensors"_a, "gpu"_a, "pointers"_a.noconvert(),
      "sizes"_a.noconvert(), "begins"_a.noconvert(),
      nb::sig("def tensor_table(api: object, tensors: list[object], gpu: int, pointers: object, "
              "sizes: object, begins: object) -> tuple[int, int, int] | None"),
      "Find where tensors lie, by DLPack's interface in C, and where their type or shape "
      "changes; returns how often, and all bits of their addresses and of their sizes, or None "
      "where one has to be looked at by itself.");
}
