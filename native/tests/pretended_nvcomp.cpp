// Stands in for NVIDIA's library, on the pretended CUDA: codecs that leave zero bytes out. A chunk
// that is not as it was coded ends the program, so that a test sees that none gets here.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "pretended_cuda.hpp"

namespace {

constexpr int kInvalid = 10;

struct Options {
  unsigned char bytes[64];
};

[[noreturn]] void end(const char* what) {
  std::fprintf(stderr, "pretended nvCOMP: %s\n", what);
  std::exit(3);
}

/// In front of a chunk.
struct Front {
  std::uint32_t bytes, coded, sum, type;
};

std::uint32_t sum_of(const unsigned char* data, std::size_t bytes) {
  std::uint32_t sum = 1;
  for (std::size_t i = 0; i < bytes; ++i) sum = sum * 31 + data[i];
  return sum;
}

/// A bit for each byte that tells whether it is there, and then those that are.
std::size_t code(const unsigned char* in, std::size_t bytes, unsigned char* out, unsigned type) {
  const std::size_t bits = (bytes + 7) / 8;
  unsigned char* coded = out + sizeof(Front);
  std::memset(coded, 0, bits);
  std::size_t used = bits;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (in[i] == 0) continue;
    coded[i / 8] |= static_cast<unsigned char>(1 << i % 8);
    coded[used++] = in[i];
  }
  const Front front{static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(used),
                    sum_of(coded, used), type};
  std::memcpy(out, &front, sizeof front);
  return sizeof front + used;
}

int decode(const unsigned char* in, std::size_t in_bytes, unsigned char* out, std::size_t room,
           std::size_t* out_bytes) {
  Front front;
  if (in_bytes < sizeof front) end("a chunk is too short");
  std::memcpy(&front, in, sizeof front);
  const unsigned char* coded = in + sizeof front;
  if (front.coded != in_bytes - sizeof front || front.sum != sum_of(coded, front.coded))
    end("a damaged chunk came");
  if (front.bytes > room) return 12;
  std::size_t used = (front.bytes + 7) / 8;
  for (std::size_t i = 0; i < front.bytes; ++i)
    out[i] = (coded[i / 8] >> i % 8 & 1) != 0 ? coded[used++] : 0;
  *out_bytes = front.bytes;
  return 0;
}

bool aligned(const void* at, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(at) % to == 0;
}

int most(std::size_t chunk, std::size_t* bytes) {
  *bytes = chunk + (chunk + 7) / 8 + sizeof(Front);
  return 0;
}

int compress(const void* const* in, const std::size_t* in_bytes, std::size_t chunk,
             std::size_t count, void* const* out, std::size_t* out_bytes, unsigned type,
             int* statuses, cudaStream_t stream) {
  if (in == nullptr || count == 0) return kInvalid;
  pretended::put(stream, [=] {
    for (std::size_t i = 0; i < count; ++i) {
      if (in_bytes[i] > chunk || !aligned(in[i], 16) || !aligned(out[i], 16))
        end("a chunk lies or ends where it must not");
      out_bytes[i] = code(static_cast<const unsigned char*>(in[i]), in_bytes[i],
                          static_cast<unsigned char*>(out[i]), type);
      statuses[i] = 0;
    }
  });
  return 0;
}

int decompress(const void* const* in, const std::size_t* in_bytes, const std::size_t* room,
               std::size_t* out_bytes, std::size_t count, void* temporary, void* const* out,
               int* statuses, cudaStream_t stream) {
  if (in == nullptr || count == 0) return kInvalid;
  pretended::put(stream, [=] {
    std::memset(temporary, 0x77, 4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!aligned(in[i], 16) || !aligned(out[i], 16)) end("a chunk lies where it must not");
      statuses[i] = decode(static_cast<const unsigned char*>(in[i]), in_bytes[i],
                           static_cast<unsigned char*>(out[i]), room[i], out_bytes + i);
    }
  });
  return 0;
}

