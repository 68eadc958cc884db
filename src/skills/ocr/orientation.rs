//! Orientation of a page, decided by how well its text can be recognized in each direction.
//!
//! If most pieces of text are tall, the page lies on its side, and detection runs again on the page after a quarter turn.
//! Then a sample of pieces is recognized. Only if the confidence is low, the sample is also recognized upside down, and
//! the better result is used. So an upright page costs nothing extra, and no orientation network is needed.

use std::cmp::Ordering;

use image::{RgbImage, imageops};

use crate::error::Result;
use crate::skills::ocr::detect::Detector;
use crate::skills::ocr::recognize::{Recognition, Recognizer};
use crate::skills::ocr::text_box::{Point, TextBox};

/// Number of pieces recognized to judge a direction.
const SAMPLE_SIZE: usize = 5;
/// Preferred aspect ratio of the pieces in a sample: pieces of about this ratio show the direction best for the time
/// they take.
const SAMPLE_ASPECT: f32 = 10.0;
/// A sample with a mean confidence above this is the right way up: upside down, the confidence is far lower.
const UPRIGHT_CONFIDENCE: f32 = 0.92;
/// A piece is tall if its ratio of height to length is at least this: its text runs up or down, or is a single narrow
/// character.
const TALL_RATIO: f32 = 1.5;
/// A piece with a larger ratio of height to length is not a single character.
const MAX_CHARACTER_RATIO: f32 = 2.5;
/// A narrow character recognized with at least this confidence stands upright.
const CHARACTER_CONFIDENCE: f32 = 0.8;

/// A piece of text with its recognized text; the `direction` of its box is the direction in which it was recognized.
#[derive(Clone, Debug)]
pub(crate) struct TextPiece {
    pub(crate) slab: TextBox,
    pub(crate) reading: Recognition,
}

/// The pieces of a page in one of its possible orientations; those of the sample are already recognized.
struct Candidate {
    slabs: Vec<TextBox>,
    readings: Vec<Option<Recognition>>,
    confidence: f32,
}

/// Detects and recognizes the text of a page in any orientation.
pub(crate) fn read_page(
    detector: &mut Detector,
    recognizer: &mut Recognizer,
    picture: &RgbImage,
) -> Result<Vec<TextPiece>> {
    let slabs = detector.find(picture)?;
    let mut best: Option<Candidate> = None;
    let mut starts = Vec::new();
    if is_on_its_side(&slabs) {
        let turned = detector.find(&imageops::rotate90(picture))?;
        starts.push(turned.into_iter().map(|it| undo_rotation(it, picture)).collect());
    }
    starts.push(slabs);
    for slabs in starts {
        let reversed = slabs.iter().copied().map(TextBox::reversed).collect();
        for slabs in [slabs, reversed] {
            if best.as_ref().is_some_and(|it| it.confidence >= UPRIGHT_CONFIDENCE) {
                break;
            }
            let candidate = read_sample(recognizer, picture, slabs)?;
            if best.as_ref().is_none_or(|it| candidate.confidence > it.confidence) {
                best = Some(candidate);
            }
        }
    }
    match best {
        Some(candidate) => read_rest(recognizer, picture, candidate),
        None => Ok(Vec::new()),
    }
}

fn is_tall(slab: &TextBox) -> bool {
    slab.height >= slab.length * TALL_RATIO
}

fn is_on_its_side(slabs: &[TextBox]) -> bool {
    let tall: f32 = slabs.iter().filter(|it| is_tall(it)).map(|it| it.height).sum();
    let wide: f32 = slabs.iter().filter(|it| !is_tall(it)).map(|it| it.length).sum();
    tall > wide
}

/// Converts a box from the image that was turned clockwise by a quarter to the original image.
fn undo_rotation(slab: TextBox, picture: &RgbImage) -> TextBox {
    let centre = Point::new(slab.centre.y, picture.height() as f32 - slab.centre.x);
    TextBox { centre, direction: slab.direction.clockwise().scaled(-1.0), ..slab }
}

