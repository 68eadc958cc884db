//! Computes the numbers that Word shows before list items and headings: `3.`, `2.1`, `(b)`.
//!
//! Other text refers to these numbers ("section 2.1"), but the file holds only the rules for counting. Bullets give no
//! text.

use std::collections::HashMap;

use crate::extract::office::docx::styles::{ListPlace, child_value};
use crate::extract::xml_tree::Node;

/// Maximum number of list levels, defined by the docx format.
const LEVELS: usize = 9;

#[derive(Clone, Debug, Default)]
struct Level {
    start: u32,
    format: String,
    /// Pattern of the label. For example, `%1.%2` stands for the numbers of levels 1 and 2.
    text: String,
    /// Id of the paragraph style whose paragraphs are on this level.
    style: Option<String>,
    /// Whether the label shows the numbers of all levels in decimal, regardless of their formats (`w:isLgl`).
    legal: bool,
}

/// The numbering definitions of a document, and the current count on each list level.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    definitions: HashMap<String, Vec<Level>>,
    /// For each list id: the id of its definition, and the levels whose count the list restarts, with their start values.
    lists: HashMap<u32, (String, Vec<(usize, u32)>)>,
    counts: HashMap<String, [Option<u32>; LEVELS]>,
}

impl Numbering {
    /// Parses `numbering.xml`, given its document node.
    pub(super) fn parse(top: Node<'_>) -> Numbering {
        let mut numbering = Numbering::default();
        for node in top.descendants() {
            match node.name() {
                "abstractNum" => {
                    let levels = node.children_named("lvl").take(LEVELS).map(parse_level).collect();
                    numbering.definitions.insert(node.attr("abstractNumId").unwrap_or_default(), levels);
                }
                "num" => {
                    let id = node.attr("numId").and_then(|it| it.parse().ok());
                    let (Some(id), Some(definition)) = (id, child_value(node, "abstractNumId")) else { continue };
                    let restart = |it: Node<'_>| {
                        let level = it.attr("ilvl")?.parse().ok().filter(|it| *it < LEVELS)?;
                        Some((level, child_value(it, "startOverride")?.parse().ok()?))
                    };
                    numbering
                        .lists
                        .insert(id, (definition, node.children_named("lvlOverride").filter_map(restart).collect()));
                }
                _ => {}
            }
        }
        numbering
    }

    /// Counts one more paragraph of a list and returns its label, e.g. `2.1`; `None` for bullets.
    pub(super) fn next_label(&mut self, place: ListPlace, style: Option<&str>) -> Option<String> {
        let (definition, restarts) = self.lists.get_mut(&place.id)?;
        let levels = self.definitions.get(definition)?;
        let by_style = || levels.iter().position(|it| style.is_some() && it.style.as_deref() == style);
        let at = place.level.or_else(by_style).unwrap_or(0);
        let level = levels.get(at)?;
        let counts = self.counts.entry(definition.clone()).or_default();
        for (level, start) in restarts.drain(..) {
            counts[level] = Some(start.saturating_sub(1));
        }
        counts[at] = Some(counts[at].map_or(level.start, |it| it.saturating_add(1)));
        counts[at + 1..].fill(None);
        if matches!(level.format.as_str(), "bullet" | "none") {
            return None;
        }
        let mut label = level.text.clone();
        for (place, it) in levels.iter().enumerate().take(at + 1) {
            let format = if level.legal { "decimal" } else { &it.format };
            let number = format_number(counts[place].unwrap_or(it.start), format);
            label = label.replace(&format!("%{}", place + 1), &number);
        }
        Some(label).filter(|it| !it.trim().is_empty())
    }
}

fn parse_level(node: Node<'_>) -> Level {
    Level {
        start: child_value(node, "start").and_then(|it| it.parse().ok()).unwrap_or(1),
        format: child_value(node, "numFmt").unwrap_or_else(|| "decimal".to_string()),
        text: child_value(node, "lvlText").unwrap_or_default(),
        style: child_value(node, "pStyle"),
        legal: node.child("isLgl").is_some(),
    }
}

/// Formats a number in a number format of Word, such as `lowerRoman`; unknown formats become decimal.
fn format_number(number: u32, format: &str) -> String {
    /// Numbers above this are written as decimals instead of letters or Roman numerals.
    const MAX_LETTERED: u32 = 1_000;
    match format {
        "lowerLetter" | "upperLetter" if (1..=MAX_LETTERED).contains(&number) => {
            // Repeats one letter: a to z, then aa to zz (aa, bb, cc), then aaa.
            let letter = char::from(b'a' + ((number - 1) % 26) as u8).to_string();
            let letters = letter.repeat(((number - 1) / 26 + 1) as usize);
            if format == "upperLetter" { letters.to_uppercase() } else { letters }
        }
        "lowerRoman" if (1..=MAX_LETTERED).contains(&number) => roman(number),
        "upperRoman" if (1..=MAX_LETTERED).contains(&number) => roman(number).to_uppercase(),
        "decimalZero" => format!("{number:02}"),
        _ => number.to_string(),
    }
}

fn roman(mut number: u32) -> String {
    const NUMERALS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    let mut text = String::new();
    for (worth, numeral) in NUMERALS {
        while number >= worth {
            text.push_str(numeral);
            number -= worth;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::xml_tree::Tree;

    const XML: &str = r#"<n><w:abstractNum w:abstractNumId="7">
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/><w:pStyle w:val="H1"/></w:lvl>
        <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/><w:pStyle w:val="H2"/></w:lvl>
        <w:lvl w:ilvl="2"><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/></w:lvl></w:abstractNum>
        <w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>
        <w:num w:numId="2"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num></n>"#;

    #[test]
    fn list_labels_count_by_level_and_restart() {
        let tree = Tree::parse(XML);
        let mut numbering = Numbering::parse(tree.top());
        let mut check = |id, level, style, label: &str| {
            let found = numbering.next_label(ListPlace { id, level }, style).unwrap_or_default();
            assert_eq!(found, label);
        };
        check(1, Some(0), None, "1.");
        check(1, Some(1), None, "1.a)");
        check(1, None, Some("H2"), "1.b)");
        check(1, Some(2), None, "");
        check(1, None, Some("H1"), "2.");
        check(1, Some(1), None, "2.a)");
        check(2, Some(0), None, "5.");
        check(2, Some(0), None, "6.");
        check(9, Some(0), None, "");
        check(1, Some(8), None, "");
    }

    #[test]
    fn numbers_follow_their_format() {
        for (number, format, text) in [
            (28, "upperLetter", "BB"),
            (1994, "lowerRoman", "1994"),
            (44, "upperRoman", "XLIV"),
            (3, "decimalZero", "03"),
            (3, "chicago", "3"),
            (0, "lowerLetter", "0"),
        ] {
            assert_eq!(format_number(number, format), text);
        }
    }
}
