"""What the help says of commands: their panels, a line for each, their examples."""

from __future__ import annotations

import os
from typing import Any

from typer.core import TyperGroup

#: Panels of ``lanescope --help`` in their order, with a line for each verb: at most twelve verbs
#: are in `EVERYDAY`, which a terminal of 80 x 24 shows whole.
EVERYDAY: dict[str, dict[str, str]] = {
    "Measure": {
        "check": "Measure every path and say whether it is healthy.",
        "topo": "Show what is in this machine and how it is linked.",
        "copy": "Measure copies that run at the same time, each and in sum.",
        "bench": "Measure every pattern of copies: the cases of nvbandwidth.",
        "fleet": "Check many nodes by MPI or Slurm, and name the bad parts.",
    },
    "Programs": {
        "watch": "Run a program, unchanged, and report what it moved.",
        "advise": "Say what pinned memory, streams or batches would gain.",
        "boost": "Carry a program's large copies of pageable memory faster.",
        "model": "Predict what transfers and overlap with kernels take.",
        "compress": "Compress files of arrays without loss.",
    },
    "Results": {
        "report": "Write a stored run as an HTML page, or print JSON or CSV.",
        "compare": "Compare two runs path by path, or two watches by copies.",
    },
}
FURTHER: dict[str, dict[str, str]] = {
    "Stored runs": {
        "show": "Print the report of a stored run again.",
        "open": "Open the page of a stored run in a browser.",
        "runs": "List the runs of the runs folder, the latest first.",
        "history": "Show what the same hardware carried earlier, and its changes.",
        "rm": "Remove runs by name, or all but the latest ones.",
    },
    "Nodes and setup": {
        "node": "Say in one line whether this node may run jobs.",
        "doctor": "Say which sources of watch work here, and why others do not.",
    },
    "Files and studies": {
        "decompress": "Give back the files that 'lanescope compress' made smaller.",
        "reproduce": "Run a study's experiments and write one page of them.",
    },
}
PANELS = EVERYDAY | FURTHER
PANEL_OF = {verb: panel for panel, verbs in PANELS.items() for verb in verbs}
LINE_OF = {verb: line for verbs in PANELS.values() for verb, line in verbs.items()}
#: The first sentence of each verb of a group that is no study; of those their entry has it.
LINE_OF_PART = {
    "bench params": (
        "Write the parameters of a suite as TOML, from TARUC's own .in file or any other."
    ),
    "fleet check": "Check every node at once and say what is wrong with which, the worst first.",
    "fleet report": "Report what the ranks of a check have written, also where the job was ended.",
    "fleet import": (
        "Read results of nccl-tests or perftest, and say which node, rack or link is slow."
    ),
    "history add": "Add stored runs to the history; what is there already is not counted twice.",
    "history show": (
        "Show each path of each part over its runs: median, scatter, and the newest value."
    ),
    "history changes": "Say which paths changed, since when, and what else changed at that time.",
}


