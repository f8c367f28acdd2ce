//! A program's inputs and outputs as Core ML takes them, made once for the tensors that it runs on.

use objc2::AnyThread;
use objc2::rc::Retained;
use objc2::runtime::AnyObject;
use objc2_core_ml::{MLDictionaryFeatureProvider, MLMultiArray, MLPredictionOptions};
use objc2_foundation::{NSDictionary, NSString};

use super::objects::failed;
use crate::runtime::surface::Surface;
use crate::runtime::{Interface, Port, RuntimeError};

/// Inputs, and the request to write outputs where they belong.
pub(super) struct Bound {
    pub(super) inputs: Retained<MLDictionaryFeatureProvider>,
    pub(super) options: Retained<MLPredictionOptions>,
    /// Of all inputs, then of all outputs. Held, so that no other can have their addresses.
    arrays: Vec<Retained<MLMultiArray>>,
}

impl Bound {
    /// To surfaces in the order of the ports.
    pub(super) fn new(
        what: &str,
        interface: &Interface,
        inputs: &[&Surface],
        outputs: &[&Surface],
    ) -> Result<Self, RuntimeError> {
        let surfaces = inputs.iter().chain(outputs);
        let features = dictionary(&interface.inputs, inputs, |input| {
            input.feature().clone().into()
        });
        let backings = dictionary(&interface.outputs, outputs, |output| {
            output.array().clone().into()
        });
        // SAFETY: values are feature values, and arrays that no program but this one writes to.
        unsafe {
            let provider = MLDictionaryFeatureProvider::initWithDictionary_error(
                MLDictionaryFeatureProvider::alloc(),
                &features,
            )
            .map_err(|error| failed(what, Some(&error)))?;
            let options = MLPredictionOptions::new();
            options.setOutputBackings(&backings);
            Ok(Self {
                inputs: provider,
                options,
                arrays: surfaces.map(|surface| surface.array().clone()).collect(),
            })
        }
    }

    /// Whether it was made for these.
    pub(super) fn is_to(&self, inputs: &[&Surface], outputs: &[&Surface]) -> bool {
        let surfaces = inputs.iter().chain(outputs);
        surfaces
            .map(|surface| Retained::as_ptr(surface.array()))
            .eq(self.arrays.iter().map(Retained::as_ptr))
    }
}

fn dictionary(
    ports: &[Port],
    surfaces: &[&Surface],
    object: impl Fn(&Surface) -> Retained<AnyObject>,
) -> Retained<NSDictionary<NSString, AnyObject>> {
    let names: Vec<_> = ports
        .iter()
        .map(|port| NSString::from_str(&port.name))
        .collect();
    let names: Vec<_> = names.iter().map(|name| &**name).collect();
    let objects: Vec<_> = surfaces.iter().map(|surface| object(surface)).collect();
    NSDictionary::from_retained_objects(&names, &objects)
}
