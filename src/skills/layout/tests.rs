use crate::model::BlockKind;
use crate::skills::layout::page::{Field, FieldKind, Rule};
use crate::skills::layout::*;
use BlockKind::{Heading, Metadata, Table};

/// Creates a piece from left edge, top, letter size and text. Letters are half as wide as they are high.
fn piece(&(left, top, size, text): &(f32, f32, f32, &str)) -> Piece {
    let right = left + text.chars().count() as f32 * size * 0.5;
    Piece { text: text.to_string(), left, top, right, bottom: top + size * 1.2, size }
}

fn page(lines: &[(f32, f32, f32, &str)]) -> Page {
    Page { width: 600.0, height: 800.0, pieces: lines.iter().map(piece).collect(), measured: true, ..Page::default() }
}

fn check(page: &Page, expected: &[(BlockKind, &str)]) {
    let found = find_structure(page);
    let found: Vec<(BlockKind, &str)> = found.iter().map(|it| (it.kind, it.text.as_str())).collect();
    assert_eq!(found, expected);
}

/// Creates the drawn lines of a grid with these edges.
fn grid(columns: &[f32], rows: &[f32]) -> Vec<Rule> {
    let (left, right) = (columns[0], columns[columns.len() - 1]);
    let (top, bottom) = (rows[0], rows[rows.len() - 1]);
    let uprights = columns.iter().map(|it| Rule { left: *it, top, right: *it + 0.5, bottom });
    uprights.chain(rows.iter().map(|it| Rule { left, top: *it, right, bottom: *it + 0.5 })).collect()
}

#[test]
fn empty_page_has_no_structure() {
    check(&page(&[]), &[]);
}

#[test]
fn running_text_has_no_structure() {
    let text = "a line of prose that goes on for as long as the page is wide and then some";
    let lines: Vec<_> = (0..20).map(|it| (50.0, 50.0 + 14.0 * it as f32, 10.0, text)).collect();
    check(&page(&lines), &[]);
}

#[test]
fn two_columns_of_prose_are_not_a_table() {
    let text = "some forty letters of prose in a column.";
    let lines = (0..40).map(|it| (50.0 + 250.0 * (it % 2) as f32, 50.0 + 14.0 * (it / 2) as f32, 10.0, text));
    check(&page(&lines.collect::<Vec<_>>()), &[]);
}

#[test]
fn aligned_columns_are_a_table() {
    check(
        &page(&[
            (50.0, 100.0, 10.0, "Feature"),
            (250.0, 100.0, 10.0, "Nominal"),
            (400.0, 100.0, 10.0, "Tolerance"),
            (50.0, 114.0, 10.0, "Outer diameter"),
            (250.0, 114.0, 10.0, "84.0 mm"),
            (400.0, 114.0, 10.0, "0.1 mm"),
            (50.0, 128.0, 10.0, "Mass"),
            (250.0, 128.0, 10.0, "2.31 kg"),
            (50.0, 142.0, 10.0, "Wall"),
            (250.0, 142.0, 10.0, "6.5 mm"),
            (400.0, 142.0, 10.0, "at least 6.2 mm"),
        ]),
        &[(
            Table,
            "Feature | Nominal | Tolerance\nOuter diameter | 84.0 mm | 0.1 mm\nMass | 2.31 kg | \nWall | 6.5 mm | at least 6.2 mm",
        )],
    );
}

#[test]
fn cell_continues_on_next_line() {
    check(
        &page(&[
            (50.0, 100.0, 10.0, "Item"),
            (250.0, 100.0, 10.0, "Remark"),
            (50.0, 114.0, 10.0, "Gauge"),
            (250.0, 114.0, 10.0, "brass, with"),
            (250.0, 128.0, 10.0, "a lid"),
            (50.0, 142.0, 10.0, "Float"),
            (250.0, 142.0, 10.0, "cork"),
        ]),
        &[(Table, "Item | Remark\nGauge | brass, with a lid\nFloat | cork")],
    );
}

