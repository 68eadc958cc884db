//! Redacts keys and tokens in an extracted document: the last step of extraction inside the worker.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::extract::{ReadResult, new_failure};
use crate::model::chunk_places::line_breaks;
use crate::model::{Anchor, Block, BlockKind, Document, Reason, Redaction};
use crate::secrets::{REDACTED, Redactor, SecretColumns};

/// Redacts secrets in a document. Fails with [`Reason::Secret`] if the document holds nothing but secrets.
pub(crate) fn redact(mut document: Document, redaction: Redaction) -> ReadResult<Document> {
    let mut censor = Redactor::new(redaction);
    let (mut blackened, mut table) = (0, TableState::default());
    let mut blackened_pages = HashSet::new();
    for block in &mut document.blocks {
        if let Cow::Owned(cleaned) = table.redact_block(block, &mut censor) {
            // Clears `verbatim`, because the text now differs from the bytes in the file. Clears `gaps` (the file lines that
            // the block omits) if a key of several lines became one line, because the line numbers in it would be wrong.
            block.anchor.verbatim = false;
            if line_breaks(&cleaned) != line_breaks(&block.text) {
                block.anchor.gaps.clear();
            }
            block.text = cleaned;
            blackened += 1;
            blackened_pages.insert(block.anchor.page.unwrap_or(1));
        }
        redact_anchor(&mut block.anchor, redaction);
    }
    // A key may consist of several words.
    document.words.retain(|it| !blackened_pages.contains(&it.page));
    let links = document.links.iter_mut().flat_map(|it| [&mut it.target, &mut it.text]);
    for text in document.title.iter_mut().chain(&mut document.problems).chain(links) {
        *text = Redactor::new(redaction).redact(text).into_owned();
    }
    if blackened == 0 {
        return Ok(document);
    }
    if document.blocks.iter().all(|it| it.text.replace(REDACTED, "").trim().is_empty()) {
        return Err(new_failure(Reason::Secret, "it holds keys and nothing else"));
    }
    let places = censor.found();
    document.problems.push(match places {
        1 => "a key or token was redacted".to_string(),
        _ => format!("keys or tokens were redacted at {places} places"),
    });
    Ok(document)
}

/// Column heads of the current table. Readers split a table into blocks, and only the first block has the column heads, so
/// they apply to the following table blocks too. A second table directly after the first is taken for its continuation.
#[derive(Default)]
struct TableState {
    columns: SecretColumns,
    /// Anchor of the table's last block.
    place: Option<Anchor>,
}

impl TableState {
    fn redact_block<'t>(&mut self, block: &'t Block, censor: &mut Redactor) -> Cow<'t, str> {
        if block.kind != BlockKind::Table {
            *self = TableState::default();
            return censor.redact(&block.text);
        }
        let of = |it: &Anchor| (it.member.clone(), it.part.clone(), it.sheet.clone());
        if self.place.as_ref().is_some_and(|it| of(it) != of(&block.anchor)) {
            self.columns = SecretColumns::default();
        }
        self.place = Some(block.anchor.clone());
        censor.redact_rows(&block.text, &mut self.columns, block.anchor.cell.as_deref().map(first_column))
    }
}

/// Returns the first column (from 0) of a cell range such as `B2:D9`. Blocks of a sheet may begin in different columns.
fn first_column(cells: &str) -> usize {
    let letters = cells.bytes().take_while(u8::is_ascii_uppercase);
    letters
        .fold(0_usize, |column, it| column.saturating_mul(26).saturating_add(usize::from(it - b'A') + 1))
        .saturating_sub(1)
}

