"""Draws the blocks of a report, and a machine as a tree, on a terminal, with rich."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text as RichText
from rich.tree import Tree

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Code,
    CodeListing,
    Column,
    Details,
    Facts,
    Findings,
    Judgement,
    Kind,
    Section,
    Style,
    Subsection,
    Table,
    TableCell,
    Text,
    TintedTable,
    Tone,
    Words,
)
from lanescope.machine import Gpu, HostBandwidth, Link, LinkKind, Machine, Nic, NumaNode
from lanescope.machine.part_names import part_name
from lanescope.report.format import (
    bytes_text,
    cell_of,
    count_text,
    finding_blocks,
    finding_text,
    gbs_text,
    is_number,
    listing_head,
    listing_lines,
    pieces,
    value_text,
)
from lanescope.units.plain import plain_text

_STYLES = {
    Style.PLAIN: "",
    Style.STRONG: "bold",
    Style.QUIET: "dim",
    Style.WARNING: "bold yellow",
}
_TONES = {
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.WRONG: "bold red",
    Tone.OPEN: "yellow",
    Tone.QUIET: "dim",
    Tone.PREDICTED: "cyan",
}
_BAR_COLUMNS = 31
#: Narrower texts, of a few words a line, make tables that nobody reads.
_NARROWEST_TEXT = 24
#: Of rich: blanks between two columns, and at both edges.
_BETWEEN_COLUMNS, _EDGES = 3, 2


def renderables(blocks: Sequence[Block]) -> Iterator[RenderableType]:
    """Yield what a terminal shows of blocks; it has no charts, and what is folded stays so."""
    for block in blocks:
        if isinstance(block, Text):
            yield _words(block.words, _STYLES[block.style])
        elif isinstance(block, Bullets):
            yield from map(_words, block.items)
        elif isinstance(block, Facts):
            yield from (_words((f"{term}: ", *pieces(words))) for term, words in block.pairs)
        elif isinstance(block, TintedTable):
            yield _rich_table(block.table)
        elif isinstance(block, Table):
            yield TableOrLines(block)
            yield from (RichText(note, "dim italic") for note in block.notes)
        elif isinstance(block, CodeListing):
            yield from _listing(block)
        elif isinstance(block, Findings):
            if block.brief:
                yield from (RichText(f"- {finding_text(found)}") for found in block.found)
            else:
                yield from renderables(finding_blocks(block.found))
        elif isinstance(block, Details):
            yield from renderables(block.blocks) if block.on_terminal else ()
        elif isinstance(block, Subsection):
            yield RichText.assemble((block.title, "bold"), f"  {block.about}")
            yield from renderables(block.blocks)
            yield ""
        elif isinstance(block, Section):
            shown = list(renderables(block.blocks))
            yield from [*shown, ""] if shown else []


@dataclass(frozen=True)
class TableOrLines:
    """A table; where a terminal is too narrow for it, a line for each row says the same."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one of the two."""
        if _least_width(self.table, options.ascii_only) <= options.max_width:
            yield _rich_table(self.table)
        else:
            yield RichText(self.table.title)
            yield from _lines(self.table)


def _least_width(table: Table, ascii_only: bool) -> int:
    """How many columns a table takes whose texts wrap, and whose numbers do not."""
    written = plain_text if ascii_only else str
    rows = [row for group in table.groups for row in group.rows]
    width = _EDGES - _BETWEEN_COLUMNS
    for at, column in enumerate(table.columns):
        cells = (cell_of(row[at]) for row in rows)
        texts = [line for cell in cells for line in _cell(column, cell).plain.split("\n")]
        texts += [group.heading or "" for group in table.groups] if at == 0 else []
        longest = max((len(written(text)) for text in texts), default=0)
        if column.kind is Kind.BAR:
            longest = _BAR_COLUMNS
        elif column.kind is Kind.TEXT:
            longest = min(longest, _NARROWEST_TEXT)
        width += max(longest, len(written(column.title))) + _BETWEEN_COLUMNS
    return width


