#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

/// An array that Python lends, by DLPack or the buffer interface. All functions take arrays so:
/// nanobind alone reads the strides of any buffer, also of one that has none, as those of ctypes.
template <typename... Args>
struct LentArray : nanobind::ndarray<Args...> {
  using nanobind::ndarray<Args...>::ndarray;
  LentArray() = default;
  explicit LentArray(nanobind::ndarray<Args...>&& array)
      : nanobind::ndarray<Args...>(std::move(array)) {}
};

/// The object, or, where its buffer has no strides, a view of it that has.
inline nanobind::object with_strides(nanobind::handle source) noexcept {
  Py_buffer buffer;
  if (!PyObject_CheckBuffer(source.ptr())) return nanobind::borrow(source);
  if (PyObject_GetBuffer(source.ptr(), &buffer, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    return nanobind::borrow(source);
  }
  const bool has_strides = buffer.strides != nullptr || buffer.ndim == 0;
  PyBuffer_Release(&buffer);
  if (has_strides) return nanobind::borrow(source);
  auto view = nanobind::steal(PyMemoryView_FromObject(source.ptr()));
  if (!view.is_valid()) PyErr_Clear();
  return view;
}

template <typename... Args>
struct nanobind::detail::type_caster<LentArray<Args...>> {
  using Plain = make_caster<ndarray<Args...>>;
  NB_TYPE_CASTER(LentArray<Args...>, Plain::Name)

  bool from_python(handle source, std::uint32_t flags, cleanup_list* cleanup) noexcept {
    const object view = with_strides(source);
    Plain plain;
    if (!view.is_valid() || !plain.from_python(view, flags, cleanup)) return false;
    value = LentArray<Args...>(std::move(plain.value));
    return true;
  }
};