/// Redacts secrets in the names of an anchor: an attached message without a file name is named after its subject, which may
/// hold a secret.
fn redact_anchor(anchor: &mut Anchor, redaction: Redaction) {
    let names = [&mut anchor.member, &mut anchor.part, &mut anchor.sheet, &mut anchor.symbol];
    for name in names.into_iter().flatten() {
        if let Cow::Owned(cleaned) = Redactor::new(redaction).redact(name) {
            *name = cleaned;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::sheet_writer::SheetWriter;
    use crate::extract::text_pieces::MAX_BLOCK_BYTES;
    use crate::extract::{Sink, Tools, extract_bytes};
    use crate::model::{ExtractLimits, PlacedWord, Region};

    fn extract(name: &str, text: &str) -> ReadResult<Document> {
        extract_bytes(text.as_bytes(), name, &ExtractLimits::default(), &Tools::default())
    }

    #[test]
    fn redacted_block_is_not_verbatim() {
        let document = extract("a.txt", "Before.\n\nOur key is AKIAIOSFODNN7EXAMPLE.\n\nAfter.").unwrap();
        assert!(!document.text().contains("AKIA") && document.text().contains("Our key is [redacted]."));
        let verbatim: Vec<bool> = document.blocks.iter().map(|it| it.anchor.verbatim).collect();
        assert_eq!(verbatim, [true, false, true]);
        assert_eq!(document.problems, ["a key or token was redacted"]);
    }

    #[test]
    fn page_with_secret_has_no_places_of_words() {
        let block = |page, text: &str| Block {
            kind: BlockKind::Paragraph,
            text: text.into(),
            anchor: Anchor { page: Some(page), ..Anchor::default() },
            rows: Vec::new(),
        };
        let word = |page, text: &str| PlacedWord { page, text: text.into(), region: Region::default() };
        let document = Document {
            blocks: vec![block(1, "Our key is AKIAIOSFODNN7EXAMPLE."), block(2, "Hello.")],
            words: vec![word(1, "AKIAIOSFODNN7EXAMPLE."), word(2, "Hello.")],
            ..Document::default()
        };
        assert_eq!(redact(document, Redaction::Keys).unwrap().words, [word(2, "Hello.")]);
    }

    #[test]
    fn secret_in_attached_subject_is_redacted() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        let inner = format!("Subject: Your reset token: {value}\r\n\r\nHello.\r\n");
        let mail = format!(
            "Subject: Fwd\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
             Content-Type: text/plain\r\n\r\nSee below.\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n{inner}--b--\r\n"
        );
        let document = extract("a.eml", &mail).unwrap();
        assert!(document.text().contains("Hello.") && !format!("{document:?}").contains(value), "{document:?}");
        let anchor = &document.blocks.iter().find(|it| it.text == "Hello.").unwrap().anchor;
        assert_eq!(anchor.member.as_deref(), Some("Your reset token: [redacted]"));
        assert_eq!(anchor.part.as_deref(), Some("attachment: Your reset token: [redacted], body"));
    }

    #[test]
    fn secret_in_sheet_and_symbol_name_is_redacted() {
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let name = Some(token.to_string());
        let mut anchor = Anchor { sheet: name.clone(), symbol: name, ..Anchor::default() };
        redact_anchor(&mut anchor, Redaction::Keys);
        assert_eq!((anchor.sheet.as_deref(), anchor.symbol.as_deref()), (Some(REDACTED), Some(REDACTED)));
    }

    const VALUE: &str = "Zk3vQ9mX2pLr8TnB5wYs";

    /// Checks that values below a secret-like column head are redacted, also after the table is split, and that other
    /// columns are not.
    fn check_table(name: &str, document: &Document) {
        let text = document.text();
        assert_eq!(text.matches(REDACTED).count(), 100, "{name}: {text}");
        assert!(!text.contains(VALUE) && text.matches("q8Rt2LmZx7Vb4NcK9wPd").count() == 100, "{name}: {text}");
    }

    // Case E13
    #[test]
    fn values_below_secret_head_are_redacted_in_all_tables() {
        let row =
            |open: &str, between: &str, close: &str, cells: [&str; 3]| format!("{open}{}{close}", cells.join(between));
        let table = |open: &str, between: &str, close: &str, rule: &str| {
            let rows = (0..100).map(|it| {
                row(open, between, close, [&format!("bot {it}"), &format!("{VALUE}{it}"), "q8Rt2LmZx7Vb4NcK9wPd"])
            });
            let head = row(open, between, close, ["name", "API token", "commit"]);
            [head, rule.to_string()].into_iter().chain(rows).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n")
        };
        let html = table("<tr><td>", "</td><td>", "</td></tr>", "");
        for (name, text) in [
            ("a.csv", table("", ",", "", "")),
            ("a.tsv", table("", "\t", "", "")),
            ("a.md", table("| ", " | ", " |", "|---|---|---|")),
            ("a.html", format!("<html><body><h1>Bots</h1><table>{html}</table></body></html>")),
        ] {
            check_table(name, &extract(name, &text).unwrap());
        }
    }

    #[test]
    fn column_heads_apply_to_one_sheet_and_column() {
        let rows = |cell: &str, text: &str| {
            let anchor = Anchor { sheet: Some(cell[..1].into()), cell: Some(cell[1..].into()), ..Anchor::default() };
            Block { kind: BlockKind::Table, text: text.into(), anchor, rows: Vec::new() }
        };
        let value = format!("bot | {VALUE}");
        let cells = ["1B2:C2", "1B34:C34", "1A66:B66", "1AA1:AB1", "2B2:C2"];
        let texts = ["name | token", &value, &value, &value, &value];
        let blocks = cells.iter().zip(texts).map(|(cell, text)| rows(cell, text)).collect();
        let document = redact(Document { blocks, ..Document::default() }, Redaction::Keys).unwrap();
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["name | token", "bot | [redacted]", &value, &value, &value]);
    }

    #[test]
    fn value_after_empty_columns_is_redacted_below_head() {
        for column in [2, 15, 16, 17, 40, 16_383] {
            let mut sink = Sink::new(ExtractLimits::default());
            let mut writer = SheetWriter::new("Bots", &mut sink);
            for (row, cells) in [
                vec![(0, "name"), (1, "commit"), (column, "token")],
                vec![(0, "bot"), (1, "q8Rt2LmZx7Vb4NcK9wPd"), (column, VALUE)],
                vec![(0, "bot"), (column, VALUE)],
                vec![(column, VALUE)],
            ]
            .iter()
            .enumerate()
            {
                cells.iter().for_each(|(column, text)| {
                    writer.push_cell(row as u32, *column, text);
                });
            }
            // Adds a cell far below the others, so that the next block has no column heads and begins in another column.
            writer.push_cell(900, column - 1, "bot");
            writer.push_cell(900, column, VALUE);
            writer.finish();
            let text = redact(sink.into_document(), Redaction::Keys).unwrap().text();
            assert_eq!((text.matches(REDACTED).count(), text.contains(VALUE)), (4, false), "{column}: {text}");
            assert!(text.contains("q8Rt2LmZx7Vb4NcK9wPd"), "{column}: {text}");
        }
    }

    #[test]
    fn value_after_cell_with_bar_is_redacted_below_head() {
        let mut sink = Sink::new(ExtractLimits::default());
        let mut writer = SheetWriter::new("Bots", &mut sink);
        for (row, cells) in [["name", "token"], ["bot | old |", VALUE]].iter().enumerate() {
            for (column, text) in cells.iter().enumerate() {
                writer.push_cell(row as u32, column as u32, text);
            }
        }
        writer.finish();
        let sheet = redact(sink.into_document(), Redaction::Keys).unwrap().text();
        let csv = extract("a.csv", &format!("name,token\nbot | old |,{VALUE}\n")).unwrap().text();
        assert_eq!(csv, "name | token\nbot ¦ old ¦ | [redacted]");
        assert!(sheet.ends_with(&csv), "{sheet}");
    }

    #[test]
    fn copied_key_file_is_reported_as_secret() {
        let lines = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n".repeat(40);
        for name in ["notes.txt", "notes.md", "notes"] {
            let key = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}-----END OPENSSH PRIVATE KEY-----\n");
            assert_eq!(extract(name, &key).unwrap_err().reason, Reason::Secret, "{name}");
        }
    }

    /// Puts `text` at many positions around the end of the first block. Checks that no part of the `secret` in it remains,
    /// and that the surrounding text does.
    fn check_cuts(name: &str, before: &str, filler: &str, text: &str, secret: &str) {
        let parts: Vec<&str> = (0..secret.len() - 9).step_by(5).map(|it| &secret[it..it + 10]).collect();
        for place in (1..text.len() + 40).step_by(3) {
            let start = (MAX_BLOCK_BYTES + 20).saturating_sub(place);
            let filling = filler.repeat(start.saturating_sub(before.len()) / filler.len());
            let pad = "x".repeat(start.saturating_sub(before.len() + filling.len()));
            let whole = format!("{before}{filling}{pad}{text}, \"last\": \"words\"}}");
            let document = extract(name, &whole).unwrap();
            // Removes white space, because blocks may end within words.
            let found: String = document.text().split_whitespace().collect();
            let left = parts.iter().find(|it| found.contains(**it));
            assert_eq!(left, None, "{name} at {place}: {found}");
            assert!(found.contains(REDACTED) && found.ends_with("\"last\":\"words\"}"), "{name} at {place}: {found}");
            assert!(document.blocks.iter().filter(|it| it.text.contains(REDACTED)).all(|it| !it.anchor.verbatim));
        }
    }

    // Case E13
    #[test]
    fn secret_at_any_cut_of_long_line_is_redacted() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ";
        let key = format!("-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n");
        for name in ["a.json", "a.txt", "a.js", "a.md", "a.xml"] {
            for filler in ["x", "word "] {
                check_cuts(name, "{\"a\": \"", filler, &format!("\", \"private_key\": \"{key}\""), body);
                check_cuts(name, "{\"a\": \"", filler, &format!("\", \"api_key\": \"{value}\""), value);
                check_cuts(name, "{\"a\":\"", filler, &format!("\",\"api_key\":\"{value}\""), value);
                check_cuts(name, "{\"a\": \"", filler, &format!("\", \"b\": \"Bearer {value}\""), value);
                check_cuts(name, "{\"a\": \"", filler, &format!("\", \"b\": \"{token}\""), token);
            }
        }
    }

    #[test]
    fn secret_at_any_cut_of_escaped_line_is_redacted() {
        let (first, last) = ("Zk3vQ9mX2pLr8TnB", "5wYsq8Rt2LmZx7Vb");
        let text = format!("\",\"api_key\":\"{first}\\u002B{last}\"");
        check_cuts("a.json", "{\"a\":\"caf\\u00e9", "x", &text, first);
        check_cuts("a.json", "{\"a\":\"caf\\u00e9", "x", &text, last);
    }

    #[test]
    fn key_longer_than_block_is_redacted() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(400);
        let text = format!("\", \"k\": \"-----BEGIN PRIVATE KEY-----{body}-----END PRIVATE KEY-----\"");
        for before in [10, MAX_BLOCK_BYTES - 20, MAX_BLOCK_BYTES] {
            let document = extract("a.json", &format!("{{\"a\": \"{}{text}}}", "x".repeat(before))).unwrap();
            let found: String = document.text().split_whitespace().collect();
            assert!(!found.contains("MIIE") && found.ends_with("\"k\":\"[redacted]\"}"), "{before}: {found}");
        }
    }

    #[test]
    fn value_below_its_name_is_redacted() {
        let document = extract("a.md", "# API key\n\nZk3vQ9mX2pLr8TnB5wYs\n\nand more").unwrap();
        assert_eq!(document.text(), "API key\n\n[redacted]\n\nand more");
    }

    #[test]
    fn single_line_of_megabytes_is_cut_in_time() {
        for part in ["-----BEGIN PRIVATE KEY----- ", "token ", "eyJhbGciOiJIUzI1NiJ9-", "api_key\\u003d", "x"] {
            let text = part.repeat((4 << 20) / part.len());
            let begun = std::time::Instant::now();
            // Ignores the result, because only the time matters here.
            extract("a.json", &text).ok();
            assert!(begun.elapsed().as_secs() < 20, "{part}: {:?}", begun.elapsed());
        }
    }

    #[test]
    fn redaction_none_keeps_text() {
        let limits = ExtractLimits { redaction: Redaction::None, ..ExtractLimits::default() };
        let document = extract_bytes(b"AKIAIOSFODNN7EXAMPLE", "a.txt", &limits, &Tools::default()).unwrap();
        assert_eq!(document.text(), "AKIAIOSFODNN7EXAMPLE");
    }
}
