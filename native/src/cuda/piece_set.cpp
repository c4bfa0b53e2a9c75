#include "cuda/piece_set.hpp"

#include <chrono>
#include <utility>

#include "cuda/gate.hpp"
#include "cuda/kernels.hpp"
#include "cuda/piece_kernels.hpp"

namespace lanescope {

namespace {

constexpr PieceSeeds kSeeds{0x5EED0000, 0xBAD0000};

const PieceEnds* entries(const Buffer& table) {
  return static_cast<const PieceEnds*>(table.data());
}

}  // namespace

PieceSet::PieceSet(std::shared_ptr<const Topology> topology, BufferPool& pool,
                   const PieceSpec& spec, std::vector<int> cpus)
    : topology_(std::move(topology)),
      spec_(spec),
      layout_{spec.piece_bytes, spec.pieces},
      cpus_(std::move(cpus)),
      stream_(spec.device) {
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(spec_.device);
  source_ = pool.lend(spec_.source, layout_.span());
  destination_ = pool.lend(spec_.destination, layout_.span());
  launch_fill(stream_.get(), source_->data(), layout_.span(), kSeeds.source);
  launch_fill(stream_.get(), destination_->data(), layout_.span(), kSeeds.spoilt);
  wait_for(stream_, kHangTimeoutS);
  list_pieces();
  if (spec_.submission == Submission::graph) make_graph();
  if (spec_.submission == Submission::kernel || spec_.submission == Submission::mapped)
    make_table(pool);
}

void PieceSet::list_pieces() {
  for (std::size_t piece = 0; piece < layout_.pieces; ++piece) {
    const std::size_t offset = piece * layout_.stride();
    sources_.push_back(static_cast<const char*>(source_->data()) + offset);
    destinations_.push_back(static_cast<char*>(destination_->data()) + offset);
    sizes_.push_back(layout_.piece_bytes);
  }
}

void PieceSet::make_graph() {
  Graph graph;
  for (std::size_t piece = 0; piece < layout_.pieces; ++piece)
    graph.add_copy(destinations_[piece], sources_[piece], layout_.piece_bytes);
  graph_.emplace(graph);
  graph_->upload(stream_);
  wait_for(stream_, kHangTimeoutS);
}

void PieceSet::make_table(BufferPool& pool) {
  // In host memory, where a program can write other addresses before each launch.
  table_ =
      pool.lend(to_device() ? spec_.source : spec_.destination, layout_.pieces * sizeof(PieceEnds));
  auto* table = static_cast<PieceEnds*>(table_->data());
  for (std::size_t piece = 0; piece < layout_.pieces; ++piece)
    table[piece] = {static_cast<const char*>(sources_[piece]),
                    static_cast<char*>(destinations_[piece])};
}

void PieceSet::submit() const {
  switch (spec_.submission) {
    case Submission::single:
      return submit_singly();
    case Submission::batch:
      return submit_batch();
    case Submission::graph:
      return graph_->launch(stream_);
    case Submission::kernel:
      return launch_copy_pieces(stream_.get(), entries(*table_), {layout_});
    case Submission::mapped:
      return submit_in_place();
  }
}

void PieceSet::submit_singly() const {
  for (std::size_t piece = 0; piece < layout_.pieces; ++piece)
    check(cudaMemcpyAsync(destinations_[piece], sources_[piece], layout_.piece_bytes,
                          cudaMemcpyDefault, stream_.get()),
          "cudaMemcpyAsync");
}

void PieceSet::submit_batch() const {
  // In stream order, as the other ways are: no promise that they do not give.
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t from_first = 0;
  check(cudaMemcpyBatchAsync(destinations_.data(), sources_.data(), sizes_.data(), layout_.pieces,
                             &attributes, &from_first, 1, stream_.get()),
        "cudaMemcpyBatchAsync");
}

void PieceSet::submit_in_place() const {
  if (reads_in_place())
    launch_sum_pieces(stream_.get(), entries(*table_), {layout_},
                      static_cast<std::uint64_t*>(destination_->data()));
  else
    launch_write_pieces(stream_.get(), entries(*table_), {layout_}, kSeeds.source);
}

void PieceSet::run_once(PieceTimes& times) const {
  const auto begin = HostClock::now();
  submit();
  times.submit_seconds.push_back(seconds_since(begin));
  // As copies that are timed alone wait, so that their times can stand side by side.
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  times.seconds.push_back(seconds_since(begin));
}

PieceTimes PieceSet::run(int repetitions) {
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(spec_.device);
  PieceTimes times;
  try {
    if (!warm_) {
      PieceTimes left_out;
      run_once(left_out);
      warm_ = true;
    }
    for (int i = 0; i < repetitions; ++i) run_once(times);
  } catch (const Error&) {
    // What was handed over before the failure must not touch buffers that the pool
    // lends to somebody else. The first failure is the one to tell.
    forgive(cudaStreamSynchronize(stream_.get()));
    throw;
  }
  return times;
}

std::size_t PieceSet::count_mismatches() {
  const ScopedDevice scope(spec_.device);
  const DeviceMemory counter(spec_.device, sizeof(unsigned long long));
  auto* mismatches = static_cast<unsigned long long*>(counter.data());
  check(cudaMemsetAsync(mismatches, 0, sizeof *mismatches, stream_.get()), "cudaMemsetAsync");
  if (reads_in_place())
    launch_check_sums(stream_.get(), static_cast<const std::uint64_t*>(destination_->data()),
                      {layout_}, kSeeds.source, mismatches);
  else
    launch_check_pieces(stream_.get(), destination_->data(), layout_, kSeeds, mismatches);
  wait_for(stream_, kHangTimeoutS);
  unsigned long long wrong = 0;
  check(cudaMemcpy(&wrong, mismatches, sizeof wrong, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return wrong;
}

void PieceSet::spoil(bool in_source, std::size_t byte) {
  const ScopedDevice scope(spec_.device);
  auto* at = static_cast<std::uint8_t*>((in_source ? source_ : destination_)->data()) + byte;
  std::uint8_t held = 0;
  check(cudaMemcpy(&held, at, 1, cudaMemcpyDefault), "cudaMemcpy");
  held ^= 1;
  check(cudaMemcpy(at, &held, 1, cudaMemcpyDefault), "cudaMemcpy");
}

}  // namespace lanescope
