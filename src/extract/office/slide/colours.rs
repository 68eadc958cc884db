//! Colours of a slide: direct ones, and those that the theme defines.

use std::collections::HashMap;

use crate::extract::office::slide::lengths::length;
use crate::extract::office::slide::model::{Rgb, Stroke};
use crate::extract::xml_tree::Node;

/// A colour that is less opaque, in thousandths of a percent, is not drawn, because pictures of slides have no transparency.
const MIN_ALPHA: f32 = 40_000.0;

/// The whole, in thousandths of a percent.
const WHOLE: f32 = 100_000.0;

/// The colours of a theme by name, and the names that a master gives to them.
#[derive(Debug, Default)]
pub(super) struct Colours {
    theme: HashMap<String, Rgb>,
    names: HashMap<&'static str, String>,
}

impl Colours {
    /// Reads the colours of a theme. The master says which of them are those of text and background.
    pub(super) fn new(theme: Option<Node<'_>>, master: Option<Node<'_>>) -> Colours {
        let mut colours = Colours::default();
        for entry in theme.and_then(|it| it.find("clrScheme")).into_iter().flat_map(Node::children) {
            let colour = colours.of(entry);
            colours.theme.extend(colour.map(|it| (entry.name().to_string(), it)));
        }
        let map = master.and_then(|it| it.find("clrMap"));
        for (name, usual) in [("bg1", "lt1"), ("tx1", "dk1"), ("bg2", "lt2"), ("tx2", "dk2")] {
            let mapped = map.and_then(|it| it.attr(name)).unwrap_or_else(|| usual.to_string());
            colours.names.insert(name, mapped);
        }
        colours
    }

    /// Returns the colour that a node has as a child, such as `srgbClr`.
    pub(super) fn of(&self, node: Node<'_>) -> Option<Rgb> {
        node.children().find_map(|it| {
            let value = it.attr("val").unwrap_or_default();
            let colour = match it.name() {
                "srgbClr" => parse_hex(&value)?,
                "sysClr" => parse_hex(&it.attr("lastClr")?)?,
                "prstClr" if value == "black" => [0; 3],
                "prstClr" if value == "white" => [255; 3],
                "schemeClr" => self.named(&value)?,
                _ => return None,
            };
            adjust(colour, it)
        })
    }

    /// Returns a colour of the theme by name.
    pub(super) fn named(&self, name: &str) -> Option<Rgb> {
        let name = self.names.get(name).map_or(name, String::as_str);
        self.theme.get(name).copied()
    }

    /// Returns the fill among the children of a node: `None` if they state none, `Some(None)` if there is none to draw.
    pub(super) fn fill(&self, node: Node<'_>) -> Option<Option<Rgb>> {
        node.children().find_map(|it| match it.name() {
            "noFill" => Some(None),
            "solidFill" => Some(self.of(it)),
            "gradFill" => Some(it.find("gs").and_then(|first| self.of(first))),
            _ => None,
        })
    }

    /// Returns the colour of a reference to the style of the theme, e.g. `fillRef`; `None` if the style has none.
    pub(super) fn style(&self, shape: Node<'_>, reference: &str) -> Option<Rgb> {
        let reference = shape.path(&["style", reference])?;
        let is_used = reference.attr("idx").is_some_and(|it| it != "0");
        is_used.then(|| self.of(reference)).flatten()
    }

    /// Returns the line of a shape.
    pub(super) fn stroke(&self, shape: Node<'_>, properties: Option<Node<'_>>) -> Option<Stroke> {
        let line = properties.and_then(|it| it.child("ln"));
        let width = line.and_then(|it| length(it, "w")).unwrap_or(0.75).clamp(0.25, 40.0);
        let colour = match line.and_then(|it| self.fill(it)) {
            Some(stated) => stated,
            None => self.style(shape, "lnRef"),
        };
        Some(Stroke { colour: colour?, width })
    }
}

/// Applies the changes that a colour has as children; `None` if it is too transparent to be drawn.
fn adjust(colour: Rgb, node: Node<'_>) -> Option<Rgb> {
    let mut channels = colour.map(f32::from);
    for change in node.children() {
        let Some(share) = change.attr("val").and_then(|it| it.parse::<f32>().ok()) else { continue };
        let share = share / WHOLE;
        match change.name() {
            "alpha" if share < MIN_ALPHA / WHOLE => return None,
            "lumMod" | "shade" => channels = channels.map(|it| it * share),
            "lumOff" => channels = channels.map(|it| it + 255.0 * share),
            "tint" => channels = channels.map(|it| it * share + 255.0 * (1.0 - share)),
            _ => {}
        }
    }
    Some(channels.map(|it| it.round().clamp(0.0, 255.0) as u8))
}

fn parse_hex(text: &str) -> Option<Rgb> {
    // A sign before the digits is valid for `from_str_radix`, but not in a colour.
    let is_colour = text.len() == 6 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let number = u32::from_str_radix(text, 16).ok().filter(|_| is_colour)?;
    let [_, red, green, blue] = number.to_be_bytes();
    Some([red, green, blue])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::xml_tree::Tree;

    #[test]
    fn colours_are_direct_or_of_the_theme() {
        let theme = Tree::parse(
            r#"<t><a:clrScheme><a:dk1><a:sysClr lastClr="000000"/></a:dk1><a:lt1><a:srgbClr val="FFFFFF"/></a:lt1>
            <a:accent1><a:srgbClr val="4472C4"/></a:accent1></a:clrScheme></t>"#,
        );
        let master = Tree::parse(r#"<m><p:clrMap bg1="dk1" tx1="lt1"/></m>"#);
        let colours = Colours::new(Some(theme.top()), Some(master.top()));
        let of = |xml: &str| colours.of(Tree::parse(xml).top());
        assert_eq!(of(r#"<a:srgbClr val="C00010"/>"#), Some([0xC0, 0, 0x10]));
        assert_eq!(of(r#"<a:schemeClr val="accent1"/>"#), Some([0x44, 0x72, 0xC4]));
        assert_eq!(of(r#"<a:schemeClr val="tx1"/>"#), Some([255; 3]));
        assert_eq!(of(r#"<a:schemeClr val="accent9"/>"#), None);
        assert_eq!(of(r#"<a:srgbClr val="646464"><a:lumMod val="50000"/></a:srgbClr>"#), Some([50; 3]));
        assert_eq!(of(r#"<a:srgbClr val="646464"><a:alpha val="10000"/></a:srgbClr>"#), None);
        assert_eq!((of(r#"<a:srgbClr val="+12345"/>"#), of(r#"<a:srgbClr val="12"/>"#)), (None, None));
    }
}
