//! Attention as one kernel.

use super::*;
use crate::runtime::cpu::plan::{Step, plan};

pub(super) struct AttentionShape {
    heads: usize,
    head_dim: usize,
    group: usize,
    width: usize,
    context: usize,
    boost: f32,
}

/// Attention as layers have it. What `shown` says becomes an output, which keeps it from being fused.
pub(super) fn attention_program(shape: &AttentionShape, shown: bool) -> Program {
    let AttentionShape {
        heads,
        head_dim,
        group,
        width,
        context,
        boost,
    } = *shape;
    program(|b| {
        let keys = b.input("context_keys", &[1, heads, head_dim, context])?;
        let values = b.input("context_values", &[1, heads, head_dim, context])?;
        let key = b.input("key", &[1, heads, head_dim, width])?;
        let value = b.input("value", &[1, heads, head_dim, width])?;
        let queries = b.input("queries", &[1, heads, head_dim, group * width])?;
        let mask = b.input("mask", &[1, 1, context + width, width])?;
        let keys = b.add(Operation::Concat {
            values: vec![keys, key],
            axis: 3,
        })?;
        let values = b.add(Operation::Concat {
            values: vec![values, value],
            axis: 3,
        })?;
        let product = b.add(Operation::Matmul {
            x: keys,
            y: queries,
            transpose_x: true,
        })?;
        let mask = match group {
            1 => mask,
            _ => b.add(Operation::Concat {
                values: vec![mask; group],
                axis: 3,
            })?,
        };
        let scores = b.binary(BinaryFunction::Add, product, mask)?;
        let softmax = b.add(Operation::Softmax { x: scores, axis: 2 })?;
        let probabilities = match boost {
            1.0 => softmax,
            _ => b.binary_scalar(BinaryFunction::Mul, softmax, boost)?,
        };
        let out = b.add(Operation::Matmul {
            x: values,
            y: probabilities,
            transpose_x: false,
        })?;
        Ok(if shown {
            vec![out, product, scores, softmax]
        } else {
            vec![out]
        })
    })
}

pub(super) const ATTENTIONS: [AttentionShape; 5] = [
    AttentionShape {
        heads: 3,
        head_dim: 64,
        group: 3,
        width: 16,
        context: 100,
        boost: 1.0,
    },
    AttentionShape {
        heads: 2,
        head_dim: 20,
        group: 2,
        width: 64,
        context: 60,
        boost: 64.0,
    },
    AttentionShape {
        heads: 1,
        head_dim: 128,
        group: 1,
        width: 32,
        context: 80,
        boost: 1.0,
    },
    AttentionShape {
        heads: 2,
        head_dim: 64,
        group: 4,
        width: 16,
        context: 33,
        boost: 3.0,
    },
    AttentionShape {
        heads: 1,
        head_dim: 7,
        group: 3,
        width: 5,
        context: 9,
        boost: 2.0,
    },
];

/// Inputs of attention with half of the context and some of the block masked, and others made less likely.
pub(super) fn attention_inputs(program: &Program) -> Vec<Vec<f16>> {
    let mut values = inputs(program, -1.0, 2.0);
    let mask = values.last_mut().unwrap();
    for (i, value) in mask.iter_mut().enumerate() {
        let masked = [-30000.0, -30000.0, -30000.0, 0.0, 0.0, -0.337, -5.01];
        *value = f16::from_f32(masked[i % masked.len()]);
    }
    values
}

/// Inputs with a context of which most is hidden from all columns, as it is while a conversation is short; and some columns
/// that see no key at all.
fn short_context_inputs(program: &Program, width: usize, blind: usize) -> Vec<Vec<f16>> {
    let mut values = inputs(program, -1.0, 2.0);
    let mask = values.last_mut().unwrap();
    let keys = mask.len() / width;
    for (i, value) in mask.iter_mut().enumerate() {
        let (key, column) = (i / width, i % width);
        let seen = (key < 5 || key + width >= keys) && column >= blind;
        *value = f16::from_f32(if seen { 0.0 } else { -30000.0 });
    }
    values
}

#[test]
fn hidden_keys_are_passed_over_without_a_trace() {
    for shape in &ATTENTIONS {
        let (fused, single) = (
            attention_program(shape, false),
            attention_program(shape, true),
        );
        for blind in [0, 1, shape.width] {
            let inputs = short_context_inputs(&fused, shape.width, blind);
            for set in InstructionSet::present() {
                let got = run(&mut *load(&fused, set, 2), &inputs);
                let one_by_one = run(&mut *load(&single, set, 2), &inputs);
                assert_eq!(got[0], one_by_one[0], "{set:?}, {blind} blind columns");
            }
        }
    }
}

#[test]
fn attention_of_layers_is_one_step() {
    let steps = |shape, shown| {
        let program = attention_program(shape, shown);
        plan(&program, InstructionSet::Portable).unwrap().steps
    };
    for shape in &ATTENTIONS[..3] {
        let fused = steps(shape, false);
        assert!(matches!(fused[..], [Step::Attention(_)]));
        assert!(steps(shape, true).len() >= 4, "what is shown is computed");
    }
}

#[test]
fn attention_computes_what_its_operations_do() {
    for shape in &ATTENTIONS {
        let (fused, single) = (
            attention_program(shape, false),
            attention_program(shape, true),
        );
        let inputs = attention_inputs(&fused);
        let expected = evaluate(&fused, &inputs);
        for set in InstructionSet::present() {
            let got = run(&mut *load(&fused, set, 2), &inputs);
            let one_by_one = run(&mut *load(&single, set, 2), &inputs);
            assert_eq!(got[0], one_by_one[0], "{set:?}: the same bits");
            let (mut errors, mut sizes) = (0.0, 0.0);
            for (got, expected) in got[0].iter().zip(&expected[0]) {
                errors += (got.to_f64() - expected.to_f64()).powi(2);
                sizes += expected.to_f64().powi(2);
            }
            let error = (errors / sizes).sqrt();
            assert!(error < 1e-3, "{set:?}: {error}"); // operations between differ by a unit
        }
    }
}
