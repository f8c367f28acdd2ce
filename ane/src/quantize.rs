//! Weights in the form that programs hold: half precision, or 8 bits with one scale an output channel.

use std::str::FromStr;

use half::f16;
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use crate::errors::Error;
use crate::mil::operations::{Operation, QuantizedTensor, Tensor};

/// How the weights of convolutions are kept. Activations are fp16 in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 8 bits a weight, symmetric (-127..127), one fp16 scale an output channel.
    W8a16,
    /// Half precision.
    Fp16,
}

impl Precision {
    /// The name that it is chosen by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::W8a16 => "w8a16",
            Self::Fp16 => "fp16",
        }
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "w8a16" => Ok(Self::W8a16),
            "fp16" => Ok(Self::Fp16),
            _ => Err(Error::Request(format!(
                "{name:?} is no precision: choose w8a16 or fp16"
            ))),
        }
    }
}

/// The largest absolute value that a weight may have: nothing that is made of it leaves half precision.
const WEIGHT_LIMIT: f32 = 32768.0;
const STEPS: f32 = 127.0;

/// A matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Row after row.
    pub values: Vec<f32>,
    /// Values of a row.
    pub columns: usize,
}

impl Matrix {
    /// Row after row.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.columns)
    }

    /// Some of the columns.
    #[must_use]
    pub fn column_range(&self, first: usize, columns: usize) -> Self {
        let pieces: Vec<_> = self
            .rows()
            .map(|row| &row[first..first + columns])
            .collect();
        let values = pieces.concat();
        Self { values, columns }
    }

    /// The rows in another order: row `i` of the result is row `order[i]`.
    #[must_use]
    pub fn with_rows(&self, order: &[usize]) -> Self {
        let row = |i: &usize| &self.values[i * self.columns..(i + 1) * self.columns];
        let values = order.iter().map(row).collect::<Vec<_>>().concat();
        Self {
            values,
            columns: self.columns,
        }
    }

    /// The columns in another order: column `i` of the result is column `order[i]`.
    #[must_use]
    pub fn with_columns(&self, order: &[usize]) -> Self {
        let values = self
            .rows()
            .flat_map(|row| order.iter().map(|i| row[*i]))
            .collect();
        Self {
            values,
            columns: self.columns,
        }
    }

    /// All values multiplied.
    #[must_use]
    pub fn scaled(mut self, factor: f32) -> Self {
        self.values.iter_mut().for_each(|value| *value *= factor);
        self
    }
}

/// Sums of squares, over the weights and over what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    weights: f64,
    errors: f64,
}

impl Loss {
    /// Count another tensor in.
    pub fn add(&mut self, other: Self) {
        self.weights += other.weights;
        self.errors += other.errors;
    }

    /// Root of squared errors over squared weights; 0 for weights that are all 0.
    #[must_use]
    pub fn relative_error(self) -> f64 {
        if self.errors == 0.0 {
            0.0
        } else {
            (self.errors / self.weights).sqrt()
        }
    }

    fn of_row(weights: &[f32], kept: impl Iterator<Item = f32>) -> Self {
        // In float32 within a row: its error is far below what is measured.
        let (mut squares, mut errors) = (0.0f32, 0.0f32);
        for (weight, kept) in weights.iter().zip(kept) {
            squares += weight * weight;
            errors += (weight - kept) * (weight - kept);
        }
        Self {
            weights: squares.into(),
            errors: errors.into(),
        }
    }
}

/// [O, I] as the weight [O, I, 1, 1] of a convolution, and what was lost.
///
/// # Errors
/// A value that does not fit half precision, as half a sentence.
pub fn convolution_weight(
    matrix: &Matrix,
    precision: Precision,
) -> Result<(Operation, Loss), String> {
    check_range(&matrix.values)?;
    let shape = vec![matrix.values.len() / matrix.columns, matrix.columns, 1, 1];
    let mut loss = Loss::default();
    if precision == Precision::Fp16 {
        let mut kept = vec![f16::ZERO; matrix.values.len()];
        kept.convert_from_f32_slice(&matrix.values);
        for (row, kept) in matrix.rows().zip(kept.chunks_exact(matrix.columns)) {
            loss.add(Loss::of_row(row, kept.iter().map(|value| value.to_f32())));
        }
        return Ok((Operation::Const(Tensor::fp16(&shape, kept)), loss));
    }
    let mut values = Vec::with_capacity(matrix.values.len());
    let mut scales = Vec::with_capacity(shape[0]);
    for row in matrix.rows() {
        let scale = row_scale(row);
        let (start, per_step) = (values.len(), 1.0 / scale.to_f32());
        let zero_point = f32::from(QuantizedTensor::ZERO_POINT);
        values.extend(
            row.iter()
                .map(|weight| ((weight * per_step).round_ties_even() + zero_point) as u8),
        );
        let kept = values[start..]
            .iter()
            .map(|value| (f32::from(*value) - zero_point) * scale.to_f32());
        loss.add(Loss::of_row(row, kept));
        scales.push(scale);
    }
    let weight = QuantizedTensor {
        shape,
        values: values.into(),
        scales: scales.into(),
    };
    Ok((Operation::ConstexprAffineDequantize(weight), loss))
}

