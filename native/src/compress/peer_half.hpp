#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "compress/in_flight.hpp"
#include "compress/peer_channel.hpp"
#include "compress/peer_slots.hpp"
#include "compress/slabs.hpp"
#include "compress/stream_order.hpp"
#include "cuda/stream_values.hpp"

namespace lanescope::compress {

/// What both halves of a channel between processes have: two streams that slabs take in turns, and
/// the transfers under way.
struct PeerHalf {
  PeerHalf(int gpu, const ChannelOptions& given, std::size_t own_bytes)
      : device(gpu),
        options(given),
        lanes{Stream(gpu), Stream(gpu)},
        rescue(gpu),
        own(gpu, own_bytes),
        ready(event_on(gpu, Timing::none)),
        prepared(event_on(gpu, Timing::none)),
        ended(event_on(gpu, Timing::none)),
        reports(gpu, gpu),
        in_flight(reports) {
    const ScopedDevice scope(gpu);
    if (!streams_take_values(rescue.get(), reinterpret_cast<unsigned int*>(own.data())))
      throw Error("peer channel", 0, "no values",
                  "the driver lets no stream wait for what other processes write; send by other "
                  "means");
  }

  cudaStream_t lane(std::size_t part) const { return lanes[part % lanes.size()].get(); }

  void require_attached() const {
    if (!slots) throw Error("peer channel", 0, "not attached", "the other process is not known");
    if (given_up)
      throw Error("peer channel", 0, "given up",
                  "the channel has been given up, as the other process ended or was late; make a "
                  "new one");
  }

  /// A ticket of an array, with room for what kernels report.
  std::shared_ptr<Ticket> open(const Crossing& crossing, const std::string& route, bool encodes) {
    in_flight.reap();
    std::erase_if(under_way, [](const auto& one) { return one->done(); });
    TransferFacts facts;
    facts.route = route;
    facts.bytes = facts.wire_bytes = crossing.bytes;
    facts.part_blocks = options.slab_bytes / kBlockBytes;
    facts.parts = (crossing.bytes + options.slab_bytes - 1) / options.slab_bytes;
    facts.compressed = crossing.choice.has_value();
    facts.encodes = encodes && facts.compressed;
    facts.decodes = !encodes;
    std::unique_ptr<Report> report;
    if (facts.encodes || facts.decodes) {
      report = reports.lend(facts.parts);
      if (!report)
        throw Error("peer channel", 0, "no memory",
                    "GPU " + std::to_string(device) + " has no memory left for a transfer");
    }
    auto ticket = std::make_shared<Ticket>(std::move(facts), device, std::move(report));
    in_flight.add(ticket);
    under_way.push_back(ticket);
    return ticket;
  }

  /// The first lane begins behind the caller's stream, the other one behind what the first has now.
  void begin_behind(cudaStream_t stream) {
    record(ready, stream);
    let_wait(lane(0), ready);
  }
  void begin_lanes() {
    record(prepared, lane(0));
    let_wait(lane(1), prepared);
  }

  /// The first lane goes on when both have come so far.
  void join() {
    record(ended, lane(1));
    let_wait(lane(0), ended);
    record(ended, lane(0));
  }

  /// Waits for what is under way, as long as the patience lasts, and lets go of the other process's
  /// memory. Whoever gives up meanwhile is not held up.
  void let_go() {
    using Clock = std::chrono::steady_clock;
    const auto late = Clock::now() + std::chrono::duration<double>(options.patience_s);
    for (;; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
      const std::lock_guard lock(mutex);
      try {
        std::erase_if(under_way, [](const auto& one) { return one->done(); });
      } catch (const Error&) {  // the device has failed: it may still use the memory
        return;
      }
      if (under_way.empty()) {
        slots.reset();
        others.reset();
        return;
      }
      if (Clock::now() > late) return;
    }
  }

  /// Puts a transfer onto streams, behind the caller's and before what comes on that later. What
  /// fails is said by its ticket, too.
  template <typename Put, typename Settle>
  void carry(const std::shared_ptr<Ticket>& ticket, cudaStream_t stream, const Put& put,
             const Settle& settle) {
    if (ticket->facts().bytes == 0) {
      ticket->settle_now();
      return;
    }
    all_of(
        [&] {
          begin_behind(stream);
          put();
        },
        [&] {
          try {
            settle();
          } catch (const Error& error) {
            ticket->fail(error);
            throw;
          }
        },
        [&] { let_wait(stream, ended); });
  }

  /// Does all of some steps, whatever fails; throws the first failure.
  template <typename... Steps>
  static void all_of(const Steps&... steps) {
    std::optional<Error> wrong;
    const auto attempt = [&](const auto& step) {
      try {
        step();
      } catch (const Error& error) {
        if (!wrong) wrong = error;
      }
    };
    (attempt(steps), ...);
    if (wrong) throw *wrong;
  }

  std::mutex mutex;
  int device;
  ChannelOptions options;
  std::array<Stream, 2> lanes;
  Stream rescue;
  PeerMemory own;
  std::optional<PeerMemory> others;
  std::optional<PeerSlots> slots;
  Event ready, prepared, ended;
  ReportPool reports;
  InFlight in_flight;
  std::deque<std::shared_ptr<Ticket>> under_way;
  bool given_up = false;
};

}  // namespace lanescope::compress
