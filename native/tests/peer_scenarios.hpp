// Arrays between the halves of a channel whose processes are pretended; part of
// channel_simulation.cpp, behind what its scenarios have in common.
#pragma once

#include "compress/peer_channel.hpp"

namespace lanescope::compress {
namespace {

/// Both halves, attached to each other.
struct SenderAndReceiver {
  SenderAndReceiver(int from, int to, const ChannelOptions& options)
      : sender(from, options), receiver(to, options) {
    sender.attach(receiver.handle());
    receiver.attach(sender.handle());
  }

  PeerSender sender;
  PeerReceiver receiver;
};

/// An array on its way, of which each process has a ticket.
struct Apart {
  Array source, target, expected;
  Crossing crossing;
  std::shared_ptr<Ticket> sent, received;
};

std::unique_ptr<Apart> some_apart(std::uint64_t number, std::size_t bytes) {
  auto one = std::make_unique<Apart>();
  one->expected = made_up(bytes);
  one->source.resize(bytes);
  one->target.assign(bytes, std::byte{0x55});
  one->crossing = {number, bytes, bits() % 2 == 0 ? std::nullopt : some_choice()};
  return one;
}

/// One process is some arrays ahead of the other; what comes behind on the callers' streams
/// overwrites sources, and targets were overwritten before.
void send_across_processes(int from, int to) {
  pretended::limit_device_memory(std::size_t{1} << 40);
  std::vector<std::unique_ptr<Apart>> all;
  const Stream sending(from), receiving(to);
  {
    SenderAndReceiver halves(from, to, some_options());
    const auto count = 1 + bits() % 8;
    for (std::uint64_t number = 0; number < count; ++number)
      all.push_back(some_apart(number, some_size()));
    std::size_t sent = 0, received = 0;
    while (received < count) {
      if (sent < count && bits() % 2 == 0) {
        auto& one = *all[sent++];
        pretended::put(sending.get(), [&one] { one.source = one.expected; });
        one.sent = halves.sender.send(one.source.data(), one.crossing, sending.get());
        pretended::put(sending.get(),
                       [&one] { std::fill(one.source.begin(), one.source.end(), kLater); });
      } else if (bits() % 2 == 0) {  // also before it is sent
        auto& one = *all[received++];
        pretended::put(receiving.get(),
                       [&one] { std::fill(one.target.begin(), one.target.end(), std::byte{1}); });
        one.received = halves.receiver.receive(one.target.data(), one.crossing, receiving.get());
        pretended::put(receiving.get(), [&one] {
          require(one.target == one.expected, "values were read before they had come");
        });
      }
      if (bits() % 4 == 0 && sent > 0) all[bits() % sent]->sent->done();
    }
    for (; sent < count; ++sent) {
      auto& one = *all[sent];
      pretended::put(sending.get(), [&one] { one.source = one.expected; });
      one.sent = halves.sender.send(one.source.data(), one.crossing, sending.get());
    }
    for (const auto& one : all) {
      one->received->wait(10);
      one->sent->wait(10);
      require(one->target == one->expected, "an array came out different");
      require(one->sent->wire_bytes() <= one->expected.size() * 1.01 + 16 * 64,
              "more crossed the link than can");
    }
    halves.sender.detach();
    halves.receiver.detach();
  }
  pretended::let_all_happen();
}

/// One process ends some time: its GPU does nothing any more. The other one gives up, and its
/// streams come to their end; what has not come is told, and what has is right.
void lose_a_process(int lost) {
  const LostOnPurpose leaks;
  pretended::limit_device_memory(std::size_t{1} << 40);
  std::vector<std::unique_ptr<Apart>> all;
  const Stream sending(0), receiving(1);
  {
    SenderAndReceiver halves(0, 1, some_options());
    for (std::uint64_t number = 0; number < 1 + bits() % 6; ++number)
      all.push_back(some_apart(number, kBlockBytes + some_size()));
    const auto hear = [](const auto& action) {
      try {
        action();
      } catch (const Error&) {
      }
    };
    const std::size_t others = bits() % (all.size() + 1);  // so many calls of it came before
    pretended::fail_after(lost, bits() % 300);
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& one = *all[i];
      one.source = one.expected;
      if (lost != 0 || i < others)
        hear(
            [&] { one.sent = halves.sender.send(one.source.data(), one.crossing, sending.get()); });
      if (lost != 1 || i < others)
        hear([&] {
          one.received = halves.receiver.receive(one.target.data(), one.crossing, receiving.get());
        });
    }
    pretended::fail_after(lost, 0);
    if (lost == 0)
      halves.receiver.give_up();
    else
      halves.sender.give_up();
    const int left = 1 - lost;
    pretended::let_all_happen();
    require(pretended::steps_left(left) == 0, "a stream waits for a process that has ended");
    for (const auto& one : all) {
      const auto& ticket = lost == 0 ? one->received : one->sent;
      if (!ticket) continue;
      std::string said;
      try {
        ticket->wait(10);
      } catch (const Error& error) {
        said = error.detail();
      }
      if (lost == 0)
        require((said.empty() && one->target == one->expected) ||
                    said.ends_with("its payload never came"),
                "an array that did not come was told as: " + said);
    }
    bool refused = false;
    try {
      if (lost == 0)
        halves.receiver.receive(all[0]->target.data(), all[0]->crossing, receiving.get());
      else
        halves.sender.send(all[0]->source.data(), all[0]->crossing, sending.get());
    } catch (const Error& error) {
      refused = error.name() == "given up";
    }
    require(refused, "a channel that was given up is still used");
  }
  pretended::repair(lost);
  pretended::let_all_happen();
}

}  // namespace
}  // namespace lanescope::compress
