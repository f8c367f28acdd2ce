//! The programs of a draft with the tensors that they run on.

use std::ops::Range;
use std::sync::PoisonError;

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::context::{Cache, Columns};
use super::mask::{Block, Sight, fill};
use super::slots::Slots;
use super::{DraftError, SharedProgram};
use crate::buffer::View;
use crate::dflash::config::DraftConfig;
use crate::dflash::rope::Rope;
use crate::runtime::tensor::Tensor;
use crate::runtime::{Port, RuntimeError};
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

struct Layer {
    program: SharedProgram,
    keys: Cache,
    values: Cache,
    /// Which of the masks.
    mask: usize,
}

/// The layers' programs, which run one after the other.
pub struct Layers {
    layers: Vec<Layer>,
    /// What enters each layer, [1, hidden, 1, width], and what leaves the last.
    stream: Vec<Tensor>,
    tables: Vec<Tensor>,
    masks: Vec<(Sight, Tensor)>,
}

impl Layers {
    pub fn new(config: &DraftConfig, programs: Vec<SharedProgram>) -> Result<Self, DraftError> {
        let mut first = vec![];
        let mut layers = vec![];
        let mut masks: Vec<(Sight, Tensor)> = vec![];
        let count = programs.len();
        for (layer, program) in programs.into_iter().enumerate() {
            let (inputs, outputs) = ports(&program);
            if layer == 0 {
                first.clone_from(&inputs);
            }
            let name = if layer + 1 == count { "hidden" } else { "y" };
            let width = first.first().map_or(0, last);
            let context = first.get(1).map_or(0, last);
            let made = [port(name, [config.hidden_size, 1, width])];
            compare(
                &program,
                [&layer_ports(config, width, context), &made],
                [&inputs, &outputs],
            )?;
            let sight = Sight {
                window: config.sliding_window.filter(|_| config.sliding[layer]),
                causal: config.is_causal.unwrap_or(config.sliding[layer]),
            };
            let known = masks.iter().position(|(other, _)| *other == sight);
            if known.is_none() {
                masks.push((sight, Tensor::new(&inputs[5].shape)?));
            }
            layers.push(Layer {
                program,
                keys: Cache::new(&inputs[1].shape)?,
                values: Cache::new(&inputs[2].shape)?,
                mask: known.unwrap_or(masks.len() - 1),
            });
        }
        let stream = (0..=count).map(|_| Tensor::new(&first[0].shape));
        Ok(Self {
            layers,
            stream: stream.collect::<Result<_, _>>()?,
            tables: tensors(&first[3..5])?,
            masks,
        })
    }

    pub fn width(&self) -> usize {
        self.stream[0].shape()[3]
    }

    pub fn context(&self) -> usize {
        self.layers[0].keys.tensor.shape()[3]
    }

    /// Set a layer's keys and values from `position` on.
    pub fn write(
        &mut self,
        layer: usize,
        slots: Slots,
        position: usize,
        [keys, values]: [&Columns<'_>; 2],
    ) {
        let layer = &mut self.layers[layer];
        layer.keys.write(slots, position, keys);
        layer.values.write(slots, position, values);
    }

    /// A layer's keys and values, row-major [channels, positions].
    pub fn read(&self, layer: usize, positions: Range<usize>) -> [Vec<f16>; 2] {
        let layer = &self.layers[layer];
        [&layer.keys, &layer.values].map(|cache| cache.read(positions.clone()))
    }

    /// Cut the context from `before` positions to `after`.
    pub fn trim(&mut self, slots: Slots, before: usize, after: usize) {
        for layer in &mut self.layers {
            for cache in [&mut layer.keys, &mut layer.values] {
                cache.restore(slots, slots.lost(before, after));
                cache.forget(after);
            }
        }
    }

    /// Fill everything that a block needs, but for the context.
    pub fn prepare(
        &mut self,
        rope: &Rope,
        slots: Slots,
        length: usize,
        embeddings: &View<'_>,
        block: &Block<'_>,
    ) {
        write_columns(&mut self.stream[0], block.positions.len(), |row, to| {
            embeddings.read_row(row, to);
        });
        write_tables(
            &mut self.tables,
            rope,
            block.positions.iter().copied().enumerate(),
        );
        for (sight, mask) in &mut self.masks {
            fill(mask, *sight, slots, length, block);
        }
    }

    pub fn run(&mut self) -> Result<(), DraftError> {
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, after) = self.stream.split_at_mut(index + 1);
            let [cos, sin] = &self.tables[..] else {
                unreachable!("there are two tables")
            };
            let inputs = [
                &before[index],
                &layer.keys.tensor,
                &layer.values.tensor,
                cos,
                sin,
                &self.masks[layer.mask].1,
            ];
            run(&layer.program, inputs.into_iter(), after[..1].iter_mut())?;
        }
        Ok(())
    }

    /// What entered `layer` in the last run, or left the last: row-major [columns, hidden].
    pub fn rows(&self, layer: usize, columns: usize) -> Vec<f16> {
        let tensor = &self.stream[layer];
        let (channels, stride) = (tensor.shape()[1], tensor.strides()[2]);
        let mut rows = vec![f16::ZERO; columns * channels];
        for (channel, values) in tensor.values().chunks(stride).enumerate() {
            for (row, value) in values[..columns].iter().enumerate() {
                rows[row * channels + channel] = *value;
            }
        }
        rows
    }
}