#[test]
fn cells_between_rules_are_a_table_with_region() {
    let mut page = page(&[
        (60.0, 105.0, 10.0, "a"),
        (210.0, 105.0, 10.0, "b"),
        (60.0, 135.0, 10.0, "long text"),
        (60.0, 148.0, 10.0, "in two lines"),
        (210.0, 135.0, 10.0, "x|y"),
    ]);
    page.rules = grid(&[50.0, 200.0, 350.0], &[100.0, 130.0, 170.0]);
    check(&page, &[(Table, "a | b\nlong text in two lines | x/y")]);
    let region = find_structure(&page)[0].region;
    assert_eq!((region.left, region.top), (50.25 / 600.0, 100.25 / 800.0));
}

#[test]
fn frame_with_words_is_not_a_table() {
    let mut page = page(&[(60.0, 105.0, 10.0, "notice")]);
    page.rules = grid(&[50.0, 200.0], &[100.0, 130.0]);
    check(&page, &[]);
}

#[test]
fn labels_get_values_inside_beside_and_below() {
    check(
        &page(&[
            (50.0, 100.0, 10.0, "Invoice number: SF-2025"),
            (50.0, 114.0, 10.0, "Date:"),
            (200.0, 114.0, 10.0, "4 May 2025"),
            (50.0, 128.0, 10.0, "Total ........... EUR 12.50"),
            (50.0, 300.0, 10.0, "Client:"),
            (50.0, 313.0, 10.0, "Harbour Office"),
        ]),
        &[
            (Metadata, "Invoice number: SF-2025\nDate: 4 May 2025\nTotal: EUR 12.50"),
            (Metadata, "Client: Harbour Office"),
        ],
    );
}

#[test]
fn urls_times_and_sentences_are_not_facts() {
    check(
        &page(&[
            (50.0, 100.0, 10.0, "https://example.org: a place"),
            (50.0, 130.0, 10.0, "10:30 begins the talk"),
            (50.0, 190.0, 10.0, "of the method: it forgives."),
            (50.0, 160.0, 10.0, "this is what everybody in the house said to me: go"),
        ]),
        &[],
    );
}

#[test]
fn large_lines_are_headings_by_size() {
    check(
        &page(&[
            (50.0, 40.0, 20.0, "Title"),
            (50.0, 100.0, 14.0, "Chapter"),
            (50.0, 130.0, 10.0, "text that goes on for a while and says nothing of note"),
            (50.0, 144.0, 10.0, "text that goes on for a while and says nothing of note"),
        ]),
        &[(Heading(1), "Title"), (Heading(2), "Chapter")],
    );
}

#[test]
fn signers_side_by_side_share_one_block() {
    let page = page(&[
        (50.0, 500.0, 10.0, "Signatures"),
        (50.0, 530.0, 10.0, "Signed for the Office"),
        (320.0, 531.0, 10.0, "Signed for the Works"),
        (50.0, 580.0, 10.0, "Name: Ann Ash"),
        (320.0, 581.0, 10.0, "Name: Bo Birch"),
        (50.0, 594.0, 10.0, "Date: 2 May"),
        (320.0, 595.0, 10.0, "Date: 4 May"),
    ]);
    let text = "Signed by: Ann Ash, for the Office, 2 May; Bo Birch, for the Works, 4 May\nSignatures\n\
                Signed for the Office\nName: Ann Ash\nDate: 2 May\nSigned for the Works\nName: Bo Birch\nDate: 4 May";
    check(&page, &[(Metadata, text)]);
    let region = find_structure(&page)[0].region;
    assert!(region.left < 0.1 && region.right > 0.6 && region.top > 0.6 && region.bottom < 0.8, "{region:?}");
}

#[test]
fn names_below_typed_lines_are_signatures() {
    let line = "______________________";
    check(
        &page(&[
            (50.0, 500.0, 10.0, line),
            (320.0, 500.0, 10.0, line),
            (50.0, 514.0, 10.0, "Ada Quill"),
            (320.0, 514.0, 10.0, "Prof. Marsh"),
        ]),
        &[(Metadata, "Signed by: Ada Quill; Prof. Marsh\nAda Quill\nProf. Marsh")],
    );
}

#[test]
fn name_below_drawn_line_is_signer() {
    let mut page = page(&[
        (50.0, 500.0, 10.0, "Signed for the Office"),
        (50.0, 560.0, 10.0, "Ann Ash"),
        (50.0, 574.0, 10.0, "Date: 2 May"),
    ]);
    page.rules = vec![Rule { left: 50.0, top: 556.0, right: 200.0, bottom: 557.0 }];
    let text = "Signed by: Ann Ash, for the Office, 2 May\nSigned for the Office\nAnn Ash\nDate: 2 May";
    check(&page, &[(Metadata, text)]);
}

