"""Is a path as fast as it should be? Pure rules over numbers and link states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lanescope.copies import Copy, Engine, Memory
from lanescope.copies.limit import Limit
from lanescope.copies.terms import ARRAYS
from lanescope.machine import LinkKind, Machine
from lanescope.machine.pcie import line_rate_gbs
from lanescope.results import (
    CopyResult,
    LinkEvidence,
    Source,
    Statistics,
    Status,
    Verdict,
)
from lanescope.results.turns import Turns
from lanescope.units.sizes import bandwidth_gbs
from lanescope.units.words import rate_text

#: Smaller copies spend their time on start-up and say nothing about the link.
JUDGED_BYTES = 32 << 20

#: Share of the payload limit that healthy hardware reaches, for one copy alone and
#: for opposing copies at once. PCIe: the limit leaves out acknowledgements and flow
#: control; 95 to 96 % was measured on PCIe 5.0 x16, and with opposing copies 80 to 92 %
#: on two hosts, by what the host's memory and fabric do; a link at half its width has 50.
#: NVLink: 88 % was measured on 18 NVLinks 4. Memory: what STREAM usually reaches of the
#: modules' peak. GPU memory: 86 % was measured on an H200, each byte read and written.
EXPECTED_SHARE: dict[LinkKind | str, tuple[float, float]] = {
    LinkKind.PCIE: (0.90, 0.70),
    LinkKind.NVLINK: (0.80, 0.80),
    "memory": (0.60, 0.60),
    "gpu memory": (0.70, 0.70),
}

#: Arrays that are together so many times as large as the last-level cache are memory's work.
CACHES_FILLED = 4

#: Copies keep step whose times differ by less, and whose links would have them differ by more.
_IN_STEP, _OTHER_PACE = 1.01, 1.5

#: Of the expected share: what is below is slow, however wide its interval is. A link at half its
#: width has 0.71 of it at most.
_NEARLY = 0.9

#: Above the limit by more than this, either the limit or the timing is wrong.
_TOLERANCE = 1.02
#: Where a kernel's packets are larger than the cache lines that its limit assumes.
_KERNEL_TOLERANCE = 1.10


def judge(
    machine: Machine,
    copy: Copy,
    gbs: float,
    limit: Limit,
    *,
    source: Source,
    most_gbs: float | None = None,
    alone: Limit | None = None,
    staged: bool = False,
    evidence: Sequence[LinkEvidence] = (),
) -> Verdict:
    """Judge one copy.

    Parameters
    ----------
    gbs
        Its bandwidth in GB/s.
    most_gbs
        The bandwidth at the fast end of the 95 % interval of its median time; None where that is
        not known. A copy is slow if this does not reach the expected share, or the median is far
        from it.
    alone
        Its ceiling without the other copies that ran at the same time; None when
        there were none. Below it a copy may have more than its fair share.
    staged
        Whether the driver took a copy between GPUs through host memory.
    evidence
        Link states seen under load.
    """
    if source is Source.PREDICTED:
        rest = "" if limit.gbs is None or limit.kind else "the rest of the way, as "
        return Verdict(Status.PREDICTED, f"upper bound from {rest}{limit.reason}")
    if copy.operation.is_latency:
        return Verdict(Status.UNJUDGED, "a latency has no limit to be judged by")
    if trained_down := _trained_down(machine, copy, gbs, evidence):
        return trained_down
    if copy.engine is Engine.CPU and _fits_caches(machine, copy):
        return Verdict(Status.UNJUDGED, "it fits into the CPU's caches")
    if limit.gbs is None or limit.kind not in EXPECTED_SHARE:
        return Verdict(Status.UNJUDGED, limit.reason)
    by_kernel = copy.engine in (Engine.SM, Engine.NCCL)
    tolerance = _KERNEL_TOLERANCE if by_kernel else _TOLERANCE
    ceiling = alone or limit
    from_cache = limit.kind == "gpu memory" and copy.bytes < JUDGED_BYTES
    if ceiling.gbs is not None and gbs > ceiling.gbs * tolerance and not from_cache:
        return Verdict(
            Status.IMPOSSIBLE,
            f"faster than {ceiling.reason} can be",
            "The link's data or the clock is wrong; please report this with the run folder.",
        )
    if staged:
        return Verdict(Status.UNJUDGED, "no peer access: the driver stages it in host memory")
    if excuse := _not_comparable(copy):
        return Verdict(Status.UNJUDGED, excuse)
    expected = EXPECTED_SHARE[limit.kind][0 if alone is None else 1]
    share = gbs / limit.gbs
    reason = f"{_percent(share)} of the limit, {expected * 100:.0f} % or more expected"
    if limit.kind is LinkKind.PCIE:
        states = [f"{e.part} at PCIe {e.generation}.0 x{e.width}" for e in evidence]
        reason = "; ".join([reason, *states])
    if share >= expected:
        return Verdict(Status.HEALTHY, reason)
    replays = [e for e in evidence if e.replays]
    if replays:
        reason += "; " + ", ".join(f"{e.part} sent {e.replays} packets again" for e in replays)
    elif limit.unknown is not None:
        return Verdict(
            Status.UNJUDGED, f"{_percent(share)} of what the links allow; {limit.unknown}"
        )
    elif most_gbs is not None and most_gbs >= expected * limit.gbs and share >= _NEARLY * expected:
        return Verdict(
            Status.UNJUDGED,
            f"{_percent(share)} of the limit, {_percent(most_gbs / limit.gbs)} within its 95 % "
            f"interval, and {expected * 100:.0f} % expected: it may be as fast; a longer "
            "measurement tells",
        )
    return Verdict(Status.SLOW, reason, _remedy(limit, bool(replays)))


def turns_verdict(
    copies: Sequence[Copy], number: int, turns: Turns, statistics: Statistics
) -> Verdict:
    """Return what to say of a copy that is not healthy, of a set in which some took turns.

    A copy that was held up is not slow, and the others did not run beside the same ones all the
    time.
    """
    others = turns.others(number)
    if not others:
        words = "others of this set took turns on an engine, so that its load changed"
        if number in turns.unknown:
            words = "its rate is not known: it never ran beside all the others"
        return Verdict(Status.UNJUDGED, words)
    mine = copies[number]
    gbs = bandwidth_gbs(
        sum(copies[n].counted_bytes for n in (number, *others)), statistics.median_seconds
    )
    kernels = mine.engine is Engine.SM
    engine = f"{'the SMs' if kernels else 'one copy engine'} of {mine.executing_gpu}"
    known = "in sum " if turns.by_windows else "only their sum is known, "
    return Verdict(
        Status.UNJUDGED,
        f"took turns with {_paths([copies[n] for n in others])} on {engine}: {known}"
        f"{rate_text(gbs)}",
    )


def in_step_with(results: Sequence[CopyResult], number: int) -> str:
    """Return the paths of copies that take as long as one, though links allow another pace.

    An engine that does a copy of one stream and then one of another makes each wait for the
    other, and all of them as slow as all together.
    """
    mine = results[number]
    return _paths([other.copy for other in results if _is_in_step(mine, other)])


def _is_in_step(mine: CopyResult, other: CopyResult) -> bool:
    engines = [(r.copy.executing_gpu, r.copy.engine) for r in (mine, other)]
    if engines[0] != engines[1] or mine.copy.engine is not Engine.CE:
        return False
    times = [r.statistics.median_seconds for r in (mine, other)]
    # of one repetition, as the links allow it
    wanted = [r.copy.bytes / r.limit_gbs for r in (mine, other) if r.limit_gbs]
    return (
        len(wanted) == 2
        and max(times) < min(times) * _IN_STEP
        and max(wanted) > min(wanted) * _OTHER_PACE
    )


def _paths(copies: Sequence[Copy]) -> str:
    """Return the paths of copies, each once, with how often it is there."""
    counts = Counter(copy.path for copy in copies)
    return ", ".join(f"{count} x {path}" if count > 1 else path for path, count in counts.items())


def _trained_down(
    machine: Machine, copy: Copy, gbs: float, evidence: Sequence[LinkEvidence]
) -> Verdict | None:
    over_pcie = copy.source.is_host or copy.destination.is_host
    for link in evidence if over_pcie else ():
        links = [ln for ln in machine.links if ln.pcie is not None and ln.b == link.part]
        for best in (ln.pcie.at_best() for ln in links if ln.pcie is not None):
            slower = link.generation < best.generation or link.width < best.width
            # A state that was read too late, on a link that rests again, proves nothing.
            if slower and gbs <= line_rate_gbs(link.generation, link.width):
                return Verdict(
                    Status.SLOW,
                    f"the link of {link.part} runs at PCIe {link.generation}.0 x{link.width} under "
                    f"load, {best.generation}.0 x{best.width} is possible",
                    "Reseat the card or riser, try another slot, look at the slot's BIOS setting; "
                    "'lspci -vv' shows LnkSta.",
                )
    return None


def _fits_caches(machine: Machine, copy: Copy) -> bool:
    """Whether caches may serve a host thread's work instead of memory."""
    near = {copy.source.index, copy.destination.index}
    caches = [
        node.cache_bytes or 0
        for node in machine.nodes
        if node.index in near or any(set(copy.cpus) & set(core) for core in node.cores)
    ]
    used = copy.span_bytes * ARRAYS[copy.operation]
    return used < CACHES_FILLED * max(caches, default=0)


