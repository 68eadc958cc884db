//! Text recognition: runs the recognition network on upright strips of text, one strip at a time on each thread.
//!
//! Strips are neither padded nor batched, so that no strip affects the result of another, and no computation is wasted.
//! [`crate::skills::ocr::orientation`] decides the orientation of a strip.

use std::sync::atomic::{AtomicUsize, Ordering};

use image::RgbImage;
use ort::session::Session;
use ort::value::TensorRef;

use crate::error::{Error, ErrorCode, Result};
use crate::skills::ocr::text_box::{Point, TextBox};

/// Height of a strip in pixels, fixed by the network.
const HEIGHT: usize = 48;
/// The width of a strip in pixels is a multiple of this, because the network outputs one character per step of this
/// width.
const STEP: usize = 8;
/// Minimum width of a strip, in pixels.
const MIN_WIDTH: usize = 48;
/// Maximum width of a strip, in pixels: about four hundred characters. Longer text is squeezed.
const MAX_WIDTH: usize = 4_096;
/// Key in the metadata of the model; its value is the alphabet, one character per line.
const ALPHABET_KEY: &str = "character";
/// Output class that means "no character here".
const BLANK: usize = 0;

/// The recognized text of a strip.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recognition {
    pub(crate) text: String,
    /// Mean probability of the characters, 0 to 1; 0 when there are none.
    pub(crate) confidence: f32,
}

/// The recognition network, with one session for each thread.
pub(crate) struct Recognizer {
    workers: Vec<WorkerSession>,
    alphabet: Vec<String>,
}

struct WorkerSession {
    session: Session,
    tensor: Vec<f32>,
}

impl Recognizer {
    /// Creates a recognizer from sessions of the model, one for each thread, at least one.
    pub(crate) fn new(sessions: Vec<Session>) -> Result<Recognizer> {
        let not_ours = |what: &str| {
            Error::new(ErrorCode::FailedPrecondition, format!("the text recognition model {what}"))
                .hint("run `vic models pull ppocr`")
        };
        let first = sessions.first().ok_or_else(|| Error::internal("text recognition needs at least one thread"))?;
        let alphabet = first.metadata().ok().and_then(|it| it.custom(ALPHABET_KEY));
        let alphabet = alphabet.ok_or_else(|| not_ours("does not name its characters"))?;
        // Class 0 is the blank, the last class a space; those between are the characters of the alphabet.
        let mut letters = vec![String::new()];
        letters.extend(alphabet.split('\n').map(str::to_string));
        if letters.last().is_some_and(String::is_empty) {
            letters.pop();
        }
        letters.push(" ".into());
        let lanes = sessions.into_iter().map(|session| WorkerSession { session, tensor: Vec::new() }).collect();
        Ok(Recognizer { workers: lanes, alphabet: letters })
    }

    /// Recognizes the text in these boxes of an image, each in its direction; the results are in the order of the boxes.
    pub(crate) fn read(&mut self, picture: &RgbImage, slabs: &[TextBox]) -> Result<Vec<Recognition>> {
        // Processes the widest boxes first, so that no thread finishes long after the others.
        let mut order: Vec<usize> = (0..slabs.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(strip_width(slabs[*at])));
        let next = AtomicUsize::new(0);
        let alphabet = &self.alphabet;
        let work = |lane: &mut WorkerSession| -> Result<Vec<(usize, Recognition)>> {
            let mut read = Vec::new();
            while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                read.push((at, lane.read(picture, slabs[at], alphabet)?));
            }
            Ok(read)
        };
        let lanes = self.workers.len().min(slabs.len());
        let parts: Vec<Result<Vec<(usize, Recognition)>>> = std::thread::scope(|scope| {
            let Some((first, others)) = self.workers[..lanes].split_first_mut() else { return Vec::new() };
            let others: Vec<_> = others.iter_mut().map(|lane| scope.spawn(|| work(lane))).collect();
            let mut parts = vec![work(first)];
            let panicked = || Err(Error::internal("text recognition panicked"));
            parts.extend(others.into_iter().map(|it| it.join().unwrap_or_else(|_| panicked())));
            parts
        });
        let mut readings = vec![Recognition::default(); slabs.len()];
        for part in parts {
            for (at, reading) in part? {
                readings[at] = reading;
            }
        }
        Ok(readings)
    }
}