fn layer_ports(config: &DraftConfig, width: usize, context: usize) -> Vec<Port> {
    let cached = [config.num_key_value_heads, config.head_dim, context];
    let table = [1, config.head_dim / 2, width];
    vec![
        port("x", [config.hidden_size, 1, width]),
        port("context_keys", cached),
        port("context_values", cached),
        port("cos", table),
        port("sin", table),
        port("mask", [1, context + width, width]),
    ]
}

fn port(name: &str, [b, c, d]: [usize; 3]) -> Port {
    Port {
        name: name.into(),
        shape: vec![1, b, c, d],
    }
}

fn last(port: &Port) -> usize {
    port.shape.last().copied().unwrap_or(0)
}

fn ports(program: &SharedProgram) -> (Vec<Port>, Vec<Port>) {
    let program = program.lock().unwrap_or_else(PoisonError::into_inner);
    (program.inputs().to_vec(), program.outputs().to_vec())
}

/// Whether inputs and outputs are those wanted.
fn compare(
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

fn tensors(ports: &[Port]) -> Result<Vec<Tensor>, RuntimeError> {
    ports.iter().map(|port| Tensor::new(&port.shape)).collect()
}

fn run<'a>(
    program: &SharedProgram,
    inputs: impl Iterator<Item = &'a Tensor>,
    outputs: impl Iterator<Item = &'a mut Tensor>,
) -> Result<(), DraftError> {
    let (inputs, mut outputs): (Vec<_>, Vec<_>) = (inputs.collect(), outputs.collect());
    // A program is whole also after a panic: every run fills its memory anew.
    let mut program = program.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(program.run_tensors(&inputs, &mut outputs)?)
}

/// Rows that are turned at once: their values for one channel share a line of the cache.
const TURNED_ROWS: usize = 32;

/// Fill a tensor [1, channels, 1, columns] with `count` rows of channels in single precision, and zeros behind them.
fn write_columns(tensor: &mut Tensor, count: usize, read: impl Fn(usize, &mut [f32])) {
    let (channels, width, stride) = (tensor.shape()[1], tensor.shape()[3], tensor.strides()[2]);
    let mut single = vec![0.0; channels];
    let mut half = vec![f16::ZERO; TURNED_ROWS.min(count) * channels];
    for first in (0..count).step_by(TURNED_ROWS) {
        let rows = TURNED_ROWS.min(count - first);
        for (row, to) in half.chunks_exact_mut(channels).take(rows).enumerate() {
            read(first + row, &mut single);
            to.convert_from_f32_slice(&single);
        }
        for (channel, to) in tensor.values_mut().chunks_mut(stride).enumerate() {
            for (row, value) in to[first..first + rows].iter_mut().enumerate() {
                *value = half[row * channels + channel];
            }
        }
    }
    for to in tensor.values_mut().chunks_mut(stride) {
        to[count..width].fill(f16::ZERO);
    }
}

/// Fill cosines and sines [1, 1, head dim / 2, columns] for columns and their positions.
fn write_tables(
    tables: &mut [Tensor],
    rope: &Rope,
    positions: impl Iterator<Item = (usize, usize)>,
) {
    let stride = tables[0].strides()[2];
    for (column, position) in positions {
        for (pair, (cos, sin)) in rope.at(position).enumerate() {
            tables[0].values_mut()[pair * stride + column] = f16::from_f32(cos);
            tables[1].values_mut()[pair * stride + column] = f16::from_f32(sin);
        }
    }
}
