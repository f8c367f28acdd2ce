//! The dynamic convolutions of the second generation: causal over the rows of a block, once on what enters attention or the
//! MLP, and once on what leaves it.
//!
//! `out_t = sum over taps of (base[side, tap, channel] + coefficient_t[side, tap, group]) * in_{t - tap}`. Rows stand in any
//! columns, several blocks side by side: which column stands before which is an input of the program.

use super::parts::linear;
use super::weights::{Linear, Loader, half_channels};
use crate::errors::Error;
use crate::mil::graph::{GraphError, ProgramBuilder, ValueId};
use crate::mil::operations::{BinaryFunction, Operation, Tensor};

use BinaryFunction::{Add, Mul};

/// Coefficients are taken to stay below so many times their root mean square over rows of all directions. The bound that
/// always holds, the root of the channels times that, would cost activations their digits.
const LARGEST_COEFFICIENT: f32 = 4.0;

/// What enters a sublayer, and what leaves it.
#[derive(Clone, Copy)]
pub(super) enum Side {
    In,
    Out,
}

/// The weights of one sublayer's convolution.
pub struct ConvWeights {
    /// Rows to coefficients: side, tap, group.
    projection: Linear,
    /// By side and tap: [1, hidden, 1, 1].
    base: [Vec<Tensor>; 2],
    groups: usize,
    /// By channel: how many times larger than the normed rows what enters the sublayer may be.
    pub(super) gains: Vec<f32>,
}

impl Loader<'_> {
    /// The convolution `layers.i.{name}` behind the norm `norm`; None in the first generation.
    pub(super) fn conv(
        &mut self,
        layer: usize,
        name: &str,
        norm: &[f32],
    ) -> Result<Option<ConvWeights>, Error> {
        let Some(second) = &self.draft.config.second else {
            return Ok(None);
        };
        let (taps, group) = (second.conv_kernel_size, second.conv_group_size);
        let (base_name, projection_name) = (
            format!("layers.{layer}.{name}.base_kernel"),
            format!("layers.{layer}.{name}.kernel_projection.weight"),
        );
        let base = self.draft.tensors.read(&base_name)?;
        let projection = self.matrix(&projection_name)?;
        let groups = norm.len() / group;
        let sizes: Vec<f32> = projection
            .rows()
            .take(taps * groups)
            .map(|row| {
                row.iter()
                    .zip(norm)
                    .map(|(p, n)| (p * n).powi(2))
                    .sum::<f32>()
                    .sqrt()
            })
            .collect();
        let gain = |channel: usize| -> f32 {
            (0..taps)
                .map(|tap| {
                    base[tap * norm.len() + channel].abs()
                        + LARGEST_COEFFICIENT * sizes[tap * groups + channel / group]
                })
                .sum()
        };
        let gains = (0..norm.len()).map(gain).collect();
        let mut sides = base.chunks_exact(taps * norm.len()).map(|side| {
            side.chunks_exact(norm.len())
                .map(half_channels)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|problem| self.error(&base_name, &problem))
        });
        let mut side = || sides.next().expect("the kernel has two sides");
        let base = [side()?, side()?];
        Ok(Some(ConvWeights {
            projection: self.linear(&projection_name, &projection)?,
            base,
            groups,
            gains,
        }))
    }
}

/// A convolution with its coefficients, [1, groups, 1, columns] by side and tap.
pub(super) struct Conv<'a> {
    weights: &'a ConvWeights,
    coefficients: Vec<ValueId>,
    /// [1, 1, columns, columns]: 1 where the first column stands right before the second.
    previous: ValueId,
}

impl<'a> Conv<'a> {
    /// Both sides by normed `rows` [1, hidden, 1, columns].
    pub(super) fn new(
        b: &mut ProgramBuilder,
        weights: &'a ConvWeights,
        rows: ValueId,
        previous: ValueId,
    ) -> Result<Self, GraphError> {
        let coefficients = linear(b, rows, &weights.projection)?;
        let sizes = vec![weights.groups; 2 * weights.base[0].len()];
        let split = Operation::Split {
            x: coefficients,
            axis: 1,
            sizes,
        };
        Ok(Self {
            weights,
            coefficients: b.add_all(split)?,
            previous,
        })
    }

    /// One side, on x [1, hidden, 1, columns].
    pub(super) fn side(
        &self,
        b: &mut ProgramBuilder,
        side: Side,
        x: ValueId,
    ) -> Result<ValueId, GraphError> {
        let (shape, base) = (b.shape(x).to_vec(), &self.weights.base[side as usize]);
        let (hidden, columns, taps) = (shape[1], shape[3], base.len());
        let grouped = vec![
            1,
            self.weights.groups,
            hidden / self.weights.groups,
            columns,
        ];
        let mut behind = x;
        let (mut by_channel, mut by_group) = (None, None);
        for (tap, base) in base.iter().enumerate() {
            if tap > 0 {
                behind = self.behind(b, behind)?;
            }
            let base = b.add(Operation::Const(base.clone()))?;
            let product = b.binary(Mul, behind, base)?;
            by_channel = Some(added(b, by_channel, product)?);
            let groups = b.add(Operation::Reshape {
                x: behind,
                shape: grouped.clone(),
            })?;
            let coefficient = self.coefficients[side as usize * taps + tap];
            let product = b.binary(Mul, groups, coefficient)?;
            by_group = Some(added(b, by_group, product)?);
        }
        let (by_channel, by_group) = by_channel.zip(by_group).expect("a kernel has a tap");
        let by_group = b.add(Operation::Reshape { x: by_group, shape })?;
        b.binary(Add, by_channel, by_group)
    }

    /// Each column gets what stands in the one before it, or zeros. Exact: a product with one 1 a column.
    fn behind(&self, b: &mut ProgramBuilder, x: ValueId) -> Result<ValueId, GraphError> {
        let shape = b.shape(x).to_vec();
        let matrix = b.add(Operation::Reshape {
            x,
            shape: vec![1, 1, shape[1], shape[3]],
        })?;
        let moved = b.add(Operation::Matmul {
            x: matrix,
            y: self.previous,
            transpose_x: false,
        })?;
        b.add(Operation::Reshape { x: moved, shape })
    }
}

fn added(b: &mut ProgramBuilder, sum: Option<ValueId>, x: ValueId) -> Result<ValueId, GraphError> {
    sum.map_or(Ok(x), |sum| b.binary(Add, sum, x))
}
