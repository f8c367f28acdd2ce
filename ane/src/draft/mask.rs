//! What each query of a block may look at, as numbers that are added to the scores; and which column stands before which.

use half::f16;

use super::slots::Slots;
use crate::runtime::tensor::Tensor;

/// Small enough that a masked key has no part in any softmax, and finite in half precision also after a score is added.
const MASKED: f16 = f16::from_f32_const(-30_000.0);

/// How far the queries of a layer see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Only keys less than so many positions away.
    pub window: Option<usize>,
    /// Within the block: only keys that do not stand behind the query.
    pub causal: bool,
}

impl Sight {
    fn reaches(self, query: usize, key: usize) -> bool {
        self.window
            .is_none_or(|window| query.abs_diff(key) < window)
    }
}

/// The columns of a block.
pub struct Block<'a> {
    /// By column; at most as many as the program has.
    pub positions: &'a [usize],
    /// [columns, columns], queries before keys: whether a query may look at a key. None: all may.
    pub seen: Option<&'a [bool]>,
}

impl Block<'_> {
    fn sees(&self, sight: Sight, query: usize, key: usize) -> bool {
        let columns = self.positions.len();
        if query >= columns || key >= columns {
            return query == key; // a column that stands for nothing
        }
        let (at, of) = (self.positions[query], self.positions[key]);
        self.allows(query, key) && sight.reaches(at, of) && (!sight.causal || of <= at)
    }

    fn allows(&self, query: usize, key: usize) -> bool {
        self.seen
            .is_none_or(|seen| seen[query * self.positions.len() + key])
    }

    /// The column that stands one position before a column, of those that it may look at.
    fn previous(&self, column: usize) -> Option<usize> {
        let before = |other: &usize| self.positions[*other] + 1 == self.positions[column];
        (0..self.positions.len())
            .filter(before)
            .find(|other| self.allows(column, *other))
    }
}

/// Fill a matrix [1, 1, width, width]: 1 where the first column stands right before the second in their block, else 0.
pub fn fill_previous(matrix: &mut Tensor, block: &Block<'_>) {
    let stride = matrix.strides()[2];
    matrix.values_mut().fill(f16::ZERO);
    for column in 0..block.positions.len() {
        if let Some(previous) = block.previous(column) {
            matrix.values_mut()[previous * stride + column] = f16::ONE;
        }
    }
}

/// Fill a mask [1, 1, slots + width, width] (keys, then queries) for a block behind a context of `length` positions.
pub fn fill(mask: &mut Tensor, sight: Sight, slots: Slots, length: usize, block: &Block<'_>) {
    let (width, stride) = (mask.shape()[3], mask.strides()[2]);
    let context = mask.shape()[2] - width;
    let taken = slots.taken(length);
    for (key, row) in mask.values_mut().chunks_mut(stride).enumerate() {
        let row = &mut row[..width];
        if key >= context {
            for (query, value) in row.iter_mut().enumerate() {
                *value = number(block.sees(sight, query, key - context));
            }
        } else if key >= taken {
            row.fill(MASKED);
        } else if sight.window.is_none() {
            row.fill(f16::ZERO);
        } else {
            let position = slots.position(key, length);
            row.fill(MASKED);
            for (value, query) in row.iter_mut().zip(block.positions) {
                *value = number(sight.reaches(*query, position));
            }
        }
    }
}

