"""Colours of the picture; every rule is confined to it, since pages inline it."""

from __future__ import annotations

_LIGHT = """
.ls-topology{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
--ground:#fff;--ink:#1f2933;--quiet:#5b6672;--line:#8b96a3;--box:#f4f6f8;--edge:#c3cbd4;
--gpu:#edf6f1;--gpu-edge:#7db89c;--fabric:#f1edf8;--fabric-edge:#9d86cc;--warn:#b34700}"""
_DARK = """
.ls-topology{--ground:#161b22;--ink:#e3e8ee;--quiet:#9aa6b2;--line:#6f7b88;--box:#1f262e;
--edge:#414c58;--gpu:#16281f;--gpu-edge:#3f7a5f;--fabric:#241f33;--fabric-edge:#6f5aa0;
--warn:#ff9a57}"""
_RULES = """
.ls-topology .ground,.ls-topology .patch{fill:var(--ground)}
.ls-topology text{fill:var(--ink)}
.ls-topology text.quiet{fill:var(--quiet)}
.ls-topology text.title{font-size:15px;font-weight:600}
.ls-topology text.name{font-weight:600}
.ls-topology text.warn,.ls-topology text.notice{fill:var(--warn);font-weight:600}
.ls-topology .box{fill:var(--box);stroke:var(--edge)}
.ls-topology .gpu .box{fill:var(--gpu);stroke:var(--gpu-edge)}
.ls-topology .nvswitch .box{fill:var(--fabric);stroke:var(--fabric-edge)}
.ls-topology .gone .box{fill:var(--box);stroke:var(--edge);stroke-dasharray:4 3}
.ls-topology .gone text{fill:var(--quiet)}
.ls-topology .link{fill:none;stroke:var(--line);stroke-width:1.6}
.ls-topology .thin{stroke-width:1}
.ls-topology .nvlink{stroke:var(--fabric-edge)}
.ls-topology .down{stroke:var(--warn);stroke-width:2.4}
.ls-topology .unknown{stroke-dasharray:3 4}"""

STYLE = f"{_LIGHT}{_RULES}@media screen and (prefers-color-scheme:dark){{{_DARK}}}"
