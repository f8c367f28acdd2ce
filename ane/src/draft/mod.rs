//! A draft at work: its programs, the context they read, and the tensors between them.
//!
//! Callers speak of rows and positions. What programs want of them (columns, padding, masks, tables of the rotary embedding,
//! a context of fixed size) is made here.

mod columns;
mod context;
mod error;
mod ingest;
mod layers;
mod mask;
mod ports;
mod slots;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use half::f16;

use crate::buffer::{View, ViewMut};
use crate::dflash::config::DraftConfig;
use crate::runtime::LoadedProgram;
use context::Columns;
pub use error::DraftError;
use error::check;
use ingest::Ingest;
use layers::{Caches, Layers};
pub use mask::Block;
use slots::Slots;

/// A program that several owners may run, one at a time.
pub type SharedProgram = Arc<Mutex<Box<dyn LoadedProgram>>>;

/// A draft whose programs are loaded, and the context of one conversation.
pub struct RunningDraft {
    config: DraftConfig,
    ingest: Vec<Ingest>,
    /// By width, narrow ones first.
    layers: Vec<Layers>,
    /// Which of them ran last.
    last_run: usize,
    caches: Caches,
    slots: Slots,
    length: usize,
}

impl RunningDraft {
    /// With the programs of a draft in their order of use: ingest by rows, then the layers; these perhaps in several widths,
    /// of which each block takes the narrowest that holds it.
    ///
    /// # Errors
    /// [`DraftError::Programs`] where these are not the draft's; [`RuntimeError::Memory`].
    pub fn new(config: DraftConfig, programs: &[SharedProgram]) -> Result<Self, DraftError> {
        let first_layer = programs.iter().position(ports::runs_a_block);
        let (ingest, layers) = programs.split_at(first_layer.unwrap_or(programs.len()));
        let count = config.num_hidden_layers;
        if ingest.is_empty() || layers.is_empty() || !layers.len().is_multiple_of(count) {
            let (ingest, layers) = (ingest.len(), layers.len());
            return Err(DraftError::Programs(format!(
                "there are {ingest} for taps and {layers} for {count} layers"
            )));
        }
        let ingest = ingest
            .iter()
            .map(|program| Ingest::new(&config, program.clone()))
            .collect::<Result<_, _>>()?;
        let widths = layers
            .chunks(count)
            .map(|programs| Layers::new(&config, programs));
        let mut layers = widths.collect::<Result<Vec<_>, _>>()?;
        layers.sort_by_key(Layers::width);
        let context = layers[0].context();
        if layers.iter().any(|layers| layers.context() != context) {
            return Err(DraftError::Programs(
                "they have contexts of several sizes".into(),
            ));
        }
        Ok(Self {
            caches: Caches::new(&config, context)?,
            slots: Slots::new(context),
            config,
            ingest,
            layers,
            last_run: 0,
            length: 0,
        })
    }

    /// What the draft's `config.json` says.
    #[must_use]
    pub fn config(&self) -> &DraftConfig {
        &self.config
    }

    /// Columns of a block at most.
    #[must_use]
    pub fn width(&self) -> usize {
        self.layers.last().map_or(0, Layers::width)
    }

    /// Positions of context that blocks can see at once.
    #[must_use]
    pub fn context(&self) -> usize {
        self.layers[0].context()
    }

