//! Text boxes: rotated rectangles around pieces of text, and functions that fit them to points.

/// A point or direction on the page: x to the right, y down, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f32,
    pub(crate) y: f32,
}

impl Point {
    pub(crate) fn new(x: f32, y: f32) -> Point {
        Point { x, y }
    }

    pub(crate) fn dot(self, other: Point) -> f32 {
        self.x * other.x + self.y * other.y
    }

    /// Returns the direction turned clockwise by a quarter as seen on the page: down, for text that runs to the right.
    pub(crate) fn clockwise(self) -> Point {
        Point::new(-self.y, self.x)
    }

    pub(crate) fn scaled(self, factor: f32) -> Point {
        Point::new(self.x * factor, self.y * factor)
    }

    pub(crate) fn plus(self, other: Point) -> Point {
        Point::new(self.x + other.x, self.y + other.y)
    }
}

/// The rotated rectangle around one piece of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TextBox {
    /// The centre of the rectangle.
    pub(crate) centre: Point,
    /// The reading direction; a unit vector.
    pub(crate) direction: Point,
    /// Size of the rectangle along the reading direction.
    pub(crate) length: f32,
    /// Size of the rectangle across the reading direction.
    pub(crate) height: f32,
}

impl TextBox {
    /// Returns the same rectangle with the opposite reading direction.
    pub(crate) fn reversed(self) -> TextBox {
        TextBox { direction: self.direction.scaled(-1.0), ..self }
    }

    /// Returns the same rectangle with a reading direction turned counterclockwise by a quarter: upwards, if it was to the
    /// right.
    pub(crate) fn turned_upwards(self) -> TextBox {
        let along = self.direction.clockwise().scaled(-1.0);
        TextBox { direction: along, length: self.height, height: self.length, ..self }
    }

    /// Returns the aspect ratio: length divided by height.
    pub(crate) fn aspect(self) -> f32 {
        self.length / self.height.max(1.0)
    }

    /// Returns the rectangle enlarged by `margin` on each of its four sides.
    pub(crate) fn grown(self, margin: f32) -> TextBox {
        TextBox { length: self.length + 2.0 * margin, height: self.height + 2.0 * margin, ..self }
    }

    /// Returns left, top, right and bottom of the upright bounding box on the page.
    pub(crate) fn bounds(self) -> [f32; 4] {
        let down = self.direction.clockwise();
        let x = (self.direction.x * self.length).abs() / 2.0 + (down.x * self.height).abs() / 2.0;
        let y = (self.direction.y * self.length).abs() / 2.0 + (down.y * self.height).abs() / 2.0;
        [self.centre.x - x, self.centre.y - y, self.centre.x + x, self.centre.y + y]
    }
}

/// Returns the smallest rectangle around points for text that runs to the right, at most 45 degrees up or down.
pub(crate) fn smallest_box(points: &[Point]) -> TextBox {
    let hull = convex_hull(points);
    let mut best: Option<TextBox> = None;
    for (at, from) in hull.iter().enumerate() {
        let to = hull[(at + 1) % hull.len()];
        let side = Point::new(to.x - from.x, to.y - from.y);
        let length = side.dot(side).sqrt();
        if length > 0.0 {
            let slab = bounding_box(&hull, rightward(side.scaled(1.0 / length)));
            if best.is_none_or(|it| slab.length * slab.height < it.length * it.height) {
                best = Some(slab);
            }
        }
    }
    best.unwrap_or_else(|| bounding_box(&hull, Point::new(1.0, 0.0)))
}

/// Returns the rectangle around points for text that runs in the direction `along`.
pub(crate) fn bounding_box(points: &[Point], along: Point) -> TextBox {
    let down = along.clockwise();
    let span = |axis: Point| {
        let places = points.iter().map(|it| it.dot(axis));
        places.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)))
    };
    if points.is_empty() {
        return TextBox { centre: Point::default(), direction: along, length: 0.0, height: 0.0 };
    }
    let ((left, right), (top, bottom)) = (span(along), span(down));
    let centre = along.scaled((left + right) / 2.0).plus(down.scaled((top + bottom) / 2.0));
    TextBox { centre, direction: along, length: right - left, height: bottom - top }
}

/// Turns the direction of a side by quarter turns until it points as far to the right as possible.
fn rightward(side: Point) -> Point {
    let side = if side.x.abs() >= side.y.abs() { side } else { side.clockwise() };
    if side.x < 0.0 { side.scaled(-1.0) } else { side }
}

/// Returns the convex hull of the points, by Andrew's monotone chain algorithm.
pub(crate) fn convex_hull(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    sorted.dedup();
    if sorted.len() < 3 {
        return sorted;
    }
    let mut chain: Vec<Point> = Vec::with_capacity(sorted.len() + 1);
    let turns_right = |a: Point, b: Point, c: Point| (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x) <= 0.0;
    let mut extend = |point: Point, floor: usize| {
        while chain.len() >= floor + 2 && turns_right(chain[chain.len() - 2], chain[chain.len() - 1], point) {
            chain.pop();
        }
        chain.push(point);
        chain.len()
    };
    let mut length = 0;
    for &point in &sorted {
        length = extend(point, 0);
    }
    for &point in sorted.iter().rev().skip(1) {
        extend(point, length - 1);
    }
    chain.pop();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corners(slab: TextBox) -> Vec<Point> {
        let (along, down) =
            (slab.direction.scaled(slab.length / 2.0), slab.direction.clockwise().scaled(slab.height / 2.0));
        [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)]
            .map(|(a, b)| slab.centre.plus(along.scaled(a)).plus(down.scaled(b)))
            .to_vec()
    }

    fn check(degrees: f32, expect_degrees: f32, expect_length: f32) {
        let angle = degrees.to_radians();
        let along = Point::new(angle.cos(), angle.sin());
        let slab = TextBox { centre: Point::new(50.0, 40.0), direction: along, length: 60.0, height: 10.0 };
        let found = smallest_box(&corners(slab));
        let got = found.direction.y.atan2(found.direction.x).to_degrees();
        assert!((got - expect_degrees).abs() < 0.1, "{degrees}: {got}");
        assert!((found.length - expect_length).abs() < 0.01, "{degrees}: {found:?}");
        assert!((found.centre.x - 50.0).abs() < 0.01 && (found.centre.y - 40.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn smallest_box_follows_line_skew() {
        check(0.0, 0.0, 60.0);
        check(4.0, 4.0, 60.0);
        check(-30.0, -30.0, 60.0);
        check(180.0, 0.0, 60.0);
    }

    #[test]
    fn vertical_line_is_tall_box() {
        check(90.0, 0.0, 10.0);
        check(-86.0, 4.0, 10.0);
    }

    #[test]
    fn single_point_has_empty_box() {
        let slab = smallest_box(&[Point::new(3.0, 4.0)]);
        assert_eq!((slab.length, slab.height, slab.centre), (0.0, 0.0, Point::new(3.0, 4.0)));
        assert_eq!(smallest_box(&[]).length, 0.0);
    }

    #[test]
    fn upended_box_keeps_bounds_and_reads_upwards() {
        let slab = TextBox { centre: Point::new(9.0, 9.0), direction: Point::new(1.0, 0.0), length: 4.0, height: 8.0 };
        let upended = slab.turned_upwards();
        assert_eq!((upended.direction.x, upended.direction.y, upended.length, upended.height), (0.0, -1.0, 8.0, 4.0));
        assert_eq!(upended.bounds(), slab.bounds());
        assert_eq!(slab.reversed().direction, Point::new(-1.0, -0.0));
    }
}
