//! Which positions a program of fixed size sees: the first ones and the newest ones.
//!
//! Keys carry their rotation, so a position may stand in any slot. Each has one place: as long as there is room its own
//! number, then a ring behind the first slots, where it takes the place of the oldest.

use std::ops::Range;

/// One part in so many of the slots is for the first positions, which hold the system prompt and what models attend to from
/// everywhere (Xiao et al., 2023, arXiv 2309.17453).
const FIRST_SHARE: usize = 8;

/// The slots of a program's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    capacity: usize,
    first: usize,
}

impl Slots {
    /// For `capacity` slots, 8 at least.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            first: capacity / FIRST_SHARE,
        }
    }

    fn ring(self) -> usize {
        self.capacity - self.first
    }

    /// Where a position stands.
    fn slot(self, position: usize) -> usize {
        if position < self.first {
            position
        } else {
            self.first + (position - self.first) % self.ring()
        }
    }

    /// How many slots are taken by a context of `length` positions: those from 0 on.
    #[must_use]
    pub fn taken(self, length: usize) -> usize {
        length.min(self.capacity)
    }

    /// The oldest position of the ring in a context of `length` positions.
    fn oldest(self, length: usize) -> usize {
        length.saturating_sub(self.ring()).max(self.first)
    }

    /// Positions that are not in their slot after a context has been cut from `before` positions to `after`, because newer ones
    /// had taken it.
    #[must_use]
    pub fn lost(self, before: usize, after: usize) -> Range<usize> {
        self.oldest(after)..self.oldest(before).min(after)
    }

    /// The position in a taken slot of a context of `length` positions.
    #[must_use]
    pub fn position(self, slot: usize, length: usize) -> usize {
        if slot < self.first {
            return slot;
        }
        let newest = length - 1;
        let behind = (self.ring() + self.slot(newest) - slot) % self.ring();
        newest - behind
    }

    /// Pieces of `positions` that lie in neighbouring slots: the first position, its slot, how many. Of positions that share a
    /// slot the last is told last.
    pub fn pieces(self, positions: Range<usize>) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut next = positions.start;
        std::iter::from_fn(move || {
            let slot = self.slot(next);
            let end = if next < self.first {
                self.first
            } else {
                self.capacity
            };
            let count = (end - slot).min(positions.end.checked_sub(next)?);
            let piece = (next, slot, count);
            next += count;
            (count > 0).then_some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    /// What stands in the slots after positions were appended one by one.
    fn filled(slots: Slots, length: usize) -> Vec<Option<usize>> {
        let mut held = vec![None; slots.capacity];
        for position in 0..length {
            held[slots.slot(position)] = Some(position);
        }
        held
    }

    #[test]
    fn the_first_and_the_newest_stay() {
        let slots = Slots::new(16);
        for length in 1..60 {
            let held = filled(slots, length);
            let taken = slots.taken(length);
            assert!(
                held[..taken].iter().all(Option::is_some)
                    && held[taken..].iter().all(Option::is_none)
            );
            let mut positions: Vec<_> = held.into_iter().flatten().collect();
            for (slot, position) in positions.iter().enumerate() {
                assert_eq!(slots.position(slot, length), *position);
            }
            positions.sort_unstable();
            let newest = length.saturating_sub(14).max(2)..length;
            let wanted: Vec<_> = (0..length.min(2)).chain(newest).collect();
            assert_eq!(positions, wanted);
        }
    }

    #[test]
    fn pieces_cover_all_positions_in_order() {
        let slots = Slots::new(16);
        for start in 0..40 {
            for end in start..start + 30 {
                let mut next = start;
                for (position, slot, count) in slots.pieces(start..end) {
                    assert_eq!(position, next);
                    assert!((0..count).all(|i| slots.slot(position + i) == slot + i));
                    next += count;
                }
                assert_eq!(next, end);
            }
        }
    }

    #[test]
    fn after_a_cut_the_lost_positions_make_the_slots_whole() {
        let slots = Slots::new(16);
        for before in 0..60 {
            for after in 0..=before {
                let mut held = filled(slots, before);
                for position in slots.lost(before, after) {
                    held[slots.slot(position)] = Some(position);
                }
                let taken = slots.taken(after);
                assert_eq!(
                    held[..taken],
                    filled(slots, after)[..taken],
                    "{before} to {after}"
                );
            }
        }
    }
}
