//! Generates seeds in text formats: plain text, markup, messages, pages and source code.

use crate::support::seeds::SENTENCE;
use crate::support::seeds::Seed;
use crate::support::seeds::seed;

/// Replaced by [`SENTENCE`] in the texts below.
const SENTENCE_PLACEHOLDER: &str = "SENTENCE";

pub(super) fn texts() -> Vec<Seed> {
    let all = TEXTS.iter().chain(MARKED).chain(MESSAGES_AND_PAGES).chain(CODE);
    all.map(|(name, text)| seed(name, text.replace(SENTENCE_PLACEHOLDER, SENTENCE))).collect()
}

const TEXTS: &[(&str, &str)] = &[
    ("plain.txt", "Reeds\n\nSENTENCE\n"),
    (
        "note.md",
        "---\ntitle: Reeds\n---\n\n# Reeds\n\n- SENTENCE\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nls\n```\n",
    ),
    (
        "note.rst",
        "Reeds\n=====\n\n.. note:: SENTENCE\n\n.. code-block:: python\n\n   x = 1\n\n* one\n* two\n\n+---+---+\n| a | b |\n+---+---+\n\n.. [1] why\n",
    ),
    (
        "note.org",
        "#+TITLE: Reeds\n* TODO Reeds :bird:\n:PROPERTIES:\n:ID: 1\n:END:\nSENTENCE\n#+BEGIN_SRC sh\nls\n#+END_SRC\n",
    ),
    (
        "note.adoc",
        "= Reeds\nAnna <a@example.org>\n\n== Birds\n\nNOTE: SENTENCE\n\n[source,sh]\n----\nls\n----\n\n|===\n|a |b\n|===\n",
    ),
    (
        "note.tex",
        "\\documentclass{article}\n\\title{Reeds}\n\\begin{document}\n\\section{Birds}\nSENTENCE\\footnote{why}\n\\begin{tabular}{ll}a & b \\\\\n\\end{tabular}\n$x^2$ % remark\n\\end{document}\n",
    ),
    ("note.wiki", "== Reeds ==\n* SENTENCE\n[[Bird|birds]] {{cite|a=b}}\n{| class=\"t\"\n| a || b\n|}\n"),
    ("reeds.bib", "@book{heron,\n  title = {SENTENCE},\n  author = \"Lee, Ann\",\n  year = 2020\n}\n"),
    ("reeds.csv", "bird,\"where, when\"\nheron,SENTENCE\n\"a \"\"b\"\"\",2\n"),
    ("reeds.tsv", "bird\tplace\nheron\tSENTENCE\n"),
    ("reeds.json", "{\"bird\": {\"says\": \"SENTENCE\", \"of\": [1, 2.5e3, null, \"\\u00e4\"]}}\n"),
    ("reeds.jsonl", "{\"bird\": \"SENTENCE\"}\n[1, 2]\nnull\n"),
    ("reeds.yaml", "bird: &a\n  says: >\n    SENTENCE\n  of: [1, 2]\nagain: *a\n"),
    ("reeds.toml", "title = \"SENTENCE\"\n[[bird]]\nborn = 2020-01-01T00:00:00Z\n"),
    ("reeds.ini", "; remark\n[bird]\nsays = SENTENCE\n"),
    (
        "reeds.ics",
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nDTSTART:20200101T080000Z\r\nSUMMARY:SENTENCE\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
    ),
    ("ann.vcf", "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ann Lee\r\nNOTE:SENTENCE\r\nEND:VCARD\r\n"),
    ("talk.srt", "1\n00:00:01,000 --> 00:00:02,000\n<i>SENTENCE</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nIt waits.\n"),
    (
        "talk.vtt",
        "WEBVTT - Reeds\n\nNOTE remark\n\nSTYLE\n::cue { color: red }\n\nfirst\n00:01.000 --> 00:02.000 align:start\n<v Ann>SENTENCE</v>\n",
    ),
    (
        "book.ipynb",
        r##"{"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# Reeds\n", "SENTENCE"]}, {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "print(1)", "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]}], "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5}"##,
    ),
    (
        "note.rtf",
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title Reeds}}\pard\b SENTENCE\b0\par caf\'e9 \u8211?\par\trowd a\cell b\cell\row{\field{\*\fldinst HYPERLINK}{\fldrslt here}}}",
    ),
];