impl WorkerSession {
    fn read(&mut self, picture: &RgbImage, slab: TextBox, alphabet: &[String]) -> Result<Recognition> {
        let failed = |error: ort::Error| Error::internal(format!("text recognition failed: {error}"));
        let width = strip_width(slab);
        fill_tensor(&mut self.tensor, picture, slab, width);
        let input = TensorRef::from_array_view(([1, 3, HEIGHT, width], self.tensor.as_slice())).map_err(failed)?;
        let outputs = self.session.run(ort::inputs![input]).map_err(failed)?;
        let (shape, values) = outputs[0].try_extract_tensor::<f32>().map_err(failed)?;
        let classes = shape.iter().last().map_or(0, |it| it.unsigned_abs() as usize);
        if classes != alphabet.len() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                format!(
                    "the text recognition model is damaged: it has {classes} classes for {} characters; \
                     run `vic models pull ppocr`",
                    alphabet.len()
                ),
            ));
        }
        Ok(decode_ctc(values, alphabet))
    }
}

/// Returns the width in pixels of the strip made from a text box.
fn strip_width(slab: TextBox) -> usize {
    let width = (HEIGHT as f32 * slab.aspect()).ceil() as usize;
    width.next_multiple_of(STEP).clamp(MIN_WIDTH, MAX_WIDTH)
}

/// Writes the content of a text box into the tensor: upright, [`HEIGHT`] high, in the order blue, green, red, each -1 to
/// 1.
///
/// If the resolution of the image is higher than that of the strip, each value is the mean of several samples.
fn fill_tensor(tensor: &mut Vec<f32>, picture: &RgbImage, slab: TextBox, width: usize) {
    let plane = HEIGHT * width;
    tensor.clear();
    tensor.resize(3 * plane, 0.0);
    let down = slab.direction.clockwise();
    let (step_x, step_y) = (slab.length / width as f32, slab.height / HEIGHT as f32);
    let samples = |step: f32| (step.round() as usize).clamp(1, 8);
    let (columns, rows) = (samples(step_x), samples(step_y));
    let share = 1.0 / (columns * rows) as f32;
    let corner = slab.centre.plus(slab.direction.scaled(-slab.length / 2.0)).plus(down.scaled(-slab.height / 2.0));
    for y in 0..HEIGHT {
        for x in 0..width {
            let mut sum = [0.0; 3];
            for row in 0..rows {
                let across = (y as f32 + (row as f32 + 0.5) / rows as f32) * step_y;
                for column in 0..columns {
                    let ahead = (x as f32 + (column as f32 + 0.5) / columns as f32) * step_x;
                    let at = corner.plus(slab.direction.scaled(ahead)).plus(down.scaled(across));
                    let colour = sample_colour(picture, at);
                    sum.iter_mut().zip(colour).for_each(|(sum, it)| *sum += it);
                }
            }
            for (channel, value) in sum.into_iter().rev().enumerate() {
                tensor[channel * plane + y * width + x] = value * share / 127.5 - 1.0;
            }
        }
    }
}

