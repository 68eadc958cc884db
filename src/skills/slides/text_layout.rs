//! Breaks the text of a shape into lines, and shrinks it until it fits into its box.

use crate::extract::{Align, Area, Paragraph, Rgb, TextBody};
use crate::skills::slides::fonts::{Letter, SPACE, push_letters};

/// Height of a line, and of its part above the baseline, relative to the size of the letters.
const LINE_HEIGHT: f32 = 1.2;
const ASCENT: f32 = 0.95;

/// Factors of the size that are tried until the text fits: the fonts of the slide are often narrower than the standard ones.
const SCALES: [f32; 7] = [1.0, 0.92, 0.85, 0.75, 0.65, 0.55, 0.45];

/// A text may be higher than its box by this factor before it is shrunk.
const TOLERANCE: f32 = 1.03;

/// A letter in its size and colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Glyph {
    pub(super) letter: Letter,
    pub(super) size: f32,
    pub(super) colour: Option<Rgb>,
}

impl Glyph {
    pub(super) fn width(&self) -> f32 {
        f32::from(self.letter.width) / 1_000.0 * self.size
    }
}

/// A line of glyphs: the left end of its baseline, from the top left corner of the slide.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedLine {
    pub(super) left: f32,
    pub(super) baseline: f32,
    pub(super) glyphs: Vec<Glyph>,
}

/// A line before its place is known.
struct Line {
    glyphs: Vec<Glyph>,
    bullet: Vec<Glyph>,
    align: Align,
    /// Left edge of the text, and of the bullet relative to it.
    margin: f32,
    indent: f32,
    /// Space above the line.
    before: f32,
    /// Size of the largest letter.
    size: f32,
}

/// Places the lines of a text in its box. Fails with the first character that cannot be drawn.
pub(super) fn place_text(body: &TextBody, area: Area) -> Result<Vec<PlacedLine>, char> {
    let [left, top, right, bottom] = body.insets;
    let inner = Area {
        left: area.left + left,
        top: area.top + top,
        width: (area.width - left - right).max(1.0),
        height: (area.height - top - bottom).max(1.0),
    };
    let mut lines = Vec::new();
    for scale in SCALES {
        lines = break_lines(body, inner.width, body.scale * scale)?;
        if height_of(&lines) <= inner.height * TOLERANCE {
            break;
        }
    }
    Ok(place_lines(lines, body.anchor, inner))
}

fn height_of(lines: &[Line]) -> f32 {
    lines.iter().map(|it| it.before + it.size * LINE_HEIGHT).sum()
}

fn place_lines(lines: Vec<Line>, anchor: Align, area: Area) -> Vec<PlacedLine> {
    let free = area.height - height_of(&lines);
    let mut top = area.top
        + match anchor {
            Align::Start => 0.0,
            Align::Middle => free / 2.0,
            Align::End => free,
        };
    let mut placed = Vec::new();
    for line in lines {
        let baseline = top + line.before + line.size * ASCENT;
        top += line.before + line.size * LINE_HEIGHT;
        let width: f32 = line.glyphs.iter().map(Glyph::width).sum();
        let free = area.width - line.margin - width;
        let left = area.left
            + line.margin
            + match line.align {
                Align::Start => 0.0,
                Align::Middle => free / 2.0,
                Align::End => free,
            };
        if !line.bullet.is_empty() {
            let width: f32 = line.bullet.iter().map(Glyph::width).sum();
            let bullet = (left + line.indent).min(left - width - line.size * 0.2);
            placed.push(PlacedLine { left: bullet, baseline, glyphs: line.bullet });
        }
        if !line.glyphs.is_empty() {
            placed.push(PlacedLine { left, baseline, glyphs: line.glyphs });
        }
    }
    placed
}

fn break_lines(body: &TextBody, width: f32, scale: f32) -> Result<Vec<Line>, char> {
    let mut lines = Vec::new();
    for (number, paragraph) in body.paragraphs.iter().enumerate() {
        let first = lines.len();
        let margin = paragraph.margin * scale;
        let indent = paragraph.indent * scale;
        // A first line without a bullet begins at its indent.
        let shift = if paragraph.bullet.is_none() { indent.max(-margin) } else { 0.0 };
        let available = if body.wraps { (width - margin).max(1.0) } else { f32::INFINITY };
        let mut broken = break_paragraph(paragraph, available - shift.max(0.0), scale)?;
        if broken.is_empty() {
            broken.push(Vec::new());
        }
        for glyphs in broken {
            let size = glyphs.iter().map(|it| it.size).fold(0.0, f32::max);
            let size = if size > 0.0 { size } else { paragraph.size * scale };
            let (bullet, align) = (Vec::new(), paragraph.align);
            lines.push(Line { glyphs, bullet, align, margin, indent, before: 0.0, size });
        }
        let line = &mut lines[first];
        line.before = if number > 0 { paragraph.space_before * scale } else { 0.0 };
        line.margin += shift;
        if let Some(bullet) = &paragraph.bullet {
            let colour = line.glyphs.first().and_then(|it| it.colour);
            line.bullet = glyphs_of(bullet, false, line.size, colour)?;
        }
    }
    Ok(lines)
}

