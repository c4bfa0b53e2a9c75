"""A twelfth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/twelfth.py NAME --form before|after`` runs one. The CUDA C++ ones are in
twelfth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise` works,
or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep" stands
for data that stay on the GPU, in place of being sent anew.

========  ==========================================================  ==========================
name      before                                                      after
========  ==========================================================  ==========================
augment   a matrix by `torch.tensor(..., device="cuda")` for each     all matrices of a batch by
          picture that is turned                                      one copy
climate   fields of each six hours by `.cpu()`, for a thread that     to pinned memory, for which
          archives them                                               the thread waits
clicks    a thread pads visits to new pageable memory, which are      to pinned memory, the next
          sent when it is their turn                                  ones sent meanwhile
mcts      boards up and what a net makes of them down, for a search   both by pinned memory: no
          of a tree that takes the host far longer                    gain is expected
stitch    each tile of a slide is sent for each of its neighbours,    sent once
          and once more to be drawn
========  ==========================================================  ==========================
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # 64 copies of 24 bytes a batch, and each waits for all that was launched before, though the
    # host knows all matrices when the batch begins.
    "augment": ({"batch"}, {"pin", "batch"}),
    # 8 MB to new pageable memory take longer than the kernels of six hours, and the host launches
    # no others meanwhile. All of them are needed, but only by another thread.
    "climate": ({"pin", "async"},),
    # About 5 MB from pageable memory, for which host and GPU wait before each batch, though the
    # next one is there already; they take about as long as the kernels.
    "clicks": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # What leaves to evaluate depends on what the last ones were worth; the host's search is nearly
    # all of the time, and the copies are of 3 and 10 KB.
    "mcts": (),
    # 64 sends of 2 MiB for 16 tiles, which are new in each step: three quarters of what is sent is
    # on the GPU already.
    "stitch": ({"keep"},),
    # 32 MiB go up for each picture, of which a hundredth changed since the last one.
    "voxels": ({"keep"},),
    # 128 bytes up and 128 down around kernels of a few microseconds; the host needs each of them
    # to say what comes next, so that only what the two copies' calls cost can go.
    "tempering": ({"mapped"}, {"pin", "mapped"}),
    # All is pinned, but the link, the GPU and the host's table take turns, each about as long.
    "dedupe": ({"prefetch"}, {"streams"}, {"async"}),
    # Two streams and two places are there, but copies to pageable memory hold the host until they
    # are done, so that nothing runs at the same time.
    "ultrasound": ({"pin"}, {"pin", "async"}),
    # 8 bytes are read after each 60 µs of a kernel; the host sorts them at the end.
    "align": ({"defer"}, {"batch", "defer"}),
    # Four threads: while one waits for a pageable copy, kernels of the others keep the GPU busy.
    "lens": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"mcts": {"pin"}, "lens": {"pin"}}
IN_CUDA = ("voxels", "tempering", "dedupe", "ultrasound", "align", "lens")
IN_PYTORCH = ("augment", "climate", "clicks", "mcts")


def augment(after: bool) -> Iterator[float]:
    """Learns what ails a leaf from pictures of all sizes, each turned and scaled by the GPU."""
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy, grid_sample

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    stock, kinds, batch, side, in_step = 256, 16, 64, 128, 2
    random = np.random.default_rng(0)
    sizes = random.integers(20, 37, (stock, 2)).tolist()
    pictures = [torch.rand(1, 3, high, wide) for high, wide in sizes]
    grow = torch.nn.Upsample(scale_factor=8, mode="nearest")
    pictures = [grow(picture.cuda()) for picture in pictures]
    ails = random.integers(0, kinds, stock)
    layers = [
        layer
        for enter, leave in ((3, 32), (32, 64), (64, 128))
        for layer in (torch.nn.Conv2d(enter, leave, 3, stride=2), torch.nn.ReLU())
    ]
    body, head = torch.nn.Sequential(*layers).cuda(), torch.nn.Linear(128, kinds).cuda()
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    along = (torch.arange(side) * 2 + 1) / side - 1
    grid = torch.stack([*torch.meshgrid(along, along, indexing="xy"), torch.ones(side, side)], 2)
    grid = grid.cuda()

    def matrix() -> list[list[float]]:
        """Return how a picture is turned, scaled and shifted."""
        angle, scale, right, down = random.uniform((-0.6, 0.7, -0.1, -0.1), (0.6, 1.2, 0.1, 0.1))
        sine, cosine = scale * np.sin(angle), scale * np.cos(angle)
        return [[cosine, sine], [-sine, cosine], [right, down]]

    def turned(chosen: np.ndarray) -> torch.Tensor:
        """Return pictures of one size, each changed at random."""
        matrices = [matrix() for _ in chosen]
        if after:
            turns = list(torch.tensor(matrices, dtype=torch.float32, device="cuda"))
        found = []
        for place, number in enumerate(chosen):
            if after:
                turn = turns[place]
            else:
                turn = torch.tensor(matrices[place], dtype=torch.float32, device="cuda")
            found.append(grid_sample(pictures[number], (grid @ turn)[None], align_corners=False))
        return torch.cat(found)

    def learnt() -> torch.Tensor:
        """Return the loss of a batch, once the net has learnt from it."""
        chosen = random.integers(0, stock, batch)
        wanted = torch.tensor(ails[chosen], device="cuda")
        loss = cross_entropy(head(body(turned(chosen)).mean((2, 3))), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    while True:
        yield float(sum(torch.stack([learnt() for _ in range(in_step)]).tolist()))


def climate(after: bool) -> Iterator[float]:
    """Forecasts the air around the Earth for 36 hours, four times, after a look at stations."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    members, values, high, wide, width, leads, stations = 4, 8, 180, 360, 128, 6, 2048
    random = np.random.default_rng(0)
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(values, width, 3, padding=1), torch.nn.GELU()),
        *(torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.GELU()),
        *(torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.GELU()),
        *(torch.nn.Conv2d(width, values, 3, padding=1), torch.nn.Tanh()),
    ).cuda()
    air = torch.randn(members, values, high, wide).cuda()
    waiting: Queue[tuple[torch.Tensor, torch.cuda.Event | None]] = Queue()
    archived: list[float] = []
    places = [torch.empty(air.shape, pin_memory=True) for _ in range(leads)] if after else []
    events = [torch.cuda.Event() for _ in places]

    def archive() -> None:
        """Take every fourth point in each direction of all fields that come, for ever."""
        while True:
            fields, ready = waiting.get()
            if ready is not None:
                ready.synchronize()
            points = np.ascontiguousarray(fields.numpy()[..., ::4, ::4])
            archived.append(float(np.abs(points).mean(dtype=np.float64)))
            waiting.task_done()

    def hand_over(lead: int, fields: torch.Tensor) -> None:
        if not after:
            waiting.put((fields.cpu(), None))
            return
        places[lead].copy_(fields, non_blocking=True)
        events[lead].record()
        waiting.put((places[lead], events[lead]))

    @torch.inference_mode()
    def analysed(fields: torch.Tensor) -> torch.Tensor:
        """Return fields drawn to what stations report."""
        report = random.standard_normal((values, stations), dtype=np.float32)
        first = int(random.integers(high * wide))
        at = (first + 31 * torch.arange(stations, device="cuda")) % (high * wide)
        flat = fields.flatten(2)
        near = flat[:, :, at].lerp(torch.from_numpy(report).cuda(), 0.5)
        return flat.index_copy(2, at, near).view(fields.shape)

    @torch.inference_mode()
    def forecast(fields: torch.Tensor) -> None:
        for lead in range(leads):
            fields = 0.95 * fields + 0.2 * net(fields)
            hand_over(lead, fields)

    threading.Thread(target=archive, daemon=True).start()
    while True:
        air = analysed(air)
        forecast(air)
        waiting.join()
        yield sum(archived)
        archived.clear()