def in_ascii(renderable: RenderableType) -> RenderableType:
    """Return a text or a table in ASCII, before it is laid out: ``->`` is wider than an arrow."""
    if isinstance(renderable, str):
        return plain_text(renderable)
    if isinstance(renderable, RichTable):
        for column in renderable.columns:
            column.header = in_ascii(column.header)
            column._cells = [in_ascii(cell) for cell in column._cells]
    if not isinstance(renderable, RichText) or renderable.plain.isascii():
        return renderable
    places = [0, *accumulate(len(plain_text(character)) for character in renderable.plain)]
    made = renderable.blank_copy(plain_text(renderable.plain))
    for span in renderable.spans:
        made.stylize(span.style, places[span.start], places[min(span.end, len(places) - 1)])
    return made


def _rich_table(table: Table) -> RichTable:
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=table.title, title_justify="left")
    for column in table.columns:
        wraps = column.kind is Kind.TEXT
        made.add_column(
            "" if column.kind is Kind.BAR else column.title,
            justify="right" if is_number(column) else "left",
            no_wrap=not wraps,
            overflow="fold",
        )
    for group in table.groups:
        if group.heading:
            made.add_row(RichText(group.heading, "bold"))
        for row in group.rows:
            cells = [cell_of(value) for value in row]
            shown = (_cell(c, cell) for c, cell in zip(table.columns, cells, strict=True))
            made.add_row(*shown, style="bold" if cells[0].strong else "")
    return made


def _lines(table: Table) -> Iterator[RichText]:
    """Each row as text that wraps at any width: each value behind its title."""
    for group in table.groups:
        if group.heading:
            yield RichText(group.heading, "bold")
        for row in group.rows:
            shown = zip(table.columns, map(cell_of, row), strict=True)
            values = [
                RichText.assemble(f"{column.title} ".lstrip(), _in_line(column, cell))
                for column, cell in shown
                if column.kind is not Kind.BAR and cell.value not in (None, "")
            ]
            yield RichText("; ").join(values)


def _in_line(column: Column, cell: TableCell) -> RichText:
    """Return a cell in one line: what stands below its value follows in brackets."""
    first, *below = _cell(column, cell).split("\n")
    return RichText.assemble(first, *(part for line in below for part in (" (", line, ")")))


def _cell(column: Column, cell: TableCell) -> RichText:
    if column.kind is Kind.BAR:
        share = cell.value if isinstance(cell.value, float) else 0.0
        return RichText("█" * round(min(share, 1.0) * _BAR_COLUMNS))
    if isinstance(cell.value, Judgement):
        return _judgement(cell.value)
    text = RichText(value_text(column, cell.value) + cell.mark)
    if isinstance(cell.value, Badge):
        text.stylize(_TONES[cell.value.tone])
    elif cell.badge is not None:
        text.stylize(_TONES[cell.badge.tone])
    elif cell.value is None:
        text.stylize("dim")
    elif cell.tone is not None:
        text.stylize(_TONES[cell.tone])
    elif cell.strong:
        text.stylize("bold")
    for line in cell.below:
        text.append(f"\n{line}", "dim")
    return text


def _listing(block: CodeListing) -> Iterator[RichText]:
    yield RichText(listing_head(block))
    tones = {"-": Tone.QUIET, "+": Tone.GOOD}
    for sign, line in listing_lines(block.snippet):
        yield RichText(f"  {sign} {line}".rstrip(), _TONES[tones[sign]])


def _judgement(value: Judgement) -> RichText:
    text = RichText.assemble((f"{value.badge.word}: ", _TONES[value.badge.tone]), value.reason)
    if value.remedy:
        text.append(f" → {value.remedy}")
    return text


def _words(words: Words, style: str = "") -> RichText:
    text = RichText(style=style)
    for piece in pieces(words):
        if isinstance(piece, Code):
            text.append(piece.words, "cyan")
        elif isinstance(piece, Badge):
            text.append(piece.word, _TONES[piece.tone])
        else:
            text.append(piece)
    return text


