//! A slide as shapes with their places, for a simplified picture of it. Lengths are in points, from the top left corner.

/// A colour: red, green, blue.
pub(crate) type Rgb = [u8; 3];

/// A slide.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slide {
    /// Number of slides of the presentation.
    pub(crate) pages: u32,
    pub(crate) width: f32,
    pub(crate) height: f32,
    pub(crate) background: Rgb,
    /// The shapes in drawing order: those of the master and of the layout first.
    pub(crate) shapes: Vec<Shape>,
    /// The contents of the picture files that shapes refer to.
    pub(crate) pictures: Vec<Vec<u8>>,
}

/// A place on a slide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) width: f32,
    pub(crate) height: f32,
}

impl Area {
    /// Returns whether the middle of another area lies in this one.
    pub(crate) fn has_middle_of(&self, other: &Area) -> bool {
        let (x, y) = (other.left + other.width / 2.0, other.top + other.height / 2.0);
        (self.left..=self.left + self.width).contains(&x) && (self.top..=self.top + self.height).contains(&y)
    }
}

/// A shape of a slide, also the cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    pub(crate) area: Area,
    pub(crate) geometry: Geometry,
    pub(crate) fill: Option<Rgb>,
    pub(crate) line: Option<Stroke>,
    pub(crate) text: Option<TextBody>,
    pub(crate) picture: Option<CroppedPicture>,
}

/// The form of a shape; other forms are drawn as one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Geometry {
    #[default]
    Rectangle,
    Ellipse,
    /// A line from the top left to the bottom right corner.
    FallingLine,
    /// A line from the bottom left to the top right corner.
    RisingLine,
}

/// The line around a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) colour: Rgb,
    pub(crate) width: f32,
}

/// A picture in a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CroppedPicture {
    /// Index in [`Slide::pictures`]; `None` if its file is missing, or of a type that is not drawn.
    pub(crate) index: Option<usize>,
    /// Parts that are cut off at the left, top, right and bottom, as fractions.
    pub(crate) crop: [f32; 4],
}

/// The text of a shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextBody {
    /// Margins at the left, top, right and bottom.
    pub(crate) insets: [f32; 4],
    pub(crate) anchor: Align,
    /// Whether lines end at the margin.
    pub(crate) wraps: bool,
    /// Factor of all letter sizes.
    pub(crate) scale: f32,
    pub(crate) paragraphs: Vec<Paragraph>,
}

/// Where text stands in its box: at the left or top, in the middle, at the right or bottom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Align {
    #[default]
    Start,
    Middle,
    End,
}

/// A paragraph.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Paragraph {
    pub(crate) runs: Vec<Run>,
    pub(crate) align: Align,
    /// The bullet or number before the text.
    pub(crate) bullet: Option<String>,
    /// Left edge of the text, and of the bullet relative to it.
    pub(crate) margin: f32,
    pub(crate) indent: f32,
    pub(crate) space_before: f32,
    /// Size of the letters of a paragraph without text.
    pub(crate) size: f32,
}

/// Text in one style. A line break in it is a line break on the slide.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) text: String,
    pub(crate) size: f32,
    pub(crate) bold: bool,
    /// The colour that the file states; `None` if it states none.
    pub(crate) colour: Option<Rgb>,
}
