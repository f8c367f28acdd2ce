//! The caller's buffers.

use super::attention::{ATTENTIONS, attention_inputs, attention_program};
use super::convolutions::{conv_program, half_weight};
use super::*;
use crate::runtime::tensor::Tensor;

/// Also where their rows have gaps, full of NaN.
#[test]
fn tensors_give_the_bits_that_views_of_dense_memory_give() {
    for case in &ATTENTIONS {
        let program = attention_program(case, false);
        let dense = attention_inputs(&program);
        let mut loaded = load(&program, InstructionSet::present()[0], 2);
        let expected = run(&mut *loaded, &dense);
        let mut tensors = vec![];
        for (port, values) in loaded.inputs().iter().zip(&dense) {
            let mut tensor = Tensor::new(&port.shape).unwrap();
            tensor.values_mut().fill(f16::NAN);
            tensor.view_mut().copy_from(values);
            tensors.push(tensor);
        }
        let mut out = Tensor::new(&loaded.outputs()[0].shape).unwrap();
        let inputs: Vec<_> = tensors.iter().collect();
        for _ in 0..2 {
            loaded.run_tensors(&inputs, &mut [&mut out]).unwrap();
            let mut got = vec![f16::NAN; expected[0].len()];
            out.view().copy_to(&mut got);
            assert_eq!(got, expected[0]);
        }
        let wrong = Tensor::new(&[1, 1, 1, 1]).unwrap();
        let error = loaded.run_tensors(&[&wrong], &mut [&mut out]).unwrap_err();
        assert!(matches!(error, RuntimeError::Count { what: "inputs", .. }));
    }
}

/// Rows of the caller's buffers with gaps, as surfaces have them, full of NaN.
#[test]
fn what_lies_between_rows_is_not_read() {
    const GAP: usize = 24;
    let program = attention_program(&ATTENTIONS[0], false);
    let dense = attention_inputs(&program);
    let mut loaded = load(&program, InstructionSet::present()[0], 1);
    let expected = run(&mut *loaded, &dense);
    let ports = loaded.inputs().to_vec();
    let mut spread = vec![];
    for (values, port) in dense.iter().zip(&ports) {
        let columns = port.shape[3];
        let rows = values.chunks_exact(columns);
        spread.push(
            rows.flat_map(|row| [row, &[f16::NAN; GAP]].concat())
                .collect::<Vec<_>>(),
        );
    }
    let strides: Vec<[usize; 4]> = ports
        .iter()
        .map(|port| {
            let row = port.shape[3] + GAP;
            [
                port.shape[1] * port.shape[2] * row,
                port.shape[2] * row,
                row,
                1,
            ]
        })
        .collect();
    let singles: Vec<Vec<f32>> = spread
        .iter()
        .map(|values| values.iter().map(|value| value.to_f32()).collect())
        .collect();
    for single in [false, true] {
        let views: Vec<_> = (0..ports.len())
            .map(|i| {
                let elements = match single {
                    true => Elements::Fp32(&singles[i]),
                    false => Elements::Fp16(&spread[i]),
                };
                View::new(elements, &ports[i].shape, &strides[i]).unwrap()
            })
            .collect();
        let shape = loaded.outputs()[0].shape.clone();
        let row = shape[3] + GAP;
        let out_strides = [shape[1] * shape[2] * row, shape[2] * row, row, 1];
        let mut out = vec![f32::NAN; out_strides[0]];
        let elements = ElementsMut::Fp32(&mut out);
        let view = ViewMut::new(elements, &shape, &out_strides).unwrap();
        loaded.run(&views, &mut [view]).unwrap();
        for (row, expected) in out
            .chunks_exact(row)
            .zip(expected[0].chunks_exact(shape[3]))
        {
            assert!(
                row[..shape[3]]
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| *a == b.to_f32())
            );
            assert!(
                row[shape[3]..].iter().all(|value| value.is_nan()),
                "written between rows"
            );
        }
    }
}

#[test]
fn views_that_do_not_fit_the_ports_are_errors() {
    let program = conv_program(half_weight(3, 5), 5, 16);
    let mut loaded = load(&program, InstructionSet::Portable, 1);
    assert_eq!(
        (loaded.name(), loaded.inputs()[0].name.as_str()),
        ("tested", "x")
    );
    let error = loaded.run(&[], &mut []).unwrap_err();
    assert_eq!(error.to_string(), "The program has 1 inputs, not 0");
    let values = vec![f16::ONE; 80];
    let view = View::new(Elements::Fp16(&values), &[1, 5, 16, 1], &[80, 16, 1, 1]).unwrap();
    let error = loaded.run(&[view], &mut []).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x must have the shape [1, 5, 1, 16], not [1, 5, 16, 1]"
    );
}
