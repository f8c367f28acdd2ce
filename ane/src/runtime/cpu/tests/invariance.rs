//! What must not change a bit.

use super::attention::{ATTENTIONS, attention_inputs, attention_program};
use super::convolutions::{byte_weight, conv_program, half_weight};
use super::*;

#[test]
fn the_number_of_threads_changes_no_bit() {
    for program in [
        attention_program(&ATTENTIONS[0], false),
        conv_program(half_weight(100, 300), 300, 130),
        conv_program(
            byte_weight(100, 300, vec![f16::from_f32(0.01); 100]),
            300,
            64,
        ),
        program(|b| {
            let x = b.input("x", &[1, 600, 2, 130])?;
            let squares = b.binary(BinaryFunction::Mul, x, x)?;
            Ok(vec![b.add(Operation::Softmax {
                x: squares,
                axis: 1,
            })?])
        }),
    ] {
        let inputs = inputs(&program, -1.0, 1.0);
        for set in InstructionSet::present() {
            let one = run(&mut *load(&program, set, 1), &inputs);
            for threads in [2, 3] {
                assert_eq!(
                    run(&mut *load(&program, set, threads), &inputs),
                    one,
                    "{threads}"
                );
            }
        }
    }
}

#[test]
fn threads_can_be_set_after_loading() {
    let runtime = CpuRuntime::new(1);
    let program = attention_program(&ATTENTIONS[0], false);
    let inputs = attention_inputs(&program);
    let mut loaded = runtime.load(&program).unwrap();
    let one = run(&mut *loaded, &inputs);
    runtime.set_threads(3);
    assert_eq!(run(&mut *loaded, &inputs), one);
}

/// A column has the same bits beside any others, and whatever stands in those.
#[test]
fn columns_do_not_depend_on_each_other() {
    for weight in [
        half_weight(50, 200),
        byte_weight(50, 200, vec![f16::from_f32(0.01); 50]),
    ] {
        let wide = conv_program(weight.clone(), 200, 64);
        let narrow = conv_program(weight, 200, 16);
        let mut columns = inputs(&wide, -1.0, 1.0);
        let few = vec![
            (0..200)
                .flat_map(|row| columns[0][row * 64..][..16].to_vec())
                .collect(),
        ];
        for set in InstructionSet::present() {
            let alone = run(&mut *load(&narrow, set, 1), &few);
            for row in 0..200 {
                columns[0][row * 64 + 16..][..48].fill(f16::NAN);
            }
            let beside = run(&mut *load(&wide, set, 1), &columns);
            for row in 0..50 {
                assert_eq!(
                    beside[0][row * 64..][..16],
                    alone[0][row * 16..][..16],
                    "{set:?}"
                );
            }
        }
    }
}
