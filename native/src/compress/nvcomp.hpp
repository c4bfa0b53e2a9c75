#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "compress/format.hpp"
#include "watch/library.hpp"

namespace lanescope::compress {

/// NVIDIA's nvCOMP (proprietary), opened at run time where a user has installed it. It stays open
/// until the process ends.
class Nvcomp {
 public:
  /// Opens a file, or what the loader finds by a name. Throws `Error` named "no nvcomp" where there
  /// is none, or it is of another major version than `kNvcompMajor`.
  explicit Nvcomp(const std::string& path = "libnvcomp.so.6");

  const watch::Library& library() const noexcept { return library_; }
  /// 1000 times the major version, 100 times the minor one, and the patch.
  unsigned version() const noexcept { return version_; }

  /// Throws the `Error` that there is no nvCOMP where one is needed, in one sentence.
  [[noreturn]] static void refuse(Codec codec);

 private:
  watch::Library library_;
  unsigned version_ = 0;
};

/// Many chunks in the current device's memory, where these arrays lie, too: one of each for a
/// chunk.
struct NvcompChunks {
  std::size_t count;
  const void* const* in;
  const std::size_t* in_bytes;
  void* const* out;
  const std::size_t* out_room;  ///< Of decoding alone.
  std::size_t* out_bytes;       ///< nvCOMP's answer.
  int* statuses;                ///< nvCOMP's answer: 0 where all is well.
};

/// One of nvCOMP's codecs for values of one type. A chunk is a block: 64 KiB or less.
class NvcompCodec {
 public:
  /// Throws `Error` where the library lacks a function.
  NvcompCodec(const Nvcomp& nvcomp, Codec codec, Dtype dtype);

  unsigned version() const noexcept { return version_; }

  /// What nvCOMP says of a status.
  std::string meaning_of(int status) const { return describe_(status); }

  /// Most bytes of a coded chunk. Throws `Error`.
  std::size_t most_chunk_bytes() const;

  /// Codes chunks in the order of a stream. Throws `Error`.
  void encode(const NvcompChunks& chunks, cudaStream_t stream) const;

  /// Decodes chunks in the order of a stream, for which it may wait. They have to be as they were
  /// coded: what nvCOMP does with others is not known. Throws `Error`.
  void decode(const NvcompChunks& chunks, cudaStream_t stream) const;

 private:
  /// What nvCOMP's functions take by value: 64 bytes, whatever they mean to each of them.
  struct alignas(8) Options {
    std::byte bytes[64];
  };

  // nvCOMP's functions have the same arguments for each of its codecs. They return 0, or what is
  // wrong.
  using GetMost = int (*)(std::size_t chunk_bytes, Options, std::size_t* most);
  using GetTemporary = int (*)(std::size_t count, std::size_t chunk_bytes, Options,
                               std::size_t* bytes, std::size_t all_bytes, cudaStream_t);
  using Compress = int (*)(const void* const* in, const std::size_t* in_bytes,
                           std::size_t chunk_bytes, std::size_t count, void* temporary,
                           std::size_t temporary_bytes, void* const* out, std::size_t* out_bytes,
                           Options, int* statuses, cudaStream_t);
  using Decompress = int (*)(const void* const* in, const std::size_t* in_bytes,
                             const std::size_t* out_room, std::size_t* out_bytes, std::size_t count,
                             void* temporary, std::size_t temporary_bytes, void* const* out,
                             Options, int* statuses, cudaStream_t);
  using Describe = const char* (*)(int status);

  void check(int status, const char* call) const;

  unsigned version_;
  Options encoding_, decoding_;
  GetMost most_;
  GetTemporary encode_temporary_, decode_temporary_;
  Compress compress_;
  Decompress decompress_;
  Describe describe_;
};

}  // namespace lanescope::compress
