//! Weights of convolutions as kernels read them. They stay in 8 or 16 bits.

use std::sync::Arc;

use half::f16;

use super::launch::InstructionSet;
use super::tile::GROUP;
use crate::mil::operations::{QuantizedTensor, Tensor, TensorData};

/// A weight [O, I, 1, 1], filled up with zeros to whole groups.
pub(super) struct Weight {
    pub outputs: usize,
    pub inputs: usize,
    pub values: Values,
}

pub(super) enum Values {
    Half(Box<[f16]>),
    /// Less the zero point, and the scales.
    Bytes(Box<[i8]>, Box<[f32]>),
}

/// The order in which values are read: groups of outputs, in them blocks of inputs, then rows or columns of a block.
#[derive(Clone, Copy)]
struct Order {
    /// Outputs of a group.
    group: usize,
    /// Inputs of a block.
    block: usize,
    inputs: usize,
}

/// Outputs and inputs that the matrix unit takes at a time.
pub(super) const TILE: [usize; 2] = [16, 32];

impl Order {
    fn of(set: InstructionSet, inputs: usize) -> Self {
        match set {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            InstructionSet::Amx => Self {
                group: TILE[0],
                block: TILE[1],
                inputs,
            },
            // For each input, all outputs of the group.
            _ => Self {
                group: GROUP,
                block: 1,
                inputs,
            },
        }
    }

    fn place(self, output: usize, input: usize) -> usize {
        let blocks = output / self.group * self.inputs.div_ceil(self.block) + input / self.block;
        (blocks * self.group + output % self.group) * self.block + input % self.block
    }

    fn packed<T: Copy + Default>(self, outputs: usize, value: impl Fn(usize) -> T) -> Box<[T]> {
        let size = outputs.next_multiple_of(self.group) * self.inputs.next_multiple_of(self.block);
        let mut packed = vec![T::default(); size];
        for output in 0..outputs {
            for input in 0..self.inputs {
                packed[self.place(output, input)] = value(output * self.inputs + input);
            }
        }
        packed.into()
    }
}

impl Weight {
    /// One in half precision.
    pub(super) fn half(tensor: &Tensor, set: InstructionSet) -> Self {
        let TensorData::Fp16(values) = &tensor.data else {
            unreachable!("the graph takes weights in half precision");
        };
        Self::from_half(&tensor.shape, values, set)
    }

    fn from_half(shape: &[usize], values: &[f16], set: InstructionSet) -> Self {
        let (outputs, inputs) = (shape[0], shape[1]);
        let packed = Order::of(set, inputs).packed(outputs, |i| values[i]);
        Self {
            outputs,
            inputs,
            values: Values::Half(packed),
        }
    }

    /// One in 8 bits.
    ///
    /// Kernels round products of a value and its scale as normal numbers of half precision. Weights with others, which
    /// drafts do not have, are kept in half precision.
    pub(super) fn quantized(weight: &QuantizedTensor, set: InstructionSet) -> Self {
        let (outputs, inputs) = (weight.shape[0], weight.shape[1]);
        let difference =
            |i: usize| i16::from(weight.values[i]) - i16::from(QuantizedTensor::ZERO_POINT);
        let simple =
            |scale: &f16| (f16::MIN_POSITIVE.to_f32()..=256.0).contains(&scale.to_f32().abs());
        let fits = |i| i8::try_from(difference(i)).is_ok();
        if !weight.scales.iter().all(simple) || !(0..weight.values.len()).all(fits) {
            let product = |i: usize| {
                f16::from_f32(f32::from(difference(i)) * weight.scales[i / inputs].to_f32())
            };
            let values: Arc<[f16]> = (0..weight.values.len()).map(product).collect();
            return Self::from_half(&weight.shape, &values, set);
        }
        let order = Order::of(set, inputs);
        let mut scales: Vec<f32> = weight.scales.iter().map(|scale| scale.to_f32()).collect();
        scales.resize(outputs.next_multiple_of(order.group), 0.0);
        let packed = order.packed(outputs, |i| difference(i) as i8);
        Self {
            outputs,
            inputs,
            values: Values::Bytes(packed, scales.into()),
        }
    }
}
