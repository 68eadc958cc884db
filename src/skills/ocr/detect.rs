//! Text detection: runs the detection network, and fits rectangles to the text in its probability map.
//!
//! The network marks the core of each piece of text. A piece is a connected component of the map; the smallest rectangle
//! around it is enlarged to the full height of the text.

use image::RgbImage;
use image::imageops::{self, FilterType};
use ort::memory::Allocator;
use ort::session::{OutputSelector, Session};
use ort::value::{Tensor, TensorRef};

use crate::error::{Error, Result};
use crate::skills::ocr::text_box::{self, Point, TextBox};
use vic_kernels::onnx_arena;

/// Longer side of the network's input, in pixels. Measured: a shorter one loses small print, a longer one costs time and
/// finds no more.
const INPUT_SIDE: u32 = 1280;
/// Maximum factor by which small images are enlarged.
const MAX_ENLARGEMENT: f32 = 2.0;
/// Both sides of the network's input must be multiples of this.
const INPUT_STRIDE: u32 = 32;
/// Margin added around the image, in pixels: without it, text at the very edge is missed.
const MARGIN: u32 = 16;
/// A pixel belongs to text if its probability is above this.
const PIXEL_THRESHOLD: f32 = 0.3;
/// A piece is text if the mean probability of its pixels is above this.
const PIECE_THRESHOLD: f32 = 0.5;
/// A piece is enlarged on each side by this factor times its area divided by its circumference.
const GROWTH_FACTOR: f32 = 1.6;
/// Pieces with a shorter side, in pixels of the map, are specks and are dropped.
const MIN_PIECE_SIDE: f32 = 2.5;
/// Maximum number of pieces on a page. If there are more, only the largest are kept, because the others are noise.
const MAX_PIECES: usize = 2_000;
/// Minimum aspect ratio of a piece whose direction is trusted; other pieces take the direction of the page.
const TRUSTED_ASPECT: f32 = 4.0;

/// The text detection network.
pub(crate) struct Detector {
    session: Session,
    /// Name of the network's output: for each pixel, the probability that it belongs to text.
    map: String,
    tensor: Vec<f32>,
}

/// Size and scale of the image in the input tensor.
#[derive(Clone, Copy)]
struct InputFit {
    /// Number of tensor pixels per image pixel.
    scale: f32,
    width: u32,
    height: u32,
}

impl Detector {
    /// Creates a detector from a session of the network, and runs it once.
    ///
    /// # Errors
    /// When the session belongs to another network, or does not run.
    pub(crate) fn new(session: Session) -> Result<Detector> {
        let map = session.outputs().first().map(|it| it.name().to_string());
        let map =
            map.ok_or_else(|| Error::internal("the text detection model has no output: run `vic models pull ppocr`"))?;
        let mut detector = Detector { session, map, tensor: Vec::new() };
        // Runs the network once before the first image, because ONNX Runtime's memory arena allocates blocks of full size
        // only after it has released memory once.
        detector.find(&RgbImage::new(1, 1))?;
        Ok(detector)
    }

    /// Finds the text boxes in an image, in pixels of the image. Text is assumed to run to the right.
    pub(crate) fn find(&mut self, picture: &RgbImage) -> Result<Vec<TextBox>> {
        let failed = |error: ort::Error| Error::internal(format!("text detection failed: {error}"));
        let fit = self.fill(picture);
        let (height, width) = (fit.height as usize, fit.width as usize);
        let input = TensorRef::from_array_view(([1, 3, height, width], self.tensor.as_slice())).map_err(failed)?;
        let place = Tensor::<f32>::new(&Allocator::default(), [1, 1, height, width]).map_err(failed)?;
        let map = OutputSelector::no_default().with(&self.map).preallocate(&self.map, place);
        let options = onnx_arena::shrink_after_run().map_err(failed)?.with_outputs(map);
        let outputs = self.session.run_with_options(ort::inputs![input], &options).map_err(failed)?;
        let (_, map) = outputs[0].try_extract_tensor::<f32>().map_err(failed)?;
        Ok(fit_boxes(connected_pieces(map, fit.width as usize), fit.scale))
    }

