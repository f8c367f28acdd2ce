//! Convolutions against the reference.

use super::*;
use crate::runtime::placement::Device;

pub(super) fn conv_program(weight: Operation, inputs: usize, columns: usize) -> Program {
    program(|b| {
        let x = b.input("x", &[1, inputs, 1, columns])?;
        let weight = b.add(weight)?;
        Ok(vec![b.add(Operation::Conv { x, weight })?])
    })
}

pub(super) fn half_weight(outputs: usize, inputs: usize) -> Operation {
    let values = Numbers(3).halves(outputs * inputs, -0.2, 1.0);
    Operation::Const(Tensor::fp16(&[outputs, inputs, 1, 1], values))
}

pub(super) fn byte_weight(outputs: usize, inputs: usize, scales: Vec<f16>) -> Operation {
    let mut numbers = Numbers(5);
    let values = (0..outputs * inputs).map(|_| (90.0 + numbers.unit() * 164.0) as u8);
    Operation::ConstexprAffineDequantize(QuantizedTensor {
        shape: vec![outputs, inputs, 1, 1],
        values: values.collect(),
        scales: scales.into(),
    })
}

#[test]
fn convolutions_of_every_size() {
    for (outputs, inputs) in [(1, 1), (23, 5), (24, 128), (25, 129), (49, 300)] {
        for columns in [1, 5, 16, 48, 64, 81] {
            let scales = Numbers(9).halves(outputs, 0.001, 0.02);
            for weight in [
                half_weight(outputs, inputs),
                byte_weight(outputs, inputs, scales),
            ] {
                check(&conv_program(weight, inputs, columns), 0.0, 1.0);
            }
        }
    }
}

/// Scales that the kernel does not take: the weight is then kept in half precision.
#[test]
fn convolutions_with_unusual_scales() {
    for scale in [0.0, 1e-6, -0.01, 300.0] {
        check(
            &conv_program(byte_weight(25, 7, vec![f16::from_f32(scale); 25]), 7, 16),
            0.0,
            1.0,
        );
    }
}

/// Differences of neighbouring weights show how each was rounded, for each value with many mantissas of a scale.
#[test]
fn weights_of_8_bits_are_rounded_as_half_precision() {
    for (exponent, sign) in [(1, 0), (5, 1), (12, 0), (15, 1)] {
        for mantissa in (0..1024).step_by(7).chain([1, 1022, 1023]) {
            let scale = f16::from_bits(sign << 15 | exponent << 10 | mantissa);
            let weight = QuantizedTensor {
                shape: vec![254, 2, 1, 1],
                values: (0..254).flat_map(|value| [value + 1, value]).collect(),
                scales: vec![scale; 254].into(),
            };
            let program = conv_program(Operation::ConstexprAffineDequantize(weight), 2, 1);
            let rounded = |value: usize| f16::from_f32((value as f32 - 127.0) * scale.to_f32());
            for set in InstructionSet::present() {
                let got = run(
                    &mut *load(&program, set, 1),
                    &[vec![f16::ONE, f16::NEG_ONE]],
                );
                for (value, got) in got[0].iter().enumerate() {
                    let (above, below) = (rounded(value + 1), rounded(value));
                    let expected = f16::from_f32(above.to_f32() - below.to_f32());
                    assert_eq!(*got, expected, "{value} times {scale}, {set:?}");
                }
            }
        }
    }
}

#[test]
fn a_weight_that_is_no_constant_cannot_be_loaded() {
    let program = program(|b| {
        let x = b.input("x", &[1, 5, 1, 16])?;
        let weight = b.input("weight", &[3, 5, 1, 1])?;
        Ok(vec![b.add(Operation::Conv { x, weight })?])
    });
    let error = CpuRuntime::new(1).load(&program).err().unwrap();
    assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error}");
}

#[test]
fn all_but_constants_is_placed_on_the_processor() {
    let program = conv_program(half_weight(8, 4), 4, 16);
    let loaded = load(&program, InstructionSet::present()[0], 1);
    let placement = loaded.placement().unwrap();
    let placed: Vec<_> = placement
        .operations
        .iter()
        .map(|operation| (operation.operation.as_str(), operation.preferred))
        .collect();
    assert_eq!(placed, [("const", None), ("conv", Some(Device::Cpu))]);
    assert_eq!(placement.operations[1].output, "output0");
    assert_eq!(placement.share_of_operations(Device::Cpu), Some(1.0));
    assert_eq!(placement.share_of_cost(Device::Cpu), None);
}
