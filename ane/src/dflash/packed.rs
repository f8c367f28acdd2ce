//! Matrices packed as MLX's affine quantisation has them: `value = scale * stored + bias`, with one scale and bias for each group
//! of consecutive values of a row. A row is a stream of bits, each value's lowest first, in words of 32.

/// How the values of a matrix are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    bits: usize,
    group_size: usize,
}

const BITS: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];
const GROUP_SIZES: [usize; 3] = [32, 64, 128];

impl Packing {
    /// By the shapes of a matrix, of its packed words and of its scales; none where they do not go together.
    pub(super) fn of(matrix: &[usize], words: &[usize], scales: &[usize]) -> Option<Self> {
        let (&[rows, columns], &[word_rows, words], &[scale_rows, groups]) =
            (matrix, words, scales)
        else {
            return None;
        };
        let bits = words.checked_mul(32)?;
        if word_rows != rows || scale_rows != rows || columns == 0 || groups == 0 {
            return None;
        }
        let packing = Self {
            bits: bits / columns,
            group_size: columns / groups,
        };
        let exact = bits % columns == 0 && columns % groups == 0;
        (exact && BITS.contains(&packing.bits) && GROUP_SIZES.contains(&packing.group_size))
            .then_some(packing)
    }

    /// All values, row-major, from the words' bytes in the order of the file and from as many scales and biases as there are
    /// groups.
    pub(super) fn unpack(self, bytes: &[u8], scales: &[f32], biases: &[f32]) -> Vec<f32> {
        let group_bytes = self.group_size * self.bits / 8;
        let mask = (1u16 << self.bits) - 1;
        let mut values = Vec::with_capacity(scales.len() * self.group_size);
        // A group is a whole number of bytes, as its size is a multiple of 8.
        for ((bytes, scale), bias) in bytes.chunks_exact(group_bytes).zip(scales).zip(biases) {
            values.extend((0..self.group_size).map(|i| {
                let (byte, shift) = (i * self.bits / 8, i * self.bits % 8);
                let next = bytes.get(byte + 1).copied().unwrap_or_default();
                let stored = u16::from_le_bytes([bytes[byte], next]) >> shift & mask;
                scale * f32::from(stored) + bias
            }));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::Packing;

    #[test]
    fn shapes_tell_how_a_matrix_is_packed() {
        let of = |words, groups| Packing::of(&[4, 192], &[4, words], &[4, groups]);
        for (words, groups, bits, group_size) in [
            (24, 3, 4, 64),
            (18, 6, 3, 32),
            (48, 3, 8, 64),
            (30, 6, 5, 32),
        ] {
            assert_eq!(of(words, groups), Some(Packing { bits, group_size }));
        }
        // Seven bits, groups of 96 or of no whole number, other rows, no groups, no matrix.
        for (words, groups) in [(42, 3), (24, 2), (24, 5), (24, 0), (25, 3), (usize::MAX, 3)] {
            assert_eq!(of(words, groups), None, "{words} {groups}");
        }
        assert_eq!(Packing::of(&[4, 192], &[5, 24], &[4, 3]), None);
        assert_eq!(Packing::of(&[4, 192], &[4, 24], &[3, 3]), None);
        assert_eq!(Packing::of(&[4, 0], &[4, 24], &[4, 3]), None);
        assert_eq!(Packing::of(&[4], &[4, 24], &[4, 3]), None);
    }

    #[test]
    fn values_are_read_across_bytes_and_words() {
        for bits in super::BITS {
            let packing = Packing {
                bits,
                group_size: 32,
            };
            let stored: Vec<u64> = (0..64).map(|i| (i * 37 + 11) % (1 << bits)).collect();
            let mut bytes = vec![0u8; 64 * bits / 8];
            for (i, value) in stored.iter().enumerate() {
                for bit in 0..bits {
                    let place = i * bits + bit;
                    bytes[place / 8] |= ((value >> bit & 1) as u8) << (place % 8);
                }
            }
            let values = packing.unpack(&bytes, &[0.5, 2.0], &[-1.0, 3.0]);
            assert_eq!(values.len(), 64);
            for (i, (value, stored)) in values.iter().zip(stored).enumerate() {
                let expected = if i < 32 {
                    0.5 * stored as f32 - 1.0
                } else {
                    2.0 * stored as f32 + 3.0
                };
                assert_eq!(*value, expected, "{bits} bits, value {i}");
            }
        }
    }
}
