//! A matrix of `i8` rows, stored in blocks, so that it grows without copying: old and new memory never exist at the same
//! time.

use crate::vectors::huge_pages::advise_huge_pages;

/// Number of rows per block: some megabytes, so that a block spans huge pages.
const ROWS_PER_BLOCK: usize = 1 << 15;

/// A matrix whose rows have equal width.
#[derive(Debug)]
pub struct I8Rows {
    width: usize,
    /// The blocks of rows: all are full except the last, and none is empty.
    blocks: Vec<Vec<i8>>,
}

impl I8Rows {
    /// Creates an empty matrix with rows of this width, which must not be 0.
    pub fn new(width: usize) -> I8Rows {
        I8Rows { width, blocks: Vec::new() }
    }

    /// Returns the number of values per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * ROWS_PER_BLOCK + last.len() / self.width)
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Appends a row. The first block grows on demand, because most matrices have only one block.
    pub fn push(&mut self, row: impl Iterator<Item = i8>) {
        let full = ROWS_PER_BLOCK * self.width;
        if self.blocks.last().is_none_or(|it| it.len() == full) {
            let room = if self.blocks.is_empty() { 0 } else { full };
            self.blocks.push(Vec::with_capacity(room));
            self.blocks.last().into_iter().for_each(advise_huge_pages);
        }
        let Some(block) = self.blocks.last_mut() else { return };
        let room = block.capacity();
        block.extend(row);
        debug_assert!(block.len().is_multiple_of(self.width));
        if block.capacity() != room {
            advise_huge_pages(block);
        }
    }

    /// Returns the row with this index.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &[i8] {
        &self.blocks[row / ROWS_PER_BLOCK][row % ROWS_PER_BLOCK * self.width..][..self.width]
    }

    /// Removes a row. The last row moves to its index.
    pub fn swap_remove(&mut self, row: usize) {
        let Some(last) = self.len().checked_sub(1) else { return };
        let Some(mut end) = self.blocks.pop() else { return };
        let from = last % ROWS_PER_BLOCK * self.width;
        let at = row % ROWS_PER_BLOCK * self.width;
        match self.blocks.get_mut(row / ROWS_PER_BLOCK) {
            Some(block) => block[at..at + self.width].copy_from_slice(&end[from..]),
            None => end.copy_within(from.., at),
        }
        end.truncate(from);
        if !end.is_empty() {
            self.blocks.push(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_pushes_and_removals_across_blocks() {
        let (mut numbers, mut truth) = (I8Rows::new(3), Vec::new());
        for round in 0..5 {
            for row in 0..ROWS_PER_BLOCK {
                let row = [round as i8, (row % 100) as i8, (row / 100 % 100) as i8];
                numbers.push(row.into_iter());
                truth.push(row);
            }
            for step in 0..ROWS_PER_BLOCK / 2 + round {
                // Removes a row of the first block, then one of the last block, then the last row.
                let row = [step % truth.len(), truth.len() - 1 - step % 7, truth.len() - 1][step % 3];
                numbers.swap_remove(row);
                truth.swap_remove(row);
            }
            assert_eq!(numbers.len(), truth.len());
            assert!(truth.iter().enumerate().all(|(at, row)| numbers.row(at) == row), "round {round}");
        }
        (0..truth.len()).for_each(|_| numbers.swap_remove(0));
        assert_eq!((numbers.len(), numbers.blocks.len()), (0, 0));
    }

    #[test]
    fn growing_matrix_is_not_copied() {
        let mut numbers = I8Rows::new(1);
        (0..3 * ROWS_PER_BLOCK).for_each(|it| numbers.push(std::iter::once(it as i8)));
        let places: Vec<usize> = numbers.blocks.iter().map(|it| it.as_ptr().addr()).collect();
        (0..ROWS_PER_BLOCK).for_each(|it| numbers.push(std::iter::once(it as i8)));
        assert!(numbers.blocks.iter().take(3).map(|it| it.as_ptr().addr()).eq(places));
        assert_eq!(numbers.blocks.len(), 4);
    }
}
