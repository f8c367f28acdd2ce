//! The programs that make context keys and values of taps, with the tensors that they run on.

use std::ops::Range;

use half::f16;

use super::columns::{write_columns, write_tables};
use super::context::Columns;
use super::ports::{compare, last, port, ports, run, tensors};
use super::{DraftError, SharedProgram};
use crate::buffer::View;
use crate::dflash::config::DraftConfig;
use crate::dflash::rope::Rope;
use crate::runtime::tensor::Tensor;
use crate::taps::tap_scale;

/// A program that makes context keys and values of taps.
pub struct Ingest {
    program: SharedProgram,
    rows: usize,
    /// `tap0`.., `tap_scale`, `cos`, `sin`.
    inputs: Vec<Tensor>,
    /// `keys0`, `values0`..
    outputs: Vec<Tensor>,
}

impl Ingest {
    pub fn new(config: &DraftConfig, program: SharedProgram) -> Result<Self, DraftError> {
        let (taps, layers) = (config.target_layer_ids.len(), config.num_hidden_layers);
        let (inputs, outputs) = ports(&program);
        let rows = inputs.first().map_or(0, last);
        let mut wanted: Vec<_> = (0..taps)
            .map(|tap| port(&format!("tap{tap}"), [config.hidden_size, 1, rows]))
            .collect();
        wanted.push(port("tap_scale", [1, 1, rows]));
        wanted.extend(["cos", "sin"].map(|name| port(name, [1, config.head_dim / 2, rows])));
        let shape = [config.num_key_value_heads, config.head_dim, rows];
        let made = (0..layers)
            .flat_map(|layer| ["keys", "values"].map(|kind| port(&format!("{kind}{layer}"), shape)))
            .collect::<Vec<_>>();
        compare(&program, [&wanted, &made], [&inputs, &outputs])?;
        Ok(Self {
            rows,
            inputs: tensors(&inputs)?,
            outputs: tensors(&outputs)?,
            program,
        })
    }

    /// How many rows it takes.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Run on rows of [n, hidden] `taps`, of which the first stands at `position`.
    pub fn run(
        &mut self,
        rope: &Rope,
        taps: &[View<'_>],
        rows: Range<usize>,
        position: usize,
    ) -> Result<(), DraftError> {
        let scales = rows
            .clone()
            .map(|row| tap_scale(largest(taps, row)))
            .collect::<Result<Vec<_>, _>>()?;
        let after_taps = &mut self.inputs[taps.len()..];
        let factors = after_taps[0].values_mut();
        for (value, scale) in factors.iter_mut().zip(&scales) {
            *value = f16::from_f32(*scale);
        }
        let positions = position..position + rows.len();
        write_tables(&mut after_taps[1..], rope, positions.enumerate());
        for (tap, tensor) in taps.iter().zip(&mut self.inputs) {
            let scaled = |row: usize, to: &mut [f32]| {
                tap.read_row(rows.start + row, to);
                for value in to {
                    *value *= scales[row];
                }
            };
            write_columns(tensor, rows.len(), scaled);
        }
        run(&self.program, self.inputs.iter(), self.outputs.iter_mut())
    }

    /// What the last run made of its first `rows` rows, for one layer.
    pub fn keys_values(&self, layer: usize, rows: usize) -> (Columns<'_>, Columns<'_>) {
        let [keys, values] = [0, 1].map(|kind| Columns::of(&self.outputs[2 * layer + kind], rows));
        (keys, values)
    }
}

/// The largest absolute value in a row, over all taps; NaN where there is one.
fn largest(taps: &[View<'_>], row: usize) -> f32 {
    let mut single = vec![];
    let mut largest = 0.0f32;
    for tap in taps {
        single.resize(tap.shape()[1], 0.0);
        tap.read_row(row, &mut single);
        for value in &single {
            // `max` would hide a NaN.
            if value.abs() > largest || value.is_nan() {
                largest = value.abs();
            }
        }
    }
    largest
}
