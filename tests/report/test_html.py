from __future__ import annotations

import json

from lanescope.document.blocks import Column, Group, Kind, Table, TableCell
from lanescope.report.document_page import blocks_html
from lanescope.report.html import json_data, script, text
from tests.report.conftest import Document
from tests.report.factory import NASTY


def test_text_is_safe_in_elements_and_attributes():
    document = Document(f'<p title="{text(NASTY)}">{text(NASTY)}</p>')
    assert document.tags == [("p", {"title": NASTY})]
    assert document.text == NASTY


def test_data_cannot_end_its_element():
    document = Document(json_data("x", {"name": NASTY}))
    assert [tag for tag, _ in document.tags] == ["script"]
    assert json.loads(document.scripts[0]) == {"name": NASTY}


def test_code_cannot_end_its_element():
    document = Document(script("const a = '</script>' + '<!-- <script>';"))
    assert [tag for tag, _ in document.tags] == ["script"]


def test_a_table_has_headers_for_rows_and_columns():
    columns = (Column("Path"), Column("GB/s", Kind.GBS, hint="how fast"))
    shown = Table(
        "What it shows", columns, [Group([["a < b", TableCell(1.0, strong=True)]], "All")]
    )
    source = blocks_html([shown])
    tags = Document(source).tags
    scopes = [attributes["scope"] for tag, attributes in tags if tag == "th"]
    assert scopes == ["col", "col", "rowgroup", "row"]
    assert "caption" in [tag for tag, _ in tags]
    assert "a &lt; b" in source
    assert "<strong>1.00</strong>" in source
