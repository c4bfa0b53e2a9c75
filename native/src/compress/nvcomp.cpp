#include "compress/nvcomp.hpp"

#include <bit>
#include <cstdint>

#include "compress/nvcomp_chunk.hpp"
#include "compress/stream_memory.hpp"
#include "error.hpp"

namespace lanescope::compress {

namespace {

// How nvCOMP numbers types of values.
enum class Type : std::int32_t {
  int8 = 0,
  uint8 = 1,
  int16 = 2,
  uint16 = 3,
  int32 = 4,
  uint32 = 5,
  int64 = 6,
  uint64 = 7,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  told_by_chunk = 0xFF,
};

struct Properties {
  std::uint32_t version;
  std::uint32_t cuda_version;
};

// The options of each codec, every byte of them: nvCOMP wants zeros where it has no use for one
// yet, and they stand for what it chooses by itself.
struct AnsEncoding {
  std::int32_t kind = 0;
  Type type;
  std::uint8_t most_parts = 0, states = 0, sampling = 0;
  std::byte zeros[53] = {};
};
struct AnsDecoding {
  std::int32_t engine = 0;
  Type type = Type::told_by_chunk;
  std::uint8_t most_parts = 0, states = 0, unchecked = 0;
  std::byte zeros[53] = {};
};
struct BitcompEncoding {
  std::int32_t algorithm = 0;
  Type type;
  double step = 0;
  std::int32_t mode = 0;  // without loss
  std::byte zeros[44] = {};
};
struct BitcompDecoding {
  std::int32_t engine = 0;
  std::byte zeros[60] = {};
};

/// ANS counts how often bytes appear, those of the exponents of floating-point values apart.
Type ans_type(Dtype dtype) {
  if (dtype == Dtype::float16 || dtype == Dtype::bfloat16) return Type::float16;
  return dtype == Dtype::float32 ? Type::float32 : Type::uint8;
}

Type bitcomp_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bytes:
      return Type::uint8;
    case Dtype::float16:
      return Type::float16;
    case Dtype::bfloat16:
    case Dtype::uint16:
      return Type::uint16;
    case Dtype::float32:
      return Type::float32;
    case Dtype::float64:
      return Type::float64;
    case Dtype::int8:
      return Type::int8;
    case Dtype::int16:
      return Type::int16;
    case Dtype::int32:
      return Type::int32;
    case Dtype::int64:
      return Type::int64;
    case Dtype::uint32:
      return Type::uint32;
    case Dtype::uint64:
      return Type::uint64;
  }
  return Type::uint8;
}

template <typename Options, typename Some>
Options options_of(const Some& some) {
  return std::bit_cast<Options>(some);
}

}  // namespace

Nvcomp::Nvcomp(const std::string& path) : library_(path, "no nvcomp") {
  Properties properties{};
  library_.function<int (*)(Properties*)>("nvcompGetProperties")(&properties);
  version_ = properties.version;
  if (version_ / 1000 != kNvcompMajor)
    throw Error("nvcompGetProperties", 0, "no nvcomp",
                path + " is version " + std::to_string(version_ / 1000) +
                    " of nvCOMP, and version " + std::to_string(kNvcompMajor) + " is needed");
}

void Nvcomp::refuse(Codec codec) {
  throw Error("nvcomp", 0, "no nvcomp", needs_nvcomp(codec));
}

NvcompCodec::NvcompCodec(const Nvcomp& nvcomp, Codec codec, Dtype dtype)
    : version_(nvcomp.version()) {
  const bool ans = codec == Codec::ans;
  encoding_ = ans ? options_of<Options>(AnsEncoding{.type = ans_type(dtype)})
                  : options_of<Options>(BitcompEncoding{.type = bitcomp_type(dtype)});
  decoding_ = ans ? options_of<Options>(AnsDecoding{}) : options_of<Options>(BitcompDecoding{});
  const std::string begin = ans ? "nvcompBatchedANS" : "nvcompBatchedBitcomp";
  const auto find = [&]<typename Function>(Function& function, const char* end) {
    function = nvcomp.library().function<Function>((begin + end).c_str());
  };
  find(most_, "CompressGetMaxOutputChunkSize");
  find(encode_temporary_, "CompressGetTempSize");
  find(decode_temporary_, "DecompressGetTempSize");
  find(compress_, "CompressAsync");
  find(decompress_, "DecompressAsync");
  describe_ = nvcomp.library().function<Describe>("nvcompGetStatusString");
}

std::size_t NvcompCodec::most_chunk_bytes() const {
  std::size_t most = 0;
  check(most_(kBlockBytes, encoding_, &most), "CompressGetMaxOutputChunkSize");
  return most;
}

void NvcompCodec::encode(const NvcompChunks& chunks, cudaStream_t stream) const {
  std::size_t bytes = 0;
  check(encode_temporary_(chunks.count, kBlockBytes, encoding_, &bytes, chunks.count * kBlockBytes,
                          stream),
        "CompressGetTempSize");
  const StreamMemory temporary(bytes, stream);
  check(compress_(chunks.in, chunks.in_bytes, kBlockBytes, chunks.count, temporary.data(), bytes,
                  chunks.out, chunks.out_bytes, encoding_, chunks.statuses, stream),
        "CompressAsync");
}

void NvcompCodec::decode(const NvcompChunks& chunks, cudaStream_t stream) const {
  std::size_t bytes = 0;
  check(decode_temporary_(chunks.count, kBlockBytes, decoding_, &bytes, chunks.count * kBlockBytes,
                          stream),
        "DecompressGetTempSize");
  const StreamMemory temporary(bytes, stream);
  check(decompress_(chunks.in, chunks.in_bytes, chunks.out_room, chunks.out_bytes, chunks.count,
                    temporary.data(), bytes, chunks.out, decoding_, chunks.statuses, stream),
        "DecompressAsync");
}

void NvcompCodec::check(int status, const char* call) const {
  if (status == 0) return;
  static_cast<void>(cudaGetLastError());
  throw Error(call, status, "nvCOMP failed",
              "nvCOMP's " + std::string(call) + " failed: " + meaning_of(status));
}

}  // namespace lanescope::compress