/// Recognizes a sample of the pieces.
fn read_sample(recognizer: &mut Recognizer, picture: &RgbImage, slabs: Vec<TextBox>) -> Result<Candidate> {
    let mut telling: Vec<usize> = (0..slabs.len()).filter(|at| !is_tall(&slabs[*at])).collect();
    let distance = |at: &usize| (slabs[*at].aspect() / SAMPLE_ASPECT).ln().abs();
    telling.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    telling.truncate(SAMPLE_SIZE);
    let picked: Vec<TextBox> = telling.iter().map(|at| slabs[*at]).collect();
    let read = recognizer.read(picture, &picked)?;
    let confidence = read.iter().map(|it| it.confidence).sum::<f32>() / read.len().max(1) as f32;
    let mut readings = vec![None; slabs.len()];
    for (at, reading) in telling.into_iter().zip(read) {
        readings[at] = Some(reading);
    }
    Ok(Candidate { slabs, readings, confidence })
}

/// Recognizes the pieces that are not in the sample, and returns all pieces of the page.
fn read_rest(recognizer: &mut Recognizer, picture: &RgbImage, candidate: Candidate) -> Result<Vec<TextPiece>> {
    let Candidate { slabs, readings, .. } = candidate;
    let mut pieces = Vec::with_capacity(slabs.len());
    let (mut tall, mut rest) = (Vec::new(), Vec::new());
    for (slab, reading) in slabs.into_iter().zip(readings) {
        match reading {
            Some(reading) => pieces.push(TextPiece { slab, reading }),
            None if is_tall(&slab) => tall.push(slab),
            None => rest.push(slab),
        }
    }
    pieces.extend(read_all(recognizer, picture, rest)?);
    pieces.extend(read_tall(recognizer, picture, tall)?);
    Ok(pieces)
}

fn read_all(recognizer: &mut Recognizer, picture: &RgbImage, slabs: Vec<TextBox>) -> Result<Vec<TextPiece>> {
    let readings = recognizer.read(picture, &slabs)?;
    Ok(slabs.into_iter().zip(readings).map(|(slab, reading)| TextPiece { slab, reading }).collect())
}

/// Recognizes tall pieces, whose text may run up or down, or be one narrow character, and keeps the best result.
fn read_tall(recognizer: &mut Recognizer, picture: &RgbImage, slabs: Vec<TextBox>) -> Result<Vec<TextPiece>> {
    let mut pieces = Vec::with_capacity(slabs.len());
    for slab in slabs {
        let mut ways = Vec::new();
        if slab.height < slab.length * MAX_CHARACTER_RATIO {
            let upright = read_all(recognizer, picture, vec![slab])?;
            if upright.iter().all(|it| it.reading.confidence >= CHARACTER_CONFIDENCE) {
                pieces.extend(upright);
                continue;
            }
            ways.extend(upright);
        }
        let up = slab.turned_upwards();
        ways.extend(read_all(recognizer, picture, vec![up, up.reversed()])?);
        pieces.extend(ways.into_iter().max_by(by_confidence));
    }
    Ok(pieces)
}

fn by_confidence(a: &TextPiece, b: &TextPiece) -> Ordering {
    a.reading.confidence.total_cmp(&b.reading.confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_back_maps_box_to_original_picture() {
        // On an image 100 wide and 200 high, text runs up along the left edge; after a clockwise turn, it runs to the
        // right along the upper edge of an image of 200 x 100.
        let picture = RgbImage::new(100, 200);
        let turned =
            TextBox { centre: Point::new(80.0, 10.0), direction: Point::new(1.0, 0.0), length: 60.0, height: 12.0 };
        let slab = undo_rotation(turned, &picture);
        assert_eq!(slab.centre, Point::new(10.0, 120.0));
        assert_eq!((slab.direction.x, slab.direction.y), (0.0, -1.0));
        assert_eq!(slab.bounds(), [4.0, 90.0, 16.0, 150.0]);
    }

    #[test]
    fn page_with_mostly_tall_text_is_on_its_side() {
        let slab = |length: f32, height: f32| TextBox {
            centre: Point::default(),
            direction: Point::new(1.0, 0.0),
            length,
            height,
        };
        assert!(is_on_its_side(&[slab(10.0, 300.0), slab(10.0, 200.0), slab(40.0, 10.0)]));
        assert!(!is_on_its_side(&[slab(10.0, 30.0), slab(10.0, 20.0), slab(400.0, 10.0)]));
        assert!(!is_on_its_side(&[]));
    }
}
