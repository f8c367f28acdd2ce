//! A program that Core ML has loaded.

use std::path::{Path, PathBuf};

use block2::RcBlock;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_core_ml::{MLFeatureProvider, MLModel};
use objc2_foundation::{NSError, NSString};

use super::bound::Bound;
use super::objects::{answered, catch};
use super::outputs::copy_array;
use super::plan;
use crate::buffer::{View, ViewMut};
use crate::runtime::deadline::{Answer, Limits, wait};
use crate::runtime::placement::Placement;
use crate::runtime::staging::Staging;
use crate::runtime::surface::Surface;
use crate::runtime::tensor::Tensor;
use crate::runtime::{Interface, LoadedProgram, RuntimeError, check_shapes};

type Provider = ProtocolObject<dyn MLFeatureProvider>;

pub(super) struct CoreMlProgram {
    interface: Interface,
    model: Retained<MLModel>,
    compiled: PathBuf,
    limits: Limits,
    /// To the tensors of the last run.
    bound: Option<Bound>,
    /// Made when a caller comes with memory of its own.
    staging: Option<Staging>,
    copied_outputs: u64,
    /// A run has not ended in time, and may still be at work.
    lost: bool,
}

// SAFETY: one thread at a time has the program (all that runs it borrows it mutably), and Core ML's objects are bound to none.
unsafe impl Send for CoreMlProgram {}

impl CoreMlProgram {
    pub(super) fn new(
        interface: Interface,
        model: Retained<MLModel>,
        compiled: &Path,
        limits: Limits,
    ) -> Self {
        Self {
            interface,
            model,
            compiled: compiled.into(),
            limits,
            bound: None,
            staging: None,
            copied_outputs: 0,
            lost: false,
        }
    }

    fn run_bound(
        &mut self,
        inputs: &[&Tensor],
        outputs: &mut [&mut Tensor],
    ) -> Result<(), RuntimeError> {
        let what = format!("Running {}", self.interface.name);
        self.bind(&what, inputs, outputs)?;
        lent(inputs, outputs).for_each(Surface::lend);
        let prediction = self.predict(&what);
        if let Err(RuntimeError::Timeout { .. }) = prediction {
            self.lost = true;
            // Core ML may still write to them. Inputs it only reads; they stay unlocked, since locking could wait for it.
            outputs.iter_mut().for_each(|output| output.abandon());
            return prediction.map(|_| ());
        }
        // All of them, whatever happened.
        let returned: Vec<_> = lent(inputs, outputs).map(Surface::take_back).collect();
        returned.into_iter().collect::<Result<(), _>>()?;
        self.fetch(&what, &*prediction?, outputs)
    }

    fn bind(
        &mut self,
        what: &str,
        inputs: &[&Tensor],
        outputs: &[&mut Tensor],
    ) -> Result<(), RuntimeError> {
        let inputs: Vec<_> = inputs.iter().map(|tensor| tensor.surface()).collect();
        let outputs: Vec<_> = outputs.iter().map(|tensor| tensor.surface()).collect();
        let same = |bound: &Bound| bound.is_to(&inputs, &outputs);
        if !self.bound.as_ref().is_some_and(same) {
            let bound = catch(what, || {
                Bound::new(what, &self.interface, &inputs, &outputs)
            })??;
            self.bound = Some(bound);
        }
        Ok(())
    }

    fn predict(&self, what: &str) -> Result<Retained<Provider>, RuntimeError> {
        let bound = self.bound.as_ref().expect("it is bound to tensors");
        let start = |answer: Answer<_>| {
            let named = what.to_owned();
            let handler = RcBlock::new(move |outputs: *mut Provider, error: *mut NSError| {
                // SAFETY: Core ML calls with one of both.
                answer.give(unsafe { answered(&named, outputs, error) });
            });
            let inputs = ProtocolObject::from_ref(&*bound.inputs);
            // SAFETY: the handler takes what it is declared to take, on any thread. Nobody else has the outputs, see
            // `run_bound`; Core ML keeps inputs and outputs alive itself.
            catch(what, || unsafe {
                self.model.predictionFromFeatures_options_completionHandler(
                    inputs,
                    &bound.options,
                    &handler,
                );
            })
        };
        wait(what, self.limits.run, start)?
    }

    /// Copy the outputs that Core ML has put elsewhere.
    fn fetch(
        &mut self,
        what: &str,
        prediction: &Provider,
        outputs: &mut [&mut Tensor],
    ) -> Result<(), RuntimeError> {
        for (port, output) in self.interface.outputs.iter().zip(outputs) {
            let name = NSString::from_str(&port.name);
            // SAFETY: they only read what Core ML has returned.
            let array = catch(what, || unsafe {
                let value = prediction.featureValueForName(&name);
                value.and_then(|value| value.multiArrayValue())
            })?;
            let array = array.ok_or_else(|| RuntimeError::Failed {
                what: what.into(),
                said: format!("there is no output {}", port.name),
            })?;
            if !output.surface().is_behind(&array) {
                catch(what, || copy_array(what, &array, output))??;
                self.copied_outputs += 1;
            }
        }
        Ok(())
    }
}

fn lent<'a>(
    inputs: &'a [&Tensor],
    outputs: &'a [&mut Tensor],
) -> impl Iterator<Item = &'a Surface> {
    let inputs = inputs.iter().map(|tensor| tensor.surface());
    inputs.chain(outputs.iter().map(|tensor| tensor.surface()))
}

impl LoadedProgram for CoreMlProgram {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn run(
        &mut self,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
    ) -> Result<(), RuntimeError> {
        self.interface.check(inputs, outputs)?;
        let mut staging = match self.staging.take() {
            Some(staging) => staging,
            None => Staging::new(self.inputs(), self.outputs())?,
        };
        let result = staging.run(inputs, outputs, |inputs, outputs| {
            self.run_tensors(inputs, outputs)
        });
        self.staging = Some(staging);
        result
    }

    fn run_tensors(
        &mut self,
        inputs: &[&Tensor],
        outputs: &mut [&mut Tensor],
    ) -> Result<(), RuntimeError> {
        let shapes = inputs.iter().map(|tensor| tensor.shape());
        check_shapes("inputs", self.inputs(), shapes)?;
        let shapes = outputs.iter().map(|tensor| tensor.shape());
        check_shapes("outputs", self.outputs(), shapes)?;
        if self.lost {
            return Err(RuntimeError::Lost {
                program: self.interface.name.clone(),
            });
        }
        autoreleasepool(|_| self.run_bound(inputs, outputs))
    }

    fn placement(&self) -> Result<Placement, RuntimeError> {
        let what = format!("Planning {}", self.interface.name);
        plan::placement(&what, &self.compiled, self.limits.plan)
    }

    fn copied_outputs(&self) -> u64 {
        self.copied_outputs
    }
}
