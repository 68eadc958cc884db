//! The text of a shape, with the styles that its layout and its master define.

use crate::extract::office::slide::colours::Colours;
use crate::extract::office::slide::lengths::{length, points};
use crate::extract::office::slide::model::{Align, Paragraph, Run, TextBody};
use crate::extract::xml_tree::Node;

/// Size of letters in points if no style states one.
const DEFAULT_SIZE: f32 = 18.0;

/// Smallest and largest size of letters in points; PowerPoint allows 1 to 4,000.
const SIZES: (f32, f32) = (1.0, 1_000.0);

/// Usual margins of text at the left, top, right and bottom of its box.
const INSETS: [(&str, f32); 4] = [("lIns", 7.2), ("tIns", 3.6), ("rIns", 7.2), ("bIns", 3.6)];

/// Where the style of a text comes from.
pub(super) struct TextStyle<'t, 'c> {
    /// The shape, then the shapes that define what it does not state.
    pub(super) definitions: Vec<Node<'t>>,
    /// The paragraph styles of the master.
    pub(super) master: Option<Node<'t>>,
    pub(super) colours: &'c Colours,
}

impl<'t> TextStyle<'t, '_> {
    /// Reads the text of a shape or table cell.
    pub(super) fn read(&self, body: Node<'t>) -> TextBody {
        let properties = |name: &str| {
            let own = body.child("bodyPr").and_then(|it| it.attr(name));
            let defined = || self.definitions.iter().find_map(|it| it.path(&["txBody", "bodyPr"])?.attr(name));
            own.or_else(defined)
        };
        let inset = |(name, usual): (&str, f32)| {
            properties(name).and_then(|it| points(&it)).unwrap_or(usual).clamp(0.0, 1_000.0)
        };
        let fit = body.path(&["bodyPr", "normAutofit"]).and_then(|it| it.attr("fontScale"));
        let scale = fit.and_then(|it| it.parse::<f32>().ok()).map_or(1.0, |it| it / 100_000.0);
        let mut number = 0;
        TextBody {
            insets: INSETS.map(inset),
            anchor: align(properties("anchor").as_deref()),
            wraps: properties("wrap").is_none_or(|it| it != "none"),
            scale: scale.clamp(0.1, 1.0),
            paragraphs: body.children_named("p").map(|it| self.paragraph(it, body, &mut number)).collect(),
        }
    }

    /// Reads a paragraph. `number` is the number of the last numbered paragraph before it, or 0.
    fn paragraph(&self, paragraph: Node<'t>, body: Node<'t>, number: &mut u32) -> Paragraph {
        let styles = self.paragraph_styles(paragraph, body);
        let stated = |name: &str| styles.iter().find_map(|it| length(*it, name));
        let size = self.run_size(None, &styles);
        let mut runs = Vec::new();
        for child in paragraph.children() {
            match child.name() {
                "r" | "fld" => runs.push(self.run(child, &styles)),
                "br" => runs.push(Run { text: "\n".into(), ..self.run(child, &styles) }),
                _ => {}
            }
        }
        let has_text = runs.iter().any(|it| !it.text.trim().is_empty());
        Paragraph {
            align: align(styles.iter().find_map(|it| it.attr("algn")).as_deref()),
            bullet: if has_text { bullet(&styles, number) } else { None },
            margin: stated("marL").unwrap_or(0.0).clamp(0.0, 2_000.0),
            indent: stated("indent").unwrap_or(0.0).clamp(-2_000.0, 2_000.0),
            space_before: styles.iter().find_map(|it| space(it.child("spcBef")?, size)).unwrap_or(0.0),
            size: paragraph.child("endParaRPr").map_or(size, |it| self.run_size(Some(it), &styles)),
            runs,
        }
    }

    /// Returns the elements that can state the style of a paragraph, the most specific first.
    fn paragraph_styles(&self, paragraph: Node<'t>, body: Node<'t>) -> Vec<Node<'t>> {
        let own = paragraph.child("pPr");
        let level = own.and_then(|it| it.attr("lvl")).and_then(|it| it.parse::<u8>().ok()).unwrap_or(0).min(8);
        let name = format!("lvl{}pPr", level + 1);
        let lists = self.definitions.iter().filter_map(|it| it.path(&["txBody", "lstStyle"]));
        let lists = body.child("lstStyle").into_iter().chain(lists).chain(self.master);
        own.into_iter().chain(lists.filter_map(|it| it.child(&name))).collect()
    }

    fn run(&self, run: Node<'t>, styles: &[Node<'t>]) -> Run {
        let own = run.child("rPr");
        let defaults = || own.into_iter().chain(styles.iter().filter_map(|it| it.child("defRPr")));
        let colour = defaults().find_map(|it| self.colours.fill(it)).flatten();
        Run {
            text: run.children_named("t").map(Node::text).collect(),
            size: self.run_size(own, styles),
            bold: defaults().find_map(|it| it.attr("b")).is_some_and(|it| it == "1" || it == "true"),
            colour: colour.or_else(|| self.definitions.first().and_then(|it| self.colours.style(*it, "fontRef"))),
        }
    }

    fn run_size(&self, own: Option<Node<'t>>, styles: &[Node<'t>]) -> f32 {
        let mut stated = own.into_iter().chain(styles.iter().filter_map(|it| it.child("defRPr")));
        let size = stated.find_map(|it| it.attr("sz")?.parse::<f32>().ok());
        size.map_or(DEFAULT_SIZE, |it| it / 100.0).clamp(SIZES.0, SIZES.1)
    }
}

/// Returns the bullet or number of a paragraph by the first style that states one or none.
fn bullet(styles: &[Node<'_>], number: &mut u32) -> Option<String> {
    let stated = styles.iter().find_map(|style| {
        style.children().find(|it| matches!(it.name(), "buNone" | "buChar" | "buAutoNum" | "buBlip"))
    });
    match stated.filter(|it| it.name() != "buNone") {
        Some(it) if it.name() == "buAutoNum" => {
            let first = it.attr("startAt").and_then(|it| it.parse().ok()).unwrap_or(1);
            *number = if *number == 0 { first } else { number.saturating_add(1) };
            Some(format!("{number}."))
        }
        Some(it) => {
            // Most bullets are characters of symbol fonts, which look different in other fonts.
            let is_dash = it.attr("char").is_some_and(|it| it == "-" || it == "\u{2013}");
            Some(if is_dash { "\u{2013}" } else { "\u{2022}" }.into())
        }
        None => {
            *number = 0;
            None
        }
    }
}

/// Returns a space between paragraphs in points; it may be stated as a share of the size of the letters.
fn space(node: Node<'_>, size: f32) -> Option<f32> {
    let value = |name: &str| node.child(name)?.attr("val")?.parse::<f32>().ok();
    let points = value("spcPts").map(|it| it / 100.0);
    points.or_else(|| value("spcPct").map(|it| it / 100_000.0 * size)).map(|it| it.clamp(0.0, 500.0))
}

fn align(name: Option<&str>) -> Align {
    match name {
        Some("ctr") => Align::Middle,
        Some("r" | "b") => Align::End,
        _ => Align::Start,
    }
}
