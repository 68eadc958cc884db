use crate::model::chunk_places::*;
use crate::model::{ChunkId, EncodedPieces, Region, Tier};

fn piece(range: Range<usize>, anchor: Anchor) -> ChunkPiece {
    ChunkPiece { range, anchor }
}

fn page(page: u32) -> Anchor {
    Anchor { page: Some(page), ..Anchor::default() }
}

fn verbatim(line: u32, bytes: Range<u64>) -> Anchor {
    let (byte_start, byte_end) = (Some(bytes.start), Some(bytes.end));
    Anchor { line_start: Some(line), line_end: Some(line), byte_start, byte_end, verbatim: true, ..Anchor::default() }
}

/// Builds a chunk with these headings, and a body of these parts with their anchors.
fn chunk(headings: &[(&str, Anchor)], body: &[(&str, Anchor)]) -> Chunk {
    let mut text = headings.iter().map(|it| it.0).collect::<Vec<_>>().join(HEADING_SEPARATOR);
    let mut pieces = Vec::new();
    for (shown, anchor) in headings {
        let at = text.find(shown).unwrap();
        pieces.push(piece(at..at + shown.len(), anchor.clone()));
    }
    text.push_str(if headings.is_empty() { "" } else { "\n" });
    let body_start = text.len();
    for (index, (shown, anchor)) in body.iter().enumerate() {
        text.push_str(if index > 0 { "\n\n" } else { "" });
        pieces.push(piece(text.len()..text.len() + shown.len(), anchor.clone()));
        text.push_str(shown);
    }
    Chunk {
        id: ChunkId("c".into()),
        ordinal: 0,
        body_start: body_start as u32,
        anchor: body[0].1.clone().through(&body[body.len() - 1].1),
        pieces: EncodedPieces::new(&text, body_start, &pieces),
        text,
        heading_path: Vec::new(),
        tokens: 1,
        tier: Tier::L1,
    }
}

/// Returns the location of these words, which must occur in the body.
fn anchor_of_words(chunk: &Chunk, words: &str) -> Anchor {
    let at = chunk.body().find(words).unwrap();
    chunk.body_anchor(at..at + words.len())
}

#[test]
fn sentence_has_own_page_and_first_page_if_two() {
    let chunk = chunk(&[], &[("Metal is cold.", page(1)), ("Wood\nis warm.", page(2)), ("Glass breaks.", page(5))]);
    for (words, page) in [("Metal", 1), ("cold.\n\n", 1), ("Wood\nis warm.", 2), ("warm", 2), ("breaks.", 5)] {
        assert_eq!(anchor_of_words(&chunk, words).page, Some(page), "{words}");
    }
    assert_eq!(anchor_of_words(&chunk, "warm.\n\nGlass").page, Some(2));
    assert_eq!(anchor_of_words(&chunk, "\n\nGlass").page, Some(5), "leading blank lines belong to no page");
}

#[test]
fn page_around_ends_at_page_boundary() {
    let chunk = chunk(&[("Head", page(1))], &[("One.", page(1)), ("Two.", page(2)), ("Three.", page(2))]);
    let shown = |word: &str| chunk.body()[chunk.page_around(chunk.body().find(word).unwrap())].trim();
    assert_eq!(["One", "Two", "Three"].map(shown), ["One.", "Two.\n\nThree.", "Two.\n\nThree."]);
    assert!(chunk.spans_pages());
}

#[test]
fn heading_above_passage_has_own_place() {
    let chunk = chunk(&[("Metals", verbatim(1, 2..8)), ("Tin", verbatim(3, 13..16))], &[("It melts.", page(4))]);
    let places = chunk.places();
    let headings: Vec<Range<usize>> = places.headings().collect();
    let shown: Vec<&str> = headings.iter().map(|it| &chunk.text[it.clone()]).collect();
    assert_eq!(shown, ["Metals", "Tin"]);
    assert_eq!(places.anchor_at(headings[1].clone()), verbatim(3, 13..16));
    assert_eq!(anchor_of_words(&chunk, "melts").page, Some(4));
}

#[test]
fn verbatim_part_has_exact_line_and_bytes() {
    let text = Anchor { line_end: Some(9), ..verbatim(7, 100..120) };
    let chunk = chunk(&[], &[("first\r\n  second\nlast", text), ("apart", verbatim(12, 140..145))]);
    assert_eq!(anchor_of_words(&chunk, "second"), verbatim(8, 109..115));
    assert_eq!(anchor_of_words(&chunk, "  second\n"), verbatim(8, 107..115));
    let both = anchor_of_words(&chunk, "last\n\napart");
    assert_eq!(
        (both.line_start, both.line_end, both.byte_start, both.byte_end),
        (Some(9), Some(12), Some(116), Some(145))
    );
    assert!(!both.verbatim);
}

#[test]
fn row_has_own_cells_if_rows_match_lines() {
    let cells = |cell: &str| Anchor { sheet: Some("S".into()), cell: Some(cell.into()), ..Anchor::default() };
    let chunk = chunk(&[], &[("a | b\nc | d", cells("B2:C3")), ("e | f\ng | h", cells("B7:C9"))]);
    assert_eq!(anchor_of_words(&chunk, "c |").cell.as_deref(), Some("B3:C3"));
    assert_eq!(anchor_of_words(&chunk, "g").cell.as_deref(), Some("B7:C9"), "rows and lines differ in number");
    assert_eq!(anchor_of_words(&chunk, "d\n\ne").cell.as_deref(), Some("B3:C9"));
}