/// Returns the interpolated colour at a point; outside the image, the colour of the nearest edge.
fn sample_colour(picture: &RgbImage, at: Point) -> [f32; 3] {
    let (right, bottom) = (picture.width() as i32 - 1, picture.height() as i32 - 1);
    let (x, y) = (at.x - 0.5, at.y - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let (ahead, below) = (x - left, y - top);
    let (left, top) = (left as i32, top as i32);
    let row = picture.width() as usize * 3;
    let raw = picture.as_raw();
    let place = |x: i32, y: i32| y.clamp(0, bottom) as usize * row + 3 * x.clamp(0, right) as usize;
    let places = [place(left, top), place(left + 1, top), place(left, top + 1), place(left + 1, top + 1)];
    let weights = [(1.0 - ahead) * (1.0 - below), ahead * (1.0 - below), (1.0 - ahead) * below, ahead * below];
    let mut colour = [0.0; 3];
    for (place, weight) in places.into_iter().zip(weights) {
        colour.iter_mut().zip(&raw[place..place + 3]).for_each(|(sum, it)| *sum += weight * f32::from(*it));
    }
    colour
}

/// Decodes the most likely class of each step (CTC): equal classes in sequence are one character, blanks are dropped.
fn decode_ctc(values: &[f32], alphabet: &[String]) -> Recognition {
    let mut text = String::new();
    let (mut sum, mut count, mut last) = (0.0, 0u32, BLANK);
    for step in values.chunks_exact(alphabet.len()) {
        let (class, probability) = likeliest_class(step);
        if class != BLANK && class != last {
            text.push_str(&alphabet[class]);
            sum += probability;
            count += 1;
        }
        last = class;
    }
    Recognition { text: text.trim().to_string(), confidence: if count == 0 { 0.0 } else { sum / count as f32 } }
}

fn likeliest_class(step: &[f32]) -> (usize, f32) {
    // Probabilities sum to 1, so a blank above 0.5 is the maximum; most steps return here.
    if step[BLANK] > 0.5 {
        return (BLANK, step[BLANK]);
    }
    let mut lanes = [0.0f32; 16];
    let chunks = step.chunks_exact(16);
    let rest = chunks.remainder().iter().copied().fold(0.0, f32::max);
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(most, it)| *most = if *it > *most { *it } else { *most });
    }
    let most = lanes.into_iter().fold(rest, f32::max);
    (step.iter().position(|it| *it == most).unwrap_or(BLANK), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps: &[(usize, f32)], expect: &str, confidence: f32) {
        let alphabet: Vec<String> = ["", "a", "b", " "].map(String::from).to_vec();
        let mut values = Vec::new();
        for (class, probability) in steps {
            let mut step = [(1.0 - probability) / 3.0; 4];
            step[*class] = *probability;
            values.extend(step);
        }
        let reading = decode_ctc(&values, &alphabet);
        assert_eq!(reading.text, expect);
        assert!((reading.confidence - confidence).abs() < 1e-5, "{reading:?}");
    }

    #[test]
    fn ctc_repeats_are_one_character_unless_blank_between() {
        check(&[(1, 0.9), (1, 0.8), (0, 0.9), (1, 0.7), (2, 0.5)], "aab", 0.7);
        check(&[(0, 0.9), (0, 0.4)], "", 0.0);
        check(&[(3, 0.9), (1, 0.9), (3, 0.9), (2, 0.9), (3, 0.9)], "a b", 0.9);
    }

    #[test]
    fn strip_is_upright_for_every_direction() {
        // A white square whose left half is red. Read from left to right, red is at the beginning; read upwards, red is at
        // the top.
        let mut picture = RgbImage::from_pixel(100, 100, image::Rgb([255; 3]));
        for (x, _, pixel) in picture.enumerate_pixels_mut() {
            if x < 50 {
                pixel.0 = [255, 0, 0];
            }
        }
        let slab =
            TextBox { centre: Point::new(50.0, 50.0), direction: Point::new(1.0, 0.0), length: 96.0, height: 96.0 };
        let blue = |slab: TextBox, x: usize, y: usize| {
            let mut tensor = Vec::new();
            fill_tensor(&mut tensor, &picture, slab, 48);
            tensor[y * 48 + x]
        };
        assert_eq!((blue(slab, 5, 24), blue(slab, 42, 24)), (-1.0, 1.0));
        assert_eq!((blue(slab.reversed(), 5, 24), blue(slab.reversed(), 42, 24)), (1.0, -1.0));
        assert_eq!((blue(slab.turned_upwards(), 24, 5), blue(slab.turned_upwards(), 24, 42)), (-1.0, 1.0));
    }

    #[test]
    fn sample_outside_picture_repeats_edge() {
        let picture = RgbImage::from_fn(2, 1, |x, _| image::Rgb([x as u8 * 100; 3]));
        assert_eq!(sample_colour(&picture, Point::new(-9.0, -9.0)), [0.0; 3]);
        assert_eq!(sample_colour(&picture, Point::new(9.0, 9.0)), [100.0; 3]);
        assert_eq!(sample_colour(&picture, Point::new(1.0, 0.5)), [50.0; 3]);
    }
}