fn glyphs_of(text: &str, bold: bool, size: f32, colour: Option<Rgb>) -> Result<Vec<Glyph>, char> {
    let mut letters = Vec::new();
    push_letters(text, bold, &mut letters)?;
    Ok(letters.into_iter().map(|letter| Glyph { letter, size, colour }).collect())
}

/// Breaks a paragraph at its line breaks, and at spaces where a line would be too wide; inside a word if it is too wide alone.
fn break_paragraph(paragraph: &Paragraph, width: f32, scale: f32) -> Result<Vec<Vec<Glyph>>, char> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    for run in &paragraph.runs {
        for (number, part) in run.text.split(['\n', '\u{B}']).enumerate() {
            if number > 0 {
                lines.push(std::mem::take(&mut line));
            }
            line.extend(glyphs_of(part, run.bold, run.size * scale, run.colour)?);
        }
    }
    lines.push(line);
    Ok(lines.into_iter().flat_map(|it| wrap(it, width)).collect())
}

fn wrap(glyphs: Vec<Glyph>, width: f32) -> Vec<Vec<Glyph>> {
    let (mut lines, mut line, mut used) = (Vec::new(), Vec::<Glyph>::new(), 0.0);
    // Number of glyphs of the line up to its last space.
    let mut breakable = 0;
    for glyph in glyphs {
        let is_space = glyph.letter.code == SPACE;
        used += glyph.width();
        if used > width && !is_space && !line.is_empty() {
            let at = if breakable > 0 { breakable } else { line.len() };
            let rest = line.split_off(at);
            lines.push(std::mem::replace(&mut line, rest));
            used = line.iter().map(Glyph::width).sum::<f32>() + glyph.width();
            breakable = 0;
        }
        line.push(glyph);
        if is_space {
            breakable = line.len();
        }
    }
    lines.push(line);
    for line in &mut lines {
        while line.last().is_some_and(|it| it.letter.code == SPACE) {
            line.pop();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::Run;

    fn body(texts: &[&str], size: f32) -> TextBody {
        let paragraph = |text: &&str| Paragraph {
            runs: vec![Run { text: text.to_string(), size, ..Run::default() }],
            size,
            ..Paragraph::default()
        };
        let paragraphs = texts.iter().map(paragraph).collect();
        TextBody { wraps: true, scale: 1.0, paragraphs, ..TextBody::default() }
    }

    fn text_of(line: &PlacedLine) -> String {
        line.glyphs.iter().map(|it| char::from(it.letter.code)).collect()
    }

    fn texts(lines: &[PlacedLine]) -> Vec<String> {
        lines.iter().map(text_of).collect()
    }

    const BOX: Area = Area { left: 10.0, top: 20.0, width: 100.0, height: 200.0 };

    #[test]
    fn lines_break_at_spaces_and_in_long_words() {
        let lines = place_text(&body(&["one two three four", "a\nb", ""], 20.0), BOX).unwrap();
        assert_eq!(texts(&lines), ["one two", "three four", "a", "b"]);
        assert_eq!(lines[0].left, 10.0);
        assert!((lines[0].baseline - 39.0).abs() < 0.1 && (lines[1].baseline - 63.0).abs() < 0.1, "{lines:?}");
        let lines = place_text(&body(&["WWWWWWWW"], 20.0), BOX).unwrap();
        assert_eq!(texts(&lines), ["WWWWW", "WWW"]);
        let unbroken = TextBody { wraps: false, ..body(&["one two three four"], 20.0) };
        assert_eq!(place_text(&unbroken, BOX).unwrap().len(), 1);
    }

    #[test]
    fn text_is_shrunk_to_its_box_and_aligned() {
        let small = Area { height: 20.0, ..BOX };
        let lines = place_text(&body(&["one two three"], 20.0), small).unwrap();
        assert!(lines.iter().all(|it| it.glyphs[0].size < 20.0), "{lines:?}");
        let mut ending = body(&["x"], 20.0);
        (ending.anchor, ending.paragraphs[0].align) = (Align::End, Align::End);
        let line = &place_text(&ending, BOX).unwrap()[0];
        assert!((line.left - 100.0).abs() < 0.1 && (line.baseline - 215.0).abs() < 0.1, "{line:?}");
    }

    #[test]
    fn bullet_stands_before_its_text() {
        let mut listed = body(&["one two three four five"], 20.0);
        let item = &mut listed.paragraphs[0];
        (item.bullet, item.margin, item.indent) = (Some("\u{2022}".into()), 20.0, -20.0);
        let lines = place_text(&listed, BOX).unwrap();
        assert_eq!((lines[0].glyphs.len(), lines[0].left), (1, 10.0));
        assert!(lines[1..].iter().all(|it| it.left == 30.0), "{lines:?}");
        assert_eq!(place_text(&body(&["a 漢"], 20.0), BOX), Err('漢'));
    }
}
