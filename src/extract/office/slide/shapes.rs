//! The shapes of a slide: boxes, lines, pictures, tables and the texts of charts, also in groups.

use crate::extract::office::ooxml::{self, Relation};
use crate::extract::office::slide::colours::Colours;
use crate::extract::office::slide::lengths::length;
use crate::extract::office::slide::model::{
    Align, Area, CroppedPicture, Geometry, Paragraph, Run, Shape, Slide, Stroke, TextBody,
};
use crate::extract::office::slide::placeholders::{Placeholders, placeholder};
use crate::extract::office::slide::text::TextStyle;
use crate::extract::xml_tree::Node;
use crate::extract::zip_container::Package;
use crate::extract::{ReadResult, Sink, new_failure};
use crate::model::Reason;

/// Maximum number of shapes, table cells included, of letters and of pictures on a slide: a slide that people can read has
/// far fewer.
const MAX_SHAPES: usize = 5_000;
const MAX_LETTERS: usize = 50_000;
const MAX_PICTURES: usize = 60;

/// Size of the letters of a chart or diagram, which is shown as its text.
const CHART_TEXT_SIZE: f32 = 10.0;

/// The line around the cells of a table, and around what is shown as its text or as an empty box.
const THIN: Stroke = Stroke { colour: [160; 3], width: 0.5 };

/// Reads the shapes of a slide.
pub(super) struct ShapeReader<'t, 'p> {
    pub(super) package: Package<'p>,
    pub(super) sink: Sink,
    pub(super) colours: Colours,
    pub(super) placeholders: Placeholders<'t>,
    /// Relationships of the slide, layout or master that is being read.
    pub(super) relations: &'t [Relation],
    pub(super) slide: Slide,
    /// Number of letters so far.
    pub(super) letters: usize,
    /// Names of the parts of `slide.pictures`.
    pub(super) parts: Vec<String>,
}

/// The place of a group: how lengths in it become lengths on the slide.
#[derive(Clone, Copy)]
struct Group {
    scale: (f32, f32),
    offset: (f32, f32),
}

impl Group {
    fn place(&self, area: Area) -> Area {
        Area {
            left: area.left * self.scale.0 + self.offset.0,
            top: area.top * self.scale.1 + self.offset.1,
            width: area.width * self.scale.0,
            height: area.height * self.scale.1,
        }
    }

    /// Returns the place of a group in this one.
    fn inner(&self, group: Node<'_>) -> Group {
        let Some(form) = group.path(&["grpSpPr", "xfrm"]) else { return *self };
        let (Some(area), Some(inside)) = (read_area(form, "off", "ext"), read_area(form, "chOff", "chExt")) else {
            return *self;
        };
        let area = self.place(area);
        let ratio = |outer: f32, inner: f32| if inner > 0.0 { outer / inner } else { 1.0 };
        let scale = (ratio(area.width, inside.width), ratio(area.height, inside.height));
        Group { scale, offset: (area.left - inside.left * scale.0, area.top - inside.top * scale.1) }
    }
}

