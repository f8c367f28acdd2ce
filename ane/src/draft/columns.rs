//! Rows of the caller as columns of programs, and back.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::dflash::rope::Rope;
use crate::runtime::tensor::Tensor;

/// Rows that are turned at once: their values for one channel share a line of the cache.
const TURNED_ROWS: usize = 32;

/// Fill a tensor [1, channels, 1, columns] with `count` rows of channels in single precision, and zeros behind them.
pub(super) fn write_columns(tensor: &mut Tensor, count: usize, read: impl Fn(usize, &mut [f32])) {
    let (channels, width, stride) = (tensor.shape()[1], tensor.shape()[3], tensor.strides()[2]);
    let mut single = vec![0.0; channels];
    let mut half = vec![f16::ZERO; TURNED_ROWS.min(count) * channels];
    for first in (0..count).step_by(TURNED_ROWS) {
        let rows = TURNED_ROWS.min(count - first);
        for (row, to) in half.chunks_exact_mut(channels).take(rows).enumerate() {
            read(first + row, &mut single);
            to.convert_from_f32_slice(&single);
        }
        for (channel, to) in tensor.values_mut().chunks_mut(stride).enumerate() {
            for (row, value) in to[first..first + rows].iter_mut().enumerate() {
                *value = half[row * channels + channel];
            }
        }
    }
    for to in tensor.values_mut().chunks_mut(stride) {
        to[count..width].fill(f16::ZERO);
    }
}

/// Fill cosines and sines [1, 1, head dim / 2, columns] for columns and their positions.
pub(super) fn write_tables(
    tables: &mut [Tensor],
    rope: &Rope,
    positions: impl Iterator<Item = (usize, usize)>,
) {
    let stride = tables[0].strides()[2];
    for (column, position) in positions {
        for (pair, (cos, sin)) in rope.at(position).enumerate() {
            tables[0].values_mut()[pair * stride + column] = f16::from_f32(cos);
            tables[1].values_mut()[pair * stride + column] = f16::from_f32(sin);
        }
    }
}

/// The first `count` columns of a tensor [1, channels, 1, columns] as rows, row-major.
pub(super) fn read_rows(tensor: &Tensor, count: usize) -> Vec<f16> {
    let (channels, stride) = (tensor.shape()[1], tensor.strides()[2]);
    let mut rows = vec![f16::ZERO; count * channels];
    for (channel, values) in tensor.values().chunks(stride).enumerate() {
        for (row, value) in values[..count].iter().enumerate() {
            rows[row * channels + channel] = *value;
        }
    }
    rows
}