fn number(seen: bool) -> f16 {
    if seen { f16::ZERO } else { MASKED }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{Block, Sight, fill, fill_previous};
    use crate::draft::slots::Slots;
    use crate::runtime::tensor::Tensor;

    const FULL: Sight = Sight {
        window: None,
        causal: false,
    };

    /// By query: the keys it sees, slots first, then columns of the block from 16 on.
    fn seen(sight: Sight, length: usize, block: &Block<'_>) -> Vec<Vec<usize>> {
        let mut mask = Tensor::new(&[1, 1, 24, 8]).unwrap();
        mask.values_mut().fill(f16::NAN);
        fill(&mut mask, sight, Slots::new(16), length, block);
        let stride = mask.strides()[2];
        let at = |query: usize, key: usize| mask.values()[key * stride + query];
        (0..8)
            .map(|query| {
                (0..24)
                    .inspect(|key| assert!(at(query, *key).is_finite()))
                    .filter(|key| at(query, *key) == f16::ZERO)
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_block_sees_the_context_and_itself_and_the_rest_sees_nothing_of_it() {
        let block = Block {
            positions: &[3, 4, 5],
            seen: None,
        };
        let keys = seen(FULL, 3, &block);
        for query in &keys[..3] {
            assert_eq!(*query, [0, 1, 2, 16, 17, 18]);
        }
        assert_eq!(keys[7], [0, 1, 2, 23]);
    }

    #[test]
    fn causal_rows_do_not_look_ahead_whatever_their_columns() {
        let block = Block {
            positions: &[5, 3, 4],
            seen: None,
        };
        let causal = Sight {
            causal: true,
            ..FULL
        };
        let keys = seen(causal, 1, &block);
        assert_eq!(
            keys[..3],
            [vec![0, 16, 17, 18], vec![0, 17], vec![0, 17, 18]]
        );
    }

    #[test]
    fn branches_see_the_context_and_their_own_columns() {
        let own = [true, true, false, true, true, false, false, false, true];
        let block = Block {
            positions: &[2, 3, 2],
            seen: Some(&own),
        };
        let keys = seen(FULL, 2, &block);
        assert_eq!(
            keys[..3],
            [vec![0, 1, 16, 17], vec![0, 1, 16, 17], vec![0, 1, 18]]
        );
    }

    /// By column: which stands before it.
    fn previous(block: &Block<'_>) -> Vec<Option<usize>> {
        let mut matrix = Tensor::new(&[1, 1, 8, 8]).unwrap();
        matrix.values_mut().fill(f16::NAN);
        fill_previous(&mut matrix, block);
        let stride = matrix.strides()[2];
        let at = |before: usize, column: usize| matrix.values()[before * stride + column];
        let found = |column: usize| {
            let ones: Vec<_> = (0..8)
                .filter(|before| at(*before, column) == f16::ONE)
                .collect();
            assert!((0..8).all(|before| ones.contains(&before) || at(before, column) == f16::ZERO));
            assert!(ones.len() < 2);
            ones.first().copied()
        };
        (0..8).map(found).collect()
    }

    #[test]
    fn the_column_before_is_the_one_a_position_before_in_the_same_block() {
        let block = Block {
            positions: &[7, 8, 9],
            seen: None,
        };
        assert_eq!(previous(&block)[..3], [None, Some(0), Some(1)]);
        assert_eq!(previous(&block)[3..], [None; 5]);
        let mixed = Block {
            positions: &[9, 7, 8],
            seen: None,
        };
        assert_eq!(previous(&mixed)[..3], [Some(2), None, Some(1)]);
        // Two branches from the same position on, side by side.
        let owner = [0, 0, 0, 1, 1];
        let seen: Vec<_> = owner.iter().flat_map(|a| owner.map(|b| *a == b)).collect();
        let branches = Block {
            positions: &[4, 5, 6, 4, 5],
            seen: Some(&seen),
        };
        assert_eq!(
            previous(&branches)[..5],
            [None, Some(0), Some(1), None, Some(3)]
        );
    }

    /// Positions 20..22 behind 20: slots hold 0, 1, and 6..20 of which 16.. stand from slot 2 on.
    #[test]
    fn a_window_counts_positions_not_slots() {
        let sight = Sight {
            window: Some(4),
            causal: true,
        };
        let block = Block {
            positions: &[20, 21],
            seen: None,
        };
        let keys = seen(sight, 20, &block);
        let slots = Slots::new(16);
        let positions = |query: usize| {
            let mut found: Vec<_> = keys[query]
                .iter()
                .filter(|key| **key < 16)
                .map(|key| slots.position(*key, 20))
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(positions(0), [17, 18, 19]);
        assert_eq!(positions(1), [18, 19]);
        assert!(positions(2).is_empty());
        assert!(keys[0].contains(&16) && !keys[0].contains(&17) && keys[1].contains(&16));
    }
}
