"""A server: what does one task after the other, a copy engine or the SMs of a GPU."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Server:
    """A queue of tasks, and how many of them are served at the same time.

    Attributes
    ----------
    name
        Such as ``g0 h2d``.
    slots
        Tasks that it serves at once.
    by_call
        True: in the order of the calls, which `expect` tells; False: as they become ready.
    queue
        Positions of tasks in their graph, the next one to be served first.
    ready
        Of those in `queue` the ones that need not wait any longer; kept by call order only.
    active
        How many it serves now.
    busy
        Seconds during which it served one or more.
    released_by
        The task that last made room here, or last went in; None: none did.
    released_at
        When.
    """

    name: str
    slots: int
    by_call: bool
    queue: deque[int] = field(default_factory=deque)
    ready: set[int] = field(default_factory=set)
    active: int = 0
    busy: float = 0.0
    busy_since: float = 0.0
    released_by: int | None = None
    released_at: float = 0.0

    def expect(self, task: int) -> None:
        """Note a task in the order of the calls."""
        if self.by_call:
            self.queue.append(task)

    def arrive(self, task: int) -> None:
        """Note that a task is ready to be served."""
        if self.by_call:
            self.ready.add(task)
        else:
            self.queue.append(task)

    def take(self, now: float) -> int | None:
        """Return the task to begin with now; None: there is none, or no room."""
        if self.active == self.slots or not self.queue:
            return None
        if self.by_call:
            if self.queue[0] not in self.ready:
                return None
            self.ready.remove(self.queue[0])
        if self.active == 0:
            self.busy_since = now
        self.active += 1
        return self.queue.popleft()

    def release(self, task: int, now: float) -> None:
        """Note that a task is no longer served."""
        self.active -= 1
        if self.active == 0:
            self.busy += now - self.busy_since
        self.released_by, self.released_at = task, now