def clicks(after: bool) -> Iterator[float]:
    """Learns from what visitors of a shop look at what they buy, visits of all lengths."""
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(0)
    visits, longest, given, width, kinds, batch, in_step = 4096, 80, 96, 768, 64, 256, 4
    random = np.random.default_rng(0)
    lengths = np.sort(random.integers(16, longest + 1, visits))
    starts = np.cumsum(lengths) - lengths
    looks = torch.randn(int(lengths.sum()), given)
    bought = torch.randint(kinds, (visits,))
    body = torch.nn.Sequential(
        *(torch.nn.Linear(given, width), torch.nn.GELU()),
        *(torch.nn.Linear(width, width), torch.nn.GELU()),
    ).cuda()
    head = torch.nn.Linear(width, kinds).cuda()
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    free: Queue[list[torch.Tensor]] = Queue()
    ready: Queue[tuple[list[torch.Tensor], list[torch.Tensor]]] = Queue()
    copies = torch.cuda.Stream()

    def padded(place: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the looks of a batch, what share each has of its visit, and what is bought."""
        first = int(random.integers(visits - batch + 1))
        length = lengths[first : first + batch, None]
        at = np.arange(length.max())
        rows = starts[first : first + batch, None] + np.minimum(at, length - 1)
        shares = torch.from_numpy(np.where(at < length, 1 / length, 0).astype(np.float32))
        of_batch = [shares, bought[first : first + batch]]
        index = torch.from_numpy(rows.ravel())
        if not place:
            return [torch.index_select(looks, 0, index), *of_batch]
        found = [place[0][: rows.size], place[1][: rows.size].view(rows.shape), place[2]]
        torch.index_select(looks, 0, index, out=found[0])
        for to, one in zip(found[1:], of_batch, strict=True):
            to.copy_(one)
        return found

    def prepare() -> None:
        """Pad batches, two ahead, for ever."""
        while True:
            place = free.get()
            ready.put((padded(place), place))

    def send() -> None:
        """Begin to send the next batch, while kernels learn from this one."""
        arrays, place = ready.get()
        with torch.cuda.stream(copies):
            found = [one.to("cuda", non_blocking=True) for one in arrays]
            event = torch.cuda.Event()
            event.record()
        ahead.append((found, event, place))

    def sent() -> list[torch.Tensor]:
        """Return the batch that was sent last, once the GPU has it."""
        found, event, place = ahead.pop()
        event.synchronize()
        free.put(place)
        for one in found:
            one.record_stream(torch.cuda.current_stream())
        return found

    def learnt(looks: torch.Tensor, shares: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, once the net has learnt from it."""
        hidden = body(looks).view(*shares.shape, width)
        loss = cross_entropy(head(torch.bmm(shares[:, None], hidden)[:, 0]), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def next_loss() -> torch.Tensor:
        if after:
            loss = learnt(*sent())
            send()
            return loss
        arrays, place = ready.get()
        free.put(place)
        return learnt(*(one.cuda() for one in arrays))

    shapes = (batch * longest, given), (batch * longest,)
    places = [
        [
            *(torch.empty(shape, pin_memory=True) for shape in shapes),
            torch.empty(batch, dtype=torch.int64, pin_memory=True),
        ]
        if after
        else []
        for _ in range(3)
    ]
    for place in places:
        free.put(place)
    threading.Thread(target=prepare, daemon=True).start()
    ahead: list[tuple[list[torch.Tensor], torch.cuda.Event, list[torch.Tensor]]] = []
    if after:
        send()
    while True:
        yield float(sum(torch.stack([next_loss() for _ in range(in_step)]).tolist()))


class Position:
    """A board of stones, and of each move what the net and the search make of it."""

    def __init__(self, board: np.ndarray):
        import numpy as np

        self.board = board  # 1 where a stone is of whose turn it is, -1 where of the other one
        self.known = False  # whether the net has looked at it
        self.prior = np.zeros(board.size)
        self.visits = np.zeros(board.size)
        self.worth = np.zeros(board.size)  # the sum over visits
        self.next: dict[int, Position] = {}

    def chosen(self) -> int:
        """Return the move to look at next."""
        import numpy as np

        curious = 1.5 * self.prior * np.sqrt(1 + self.visits.sum())
        scores = (self.worth + curious) / (1 + self.visits)
        return int(np.where(self.board == 0, scores, -np.inf).argmax())

    def moved(self, move: int) -> Position:
        """Return the position after a move."""
        if move not in self.next:
            board = -self.board
            board[move] = -1
            self.next[move] = Position(board)
        return self.next[move]


def walked(root: Position) -> tuple[list[tuple[Position, int]], Position]:
    """Return the moves to a position that the net does not know, and that position.

    Each move counts as lost until it is known, so that the next walk goes elsewhere.
    """
    moves, at = [], root
    while at.known:
        move = at.chosen()
        at.visits[move] += 1
        at.worth[move] -= 1
        moves.append((at, move))
        at = at.moved(move)
    return moves, at


def learn_worth(moves: list[tuple[Position, int]], worth: float) -> None:
    """Add what a position is worth to the moves that led to it."""
    for at, move in reversed(moves):
        worth = -worth
        at.worth[move] += 1 + worth


def mcts(after: bool) -> Iterator[float]:
    """Plays a game of stones by a search of the tree of moves, and a net that looks ahead."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    side, leaves, waves, longest = 9, 32, 6, 24
    fields = side * side
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 64, 3, padding=1), torch.nn.ReLU()),
        *(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU()),
        *(torch.nn.Flatten(), torch.nn.Linear(64 * fields, fields + 1)),
    ).cuda()
    given = torch.empty(leaves, fields, dtype=torch.int8, pin_memory=after)
    found = torch.empty(leaves, fields + 1, pin_memory=after)

    @torch.inference_mode()
    def looked_at(boards: np.ndarray) -> np.ndarray:
        """Return what the net says of each board's moves, and last of what it is worth."""
        stones = torch.from_numpy(boards)
        above = given.copy_(stones).to("cuda", non_blocking=True) if after else stones.cuda()
        rows = 8 * net(above.float().view(-1, 1, side, side))
        if not after:
            return rows.cpu().numpy()
        found.copy_(rows, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return found.numpy()

    def grow(root: Position) -> None:
        """Look at some positions more."""
        walks = [walked(root) for _ in range(leaves)]
        rows = looked_at(np.stack([leaf.board for _, leaf in walks])).astype(np.float64)
        shares = np.exp(rows[:, :fields] - rows[:, :fields].max(axis=1, keepdims=True))
        for (moves, leaf), row, share in zip(walks, rows, shares, strict=True):
            leaf.known, leaf.prior = True, share / share.sum()
            learn_worth(moves, float(np.tanh(row[fields])))

    root = Position(np.zeros(fields, np.int8))
    while True:
        for _ in range(waves):
            grow(root)
        move = int(root.visits.argmax())
        yield move + float(root.worth.sum())
        root = root.moved(move)
        if np.count_nonzero(root.board) >= longest:
            root = Position(np.zeros(fields, np.int8))


def stitch(after: bool) -> Iterator[float]:
    """Finds how 16 tiles of a slide lie to each other, and draws them in one picture."""
    import cupy
    import numpy as np

    side, across, apart, slides, off = 1024, 4, 896, 3, 16
    whole = (across - 1) * apart + side + 2 * off
    random = np.random.default_rng(0)
    stored = [tiles_of(random, side, across, apart, off) for _ in range(slides)]
    drawn = cupy.zeros((whole, whole), np.float32)

    def shift(one: np.ndarray, other: np.ndarray, nominal: tuple[int, int]) -> np.ndarray:
        """Return how far down and right of one tile another is."""
        above = [cupy.asarray(tile) for tile in (one, other)]
        spectra = [cupy.fft.rfft2(tile.astype(np.float32)) for tile in above]
        product = spectra[0] * spectra[1].conj()
        like = cupy.fft.irfft2(product / (cupy.abs(product) + 1e-3), s=(side, side))
        peak = np.array(divmod(int(like.argmax()), side))
        wrong = (peak - nominal + side // 2) % side - side // 2
        return nominal + np.clip(wrong, -off // 4, off // 4)

    def placed(tiles: list[np.ndarray]) -> np.ndarray:
        """Return where each tile is, by those left of it and above it."""
        places = np.full((across * across, 2), off)
        for number in range(1, across * across):
            found = []
            if number % across:
                left = shift(tiles[number - 1], tiles[number], (0, apart))
                found.append(places[number - 1] + left)
            if number >= across:
                above = shift(tiles[number - across], tiles[number], (apart, 0))
                found.append(places[number - across] + above)
            places[number] = sum(found) // len(found)
        return places.clip(0, whole - side)

    def draw(tiles: list[np.ndarray], places: np.ndarray) -> float:
        """Return what a small picture of all tiles shows, by a sum."""
        drawn.fill(0)
        for tile, (top, left) in zip(tiles, places.tolist(), strict=True):
            part = drawn[top : top + side, left : left + side]
            cupy.maximum(part, cupy.asarray(tile), out=part)
        small = cupy.ascontiguousarray(drawn[::8, ::8]).get()
        return float(small.sum(dtype=np.float64) + places.sum())

    frame = 0
    while True:
        tiles = stored[frame % slides]
        frame += 1
        for number, pixels in enumerate(tiles):
            pixels[0, :2] = frame, number  # by the camera
        if after:  # what is on the GPU already `asarray` does not copy
            tiles = [cupy.asarray(one) for one in tiles]
        yield draw(tiles, placed(tiles))


def tiles_of(
    random: np.random.Generator, side: int, across: int, apart: int, off: int
) -> list[np.ndarray]:
    """Return tiles of a slide, row by row, each a few pixels from where it should be."""
    import numpy as np

    whole = -(-((across - 1) * apart + side + 2 * off) // 8)
    rough = random.integers(0, 4000, (whole, whole), dtype=np.uint16)
    slide = rough.repeat(8, axis=0).repeat(8, axis=1)
    slide += random.integers(0, 200, slide.shape, dtype=np.uint16)
    tiles = []
    for row in range(across):
        for column in range(across):
            down, right = random.integers(-off // 8, off // 8 + 1, 2) + off
            top, left = row * apart + down, column * apart + right
            tiles.append(np.ascontiguousarray(slide[top : top + side, left : left + side]))
    return tiles


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "augment": augment,
    "climate": climate,
    "clicks": clicks,
    "mcts": mcts,
    "stitch": stitch,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