def _not_comparable(copy: Copy) -> str | None:
    """Why a copy cannot be expected to reach its limit, or None."""
    if copy.engine is Engine.CPU:
        if len(copy.cpus) == 1:
            return "one core alone does not fill the memory's limit"
        return None
    if copy.engine is Engine.NCCL:
        return "what NCCL reaches depends on its own protocol, channels and kernels"
    if Memory.PAGEABLE in (copy.source.memory, copy.destination.memory):
        return "the driver stages pageable memory with a CPU core"
    if Memory.MANAGED in (copy.source.memory, copy.destination.memory):
        return "the driver may move pages of managed memory"
    if copy.bytes < JUDGED_BYTES:
        return "too small to fill the link"
    if copy.in_pieces:
        return "many small copies are bound by submission, not by the link"
    if copy.sms is not None:
        return "the number of SMs was chosen by hand"
    return None


def _remedy(limit: Limit, replays: bool) -> str:
    if limit.kind == "memory":
        return "Look for other load, missing memory modules and the NUMA setting of the BIOS."
    if limit.kind == "gpu memory":
        return "'nvidia-smi -q -d CLOCK,ECC,PERFORMANCE' shows throttling and memory errors."
    if limit.kind is LinkKind.NVLINK:
        return "'nvidia-smi nvlink -s' and '-e' show dead links and errors."
    if replays:
        return "Replays mean a bad signal: reseat the card or riser and clean the contacts."
    return (
        "Look for other traffic ('nvidia-smi dmon -s t'), the IOMMU setting, and whether the GPU "
        "shares a switch with a busy device."
    )


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