#[test]
fn signature_line_is_found_and_form_blanks_are_not() {
    let sign = "Name: .............. Date: .............. Signature: ..............";
    check(&page(&[(50.0, 500.0, 10.0, sign)]), &[(Metadata, &format!("Signatures\n{sign}"))]);
    check(
        &page(&[
            (50.0, 100.0, 10.0, "_______ at the national level"),
            (50.0, 114.0, 10.0, "_______ at the local level"),
            (50.0, 128.0, 10.0, "Other: ____________"),
        ]),
        &[],
    );
}

#[test]
fn two_line_heading_is_joined() {
    check(
        &page(&[
            (50.0, 40.0, 20.0, "A title that goes"),
            (50.0, 65.0, 20.0, "over two lines"),
            (50.0, 130.0, 10.0, "text that goes on for a while and says nothing of note"),
            (50.0, 144.0, 10.0, "text that goes on for a while and says nothing of note"),
        ]),
        &[(Heading(1), "A title that goes over two lines")],
    );
}

#[test]
fn clause_about_signatures_is_not_a_signature() {
    check(
        &page(&[
            (50.0, 100.0, 10.0, "Signatures"),
            (50.0, 114.0, 10.0, "Prices"),
            (
                50.0,
                300.0,
                10.0,
                "Signed copies of this agreement are kept by both parties for as long as the law asks for it.",
            ),
        ]),
        &[],
    );
}

#[test]
fn form_fields_give_values_and_signature_fields() {
    let place =
        |left, top| Piece { left, top, right: left + 100.0, bottom: top + 14.0, size: 14.0, ..Piece::default() };
    let mut page = page(&[(50.0, 100.0, 10.0, "Surname:"), (50.0, 200.0, 10.0, "Tenant")]);
    let field = |kind, name: &str, value: &str, place| Field { kind, name: name.into(), value: value.into(), place };
    page.fields = vec![
        field(FieldKind::Value, "f1", "Quill", place(100.0, 99.0)),
        field(FieldKind::Value, "colour", "red", place(300.0, 400.0)),
        field(FieldKind::Signature, "sig", "", place(100.0, 199.0)),
    ];
    check(&page, &[(Metadata, "Surname: Quill\ncolour: red"), (Metadata, "Signature field: Tenant")]);
}

#[test]
fn reading_order_follows_columns() {
    let places: Vec<Piece> = [
        (50.0, 20.0, 10.0, "above both columns, as wide as the page, so that nothing goes beside it"),
        (50.0, 100.0, 10.0, "left 1"),
        (320.0, 100.0, 10.0, "right 1"),
        (320.0, 300.0, 10.0, "right 2"),
        (50.0, 310.0, 10.0, "left 2"),
    ]
    .iter()
    .map(piece)
    .collect();
    assert_eq!(reading_order::reading_order(&places.iter().collect::<Vec<_>>()), [0, 1, 4, 2, 3]);
}

#[test]
fn turned_page_has_regions_as_displayed() {
    let mut page = page(&[(60.0, 80.0, 10.0, "Total: EUR 5")]);
    page.quarter_turns = 1;
    // The page was turned clockwise to be upright, so its upper left corner is the lower left corner of the page in the
    // file.
    let region = find_structure(&page)[0].region;
    assert!((region.left - 0.1).abs() < 1e-5 && (region.bottom - 0.9).abs() < 1e-5, "{region:?}");
}

#[test]
fn crowded_page_is_processed_quickly() {
    let lines: Vec<_> = (0..20_000)
        .map(|it| (((it * 7919) % 5900) as f32 / 10.0, ((it * 104_729) % 7900) as f32 / 10.0, 4.0, "x: y"))
        .collect();
    let mut page = page(&lines);
    page.rules = (0..4_000)
        .map(|it| {
            let at = (it % 700) as f32;
            Rule { left: at, top: at, right: at + 30.0, bottom: at }
        })
        .collect();
    let begun = std::time::Instant::now();
    find_structure(&page);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