#[test]
fn narrowed_counts_left_out_lines() {
    let lines = Anchor { line_start: Some(10), line_end: Some(16), ..Anchor::default() };
    let rows = Anchor { cell: Some("A10:B16".into()), ..Anchor::default() };
    let text = "a\nb\nc\nd";
    for (part, line) in [(0..1, 10), (2..3, 12), (4..5, 13), (6..7, 16)] {
        let gaps = vec![(1, 1), (3, 2)];
        let place = Anchor { gaps: gaps.clone(), ..lines.clone() }.narrow_to(text, part.clone());
        assert_eq!((place.line_start, place.line_end), (Some(line), Some(line)));
        let place = Anchor { gaps, ..rows.clone() }.narrow_to(text, part);
        assert_eq!(place, Anchor { cell: Some(format!("A{line}:B{line}")), ..Anchor::default() });
    }
    assert_eq!(lines.narrow_to(text, 2..3), lines, "the position of the gap is unknown");
}

#[test]
fn stored_pieces_round_trip() {
    let region = |left| Region { left, top: 0.25, right: 0.5, bottom: 0.75 };
    let anchors = [
        Anchor { symbol: Some("a \"b\"".into()), ..verbatim(3, 10..13) },
        Anchor { line_end: Some(99), verbatim: false, ..verbatim(4, 20..50) },
        Anchor { region: Some(region(0.1234)), member: Some("x!/y".into()), ..page(4) },
        Anchor { sheet: Some("S".into()), cell: Some("A1:B2".into()), part: Some("quote".into()), ..Anchor::default() },
        Anchor::default(),
    ];
    let body: Vec<(&str, Anchor)> =
        ["one", "two", "three", "four\nlines", "five"].into_iter().zip(anchors.clone()).collect();
    let chunk = chunk(&[("Title", page(1))], &body);
    let read = chunk.pieces.decode(&chunk.text, chunk.body_start as usize).unwrap();
    assert_eq!(read[1..].iter().map(|it| it.anchor.clone()).collect::<Vec<_>>(), anchors);
    assert_eq!(
        read.iter().map(|it| &chunk.text[it.range.clone()]).collect::<Vec<_>>(),
        ["Title", "one", "two", "three", "four\nlines", "five"]
    );
}

#[test]
fn invalid_pieces_fall_back_to_chunk_anchor() {
    let whole = chunk(&[], &[("One.", page(1)), ("Two.", page(2))]);
    for stored in ["[[0,{}],[90,{\"p\":2}]]", "[[0,{\"p\":\"x\"}]]", "{", "[[0,{}],[18446744073709551615,{}]]"] {
        let chunk = Chunk { pieces: EncodedPieces::from_stored(stored), ..whole.clone() };
        assert_eq!(anchor_of_words(&chunk, "Two"), whole.anchor, "{stored}");
    }
}

#[test]
fn contiguous_pieces_are_joined() {
    let check = |text: &str, first: (&str, Anchor), second: (&str, Anchor)| {
        let at = text.rfind(second.0).unwrap();
        let pieces = vec![piece(0..first.0.len(), first.1), piece(at..text.len(), second.1)];
        join_contiguous(text, pieces).len()
    };
    assert_eq!(check("a\n\nb", ("a", page(1)), ("b", page(1))), 1);
    assert_eq!(check("a\n\nb", ("a", page(1)), ("b", page(2))), 2);
    assert_eq!(check("a\n\nb", ("a", verbatim(1, 0..1)), ("b", verbatim(3, 3..4))), 1);
    assert_eq!(check("a\n\nb", ("a", verbatim(1, 0..1)), ("b", verbatim(2, 3..4))), 2, "`\\r\\n`, or a mark");
    let lines = |line: u32, end: u32| Anchor { line_start: Some(line), line_end: Some(end), ..Anchor::default() };
    assert_eq!(check("a\n\nb", ("a", lines(1, 1)), ("b", lines(3, 3))), 1);
    assert_eq!(check("a\n\nb", ("a", lines(1, 2)), ("b", lines(3, 3))), 2, "the exact line of the first is unknown");
    let cell = Anchor { cell: Some("A1".into()), ..Anchor::default() };
    assert_eq!(check("a\n\nb", ("a", cell.clone()), ("b", cell)), 2);
}

#[test]
fn evidence_is_found_by_file_or_text_bytes() {
    let shown = |chunk: &Chunk, bytes| chunk.evidence_range(&bytes).map(|it| chunk.text[it].to_string());
    let own =
        chunk(&[("Head", verbatim(1, 2..6))], &[("one two", verbatim(3, 10..17)), ("three", verbatim(9, 40..45))]);
    assert_eq!(shown(&own, 14..17).as_deref(), Some("two"));
    assert_eq!(shown(&own, 40..45).as_deref(), Some("three"));
    assert_eq!(shown(&own, 2..6).as_deref(), Some("Head"));
    assert_eq!((shown(&own, 10..45), shown(&own, 0..0), shown(&own, 16..41)), (None, None, None));
    let made = chunk(&[], &[("one two", page(1)), ("three", page(2))]);
    assert_eq!(shown(&made, 9..14).as_deref(), Some("three"));
    assert_eq!(shown(&made, 9..99), None);
}

#[test]
fn passage_keeps_quote_only_if_whole() {
    let anchor = |part: Option<&str>| Anchor { part: part.map(str::to_string), ..Anchor::default() };
    let part = |first, last| anchor(first).through(&anchor(last)).part;
    assert_eq!(part(Some("quote"), Some("quote")).as_deref(), Some("quote"));
    assert_eq!(part(Some("quote"), None), None);
    assert_eq!(part(Some("body"), Some("attachment: a.txt")).as_deref(), Some("body"));
}