    /// Writes the image into the tensor: blue, green, red, each -1 to 1, with the pixels at the edge repeated in the
    /// margin.
    fn fill(&mut self, picture: &RgbImage) -> InputFit {
        let longer = picture.width().max(picture.height()).max(1) as f32;
        let scale = (INPUT_SIDE as f32 / longer).min(MAX_ENLARGEMENT);
        let scaled = |side: u32| ((side as f32 * scale).round() as u32).max(1);
        let (width, height) = (scaled(picture.width()), scaled(picture.height()));
        let resized = imageops::resize(picture, width, height, FilterType::Triangle);
        let padded = |side: u32| (side + 2 * MARGIN).next_multiple_of(INPUT_STRIDE);
        let fit = InputFit { scale, width: padded(width), height: padded(height) };
        let plane = (fit.width * fit.height) as usize;
        self.tensor.resize(3 * plane, 0.0);
        let (blue, rest) = self.tensor.split_at_mut(plane);
        let (green, red) = rest.split_at_mut(plane);
        let inside = |at: u32, side: u32| at.saturating_sub(MARGIN).min(side - 1);
        let row_bytes = 3 * width as usize;
        for y in 0..fit.height {
            let from = inside(y, height) as usize * row_bytes;
            let row = &resized.as_raw()[from..from + row_bytes];
            let to = (y * fit.width) as usize;
            for x in 0..fit.width {
                let at = 3 * inside(x, width) as usize;
                let to = to + x as usize;
                red[to] = f32::from(row[at]) / 127.5 - 1.0;
                green[to] = f32::from(row[at + 1]) / 127.5 - 1.0;
                blue[to] = f32::from(row[at + 2]) / 127.5 - 1.0;
            }
        }
        fit
    }
}

/// A connected component of the probability map: one piece of text.
#[derive(Default)]
struct MapComponent {
    /// Corners of the pixel runs of the component.
    points: Vec<Point>,
    sum: f32,
    pixels: u32,
}

/// A run of text pixels in one row of the map.
struct Run {
    from: usize,
    /// One past the last pixel.
    to: usize,
    label: usize,
}

/// Returns the connected components of the map; diagonal neighbours are connected.
fn connected_pieces(map: &[f32], width: usize) -> Vec<MapComponent> {
    let mut parents: Vec<usize> = Vec::new();
    let mut pieces: Vec<MapComponent> = Vec::new();
    let mut above: Vec<Run> = Vec::new();
    for (y, row) in map.chunks_exact(width).enumerate() {
        let mut runs: Vec<Run> = Vec::new();
        let mut x = 0;
        while let Some(from) = row[x..].iter().position(|it| *it > PIXEL_THRESHOLD).map(|it| it + x) {
            let to = row[from..].iter().position(|it| *it <= PIXEL_THRESHOLD).map_or(width, |it| it + from);
            let mut label = None;
            for run in above.iter().filter(|it| it.from <= to && it.to >= from) {
                let other = root_label(&mut parents, run.label);
                // Keeps the smaller label, so that pieces stay in the order in which they begin.
                label = Some(label.map_or(other, |label: usize| {
                    let (keep, drop) = (label.min(other), label.max(other));
                    parents[drop] = keep;
                    keep
                }));
            }
            let label = label.unwrap_or_else(|| {
                parents.push(parents.len());
                pieces.push(MapComponent::default());
                parents.len() - 1
            });
            let piece = &mut pieces[label];
            let corner = |x: usize, y: usize| Point::new(x as f32, y as f32);
            piece.points.extend([corner(from, y), corner(to, y), corner(from, y + 1), corner(to, y + 1)]);
            piece.sum += row[from..to].iter().sum::<f32>();
            piece.pixels += (to - from) as u32;
            runs.push(Run { from, to, label });
            x = to;
            if x >= width {
                break;
            }
        }
        above = runs;
    }
    for label in (0..pieces.len()).rev() {
        let root = root_label(&mut parents, label);
        if root != label {
            let part = std::mem::take(&mut pieces[label]);
            pieces[root].points.extend(part.points);
            pieces[root].sum += part.sum;
            pieces[root].pixels += part.pixels;
        }
    }
    pieces.retain(|it| it.pixels > 0 && it.sum / it.pixels as f32 >= PIECE_THRESHOLD);
    pieces
}

fn root_label(parents: &mut [usize], mut label: usize) -> usize {
    while parents[label] != label {
        parents[label] = parents[parents[label]];
        label = parents[label];
    }
    label
}

