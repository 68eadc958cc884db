//! Reads a slide of a PowerPoint presentation as shapes with their places, for a simplified picture of it.
//!
//! Places, fonts and colours that a slide does not state come from its layout, its master and its theme. Not read are
//! effects, rotated text, and forms other than rectangles, ellipses and lines.

mod colours;
mod lengths;
mod model;
mod placeholders;
mod shapes;
mod text;

use crate::extract::office::ooxml::{self, Relation};
use crate::extract::office::pptx::slide_parts;
use crate::extract::office::slide::colours::Colours;
use crate::extract::office::slide::lengths::length;
use crate::extract::office::slide::placeholders::Placeholders;
use crate::extract::office::slide::shapes::ShapeReader;
use crate::extract::xml_tree::{Node, Tree};
use crate::extract::zip_container::Package;
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{ExtractLimits, Reason};

pub(crate) use crate::extract::office::slide::model::{
    Align, Area, CroppedPicture, Geometry, Paragraph, Rgb, Shape, Slide, TextBody,
};

#[cfg(test)]
pub(crate) use crate::extract::office::slide::model::Run;

/// Maximum size of a part in bytes, and of all parts that one slide needs: a slide has some KB of XML and a few pictures.
const MAX_PART_BYTES: u64 = 24 << 20;
const MAX_SLIDE_BYTES: u64 = 96 << 20;

/// Maximum size of the XML of a part in bytes.
const MAX_XML_BYTES: usize = 4 << 20;

/// Smallest and largest side of a slide in points; PowerPoint allows 1 to 56 inches.
const SIDES: (f32, f32) = (72.0, 4_032.0);

/// Returns whether a file is a presentation whose slides can be read, by its name.
pub(crate) fn has_slides(name: &str) -> bool {
    let extension = name.rsplit('.').next().unwrap_or_default();
    ["pptx", "pptm", "ppsx", "ppsm", "potx"].iter().any(|it| extension.eq_ignore_ascii_case(it))
}

/// A slide, its layout or its master.
struct Level {
    xml: String,
    relations: Vec<Relation>,
}

/// Reads a slide; slides are numbered from 1 in the order of the presentation.
pub(crate) fn read_slide(input: Input<'_>, number: u32, limits: &ExtractLimits) -> ReadResult<Slide> {
    let limits = ExtractLimits {
        entry_bytes: limits.entry_bytes.min(MAX_PART_BYTES),
        inflated_bytes: limits.inflated_bytes.min(MAX_SLIDE_BYTES),
        ..limits.clone()
    };
    let mut sink = Sink::new(limits);
    let mut package = Package::open(input.bytes, &sink)?;
    let main = ooxml::main_part(&mut package, "ppt/presentation.xml", &mut sink)?;
    let names = slide_parts(&mut package, &main, &mut sink)?;
    let name = number.checked_sub(1).and_then(|it| names.get(it as usize));
    let name = name.ok_or_else(|| new_failure(Reason::Damaged, format!("the file has {} slides", names.len())))?;
    let (width, height) = slide_size(&read_xml(&mut package, &main, &mut sink)?);
    let levels = read_levels(&mut package, name, &mut sink)?;
    let theme = match levels.last().and_then(|it| target(it, "theme")) {
        Some(part) => read_xml(&mut package, &part, &mut sink)?,
        None => String::new(),
    };
    let slide = Slide { pages: names.len() as u32, width, height, background: [255; 3], ..Slide::default() };
    read_shapes(package, sink, &levels, &theme, slide)
}

/// Reads a slide with its layout and its master, as far as it has them.
fn read_levels(package: &mut Package<'_>, slide: &str, sink: &mut Sink) -> ReadResult<Vec<Level>> {
    let (mut levels, mut next) = (Vec::new(), Some(slide.to_string()));
    for kind in ["slideLayout", "slideMaster", ""] {
        let Some(name) = next.take() else { break };
        let relations = ooxml::read_relations(package, &name, sink)?;
        levels.push(Level { xml: read_xml(package, &name, sink)?, relations });
        next = levels.last().and_then(|it| target(it, kind));
    }
    Ok(levels)
}

/// Returns the part to which a part has a relationship of this kind.
fn target(level: &Level, kind: &str) -> Option<String> {
    level.relations.iter().find(|it| it.kind == kind && !it.external).map(|it| it.target.clone())
}

fn read_xml(package: &mut Package<'_>, part: &str, sink: &mut Sink) -> ReadResult<String> {
    let xml = package.read_xml(part, sink)?;
    let xml = xml.ok_or_else(|| new_failure(Reason::Damaged, format!("the part `{part}` is missing or damaged")))?;
    match xml.len() > MAX_XML_BYTES {
        true => {
            Err(new_failure(Reason::TooLarge, format!("the part `{part}` has more than {} MiB", MAX_XML_BYTES >> 20)))
        }
        false => Ok(xml),
    }
}

/// Returns the width and height of the slides of a presentation in points.
fn slide_size(presentation: &str) -> (f32, f32) {
    let tree = Tree::parse(presentation);
    let size = tree.top().find("sldSz");
    let side = |name: &str, usual: f32| {
        let stated = size.and_then(|it| length(it, name)).unwrap_or(usual);
        stated.clamp(SIDES.0, SIDES.1)
    };
    (side("cx", 720.0), side("cy", 540.0))
}

/// Reads the shapes of the master, of the layout and of the slide, in this order.
fn read_shapes(package: Package<'_>, sink: Sink, levels: &[Level], theme: &str, mut slide: Slide) -> ReadResult<Slide> {
    let trees: Vec<Tree<'_>> = levels.iter().map(|it| Tree::parse(&it.xml)).collect();
    if let Some(flaw) = trees.iter().find_map(|it| it.flaw.as_ref()) {
        return Err(new_failure(Reason::Damaged, format!("the XML of the slide is damaged: {flaw:?}")));
    }
    let theme = Tree::parse(theme);
    let tops: Vec<Node<'_>> = trees.iter().map(Tree::top).collect();
    let (layout, master) = (tops.get(1).copied(), tops.get(2).copied());
    let colours = Colours::new(Some(theme.top()), master);
    let backgrounds = tops.iter().enumerate().filter_map(|(level, top)| Some((level, top.find("bg")?)));
    let background = backgrounds.into_iter().next();
    if let Some((_, background)) = background {
        let holder = background.child("bgPr").or_else(|| background.child("bgRef")).unwrap_or(background);
        let stated = colours.fill(holder).flatten().or_else(|| colours.of(holder));
        slide.background = stated.or_else(|| colours.named("bg1")).unwrap_or(slide.background);
    }
    let placeholders = Placeholders { layout, master };
    let mut reader =
        ShapeReader { package, sink, colours, placeholders, relations: &[], slide, letters: 0, parts: Vec::new() };
    if let Some((level, background)) = background {
        reader.relations = &levels[level].relations;
        reader.add_background_picture(background)?;
    }
    let lowest = tops.iter().take_while(|it| shows_master(**it)).count().min(tops.len() - 1);
    for level in (0..=lowest).rev() {
        reader.relations = &levels[level].relations;
        if let Some(shapes) = tops[level].find("spTree") {
            reader.add_shapes(shapes, level > 0)?;
        }
    }
    Ok(reader.slide)
}

/// Returns whether a slide or layout shows the shapes of its master.
fn shows_master(top: Node<'_>) -> bool {
    let root = top.children().find(|it| !it.name().is_empty());
    root.and_then(|it| it.attr("showMasterSp")).is_none_or(|it| it != "0")
}

#[cfg(test)]
mod tests;
