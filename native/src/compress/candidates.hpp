#pragma once

#include <vector>

#include "compress/blocks.hpp"

namespace lanescope::compress {

/// Whether lanescope's own code compresses values of a type by a codec, suitable or not.
bool takes(Codec codec, Dtype dtype);

/// Whether the kernels of updates by a codec keep nothing in memory meanwhile: they read values and
/// base but once, and hold values in shared memory.
bool codes_in_order(Codec codec, Dtype dtype);

/// Whether blocks are coded by NVIDIA's nvCOMP, on a GPU: its chunks are what we know nothing of.
bool by_nvcomp(Codec codec);

/// The codecs that may make values of a type smaller, the likeliest first; without those that need
/// a look.
std::vector<Codec> codecs_of(Dtype dtype);

/// The same with those that need a look at some blocks, as few arrays suit them.
std::vector<Codec> codecs_to_look_for(Dtype dtype);

/// Whether only a look at some blocks tells that it suits an array.
bool needs_look(Codec codec);

/// The codecs that `auto` tries on values of a type, in that order.
std::vector<Codec> tried_by_auto(Dtype dtype);

}  // namespace lanescope::compress
