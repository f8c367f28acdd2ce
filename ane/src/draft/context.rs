//! Context keys and values of one layer: all of them, and those that its program sees.
//!
//! The program's tensors have room for some positions only. What they lose is needed again when the newest positions are
//! taken back (an edited message, an answer written anew), so everything is kept beside them.

use std::ops::Range;

use half::f16;

use super::slots::Slots;
use crate::runtime::RuntimeError;
use crate::runtime::tensor::Tensor;

/// Positions of a piece of [`History`].
const PIECE: usize = 256;

/// Keys or values of all positions, in pieces of [channels, 256].
struct History {
    channels: usize,
    pieces: Vec<Vec<f16>>,
}

impl History {
    /// Set column `position`.. of every channel to columns of `from`, whose channels are rows.
    fn write(&mut self, position: usize, from: &Columns<'_>) {
        while self.pieces.len() * PIECE < position + from.count {
            self.pieces.push(vec![f16::ZERO; self.channels * PIECE]);
        }
        for (piece, columns, offset) in pieces(position..position + from.count) {
            for channel in 0..self.channels {
                let start = channel * PIECE + columns.start;
                self.pieces[piece][start..start + columns.len()].copy_from_slice(from.channel(
                    channel,
                    offset,
                    columns.len(),
                ));
            }
        }
    }

    fn read(&self, positions: Range<usize>, channel: usize, to: &mut [f16]) {
        for (piece, columns, offset) in pieces(positions) {
            let start = channel * PIECE + columns.start;
            to[offset..offset + columns.len()]
                .copy_from_slice(&self.pieces[piece][start..start + columns.len()]);
        }
    }
}

/// Piece, columns in it, and how many positions came before.
fn pieces(positions: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    let (mut next, first, end) = (positions.start, positions.start, positions.end);
    std::iter::from_fn(move || {
        let column = next % PIECE;
        let count = (PIECE - column).min(end.checked_sub(next)?);
        let piece = (next / PIECE, column..column + count, next - first);
        next += count;
        (count > 0).then_some(piece)
    })
}

/// `count` columns of a matrix whose rows are channels.
pub struct Columns<'a> {
    values: &'a [f16],
    row_stride: usize,
    count: usize,
}

impl<'a> Columns<'a> {
    /// The first `count` columns of a tensor [1, kv heads, head dim, columns].
    #[must_use]
    pub fn of(tensor: &'a Tensor, count: usize) -> Self {
        Self {
            values: tensor.values(),
            row_stride: row_stride(tensor),
            count,
        }
    }

    /// All columns of a row-major matrix.
    #[must_use]
    pub fn of_rows(values: &'a [f16], count: usize) -> Self {
        Self {
            values,
            row_stride: count,
            count,
        }
    }

    fn channel(&self, channel: usize, first: usize, count: usize) -> &'a [f16] {
        let start = channel * self.row_stride + first;
        &self.values[start..start + count]
    }
}

/// Keys or values of one layer.
pub struct Cache {
    history: History,
    /// [1, kv heads, head dim, slots]: the program's input. Slots that are not taken hold anything finite.
    pub tensor: Tensor,
}

impl Cache {
    /// For a program's input [1, kv heads, head dim, slots].
    ///
    /// # Errors
    /// [`RuntimeError::Memory`].
    pub fn new(shape: &[usize]) -> Result<Self, RuntimeError> {
        let [_, heads, head_dim, _] = *shape else {
            return Err(RuntimeError::Memory {
                shape: shape.into(),
            });
        };
        Ok(Self {
            history: History {
                channels: heads * head_dim,
                pieces: vec![],
            },
            tensor: Tensor::new(shape)?,
        })
    }

    /// Set the columns from `position` on.
    pub fn write(&mut self, slots: Slots, position: usize, columns: &Columns<'_>) {
        self.history.write(position, columns);
        let row_stride = row_stride(&self.tensor);
        let values = self.tensor.values_mut();
        for (first, slot, count) in slots.pieces(position..position + columns.count) {
            for channel in 0..self.history.channels {
                let start = channel * row_stride + slot;
                values[start..start + count].copy_from_slice(columns.channel(
                    channel,
                    first - position,
                    count,
                ));
            }
        }
    }

    /// Put positions back into their slots.
    pub fn restore(&mut self, slots: Slots, positions: Range<usize>) {
        let row_stride = row_stride(&self.tensor);
        let values = self.tensor.values_mut();
        for (first, slot, count) in slots.pieces(positions) {
            for channel in 0..self.history.channels {
                let start = channel * row_stride + slot;
                self.history.read(
                    first..first + count,
                    channel,
                    &mut values[start..start + count],
                );
            }
        }
    }

    /// All columns of `positions`, row-major [channels, positions].
    #[must_use]
    pub fn read(&self, positions: Range<usize>) -> Vec<f16> {
        let count = positions.len();
        let mut columns = vec![f16::ZERO; self.history.channels * count];
        if count > 0 {
            for (channel, row) in columns.chunks_exact_mut(count).enumerate() {
                self.history.read(positions.clone(), channel, row);
            }
        }
        columns
    }

    /// Give back memory for positions from `length` on.
    pub fn forget(&mut self, length: usize) {
        self.history.pieces.truncate(length.div_ceil(PIECE));
    }
}

/// From one row of the last axis to the next.
fn row_stride(tensor: &Tensor) -> usize {
    let strides = tensor.strides();
    strides[strides.len() - 2]
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{Cache, Columns};
    use crate::draft::slots::Slots;

    const SHAPE: [usize; 4] = [1, 2, 3, 512];

    fn value(channel: usize, position: usize) -> f16 {
        f16::from_f32((channel * 1000 + position % 997) as f32)
    }

    fn append(cache: &mut Cache, position: usize, count: usize) {
        let values: Vec<_> = (0..6)
            .flat_map(|channel| (0..count).map(move |i| value(channel, position + i)))
            .collect();
        cache.write(Slots::new(512), position, &Columns::of_rows(&values, count));
    }

    fn check(cache: &Cache, length: usize) {
        let slots = Slots::new(512);
        let stride = cache.tensor.strides()[2];
        for channel in 0..6 {
            for slot in 0..slots.taken(length) {
                let wanted = value(channel, slots.position(slot, length));
                assert_eq!(cache.tensor.values()[channel * stride + slot], wanted);
            }
        }
    }

    #[test]
    fn slots_hold_their_positions_after_any_appending_and_cutting() {
        let slots = Slots::new(512);
        let mut cache = Cache::new(&SHAPE).unwrap();
        let mut length = 0;
        for (appended, kept) in [
            (256, 256),
            (256, 500),
            (256, 756),
            (256, 1012),
            (256, 800),
            (9, 809),
            (64, 300),
            (256, 0),
        ] {
            append(&mut cache, length, appended);
            length += appended;
            check(&cache, length);
            cache.restore(slots, slots.lost(length, kept));
            cache.forget(kept);
            length = kept;
            check(&cache, length);
        }
    }

    #[test]
    fn all_positions_can_be_read_also_those_without_a_slot() {
        let mut cache = Cache::new(&SHAPE).unwrap();
        for position in (0..1000).step_by(200) {
            append(&mut cache, position, 200);
        }
        let columns = cache.read(90..700);
        assert_eq!(columns.len(), 6 * 610);
        assert_eq!(columns[3 * 610 + 5], value(3, 95));
        assert!(cache.read(4..4).is_empty());
    }
}