def machine_tree(machine: Machine) -> Tree:
    """Return the machine as a tree: nodes, what hangs below them, the GPU fabric."""
    kind = "described machine" if machine.described else "machine"
    facts = [kind, machine.name]
    if machine.cpu:
        facts.append(f"({machine.cpu})")
    tree = Tree(" ".join(facts))
    none = "driver not known" if machine.described else "no NVIDIA driver"
    driver = f"driver {machine.driver}" if machine.driver else none
    if machine.cuda_version:
        driver += f", CUDA {machine.cuda_version}"
    tree.add(driver)
    drawn: set[str] = set()
    for node in machine.nodes:
        branch = tree.add(_node_text(node))
        for known in machine.host_bandwidth:
            if known.node == node.index:
                branch.add(host_bandwidth_text(known))
        below = {node.id}
        _add_below(branch, machine, node.id, below)
        drawn |= below
    for gpu in machine.gpus:
        if gpu.id not in drawn:
            tree.add(f"{_gpu_text(gpu)}, no PCIe link known")
    for nic in machine.nics:
        tree.add(nic_text(nic))
    for link in machine.links:
        if link.kind is not LinkKind.PCIE:
            tree.add(f"{link.a} – {link.b}: {link_text(link)}")
    return tree


def link_text(link: Link) -> str:
    """Return a link with its limits, and what it lost when it is trained down."""
    text = link.label
    if link.raw_gbs is not None:
        text += f", raw {gbs_text(link.raw_gbs)}"
    if link.payload_gbs is not None:
        there, back = link.payload_gbs
        text += f", payload {gbs_text(there)} ↓ {gbs_text(back)} ↑ GB/s"
    if link.pcie is not None and link.pcie.trained_down:
        best = link.pcie.at_best()
        text += f" (now; up to {best.generation}.0 x{best.width}, which the limits are for)"
    return text


def host_bandwidth_text(known: HostBandwidth) -> str:
    """Return what some GPUs together read and write of a node's memory, in a line."""
    rates = [f"{name} {gbs_text(gbs)}" for name, gbs in known.rates]
    gpus = ", ".join(part_name("g", gpu) for gpu in known.gpus)
    early = f"{known.at_capacity:.0%} of it when they ask for just that; "
    how = f"{'' if known.at_capacity == 1 else early}± {known.spread:.1%}, measured"
    return f"{gpus} together: {', '.join(rates)} GB/s at most ({how})"


def nic_text(nic: Nic) -> str:
    """Return a NIC's port in a line: its network, its PCIe link, and the GPUs that it is near."""
    facts = [nic.layer or "RDMA"]
    if nic.rate_gbps is not None:
        facts.append(f"{nic.rate_gbps:g} Gbit/s")
    if nic.state is not None:
        facts.append(nic.state)
    if nic.pcie is not None:
        facts.append(nic.pcie.label)
    if nic.pci_address is not None:
        facts.append(nic.pci_address)
    near = ", ".join(nic.gpus) or (None if nic.node is None else f"h{nic.node}")
    if near is not None:
        facts.append(f"near {near}")
    return f"{nic.id}: {', '.join(facts)}"


def _add_below(branch: Tree, machine: Machine, part: str, drawn: set[str]) -> None:
    for link in machine.links:
        if link.kind is LinkKind.PCIE and link.a == part and link.b not in drawn:
            drawn.add(link.b)
            below = branch.add(f"{_part_text(machine, link.b)} over {link_text(link)}")
            _add_below(below, machine, link.b, drawn)


def _part_text(machine: Machine, part: str) -> str:
    for gpu in machine.gpus:
        if gpu.id == part:
            return _gpu_text(gpu)
    for switch in machine.switches:
        if switch.id == part:
            return f"{switch.id}: {switch.name}"
    return part


def _node_text(node: NumaNode) -> str:
    threads = sum(len(core) for core in node.cores)
    cores = len(node.cores)
    facts = [f"{count_text(cores, 'core')}, {count_text(threads, 'thread')}"]
    if node.memory_bytes is not None:
        size = f"{bytes_text(node.memory_bytes)} " if node.memory_bytes else "no "
        facts.append(f"{size}memory")
    if node.memory_gbs is not None:
        facts.append(f"limit {gbs_text(node.memory_gbs)} GB/s")
    if node.cache_bytes is not None:
        facts.append(f"{bytes_text(node.cache_bytes)} last-level cache")
    return f"{node.id}: " + ", ".join(facts)


def _gpu_text(gpu: Gpu) -> str:
    facts = [gpu.name]
    if gpu.memory_bytes is not None:
        facts.append(bytes_text(gpu.memory_bytes))
    if gpu.pci_address:
        facts.append(gpu.pci_address)
    if gpu.unavailable:
        facts.append(f"not usable: {gpu.unavailable}")
    return f"{gpu.id}: " + ", ".join(facts)