class FirstScreen(TyperGroup):
    """Shows verbs by panels, the everyday ones first, and its options below them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs in the order of the panels."""
        return [verb for verb in LINE_OF if verb in self.commands]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; Typer prints options first, and loads Markdown for it."""
        if self.rich_markup_mode is None:  # TYPER_USE_RICH=0: plain text has no panels
            return super().format_help(ctx, formatter)
        from rich.console import Console
        from rich.padding import Padding
        from rich.panel import Panel
        from rich.table import Table

        usage = f"Usage: {ctx.command_path} {' '.join(self.collect_usage_pieces(ctx))}"
        width = os.environ.get("TERMINAL_WIDTH", "")  # as in the help of verbs
        console = Console(
            width=int(width) if width.isdigit() else None, highlight=False, markup=False
        )
        console.print(Padding(usage, (1, 1, 0, 1)), style="bold")
        console.print(Padding(self.help or "", 1))
        params: list[Any] = self.get_params(ctx)
        options = {", ".join(sorted(one.opts, key=len, reverse=True)): one.help for one in params}
        for title, lines in (PANELS | {"Options": options}).items():
            table = Table.grid(padding=(0, 2))
            table.add_column(style="bold cyan", no_wrap=True, min_width=max(map(len, LINE_OF)))
            for name, line in lines.items():
                table.add_row(name, line)
            console.print(Panel(table, title=title, title_align="left", border_style="dim"))
        return None


#: By the words that name a command; each line is one that can be typed as it stands.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "check": (
        "lanescope check --within 15s --strict",
        "lanescope check 'h2d/*' --expect-gpus 8",
        "lanescope check --machine h200-x2",
    ),
    "node": (
        "lanescope node --within 15s --expect machine.toml --no-store",
        "lanescope node --format prometheus --to lanescope.prom",
        "lanescope node --snippet slurm-prolog",
    ),
    "fleet check": (
        "srun lanescope fleet check --out /shared/check-2026-11-23",
        "mpirun -n 16 --map-by node lanescope fleet check --within 15s --out DIR",
    ),
    "fleet import": ("lanescope fleet import results/*.txt --out imported",),
    "fleet report": ("lanescope fleet report /shared/check-2026-11-23 --json",),
    "history add": ("lanescope history add", "lanescope history add /shared/checks"),
    "history show": ("lanescope history show 0000:17:00.0",),
    "history changes": ("lanescope history changes", "lanescope history changes node17 --json"),
    "copy": (
        "lanescope copy 'h0 <-> g0'",
        "lanescope copy '3x h0 -> g0 64MiB, g0 -> g1 @sm:16'",
    ),
    "bench": (
        "lanescope bench -t host_to_device_memcpy_ce",
        "lanescope bench --format nvbandwidth --json",
        "lanescope bench --params default --list",
    ),
    "bench sweep": ("lanescope bench sweep --memory pinned --max 64MiB",),
    "bench latency": ("lanescope bench latency --gpu 1",),
    "bench small": ("lanescope bench small --counts 1,64 --method single --method batch",),
    "bench sms": ("lanescope bench sms --size 256MiB",),
    "bench streams": ("lanescope bench streams --counts 1,2,3,4",),
    "bench nccl": ("lanescope bench nccl --sizes 1MiB-1GiB",),
    "bench overhead": ("lanescope bench overhead --memory huge --max 100MB",),
    "bench host": ("lanescope bench host --pattern random --list",),
    "bench hostdev": ("lanescope bench hostdev --gpu 0 --memory pinned",),
    "bench peer": ("lanescope bench peer --max 1GB",),
    "bench nurma": ("lanescope bench nurma --gap 64B",),
    "bench contention": ("lanescope bench contention --node 0",),
    "bench compress": ("lanescope bench compress weights.safetensors field.npy",),
    "bench params": ("lanescope bench params default --out suite.toml",),
    "model predict": (
        "lanescope model predict --h2d 700MB --d2h 350MB --kernel 12ms --parameters k20",
    ),
    "model fit": ("lanescope model fit --out fit",),
    "model validate": ("lanescope model validate --grid 512x512x40",),
    "topo": ("lanescope topo --save machine.toml", "lanescope topo --svg machine.svg"),
    "watch": (
        "lanescope watch -- python train.py",
        "lanescope watch --out runs/a -- ./app --size 4096",
    ),
    "boost": (
        "lanescope boost -- python train.py",
        "lanescope boost --dry-run -- ./app --size 4096",
    ),
    "advise": ("lanescope advise -- ./app",),
    "doctor": ("lanescope doctor",),
    "reproduce": ("lanescope reproduce pcie-thesis --out thesis",),
    "report": (
        "lanescope report latest --out page.html",
        "lanescope report WATCH --export perfetto --out trace.pftrace",
    ),
    "runs": ("lanescope runs",),
    "show": ("lanescope show latest",),
    "open": ("lanescope open latest",),
    "compare": ("lanescope compare 20261101-081500-check latest --threshold 3%",),
    "compress": (
        "lanescope compress weights.safetensors field.npy",
        "lanescope compress samples.f32 --to archive --codec exponent",
    ),
    "decompress": (
        "lanescope decompress weights.safetensors.lsc",
        "lanescope decompress weights.safetensors.lsc --info",
        "lanescope decompress weights.safetensors.lsc --tensor wte --out wte.safetensors",
    ),
    "rm": ("lanescope rm --keep 20", "lanescope rm --older-than 90d --dry-run"),
}


def epilog(command: str) -> str:
    """Return the examples of a command as they stand below its help."""
    lines = EXAMPLES.get(command, ())
    word = "Example:" if len(lines) == 1 else "Examples:"
    return "\n\n".join((word, *lines)) if lines else ""
