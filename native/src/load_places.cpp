#include "load_places.hpp"

#include "error.hpp"

namespace lanescope {

LoadPlaces places_in(std::size_t span, std::size_t stride, std::size_t count) {
  if (stride == 0 || stride % LoadPlaces::kWord != 0)
    throw Error("places_in", 0, "bad stride", "a stride must be a multiple of 8 bytes");
  const std::size_t per_lap = span / stride;
  if (count == 0 || count > per_lap * (stride / LoadPlaces::kWord))
    throw Error("places_in", 0, "bad places", "the loads would not all have a place of their own");
  return {count, stride, per_lap};
}

LoadPlaces one_lap(std::size_t span, std::size_t stride) {
  return places_in(span, stride, stride == 0 ? 0 : span / stride);
}

}  // namespace lanescope