    /// Positions whose keys and values are there.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Append positions: `taps` are [n, hidden], one a tap.
    ///
    /// # Errors
    /// [`DraftError`]. Positions of whole runs before a failed one have been appended.
    pub fn ingest(&mut self, taps: &[View<'_>]) -> Result<(), DraftError> {
        let rows = taps.first().map_or(0, |tap| tap.shape()[0]);
        let (count, hidden) = (self.config.target_layer_ids.len(), self.config.hidden_size);
        check("The number of taps", &[count], &[taps.len()])?;
        for tap in taps {
            check("Taps", &[rows, hidden], tap.shape())?;
        }
        let mut next = 0;
        while next < rows {
            let left = rows - next;
            // The smallest program that takes what is left, or else the largest.
            let fits = self.ingest.iter().position(|ingest| ingest.rows() >= left);
            let chosen = fits.unwrap_or(self.ingest.len() - 1);
            let ingest = &mut self.ingest[chosen];
            let end = rows.min(next + ingest.rows());
            ingest.run(&self.config.rope, taps, next..end, self.length)?;
            for layer in 0..self.config.num_hidden_layers {
                let (keys, values) = ingest.keys_values(layer, end - next);
                self.caches
                    .write(layer, self.slots, self.length, [&keys, &values]);
            }
            self.length += end - next;
            next = end;
        }
        Ok(())
    }

    /// Append positions that another draft of the same weights made: keys and values by layer, [kv heads, head dim, n] each.
    ///
    /// # Errors
    /// [`DraftError::Shape`].
    pub fn append(&mut self, keys: &[View<'_>], values: &[View<'_>]) -> Result<(), DraftError> {
        let positions = keys.first().map_or(0, |view| view.shape()[2]);
        self.check_layers(keys, positions)?;
        self.check_layers(values, positions)?;
        let mut columns = [vec![], vec![]];
        for (layer, views) in keys.iter().zip(values).enumerate() {
            for (columns, view) in columns.iter_mut().zip([views.0, views.1]) {
                columns.resize(self.config.kv_channels() * positions, f16::ZERO);
                view.copy_to(columns);
            }
            let [keys, values] = columns
                .each_ref()
                .map(|columns| Columns::of_rows(columns, positions));
            self.caches
                .write(layer, self.slots, self.length, [&keys, &values]);
        }
        self.length += positions;
        Ok(())
    }

    /// Copy positions into keys and values by layer, [kv heads, head dim, n] each: also those that no program sees any more.
    ///
    /// # Errors
    /// [`DraftError::Shape`] where they are not all there, or the views are not of the draft's shape.
    pub fn read(
        &self,
        positions: Range<usize>,
        keys: &mut [ViewMut<'_>],
        values: &mut [ViewMut<'_>],
    ) -> Result<(), DraftError> {
        let there = positions.end <= self.length && positions.start <= positions.end;
        let end = if there { positions.end } else { self.length };
        check("The end of the positions", &[end], &[positions.end])?;
        let config = &self.config;
        let shape = [config.num_key_value_heads, config.head_dim, positions.len()];
        for views in [&*keys, &*values] {
            check(
                "The number of layers",
                &[config.num_hidden_layers],
                &[views.len()],
            )?;
            for view in views {
                check("Keys and values", &shape, view.shape())?;
            }
        }
        for (layer, (keys, values)) in keys.iter_mut().zip(values).enumerate() {
            let [from_keys, from_values] = self.caches.read(layer, positions.clone());
            keys.copy_from(&from_keys);
            values.copy_from(&from_values);
        }
        Ok(())
    }

    fn check_layers(&self, views: &[View<'_>], positions: usize) -> Result<(), DraftError> {
        let config = &self.config;
        check(
            "The number of layers",
            &[config.num_hidden_layers],
            &[views.len()],
        )?;
        let shape = [config.num_key_value_heads, config.head_dim, positions];
        views
            .iter()
            .try_for_each(|view| check("Keys and values", &shape, view.shape()))
    }

    /// Forget positions from `length` on.
    pub fn trim_to(&mut self, length: usize) {
        if length < self.length {
            self.caches.trim(self.slots, self.length, length);
            self.length = length;
        }
    }

    /// Run a block: `embeddings` [columns, hidden] at the block's positions, to rows after the final norm, [columns, hidden].
    ///
    /// # Errors
    /// [`DraftError`]; [`DraftError::NotFinite`] where numbers left half precision.
    pub fn run(
        &mut self,
        embeddings: &View<'_>,
        block: &Block<'_>,
        hidden: &mut ViewMut<'_>,
    ) -> Result<(), DraftError> {
        let columns = block.positions.len();
        let shape = [columns, self.config.hidden_size];
        if columns == 0 || columns > self.width() {
            return Err(DraftError::Columns {
                width: self.width(),
                columns,
            });
        }
        check("Embeddings", &shape, embeddings.shape())?;
        check("The result", &shape, hidden.shape())?;
        if let Some(seen) = block.seen {
            check("The mask", &[columns * columns], &[seen.len()])?;
        }
        let narrowest = self
            .layers
            .iter()
            .position(|layers| layers.width() >= columns);
        self.last_run = narrowest.expect("the widest holds the block");
        let context = (&self.caches, self.slots, self.length);
        self.layers[self.last_run].run(&self.config.rope, context, embeddings, block)?;
        hidden.copy_from(&self.finite_rows(self.config.num_hidden_layers, columns)?);
        Ok(())
    }

    /// Copy from the last block the rows that entered layer `layer` into `rows` [columns, hidden]; beyond the last layer those
    /// that `run` gave.
    ///
    /// # Errors
    /// [`DraftError`], as of [`Self::run`].
    pub fn rows(&self, layer: usize, rows: &mut ViewMut<'_>) -> Result<(), DraftError> {
        let most = self.config.num_hidden_layers;
        check("The layer", &[layer.min(most)], &[layer])?;
        let columns = rows.shape()[0].min(self.layers[self.last_run].width());
        check("Rows", &[columns, self.config.hidden_size], rows.shape())?;
        rows.copy_from(&self.finite_rows(layer, columns)?);
        Ok(())
    }

    fn finite_rows(&self, layer: usize, columns: usize) -> Result<Vec<f16>, DraftError> {
        let rows = self.layers[self.last_run].rows(layer, columns);
        if rows.iter().all(|value| value.is_finite()) {
            Ok(rows)
        } else {
            Err(DraftError::NotFinite { layer })
        }
    }
}
