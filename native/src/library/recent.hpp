#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace lanescope::compression {

/// Values by key, of which those used last are held, so many at most.
template <typename Key, typename Value>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  /// The value of a key, a new one where there is none. It stays where it is until `most` other
  /// keys have been used.
  Value& use(const Key& key) {
    if (const auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    if (places_.size() == most_) {
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, Value{});
    places_.emplace(key, order_.begin());
    return order_.front().second;
  }

  std::size_t size() const { return places_.size(); }

 private:
  using Order = std::list<std::pair<Key, Value>>;

  std::size_t most_;
  Order order_;  // newest first
  std::map<Key, typename Order::iterator> places_;
};

}  // namespace lanescope::compression
