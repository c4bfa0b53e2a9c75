#include "tensor_table.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
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

std::optional<std::size_t> tensor_table(nb::handle capsule, const nb::list& tensors, int gpu,
                                        const Room& pointers, const Room& sizes,
                                        const Room& begins) {
  const std::size_t count = tensors.size();
  TensorTable table{room_for(pointers, count), room_for(sizes, count), room_for(begins, count)};
  const auto* api =
      static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), ExchangeApi::kCapsule));
  if (api == nullptr) PyErr_Clear();
  if (api == nullptr || api->major != ExchangeApi::kMajor) return std::nullopt;
  return table.fill(*api, tensors, gpu);
}

}  // namespace

std::optional<std::size_t> TensorTable::fill(const ExchangeApi& api, const nb::list& tensors,
                                             int gpu) {
  Kind kind;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PyObject* const one = PyList_GetItem(tensors.ptr(), static_cast<Py_ssize_t>(i));
    if (Py_TYPE(one) != Py_TYPE(PyList_GetItem(tensors.ptr(), 0))) return std::nullopt;
    DlTensor tensor{};
    if (api.lend(one, &tensor) != 0) {
      PyErr_Clear();
      return std::nullopt;
    }
    const auto bytes = bytes_without_gaps(tensor);
    if (!bytes || *bytes <= kShortBytes || gpu_of(tensor) != gpu) return std::nullopt;
    pointers[i] = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
    sizes[i] = *bytes;
    if (!kind.becomes(tensor) || i == 0) begins[runs++] = i;
  }
  return runs;
}

void bind_tensor_table(nb::module_& module) {
  module.def(
      "tensor_table", &tensor_table, "api"_a, "tensors"_a, "gpu"_a, "pointers"_a.noconvert(),
      "sizes"_a.noconvert(), "begins"_a.noconvert(),
      nb::sig("def tensor_table(api: object, tensors: list[object], gpu: int, pointers: object, "
              "sizes: object, begins: object) -> int | None"),
      "Find where tensors lie, by DLPack's interface in C, and where their type or shape "
      "changes; returns how often, or None where one has to be looked at by itself.");
}
