#pragma once

#include <optional>

namespace lanescope {

/// Throws what ends the work of the thread that calls it, where somebody wants it to end.
using Interruption = void (*)();

/// Names what `throw_if_interrupted` calls. Once, before any work: signals are the process's, and
/// so is what looks for them. Without it nothing is ever interrupted.
void look_for_interruptions(Interruption look);

/// Has `throw_if_interrupted` end the work of this thread, by an `Error` named `kTooLate`, when so
/// many seconds are over; nothing: it may take as long as it does.
void end_work_in(std::optional<double> seconds);
inline constexpr const char* kTooLate = "too late";

/// To be called between samples and between phases, by the thread that the work was asked of and
/// by no helper of its. Looks every 10 ms at most, so that it can stand in any loop but in one
/// that is timed.
void throw_if_interrupted();

}  // namespace lanescope
