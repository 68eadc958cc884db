//! A white canvas to which an image is added row by row, and which shrinks the image at the same time.
//!
//! An image of 100 million pixels takes 400 MB in memory; the canvas takes only the memory of one image row and of the
//! shrunk result.

use image::{Rgb, RgbImage};

/// The canvas, and the sums of the pixels in the canvas row that is being filled.
pub(super) struct Canvas {
    height: u32,
    channels: usize,
    /// For each pixel of an image row, its column on the canvas.
    columns: Vec<u32>,
    /// For each column of the canvas, the number of pixels of an image row that it combines.
    pixels_per_column: Vec<u32>,
    /// Sums of the pixels added to row `at` of the canvas. 32 bits are enough: the longer side of a large image is
    /// shrunk only to the maximum length, so no canvas pixel combines more than about 25,000 of 100 million pixels.
    sums: Vec<[u32; 3]>,
    summed: u32,
    at: u32,
    rows: u32,
    pixels: RgbImage,
}

impl Canvas {
    /// Creates a canvas for an image of this size with 1 to 4 channels (grey, grey and alpha, RGB, RGBA). The longer side
    /// is shrunk to `most` pixels if it has more.
    pub(super) fn new(width: u32, height: u32, channels: usize, most: u32) -> Canvas {
        let (longer, most) = (u64::from(width.max(height)), u64::from(most));
        let shrunk = |side: u32| match longer > most {
            true => ((u64::from(side) * most + longer / 2) / longer).max(1) as u32,
            false => side,
        };
        let pixels = RgbImage::from_pixel(shrunk(width), shrunk(height), Rgb([255; 3]));
        let columns: Vec<u32> = (0..width).map(|it| scale_index(it, width, pixels.width())).collect();
        let mut pixels_per_column = vec![0; pixels.width() as usize];
        columns.iter().for_each(|it| pixels_per_column[*it as usize] += 1);
        let sums = vec![[0; 3]; pixels.width() as usize];
        Canvas { height, channels, columns, pixels_per_column, sums, summed: 0, at: 0, rows: 0, pixels }
    }

    /// Adds the next row of the image, 8 bits per channel. Surplus rows are ignored.
    pub(super) fn add_row(&mut self, row: &[u8]) {
        if self.rows >= self.height {
            return;
        }
        let at = scale_index(self.rows, self.height, self.pixels.height());
        if at != self.at {
            self.flush_row();
            self.at = at;
        }
        for (pixel, column) in row.chunks_exact(self.channels).zip(&self.columns) {
            let colours = blend_on_white(pixel);
            let sum = &mut self.sums[*column as usize];
            (0..3).for_each(|it| sum[it] += colours[it]);
        }
        self.summed += 1;
        self.rows += 1;
    }

    /// Returns the finished, shrunk image.
    pub(super) fn finish(mut self) -> RgbImage {
        self.flush_row();
        self.pixels
    }

    /// Writes the mean of the pixels added to the current canvas row, and resets the sums.
    fn flush_row(&mut self) {
        if self.summed == 0 {
            return;
        }
        for ((place, sum), share) in (0..).zip(&mut self.sums).zip(&self.pixels_per_column) {
            let count = share * self.summed;
            let mean = sum.map(|it| ((it + count / 2) / count) as u8);
            self.pixels.put_pixel(place, self.at, Rgb(mean));
            *sum = [0; 3];
        }
        self.summed = 0;
    }
}

/// Scales an index `number` below `of` to an index below `among`.
fn scale_index(number: u32, of: u32, among: u32) -> u32 {
    (u64::from(number) * u64::from(among) / u64::from(of)) as u32
}

/// Blends a pixel with a white background.
fn blend_on_white(pixel: &[u8]) -> [u32; 3] {
    let blend = |it: u8, alpha: u8| (u32::from(it) * u32::from(alpha) + 255 * (255 - u32::from(alpha)) + 127) / 255;
    match *pixel {
        [grey] => [u32::from(grey); 3],
        [grey, alpha] => [blend(grey, alpha); 3],
        [red, green, blue] => [red, green, blue].map(u32::from),
        [red, green, blue, alpha] => [red, green, blue].map(|it| blend(it, alpha)),
        _ => [255; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds these rows to a canvas, and checks the red value of every resulting pixel.
    fn check(channels: usize, most: u32, rows: &[&[u8]], expect: &[&[u8]]) {
        let width = (rows[0].len() / channels) as u32;
        let mut sheet = Canvas::new(width, rows.len() as u32, channels, most);
        rows.iter().for_each(|it| sheet.add_row(it));
        // A surplus row must change nothing.
        sheet.add_row(&vec![77; rows[0].len()]);
        let paper = sheet.finish();
        let red: Vec<Vec<u8>> = paper.rows().map(|row| row.map(|it| it.0[0]).collect()).collect();
        assert_eq!(red, expect);
    }

    #[test]
    fn small_picture_is_unchanged_and_transparency_is_white() {
        check(1, 9, &[&[1, 2, 3], &[4, 5, 6]], &[&[1, 2, 3], &[4, 5, 6]]);
        check(2, 9, &[&[0, 0, 0, 255, 0, 128]], &[&[255, 0, 127]]);
        check(4, 9, &[&[255, 0, 0, 128, 10, 0, 0, 255]], &[&[255, 10]]);
    }

    #[test]
    fn large_picture_is_averaged() {
        check(1, 2, &[&[0, 10, 100, 110], &[20, 30, 120, 130]], &[&[15, 115]]);
        // Five pixels on two columns: the first combines three of them, the second two.
        check(1, 2, &[&[5, 6, 7, 9, 11]], &[&[6, 10]]);
        check(3, 1, &[&[9, 0, 0], &[11, 0, 0], &[10, 0, 0]], &[&[10]]);
    }

    #[test]
    fn hundred_million_pixels_do_not_overflow() {
        let mut sheet = Canvas::new(1_000_000, 100, 1, 4_000);
        let row = vec![255; 1_000_000];
        (0..100).for_each(|_| sheet.add_row(&row));
        assert_eq!(sheet.finish().into_raw(), [255; 12_000]);
    }
}