impl<'t> ShapeReader<'t, '_> {
    /// Adds the shapes of a slide, layout or master; those of a layout or master without the placeholders.
    pub(super) fn add_shapes(&mut self, tree: Node<'t>, is_template: bool) -> ReadResult {
        self.add_group(tree, Group { scale: (1.0, 1.0), offset: (0.0, 0.0) }, is_template)
    }

    fn add_group(&mut self, node: Node<'t>, group: Group, is_template: bool) -> ReadResult {
        for child in node.children() {
            if (is_template && placeholder(child).is_some()) || is_hidden(child) {
                continue;
            }
            match child.name() {
                "sp" | "cxnSp" => self.add_shape(child, group)?,
                "pic" => self.add_picture(child, group)?,
                "graphicFrame" => self.add_frame(child, group)?,
                "grpSp" => self.add_group(child, group.inner(child), is_template)?,
                "AlternateContent" => {
                    let choice =
                        child.child("Choice").filter(|it| it.find("t").is_some() || it.find("chart").is_some());
                    if let Some(child) = choice.or_else(|| child.child("Fallback")) {
                        self.add_group(child, group, is_template)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, shape: Shape) -> ReadResult {
        let runs = shape.text.iter().flat_map(|it| &it.paragraphs).flat_map(|it| &it.runs);
        self.letters += runs.map(|it| it.text.len()).sum::<usize>();
        if self.slide.shapes.len() >= MAX_SHAPES || self.letters > MAX_LETTERS {
            let text = format!("the slide has more than {MAX_SHAPES} shapes or {MAX_LETTERS} letters");
            return Err(new_failure(Reason::TooLarge, text));
        }
        let area = &shape.area;
        if [area.left, area.top, area.width, area.height].iter().all(|it| it.abs() < 1e6) {
            self.slide.shapes.push(shape);
        }
        Ok(())
    }

    /// Adds a box or line with its text. A form that is neither is drawn as a box.
    fn add_shape(&mut self, shape: Node<'t>, group: Group) -> ReadResult {
        let definitions = self.placeholders.definitions(shape);
        let Some(form) = definitions.iter().find_map(|it| it.path(&["spPr", "xfrm"])) else { return Ok(()) };
        let Some(area) = read_area(form, "off", "ext") else { return Ok(()) };
        let properties = shape.child("spPr");
        let named = properties.and_then(|it| it.child("prstGeom")).and_then(|it| it.attr("prst")).unwrap_or_default();
        let geometry = geometry(shape, form, &named);
        let stated = definitions.iter().find_map(|it| self.colours.fill(it.child("spPr")?));
        let fill = stated.unwrap_or_else(|| self.colours.style(shape, "fillRef"));
        let is_drawn = properties.is_none_or(|it| it.child("custGeom").is_none());
        let is_box = matches!(geometry, Geometry::Rectangle | Geometry::Ellipse);
        let style = TextStyle { master: self.placeholders.text_styles(shape), definitions, colours: &self.colours };
        let text = shape.child("txBody").map(|it| style.read(it));
        let picture = self.picture(properties)?;
        self.push(Shape {
            area: group.place(area),
            geometry,
            fill: fill.filter(|_| is_drawn && is_box),
            line: self.colours.stroke(shape, properties).filter(|_| is_drawn),
            text,
            picture,
        })
    }

    fn add_picture(&mut self, picture: Node<'t>, group: Group) -> ReadResult {
        let definitions = self.placeholders.definitions(picture);
        let form = definitions.iter().find_map(|it| it.path(&["spPr", "xfrm"]));
        let Some(area) = form.and_then(|it| read_area(it, "off", "ext")) else { return Ok(()) };
        let shown = self.picture(Some(picture))?;
        self.push(Shape { area: group.place(area), picture: shown, ..Shape::default() })
    }

    /// Adds the picture that fills the background.
    pub(super) fn add_background_picture(&mut self, background: Node<'t>) -> ReadResult {
        let picture = self.picture(background.child("bgPr"))?;
        let area = Area { width: self.slide.width, height: self.slide.height, ..Area::default() };
        match picture {
            Some(_) => self.push(Shape { area, picture, ..Shape::default() }),
            None => Ok(()),
        }
    }

    /// Returns the picture that a node has as its fill.
    fn picture(&mut self, holder: Option<Node<'t>>) -> ReadResult<Option<CroppedPicture>> {
        let Some(fill) = holder.and_then(|it| it.child("blipFill")) else { return Ok(None) };
        let id = fill.child("blip").and_then(|it| it.prefixed_attr("embed"));
        let part = self.relations.iter().find(|it| Some(&it.id) == id.as_ref() && !it.external);
        let crop = ["l", "t", "r", "b"].map(|side| {
            let cut = fill.child("srcRect").and_then(|it| it.attr(side)).and_then(|it| it.parse::<f32>().ok());
            cut.map_or(0.0, |it| it / 100_000.0).clamp(0.0, 0.95)
        });
        let index = match part {
            Some(part) => self.picture_index(&part.target.clone())?,
            None => None,
        };
        Ok(Some(CroppedPicture { index, crop }))
    }

    /// Returns the index of a picture file, which is read at its first use; `None` if it is missing or no PNG or JPEG.
    fn picture_index(&mut self, part: &str) -> ReadResult<Option<usize>> {
        let known = self.parts.iter().position(|it| it == part);
        let extension = part.rsplit('.').next().unwrap_or_default().to_lowercase();
        if known.is_some() || !["png", "jpg", "jpeg"].contains(&extension.as_str()) || self.parts.len() >= MAX_PICTURES
        {
            return Ok(known);
        }
        let Some(bytes) = self.package.read_part(part, &mut self.sink)? else { return Ok(None) };
        self.parts.push(part.to_string());
        self.slide.pictures.push(bytes);
        Ok(Some(self.parts.len() - 1))
    }

    /// Adds a table, the text of a chart or diagram, or the picture of an embedded object.
    fn add_frame(&mut self, frame: Node<'t>, group: Group) -> ReadResult {
        let Some(area) = frame.child("xfrm").and_then(|it| read_area(it, "off", "ext")) else { return Ok(()) };
        if let Some(table) = frame.find("tbl") {
            return self.add_table(table, group, area);
        }
        if let Some(picture) = frame.find("pic") {
            let shown = self.picture(Some(picture))?;
            return self.push(Shape { area: group.place(area), picture: shown, ..Shape::default() });
        }
        let chart = frame.find("chart").and_then(|it| it.prefixed_attr("id"));
        let id = chart.or_else(|| frame.find("relIds").and_then(|it| it.prefixed_attr("dm")));
        let part = self.relations.iter().find(|it| Some(&it.id) == id.as_ref() && !it.external);
        let text = match part {
            Some(part) => ooxml::graphic_text(&mut self.package, &part.target, &mut self.sink)?,
            None => String::new(),
        };
        let text = Some(plain_text(&text));
        self.push(Shape { area: group.place(area), line: Some(THIN), text, ..Shape::default() })
    }

    fn add_table(&mut self, table: Node<'t>, group: Group, area: Area) -> ReadResult {
        let columns = table.child("tblGrid").into_iter().flat_map(|it| it.children_named("gridCol"));
        let widths: Vec<f32> = columns.map(|it| length(it, "w").unwrap_or(0.0).max(0.0)).collect();
        let mut top = area.top;
        for row in table.children_named("tr") {
            let height = length(row, "h").unwrap_or(0.0).max(0.0);
            let mut left = area.left;
            for (column, cell) in row.children_named("tc").enumerate().take(widths.len()) {
                let width = widths[column];
                let span = |name: &str| cell.attr(name).and_then(|it| it.parse::<usize>().ok()).unwrap_or(1).max(1);
                let last = column.saturating_add(span("gridSpan")).min(widths.len());
                let covered = Area { left, top, width: widths[column..last].iter().sum(), height };
                left += width;
                if cell.attr("hMerge").is_none() && cell.attr("vMerge").is_none() {
                    self.add_cell(cell, group.place(covered), span("rowSpan"))?;
                }
            }
            top += height;
        }
        Ok(())
    }

    fn add_cell(&mut self, cell: Node<'t>, area: Area, rows: usize) -> ReadResult {
        let properties = cell.child("tcPr");
        let fill = properties.and_then(|it| self.colours.fill(it)).flatten();
        let style = TextStyle { definitions: Vec::new(), master: None, colours: &self.colours };
        let mut text = cell.child("txBody").map(|it| style.read(it));
        if let (Some(text), Some("ctr")) = (&mut text, properties.and_then(|it| it.attr("anchor")).as_deref()) {
            text.anchor = Align::Middle;
        }
        // A cell over several rows is taken to be as high as so many of its first row.
        let area = Area { height: area.height * rows.min(100) as f32, ..area };
        self.push(Shape { area, fill, line: Some(THIN), text, ..Shape::default() })
    }
}

/// Returns the form in which a shape is drawn.
fn geometry(shape: Node<'_>, form: Node<'_>, named: &str) -> Geometry {
    let is_flipped = |name: &str| form.attr(name).is_some_and(|it| it == "1" || it == "true");
    let is_line = shape.name() == "cxnSp" || named == "line" || named.starts_with("straightConnector");
    match (is_line, named) {
        (true, _) if is_flipped("flipH") != is_flipped("flipV") => Geometry::RisingLine,
        (true, _) => Geometry::FallingLine,
        (false, "ellipse") => Geometry::Ellipse,
        (false, _) => Geometry::Rectangle,
    }
}

/// Returns the area that a form states with these children. A box that is turned on its side gets the area that it covers.
fn read_area(form: Node<'_>, offset: &str, extent: &str) -> Option<Area> {
    let (offset, extent) = (form.child(offset)?, form.child(extent)?);
    let (left, top) = (length(offset, "x")?, length(offset, "y")?);
    let (width, height) = (length(extent, "cx")?.max(0.0), length(extent, "cy")?.max(0.0));
    let degrees = form.attr("rot").and_then(|it| it.parse::<f32>().ok()).unwrap_or(0.0) / 60_000.0;
    let is_on_side = (45.0..135.0).contains(&degrees.rem_euclid(180.0));
    Some(match is_on_side {
        true => Area {
            left: left + (width - height) / 2.0,
            top: top + (height - width) / 2.0,
            width: height,
            height: width,
        },
        false => Area { left, top, width, height },
    })
}

fn is_hidden(shape: Node<'_>) -> bool {
    let head = shape.children().find(|it| it.name().starts_with("nv"));
    head.and_then(|it| it.child("cNvPr")).and_then(|it| it.attr("hidden")).is_some_and(|it| it == "1" || it == "true")
}

/// Returns lines of text without a style of their own.
fn plain_text(text: &str) -> TextBody {
    let run = |line: &str| Run { text: line.to_string(), size: CHART_TEXT_SIZE, ..Run::default() };
    let paragraph = |line: &str| Paragraph { runs: vec![run(line)], size: CHART_TEXT_SIZE, ..Paragraph::default() };
    let paragraphs = text.lines().map(paragraph).collect();
    TextBody { insets: [4.0; 4], wraps: true, scale: 1.0, paragraphs, ..TextBody::default() }
}
