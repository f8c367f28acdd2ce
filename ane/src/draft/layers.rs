//! The programs that run a block, one a layer, with the tensors that they run on.

use std::ops::Range;

use half::f16;

use super::columns::{read_rows, write_columns, write_tables};
use super::context::{Cache, Columns};
use super::mask::{Block, Sight, fill, fill_previous};
use super::ports::{compare, last, layer_ports, port, ports, run, tensors};
use super::slots::Slots;
use super::{DraftError, SharedProgram};
use crate::buffer::View;
use crate::dflash::config::DraftConfig;
use crate::dflash::rope::Rope;
use crate::runtime::RuntimeError;
use crate::runtime::tensor::Tensor;

/// Context keys and values of every layer.
pub struct Caches {
    /// Keys, then values.
    layers: Vec<[Cache; 2]>,
}

impl Caches {
    pub fn new(config: &DraftConfig, context: usize) -> Result<Self, RuntimeError> {
        let shape = [1, config.num_key_value_heads, config.head_dim, context];
        let layer = |_| Ok([Cache::new(&shape)?, Cache::new(&shape)?]);
        Ok(Self {
            layers: (0..config.num_hidden_layers)
                .map(layer)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Set a layer's keys and values from `position` on.
    pub fn write(
        &mut self,
        layer: usize,
        slots: Slots,
        position: usize,
        columns: [&Columns<'_>; 2],
    ) {
        for (cache, columns) in self.layers[layer].iter_mut().zip(columns) {
            cache.write(slots, position, columns);
        }
    }

    /// A layer's keys and values, row-major [channels, positions].
    pub fn read(&self, layer: usize, positions: Range<usize>) -> [Vec<f16>; 2] {
        self.layers[layer]
            .each_ref()
            .map(|cache| cache.read(positions.clone()))
    }

    /// Cut the context from `before` positions to `after`.
    pub fn trim(&mut self, slots: Slots, before: usize, after: usize) {
        for cache in self.layers.iter_mut().flatten() {
            cache.restore(slots, slots.lost(before, after));
            cache.forget(after);
        }
    }
}

/// The layers' programs of one width, which run one after the other.
pub struct Layers {
    /// With the index of its mask.
    programs: Vec<(SharedProgram, usize)>,
    /// What enters each layer, [1, hidden, 1, width], and what leaves the last.
    stream: Vec<Tensor>,
    tables: Vec<Tensor>,
    masks: Vec<(Sight, Tensor)>,
    /// Which column stands before which; in the second generation.
    previous: Option<Tensor>,
    context: usize,
}

impl Layers {
    pub fn new(config: &DraftConfig, programs: &[SharedProgram]) -> Result<Self, DraftError> {
        let first = programs.first().map_or(vec![], |program| ports(program).0);
        let (width, context) = (first.first().map_or(0, last), first.get(1).map_or(0, last));
        let wanted = layer_ports(config, width, context);
        let mut masks: Vec<(Sight, Tensor)> = vec![];
        let mut layers = vec![];
        for (layer, program) in programs.iter().enumerate() {
            let (inputs, outputs) = ports(program);
            let name = if layer + 1 == programs.len() {
                "hidden"
            } else {
                "y"
            };
            let made = [port(name, [config.hidden_size, 1, width])];
            compare(program, [&wanted, &made], [&inputs, &outputs])?;
            let sight = Sight {
                window: config.sliding_window.filter(|_| config.sliding[layer]),
                causal: config.is_causal.unwrap_or(config.sliding[layer]),
            };
            let known = masks.iter().position(|(other, _)| *other == sight);
            if known.is_none() {
                masks.push((sight, Tensor::new(&wanted[5].shape)?));
            }
            layers.push((program.clone(), known.unwrap_or(masks.len() - 1)));
        }
        let stream = (0..=programs.len()).map(|_| Tensor::new(&wanted[0].shape));
        Ok(Self {
            programs: layers,
            stream: stream.collect::<Result<_, _>>()?,
            tables: tensors(&wanted[3..5])?,
            masks,
            previous: wanted
                .get(6)
                .map(|port| Tensor::new(&port.shape))
                .transpose()?,
            context,
        })
    }

    /// Columns of a block at most.
    pub fn width(&self) -> usize {
        self.stream[0].shape()[3]
    }

    /// Positions of context.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Run a block behind a context of `length` positions.
    pub fn run(
        &mut self,
        rope: &Rope,
        (caches, slots, length): (&Caches, Slots, usize),
        embeddings: &View<'_>,
        block: &Block<'_>,
    ) -> Result<(), DraftError> {
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
        if let Some(previous) = &mut self.previous {
            fill_previous(previous, block);
        }
        for (layer, (program, mask)) in self.programs.iter().enumerate() {
            let (before, after) = self.stream.split_at_mut(layer + 1);
            let [keys, values] = &caches.layers[layer];
            let inputs = [&before[layer], &keys.tensor, &values.tensor];
            let inputs = inputs
                .into_iter()
                .chain(&self.tables)
                .chain([&self.masks[*mask].1])
                .chain(&self.previous);
            run(program, inputs, after[..1].iter_mut())?;
        }
        Ok(())
    }

    /// What entered `layer` in the last run, or left the last: row-major [columns, hidden].
    pub fn rows(&self, layer: usize, columns: usize) -> Vec<f16> {
        read_rows(&self.stream[layer], columns)
    }
}
