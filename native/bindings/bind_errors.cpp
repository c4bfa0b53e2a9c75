#include "bindings.hpp"
#include "error.hpp"

namespace nb = nanobind;

void bind_errors(nb::module_& module) {
  // A plain Python class, so that its args can carry the parts of the error.
  nb::object type = nb::steal(
      PyErr_NewExceptionWithDoc("lanescope._native.NativeError",
                                "A call of the core failed; args: call, code, name, detail, where.",
                                PyExc_RuntimeError, nullptr));
  module.attr("NativeError") = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* payload) {
        try {
          std::rethrow_exception(pointer);
        } catch (const lanescope::Error& error) {
          const nb::tuple args =
              nb::make_tuple(error.call().c_str(), error.code(), error.name().c_str(),
                             error.detail().c_str(), error.where().c_str());
          PyErr_SetObject(static_cast<PyObject*>(payload), args.ptr());
        }
      },
      type.ptr());  // the module keeps it alive
}
