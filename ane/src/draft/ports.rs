//! What programs take and give, and running them on tensors.

use std::sync::PoisonError;

use super::{DraftError, SharedProgram};
use crate::dflash::config::DraftConfig;
use crate::runtime::tensor::Tensor;
use crate::runtime::{Port, RuntimeError};

/// What the program of a layer takes.
pub(super) fn layer_ports(config: &DraftConfig, width: usize, context: usize) -> Vec<Port> {
    let cached = [config.num_key_value_heads, config.head_dim, context];
    let table = [1, config.head_dim / 2, width];
    let mut ports = vec![
        port("x", [config.hidden_size, 1, width]),
        port("context_keys", cached),
        port("context_values", cached),
        port("cos", table),
        port("sin", table),
        port("mask", [1, context + width, width]),
    ];
    if config.second.is_some() {
        ports.push(port("previous", [1, width, width]));
    }
    ports
}

/// Whether this is a layer's program, not one for taps.
pub(super) fn runs_a_block(program: &SharedProgram) -> bool {
    let program = program.lock().unwrap_or_else(PoisonError::into_inner);
    program
        .inputs()
        .first()
        .is_some_and(|port| port.name == "x")
}

/// A port of the shape [1, b, c, d].
pub(super) fn port(name: &str, [b, c, d]: [usize; 3]) -> Port {
    Port {
        name: name.into(),
        shape: vec![1, b, c, d],
    }
}

/// The size of the last axis.
pub(super) fn last(port: &Port) -> usize {
    port.shape.last().copied().unwrap_or(0)
}

/// Inputs and outputs.
pub(super) fn ports(program: &SharedProgram) -> (Vec<Port>, Vec<Port>) {
    let program = program.lock().unwrap_or_else(PoisonError::into_inner);
    (program.inputs().to_vec(), program.outputs().to_vec())
}

/// Whether inputs and outputs are those wanted.
pub(super) fn compare(
    program: &SharedProgram,
    wanted: [&[Port]; 2],
    got: [&[Port]; 2],
) -> Result<(), DraftError> {
    for (wanted, got) in wanted.into_iter().zip(got) {
        if wanted != got {
            let program = program.lock().unwrap_or_else(PoisonError::into_inner);
            let differs = wanted.iter().zip(got).find(|(wanted, got)| wanted != got);
            let problem = match differs {
                Some((wanted, got)) => format!(
                    "{} has {} {:?}, not {} {:?}",
                    program.name(),
                    got.name,
                    got.shape,
                    wanted.name,
                    wanted.shape
                ),
                None => format!(
                    "{} has {} ports, not {}",
                    program.name(),
                    got.len(),
                    wanted.len()
                ),
            };
            return Err(DraftError::Programs(problem));
        }
    }
    Ok(())
}

/// A tensor for each port.
pub(super) fn tensors(ports: &[Port]) -> Result<Vec<Tensor>, RuntimeError> {
    ports.iter().map(|port| Tensor::new(&port.shape)).collect()
}

/// Run a program.
pub(super) fn run<'a>(
    program: &SharedProgram,
    inputs: impl Iterator<Item = &'a Tensor>,
    outputs: impl Iterator<Item = &'a mut Tensor>,
) -> Result<(), DraftError> {
    let (inputs, mut outputs): (Vec<_>, Vec<_>) = (inputs.collect(), outputs.collect());
    // A program is whole also after a panic: every run fills its memory anew.
    let mut program = program.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(program.run_tensors(&inputs, &mut outputs)?)
}
