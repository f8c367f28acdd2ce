//! Every operation against a plain scalar evaluation, and what must not change a result.

use half::f16;

use super::half_lanes::{HalfLanes, MOST_LANES, exp};
use super::launch::{Kernel, launch};
use super::{CpuRuntime, InstructionSet};
use crate::buffer::{Elements, ElementsMut, View, ViewMut};
use crate::mil::graph::{GraphError, Program, ProgramBuilder, ValueId};
use crate::mil::operations::{
    BinaryFunction, Operation, QuantizedTensor, ReduceFunction, Tensor, UnaryFunction,
};
use crate::runtime::{LoadedProgram, Runtime, RuntimeError};
use reference::evaluate;

mod attention;
mod buffers;
mod convolutions;
mod invariance;
mod operations;
mod reference;

/// Numbers that look random.
struct Numbers(u32);

impl Numbers {
    /// From `low` to `high`, evenly.
    fn halves(&mut self, count: usize, low: f32, high: f32) -> Vec<f16> {
        (0..count)
            .map(|_| f16::from_f32(low + self.unit() * (high - low)))
            .collect()
    }

    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 24) as f32
    }
}

fn program(build: impl FnOnce(&mut ProgramBuilder) -> Result<Vec<ValueId>, GraphError>) -> Program {
    let mut builder = ProgramBuilder::new("tested");
    let outputs = build(&mut builder).unwrap();
    let names: Vec<_> = (0..outputs.len()).map(|i| format!("output{i}")).collect();
    let named: Vec<_> = names.iter().map(String::as_str).zip(outputs).collect();
    builder.finish(&named).unwrap()
}

fn size(shape: &[usize]) -> usize {
    shape.iter().product()
}

fn strides(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|axis| size(&shape[axis..])).collect()
}

/// Values for the inputs of a program.
fn inputs(program: &Program, low: f32, high: f32) -> Vec<Vec<f16>> {
    let mut numbers = Numbers(7);
    let count = |id: &ValueId| size(&program.value(*id).tensor_type.shape);
    program
        .inputs
        .iter()
        .map(|id| numbers.halves(count(id), low, high))
        .collect()
}

fn load(program: &Program, set: InstructionSet, threads: usize) -> Box<dyn LoadedProgram> {
    CpuRuntime::with_instructions(threads, set)
        .load(program)
        .unwrap()
}

fn run(loaded: &mut dyn LoadedProgram, inputs: &[Vec<f16>]) -> Vec<Vec<f16>> {
    let (ports, output_ports) = (loaded.inputs().to_vec(), loaded.outputs().to_vec());
    let input_strides: Vec<_> = ports.iter().map(|port| strides(&port.shape)).collect();
    let output_strides: Vec<_> = output_ports
        .iter()
        .map(|port| strides(&port.shape))
        .collect();
    let views: Vec<_> = (0..ports.len())
        .map(|i| {
            View::new(
                Elements::Fp16(&inputs[i]),
                &ports[i].shape,
                &input_strides[i],
            )
            .unwrap()
        })
        .collect();
    let mut outputs: Vec<_> = output_ports
        .iter()
        .map(|port| vec![f16::NAN; size(&port.shape)])
        .collect();
    let mut output_views: Vec<_> = outputs
        .iter_mut()
        .zip(output_ports.iter().zip(&output_strides))
        .map(|(output, (port, strides))| {
            ViewMut::new(ElementsMut::Fp16(output), &port.shape, strides).unwrap()
        })
        .collect();
    loaded.run(&views, &mut output_views).unwrap();
    outputs
}

/// How many numbers of half precision lie between two, and one.
fn distance(a: f16, b: f16) -> u32 {
    let place = |value: f16| {
        let bits = i32::from(value.to_bits());
        if bits & 0x8000 == 0 {
            bits
        } else {
            0x8000 - bits
        }
    };
    if a.is_nan() || b.is_nan() {
        return u32::from(a.is_nan() != b.is_nan()) * u32::MAX;
    }
    place(a).abs_diff(place(b))
}

fn assert_close(got: &[Vec<f16>], expected: &[Vec<f16>], what: &str) {
    for (output, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.len(), expected.len());
        for (i, (a, b)) in got.iter().zip(expected).enumerate() {
            assert!(
                distance(*a, *b) <= 1,
                "{what}, output {output} at {i}: {a} instead of {b}"
            );
        }
    }
}

/// With every instruction set, two threads, and twice, so that what a run leaves behind would show.
fn check(program: &Program, low: f32, high: f32) {
    let inputs = inputs(program, low, high);
    let expected = evaluate(program, &inputs);
    for set in InstructionSet::present() {
        let mut loaded = load(program, set, 2);
        for time in ["first", "second"] {
            assert_close(
                &run(&mut *loaded, &inputs),
                &expected,
                &format!("{set:?}, {time} run"),
            );
        }
    }
}