/// Fits boxes around the pieces, and converts them from coordinates of the map to those of the image.
fn fit_boxes(mut pieces: Vec<MapComponent>, scale: f32) -> Vec<TextBox> {
    if pieces.len() > MAX_PIECES {
        pieces.sort_by_key(|it| std::cmp::Reverse(it.pixels));
        pieces.truncate(MAX_PIECES);
    }
    let hulls: Vec<Vec<Point>> = pieces.iter().map(|it| text_box::convex_hull(&it.points)).collect();
    let mut slabs: Vec<TextBox> = hulls.iter().map(|it| text_box::smallest_box(it)).collect();
    let page = page_direction(&slabs);
    for (slab, hull) in slabs.iter_mut().zip(&hulls) {
        let trusted = slab.aspect() >= TRUSTED_ASPECT || slab.aspect() <= 1.0 / TRUSTED_ASPECT;
        if !trusted {
            *slab = text_box::bounding_box(hull, page);
        }
    }
    slabs.retain(|it| it.length.min(it.height) >= MIN_PIECE_SIDE);
    for slab in &mut slabs {
        let margin = GROWTH_FACTOR * slab.length * slab.height / (2.0 * (slab.length + slab.height));
        *slab = slab.grown(margin);
        let rim = Point::new(-(MARGIN as f32), -(MARGIN as f32));
        slab.centre = slab.centre.plus(rim).scaled(1.0 / scale);
        slab.length /= scale;
        slab.height /= scale;
    }
    slabs
}

/// Returns the text direction of the page: the median direction of its long pieces, weighted by length.
pub(crate) fn page_direction(slabs: &[TextBox]) -> Point {
    let mut angles: Vec<(f32, f32)> = Vec::new();
    for slab in slabs {
        if slab.aspect() >= TRUSTED_ASPECT {
            angles.push((slab.direction.y.atan2(slab.direction.x), slab.length));
        } else if slab.aspect() <= 1.0 / TRUSTED_ASPECT {
            // Also uses tall pieces, because they show the skew of the page as well as long ones.
            angles.push((slab.direction.y.atan2(slab.direction.x), slab.height));
        }
    }
    angles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = angles.iter().map(|it| it.1).sum::<f32>() / 2.0;
    let mut passed = 0.0;
    let median = angles.iter().find(|it| {
        passed += it.1;
        passed >= half
    });
    median.map_or(Point::new(1.0, 0.0), |it| Point::new(it.0.cos(), it.0.sin()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: &[&str]) -> (Vec<f32>, usize) {
        let value = |it: u8| if it == b'#' { 0.9 } else { 0.1 };
        (rows.iter().flat_map(|row| row.bytes().map(value)).collect(), rows[0].len())
    }

    #[test]
    fn parts_joined_further_down_are_one_piece() {
        let (map, width) = map(&["#...#..##", "#...#....", ".###.....", "........#"]);
        let pieces = connected_pieces(&map, width);
        let sizes: Vec<u32> = pieces.iter().map(|it| it.pixels).collect();
        assert_eq!(sizes, [7, 2, 1]);
    }

    #[test]
    fn faint_piece_is_not_text() {
        assert!(connected_pieces(&[0.4; 60], 10).is_empty());
        assert_eq!(connected_pieces(&[0.6; 60], 10).len(), 1);
    }

    #[test]
    fn boxes_grow_and_map_to_picture_pixels() {
        let rim = MARGIN as f32;
        let corner = |x: f32, y: f32| Point::new(rim + x, rim + y);
        let points = vec![corner(10.0, 10.0), corner(50.0, 10.0), corner(50.0, 20.0), corner(10.0, 20.0)];
        let slabs = fit_boxes(vec![MapComponent { points, sum: 1.0, pixels: 1 }], 0.5);
        let [left, top, right, bottom] = slabs[0].bounds();
        // Enlarged by 1.6 * 400 / 100 = 6.4 on each side, then scaled by 2.
        assert!((left - 7.2).abs() < 0.01 && (right - 112.8).abs() < 0.01, "{left} {right}");
        assert!((top - 7.2).abs() < 0.01 && (bottom - 52.8).abs() < 0.01, "{top} {bottom}");
    }

    #[test]
    fn short_pieces_do_not_affect_page_direction() {
        let slab = |degrees: f32, length: f32| {
            let angle = degrees.to_radians();
            TextBox { centre: Point::default(), direction: Point::new(angle.cos(), angle.sin()), length, height: 10.0 }
        };
        let page = page_direction(&[slab(40.0, 12.0), slab(2.0, 200.0), slab(2.1, 300.0), slab(-30.0, 45.0)]);
        let degrees = page.y.atan2(page.x).to_degrees();
        assert!((degrees - 2.1).abs() < 0.2, "{degrees}");
        assert_eq!(page_direction(&[]), Point::new(1.0, 0.0));
    }
}
