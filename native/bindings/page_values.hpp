#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>

#include "error.hpp"
#include "lent_array.hpp"

// Addresses and sizes of pages, as Python lends them: arrays of NumPy of one dimension.

template <typename T>
using PageNumbers =
    LentArray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
std::span<const T> numbers_of(const PageNumbers<T>& array) {
  return {static_cast<const T*>(array.data()), array.size()};
}

/// Throws `Error` where they are not of as many pages.
template <typename T>
void require_as_many(const PageNumbers<T>& one, const PageNumbers<T>& other) {
  if (one.size() != other.size())
    throw lanescope::Error("pages", 0, "bad values", "there are not as many sizes as addresses");
}