/// A vector in half precision.
///
/// # Errors
/// A value that does not fit half precision, as half a sentence.
pub fn half_precision(shape: &[usize], values: &[f32]) -> Result<Tensor, String> {
    check_range(values)?;
    let mut kept = vec![f16::ZERO; values.len()];
    kept.convert_from_f32_slice(values);
    Ok(Tensor::fp16(shape, kept))
}

fn check_range(values: &[f32]) -> Result<(), String> {
    match values.iter().find(|value| value.abs() > WEIGHT_LIMIT) {
        None => Ok(()),
        Some(value) => Err(format!("the weight {value} does not fit half precision")),
    }
}

/// The smallest scale with which 127 steps reach the largest value of the row. It is never subnormal, where it would have few
/// digits, and none on hardware that takes subnormal numbers for 0.
fn row_scale(row: &[f32]) -> f16 {
    let largest = row
        .iter()
        .fold(0.0f32, |largest, weight| largest.max(weight.abs()));
    let nearest = f16::from_f32(largest / STEPS).max(f16::MIN_POSITIVE);
    if nearest.to_f32() * STEPS < largest {
        f16::from_bits(nearest.to_bits() + 1)
    } else {
        nearest
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{Loss, Matrix, Precision, convolution_weight, half_precision};
    use crate::mil::operations::{Operation, QuantizedTensor, TensorData};

    fn matrix(columns: usize, values: &[f32]) -> Matrix {
        Matrix {
            values: values.to_vec(),
            columns,
        }
    }

    fn quantized(matrix: &Matrix) -> (QuantizedTensor, Loss) {
        match convolution_weight(matrix, Precision::W8a16).unwrap() {
            (Operation::ConstexprAffineDequantize(weight), loss) => (weight, loss),
            (operation, _) => panic!("{}", operation.mil_name()),
        }
    }

    #[test]
    fn each_row_uses_the_whole_range_around_127() {
        let (weight, loss) = quantized(&matrix(3, &[127.0, -127.0, 1.0, 0.5, 0.0, -0.2]));
        assert_eq!(weight.shape, [2, 3, 1, 1]);
        assert_eq!(weight.values[..3], [254, 0, 128]);
        assert_eq!(weight.values[3..], [254, 127, 76]);
        assert_eq!(weight.scales[0], f16::ONE);
        assert!(loss.relative_error() < 0.004, "{}", loss.relative_error());
    }

    /// At every size of a row's largest value, also where the nearest scale would be too small for it.
    #[test]
    fn no_value_leaves_the_range_and_none_is_off_by_more_than_half_a_step() {
        for size in (1..2000)
            .map(|i| 1e-3 * 1.01f32.powi(i))
            .take_while(|size| *size < 30_000.0)
        {
            let row = [size, -size, size * 0.37, -size * 0.051, 0.0];
            let (weight, _) = quantized(&matrix(5, &row));
            let scale = weight.scales[0].to_f32();
            for (value, expected) in weight.values.iter().zip(row) {
                assert!(*value <= 254, "{size}");
                let kept = (f32::from(*value) - 127.0) * scale;
                assert!(
                    (kept - expected).abs() <= scale * 0.5001,
                    "{kept} for {expected}"
                );
            }
            assert!(scale <= size / 127.0 * 1.001 || scale == f16::MIN_POSITIVE.to_f32());
        }
    }

    #[test]
    fn rows_of_zeros_and_tiny_values_have_a_normal_scale() {
        let (weight, loss) = quantized(&matrix(2, &[0.0, 0.0, 1e-9, -1e-9]));
        assert!(weight.scales.iter().all(|scale| scale.is_normal()));
        assert!(weight.values.iter().all(|value| *value == 127));
        assert!(
            (loss.relative_error() - 1.0).abs() < 1e-6,
            "all of the tiny values is lost"
        );
        assert_eq!(Loss::default().relative_error(), 0.0);
    }

    #[test]
    fn half_precision_keeps_what_it_can() {
        let (operation, loss) =
            convolution_weight(&matrix(2, &[0.1, 2.0]), Precision::Fp16).unwrap();
        let Operation::Const(tensor) = operation else {
            panic!()
        };
        assert_eq!(tensor.shape, [1, 2, 1, 1]);
        let kept = vec![f16::from_f32(0.1), f16::from_f32(2.0)];
        assert_eq!(tensor.data, TensorData::Fp16(kept.into()));
        assert!(loss.relative_error() > 0.0 && loss.relative_error() < 1e-4);
    }

    #[test]
    fn what_does_not_fit_half_precision_is_an_error() {
        for precision in [Precision::Fp16, Precision::W8a16] {
            let error = convolution_weight(&matrix(1, &[1.0, -40_000.0]), precision).unwrap_err();
            assert!(error.contains("-40000"), "{error}");
        }
        assert!(half_precision(&[1], &[1e5]).is_err());
    }

    #[test]
    fn rows_and_columns_move_whole() {
        let m = matrix(3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(m.with_rows(&[1, 0]).values, [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            m.with_columns(&[2, 0, 1]).values,
            [3.0, 1.0, 2.0, 6.0, 4.0, 5.0]
        );
        assert_eq!(m.column_range(1, 2), matrix(2, &[2.0, 3.0, 5.0, 6.0]));
    }
}
