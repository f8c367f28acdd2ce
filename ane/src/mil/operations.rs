//! The operations that programs are made of, and their meaning.
//!
//! Each is the MIL operation of the same name in the opset of macOS 13 (`CoreML6`), restricted to what drafts need.

use std::sync::Arc;

use half::f16;

use super::graph::{DataType, TensorType, ValueId};

/// A matrix in 8 bits an element with one scale a row. Its value is `(values - ZERO_POINT) * scales[row]`.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedTensor {
    /// Rows first: axis 0 has the scales.
    pub shape: Vec<usize>,
    /// Row-major.
    pub values: Arc<[u8]>,
    /// One for each index of axis 0.
    pub scales: Arc<[f16]>,
}

impl QuantizedTensor {
    /// The stored value that stands for 0. Signed values with zero point 0 say the same, but Core ML got them wrong
    /// on GPU and Neural Engine (apple/coremltools, pull request 2675).
    pub const ZERO_POINT: u8 = 127;
}

/// A dense tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Empty for a scalar.
    pub shape: Vec<usize>,
    /// As many elements as the shape has.
    pub data: TensorData,
}

/// The elements of a [`Tensor`]. Shared: programs of one layer at several widths hold the same weights.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    /// Half precision: everything that is computed with.
    Fp16(Arc<[f16]>),
    /// Axes, shapes and sizes.
    Int32(Arc<[i32]>),
    /// Switches.
    Bool(Arc<[bool]>),
    /// Names of modes.
    String(Arc<[String]>),
}

impl Tensor {
    /// A scalar in half precision.
    #[must_use]
    pub fn scalar(value: f32) -> Self {
        Self::fp16(&[], vec![f16::from_f32(value)])
    }

    /// A tensor in half precision.
    #[must_use]
    pub fn fp16(shape: &[usize], values: Vec<f16>) -> Self {
        Self {
            shape: shape.to_vec(),
            data: TensorData::Fp16(values.into()),
        }
    }

    /// Type and shape.
    #[must_use]
    pub fn tensor_type(&self) -> TensorType {
        let data_type = match self.data {
            TensorData::Fp16(_) => DataType::Fp16,
            TensorData::Int32(_) => DataType::Int32,
            TensorData::Bool(_) => DataType::Bool,
            TensorData::String(_) => DataType::String,
        };
        TensorType {
            data_type,
            shape: self.shape.clone(),
        }
    }

    /// How many elements `data` has.
    #[must_use]
    pub fn elements(&self) -> usize {
        match &self.data {
            TensorData::Fp16(values) => values.len(),
            TensorData::Int32(values) => values.len(),
            TensorData::Bool(values) => values.len(),
            TensorData::String(values) => values.len(),
        }
    }
}

/// Functions of two tensors, element by element. A size of 1 or a missing leading axis is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryFunction {
    /// x + y
    Add,
    /// x - y
    Sub,
    /// x * y
    Mul,
    /// x / y
    RealDiv,
    /// x to the power of y
    Pow,
}

/// Functions of one tensor, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryFunction {
    /// |x|
    Abs,
    /// x * sigmoid(x)
    Silu,
}

/// What is taken over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceFunction {
    /// The arithmetic mean.
    Mean,
    /// The largest value.
    Max,
}

/// One operation with its operands and parameters. All but [`Operation::Split`] have one output.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A tensor known when the program is built.
    Const(Tensor),
    /// A weight kept in 8 bits; its value is in half precision.
    ConstexprAffineDequantize(QuantizedTensor),
    /// x [1, I, 1, S] by a weight [O, I, 1, 1] to [1, O, 1, S]: `out[o, s] = sum over i of weight[o, i] * x[i, s]`.
    Conv {
        /// [1, I, 1, S].
        x: ValueId,
        /// [O, I, 1, 1]: a [`Operation::Const`] or a [`Operation::ConstexprAffineDequantize`].
        weight: ValueId,
    },
    /// The matrix product over the last two axes of tensors whose leading axes are equal.
    Matmul {
        /// [..., M, K], or [..., K, M] where transposed.
        x: ValueId,
        /// [..., K, N].
        y: ValueId,
        /// Whether the last two axes of `x` are swapped first.
        transpose_x: bool,
    },
    /// A function of two tensors, element by element.
    Binary {
        /// Which.
        function: BinaryFunction,
        /// The left operand.
        x: ValueId,
        /// The right operand.
        y: ValueId,
    },
    /// A function of one tensor, element by element.
    Unary {
        /// Which.
        function: UnaryFunction,
        /// The operand.
        x: ValueId,
    },
    /// One axis becomes 1.
    Reduce {
        /// What is taken over the axis.
        function: ReduceFunction,
        /// The operand.
        x: ValueId,
        /// The axis that becomes 1.
        axis: usize,
    },
    /// exp(x - max) over its sum along an axis.
    Softmax {
        /// The operand.
        x: ValueId,
        /// The axis along which the results sum to 1.
        axis: usize,
    },
    /// The same elements in the same order.
    Reshape {
        /// The operand.
        x: ValueId,
        /// The new shape.
        shape: Vec<usize>,
    },
    /// Consecutive pieces along an axis, one output each.
    Split {
        /// The operand.
        x: ValueId,
        /// The axis that is cut.
        axis: usize,
        /// The size of each piece.
        sizes: Vec<usize>,
    },
    /// Tensors one after another along an axis.
    Concat {
        /// The operands, equal in all other axes.
        values: Vec<ValueId>,
        /// The axis that grows.
        axis: usize,
    },
}

impl Operation {
    /// MIL's name of the operation.
    #[must_use]
    pub fn mil_name(&self) -> &'static str {
        match self {
            Self::Const(_) => "const",
            Self::ConstexprAffineDequantize(_) => "constexpr_affine_dequantize",
            Self::Conv { .. } => "conv",
            Self::Matmul { .. } => "matmul",
            Self::Binary { function, .. } => match function {
                BinaryFunction::Add => "add",
                BinaryFunction::Sub => "sub",
                BinaryFunction::Mul => "mul",
                BinaryFunction::RealDiv => "real_div",
                BinaryFunction::Pow => "pow",
            },
            Self::Unary { function, .. } => match function {
                UnaryFunction::Abs => "abs",
                UnaryFunction::Silu => "silu",
            },
            Self::Reduce { function, .. } => match function {
                ReduceFunction::Mean => "reduce_mean",
                ReduceFunction::Max => "reduce_max",
            },
            Self::Softmax { .. } => "softmax",
            Self::Reshape { .. } => "reshape",
            Self::Split { .. } => "split",
            Self::Concat { .. } => "concat",
        }
    }

    /// The values it reads, in order.
    #[must_use]
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            Self::Const(_) | Self::ConstexprAffineDequantize(_) => vec![],
            Self::Conv { x, weight } => vec![*x, *weight],
            Self::Matmul { x, y, .. } | Self::Binary { x, y, .. } => vec![*x, *y],
            Self::Unary { x, .. }
            | Self::Reduce { x, .. }
            | Self::Softmax { x, .. }
            | Self::Reshape { x, .. }
            | Self::Split { x, .. } => vec![*x],
            Self::Concat { values, .. } => values.clone(),
        }
    }
}