const MARKED: &[(&str, &str)] = &[
    (
        "page.html",
        "<!DOCTYPE html><html><head><title>Reeds</title><meta charset=utf-8></head><body><h1>Birds</h1><p>SENTENCE<table><tr><td>a<td>b</table><ul><li>one<li>two</ul><pre>x</pre><script>no()</script></body></html>",
    ),
    (
        "page.xml",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE article [<!ENTITY bird \"heron\">]><article xmlns:x=\"urn:x\"><title>Reeds</title><x:para id=\"1\">SENTENCE &amp; &bird; <![CDATA[<b>]]></x:para><!-- no --></article>",
    ),
    (
        "drawing.svg",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><title>Reeds</title><desc>why</desc><style>a{}</style><text x=\"1\"><tspan>SENTENCE</tspan></text><path d=\"M0 0\"/></svg>",
    ),
    (
        "book.fb2",
        "<?xml version=\"1.0\"?><FictionBook><description><title-info><author><first-name>Ann</first-name></author><book-title>Reeds</book-title></title-info></description><body><section><title><p>One</p></title><p>SENTENCE</p><poem><stanza><v>line</v></stanza></poem><table><tr><td>a</td></tr></table></section></body><binary>AAAA</binary></FictionBook>",
    ),
];

const MESSAGES_AND_PAGES: &[(&str, &str)] = &[
    ("page.pdf", PAGE),
    (
        "letter.eml",
        "From: Ann <ann@example.org>\r\nTo: =?utf-8?B?QsO2?= <bo@example.org>\r\nSubject: Reeds\r\nDate: Wed, 1 Jan 2020 08:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nSENTENCE=20\r\n--b\r\nContent-Type: text/csv\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=\"a.csv\"\r\n\r\nYSxiCjEsMgo=\r\n--b--\r\n",
    ),
    (
        "saved.mht",
        "From: <Saved by a browser>\r\nSubject: Reeds\r\nDate: Wed, 1 Jan 2020 08:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/html\r\nContent-Location: http://example.org/\r\n\r\n<html><body><p>SENTENCE</p></body></html>\r\n--b--\r\n",
    ),
    (
        "letters.mbox",
        "From ann@example.org Wed Jan  1 08:00:00 2020\nFrom: ann@example.org\nTo: bo@example.org\nSubject: Reeds\n\nSENTENCE\n>From here\n\nFrom bo@example.org Wed Jan  1 09:00:00 2020\nFrom: bo@example.org\nSubject: Re: Reeds\n\nYes.\n",
    ),
];

/// A PDF page without a cross-reference table, as a faulty program writes it. The sample files have well-formed PDFs.
const PAGE: &str = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj\n4 0 obj<</Length 57>>stream\nBT /F 12 Tf 9 99 Td (SENTENCE) Tj ET\nendstream endobj\n5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n";

/// One source file per language that vic chunks by syntax.
const CODE: &[(&str, &str)] = &[
    ("bird.rs", "//! SENTENCE\n\n/// Stands.\npub fn stand<T: Copy>(at: T) -> T {\n    at\n}\n\nstruct Heron(u8);\n"),
    ("bird.py", "\"\"\"SENTENCE\"\"\"\n\n@wait\nclass Heron:\n    def stand(self, at=1):\n        return f\"{at}\"\n"),
    ("bird.js", "// SENTENCE\nexport class Heron { stand(at = 1) { return `${at}`; } }\nconst wait = async () => 1;\n"),
    (
        "bird.ts",
        "// SENTENCE\ninterface Bird<T> { at: T }\nexport function stand(it: Bird<number>): number { return it.at; }\n",
    ),
    ("bird.tsx", "// SENTENCE\nexport const Heron = (p: { at: number }) => <b title=\"x\">{p.at}</b>;\n"),
    (
        "bird.go",
        "// SENTENCE\npackage bird\n\ntype Heron struct{ At int }\n\nfunc (h *Heron) Stand() int { return h.At }\n",
    ),
    (
        "Bird.java",
        "/** SENTENCE */\npublic class Bird<T> extends Object {\n  @Override public String toString() { return \"x\"; }\n}\n",
    ),
    (
        "bird.c",
        "/* SENTENCE */\n#include <stdio.h>\nstruct heron { int at; };\nint stand(struct heron *it) { return it->at; }\n",
    ),
    (
        "bird.cpp",
        "// SENTENCE\nnamespace bird { template <class T> class Heron { public: T stand() const { return at; } T at; }; }\n",
    ),
];
