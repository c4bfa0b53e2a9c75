#pragma once

namespace lanescope::boost {

/// Start the thread that issues what is gathered while the program makes no call: a kernel may wait
/// for it.
/// @return whether it goes on.
bool start_ageing() noexcept;

/// Have it look: something is gathered.
void wake_ageing() noexcept;

}  // namespace lanescope::boost
