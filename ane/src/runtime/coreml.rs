//! Core ML: programs compiled, loaded and run on processor and Neural Engine, through its public interface.
//!
//! Type-checked only; not verified on a Mac. Kept thin: whatever does not call the system is in other modules, with tests.
//! Every call may throw and every wait has a limit. Needs macOS 14; 14.4 to ask for placement.

mod bound;
pub(super) mod objects;
mod outputs;
mod plan;
mod program;
mod system;

use std::fs;
use std::path::{Path, PathBuf};

use block2::RcBlock;
use objc2::rc::{Retained, autoreleasepool};
use objc2_core_ml::{
    MLComputeUnits, MLFeatureDescription, MLModel, MLModelConfiguration, MLMultiArrayDataType,
};
use objc2_foundation::{NSDictionary, NSError, NSString, NSURL};

use super::deadline::{Answer, Limits, wait, wait_ticking};
use super::placement::Placement;
use super::{Interface, LoadedProgram, Port, RuntimeError};
use crate::scratch::move_folder;
use objects::{answered, catch, numbers, path, url};
use program::CoreMlProgram;
pub use system::os_build;

/// Runs compiled programs on the Neural Engine, and on the processor what Core ML keeps from it. Never on the GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreMlRuntime {
    /// How long calls may take.
    pub limits: Limits,
}

impl CoreMlRuntime {
    /// Compile the `.mlpackage` folder `package` to `compiled`, a folder that appears whole or not at all.
    ///
    /// Calls `tick` about twenty times a second and stops with its error. Core ML has no call to end a compilation: it goes on
    /// then, and what it makes is removed.
    ///
    /// # Errors
    /// [`RuntimeError::Timeout`] and [`RuntimeError::Failed`], and those of `tick`.
    pub fn compile<E: From<RuntimeError>>(
        &self,
        package: &Path,
        compiled: &Path,
        tick: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let what = format!("Compiling {}", package.display());
        autoreleasepool(|_| {
            let url = url(&what, package)?;
            let start = |answer: Answer<_>| {
                let named = what.clone();
                let handler = RcBlock::new(move |url: *mut NSURL, error: *mut NSError| {
                    // SAFETY: Core ML calls with one of both.
                    let url = unsafe { answered(&named, url, error) };
                    answer.give(url.and_then(|url| Temporary::new(&named, &url)));
                });
                // SAFETY: the handler takes what it is declared to take, on any thread.
                catch(&what, || unsafe {
                    MLModel::compileModelAtURL_completionHandler(&url, &handler);
                })
            };
            let temporary = wait_ticking(&what, self.limits.compile, tick, start)??;
            move_folder(&temporary.0, compiled).map_err(|error| {
                let said = error.to_string();
                RuntimeError::Failed { what, said }.into()
            })
        })
    }

    /// Load the compiled program in the folder `compiled`, which must stay where it is: the system remembers by its path how
    /// it was specialised for the device.
    ///
    /// # Errors
    /// [`RuntimeError::Timeout`] and [`RuntimeError::Failed`], also where it has another interface.
    pub fn load(
        &self,
        compiled: &Path,
        interface: Interface,
    ) -> Result<Box<dyn LoadedProgram>, RuntimeError> {
        let what = format!("Loading {}", interface.name);
        let model = autoreleasepool(|_| {
            let url = url(&what, compiled)?;
            let start = |answer: Answer<_>| {
                let named = what.clone();
                let handler = RcBlock::new(move |model: *mut MLModel, error: *mut NSError| {
                    // SAFETY: Core ML calls with one of both.
                    answer.give(unsafe { answered(&named, model, error) });
                });
                // SAFETY: as in `compile`.
                catch(&what, || unsafe {
                    MLModel::loadContentsOfURL_configuration_completionHandler(
                        &url,
                        &configuration(),
                        &handler,
                    );
                })
            };
            let model = wait(&what, self.limits.load, start)??;
            catch(&what, || check_interface(&what, &model, &interface))??;
            Ok(model)
        })?;
        Ok(Box::new(CoreMlProgram::new(
            interface,
            model,
            compiled,
            self.limits,
        )))
    }

    /// Where the operations of the compiled program in the folder `compiled` would run.
    ///
    /// # Errors
    /// As [`LoadedProgram::placement`].
    pub fn placement(&self, compiled: &Path) -> Result<Placement, RuntimeError> {
        let what = format!("Planning {}", compiled.display());
        plan::placement(&what, compiled, self.limits.plan)
    }
}

/// Where Core ML may run things.
fn configuration() -> Retained<MLModelConfiguration> {
    // SAFETY: a new object of this thread.
    unsafe {
        let configuration = MLModelConfiguration::new();
        configuration.setComputeUnits(MLComputeUnits::CPUAndNeuralEngine);
        configuration
    }
}

/// A folder of Core ML's that nobody else removes. Dropped, also when it comes too late, it goes.
struct Temporary(PathBuf);

impl Temporary {
    fn new(what: &str, url: &NSURL) -> Result<Self, RuntimeError> {
        let folder = path(url).ok_or_else(|| RuntimeError::Failed {
            what: what.into(),
            said: "there is no path to the result".into(),
        })?;
        Ok(Self(folder))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Moved already, or the system will clear its folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a model has exactly these inputs and outputs, all in half precision.
fn check_interface(what: &str, model: &MLModel, interface: &Interface) -> Result<(), RuntimeError> {
    // SAFETY: they only read the model, which no other thread has.
    let (inputs, outputs) = unsafe {
        let description = model.modelDescription();
        (
            description.inputDescriptionsByName(),
            description.outputDescriptionsByName(),
        )
    };
    for (kind, ports, described) in [
        ("inputs", &interface.inputs, inputs),
        ("outputs", &interface.outputs, outputs),
    ] {
        let fit = ports.iter().all(|port| is_described(port, &described));
        if !fit || described.count() != ports.len() {
            let names: Vec<_> = described.keys().map(|name| name.to_string()).collect();
            return Err(RuntimeError::Failed {
                what: what.into(),
                said: format!("its {kind} {names:?} are not {ports:?} in half precision"),
            });
        }
    }
    Ok(())
}

fn is_described(port: &Port, described: &NSDictionary<NSString, MLFeatureDescription>) -> bool {
    let Some(feature) = described.objectForKey(&NSString::from_str(&port.name)) else {
        return false;
    };
    // SAFETY: they only read the description.
    unsafe {
        feature.multiArrayConstraint().is_some_and(|constraint| {
            constraint.dataType() == MLMultiArrayDataType::Float16
                && numbers(&constraint.shape()) == port.shape
        })
    }
}