/// The number of the type, where the options are as they should be, and zeros behind them.
unsigned type_of(const Options& options, std::size_t used) {
  for (std::size_t i = used; i < sizeof options.bytes; ++i)
    if (options.bytes[i] != 0) end("options that are not used are no zeros");
  std::uint32_t first, type;
  std::memcpy(&first, options.bytes, 4);
  std::memcpy(&type, options.bytes + 4, 4);
  if (first != 0) end("an algorithm that was not asked for");
  return type;
}

}  // namespace

extern "C" {

int nvcompGetProperties(std::uint32_t* told) {
  const char* version = std::getenv("PRETENDED_NVCOMP");
  told[0] = version == nullptr ? 6000 : static_cast<std::uint32_t>(std::atoi(version));
  told[1] = 13000;
  return 0;
}
const char* nvcompGetStatusString(int status) {
  return status == kInvalid ? "an invalid value" : "something else";
}

int nvcompBatchedANSCompressGetMaxOutputChunkSize(std::size_t chunk, Options, std::size_t* bytes) {
  return most(chunk, bytes);
}
int nvcompBatchedANSCompressGetTempSize(std::size_t, std::size_t, Options, std::size_t* bytes,
                                        std::size_t, cudaStream_t) {
  *bytes = 0;
  return 0;
}
int nvcompBatchedANSDecompressGetTempSize(std::size_t count, std::size_t, Options,
                                          std::size_t* bytes, std::size_t, cudaStream_t) {
  *bytes = 4 * count;
  return 0;
}
int nvcompBatchedANSCompressAsync(const void* const* in, const std::size_t* in_bytes,
                                  std::size_t chunk, std::size_t count, void*, std::size_t,
                                  void* const* out, std::size_t* out_bytes, Options options,
                                  int* statuses, cudaStream_t stream) {
  return compress(in, in_bytes, chunk, count, out, out_bytes, type_of(options, 8), statuses,
                  stream);
}
int nvcompBatchedANSDecompressAsync(const void* const* in, const std::size_t* in_bytes,
                                    const std::size_t* room, std::size_t* out_bytes,
                                    std::size_t count, void* temporary, std::size_t,
                                    void* const* out, Options options, int* statuses,
                                    cudaStream_t stream) {
  if (type_of(options, 8) != 0xFF) end("the type of a chunk is not left to it");
  return decompress(in, in_bytes, room, out_bytes, count, temporary, out, statuses, stream);
}

int nvcompBatchedBitcompCompressGetMaxOutputChunkSize(std::size_t chunk, Options,
                                                      std::size_t* bytes) {
  return most(chunk, bytes);
}
int nvcompBatchedBitcompCompressGetTempSize(std::size_t, std::size_t, Options, std::size_t* bytes,
                                            std::size_t, cudaStream_t) {
  *bytes = 0;
  return 0;
}
int nvcompBatchedBitcompDecompressGetTempSize(std::size_t count, std::size_t, Options,
                                              std::size_t* bytes, std::size_t, cudaStream_t) {
  *bytes = 4 * count;
  return 0;
}
int nvcompBatchedBitcompCompressAsync(const void* const* in, const std::size_t* in_bytes,
                                      std::size_t chunk, std::size_t count, void*, std::size_t,
                                      void* const* out, std::size_t* out_bytes, Options options,
                                      int* statuses, cudaStream_t stream) {
  return compress(in, in_bytes, chunk, count, out, out_bytes, type_of(options, 8), statuses,
                  stream);
}
int nvcompBatchedBitcompDecompressAsync(const void* const* in, const std::size_t* in_bytes,
                                        const std::size_t* room, std::size_t* out_bytes,
                                        std::size_t count, void* temporary, std::size_t,
                                        void* const* out, Options options, int* statuses,
                                        cudaStream_t stream) {
  if (type_of(options, 4) != 0) end("options that are not used are no zeros");
  return decompress(in, in_bytes, room, out_bytes, count, temporary, out, statuses, stream);
}

}  // extern "C"
