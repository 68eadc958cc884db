//! Rows of cells stored in one string: a hundred thousand rows take a few allocations.

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    text: String,
    /// End offset of each cell in `text`.
    ends: Vec<u32>,
    /// Index of the first cell of each row.
    starts: Vec<u32>,
    max_width: usize,
}

impl Grid {
    /// Adds a row. Drops text beyond 4 GiB, which no document has.
    pub(crate) fn push<'t>(&mut self, cells: impl Iterator<Item = &'t str>) {
        let Ok(start) = u32::try_from(self.ends.len()) else { return };
        self.starts.push(start);
        for cell in cells {
            let Ok(end) = u32::try_from(self.text.len() + cell.len()) else { return };
            self.text.push_str(cell);
            self.ends.push(end);
        }
        self.max_width = self.max_width.max(self.ends.len() - start as usize);
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + (self.ends.len() + self.starts.len()) * size_of::<u32>()
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Number of cells of a row.
    pub(crate) fn width(&self, row: usize) -> usize {
        let (start, end) = self.range(row);
        end - start
    }

    /// Number of cells of the longest row.
    pub(crate) fn max_width(&self) -> usize {
        self.max_width
    }

    /// Returns a cell; empty if out of range.
    pub(crate) fn cell(&self, row: usize, column: usize) -> &str {
        let (start, end) = self.range(row);
        let at = start + column;
        if at >= end {
            return "";
        }
        let from = at.checked_sub(1).map_or(0, |it| self.ends[it] as usize);
        &self.text[from..self.ends[at] as usize]
    }

    fn range(&self, row: usize) -> (usize, usize) {
        let start = self.starts.get(row).map_or(self.ends.len(), |it| *it as usize);
        (start, self.starts.get(row + 1).map_or(self.ends.len(), |it| *it as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_round_trip_and_missing_cell_is_empty() {
        let mut grid = Grid::default();
        grid.push(["a", "", "é"].into_iter());
        grid.push([].into_iter());
        grid.push(["b"].into_iter());
        assert_eq!((grid.len(), grid.max_width(), grid.width(1)), (3, 3, 0));
        let cells =
            [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (9, 0)].map(|(row, column)| grid.cell(row, column));
        assert_eq!(cells, ["a", "", "é", "", "", "b", ""]);
    }
}
