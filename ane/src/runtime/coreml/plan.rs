//! Where Core ML means to run the operations of a program.

use std::path::Path;
use std::time::Duration;

use block2::RcBlock;
use objc2::ClassType;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{AnyClass, NSObjectProtocol, ProtocolObject};
use objc2_core_ml::{
    MLCPUComputeDevice, MLComputeDeviceProtocol, MLComputePlan, MLGPUComputeDevice,
    MLModelStructureProgramOperation, MLNeuralEngineComputeDevice,
};
use objc2_foundation::{NSError, NSString};

use super::configuration;
use super::objects::{answered, catch, url};
use crate::runtime::RuntimeError;
use crate::runtime::deadline::{Answer, wait};
use crate::runtime::placement::{Device, OperationPlacement, Placement};

/// Of the compiled program in a folder. `what` begins the sentence of an error.
pub(super) fn placement(
    what: &str,
    compiled: &Path,
    limit: Duration,
) -> Result<Placement, RuntimeError> {
    let failed = |said: &str| RuntimeError::Failed {
        what: what.into(),
        said: said.into(),
    };
    if AnyClass::get(c"MLComputePlan").is_none() {
        return Err(failed("it needs macOS 14.4 or newer"));
    }
    autoreleasepool(|_| {
        let plan = load(what, compiled, limit)?;
        catch(what, || {
            // SAFETY: all of these only read the plan, which no other thread has.
            unsafe {
                let program = plan
                    .modelStructure()
                    .program()
                    .ok_or_else(|| failed("it is no program"))?;
                let main = program
                    .functions()
                    .objectForKey(&NSString::from_str("main"))
                    .ok_or_else(|| failed("it has no function main"))?;
                let operations = main.block().operations();
                Ok(Placement {
                    operations: operations
                        .iter()
                        .map(|operation| operation_placement(&plan, &operation))
                        .collect(),
                })
            }
        })?
    })
}

fn load(
    what: &str,
    compiled: &Path,
    limit: Duration,
) -> Result<Retained<MLComputePlan>, RuntimeError> {
    let url = url(what, compiled)?;
    let start = |answer: Answer<_>| {
        let named = what.to_owned();
        let handler = RcBlock::new(move |plan: *mut MLComputePlan, error: *mut NSError| {
            // SAFETY: Core ML calls with one of both.
            answer.give(unsafe { answered(&named, plan, error) });
        });
        // SAFETY: the handler takes what it is declared to take, on any thread.
        catch(what, || unsafe {
            MLComputePlan::loadContentsOfURL_configuration_completionHandler(
                &url,
                &configuration(),
                &handler,
            );
        })
    };
    wait(what, limit, start)?
}

/// # Safety
/// The operation is one of the plan's.
unsafe fn operation_placement(
    plan: &MLComputePlan,
    operation: &MLModelStructureProgramOperation,
) -> OperationPlacement {
    // SAFETY: these only read; see above.
    unsafe {
        let usage = plan.computeDeviceUsageForMLProgramOperation(operation);
        let cost = plan.estimatedCostOfMLProgramOperation(operation);
        let output = operation.outputs().firstObject();
        OperationPlacement {
            operation: operation.operatorName().to_string(),
            output: output.map_or_else(String::new, |output| output.name().to_string()),
            supported: usage.as_ref().map_or_else(Vec::new, |usage| {
                let devices = usage.supportedComputeDevices();
                devices.iter().filter_map(|it| device(&it)).collect()
            }),
            preferred: usage.and_then(|usage| device(&usage.preferredComputeDevice())),
            cost: cost.map(|cost| cost.weight()),
        }
    }
}

/// None for one that Core ML did not have when this was written.
fn device(object: &ProtocolObject<dyn MLComputeDeviceProtocol>) -> Option<Device> {
    [
        (MLNeuralEngineComputeDevice::class(), Device::NeuralEngine),
        (MLCPUComputeDevice::class(), Device::Cpu),
        (MLGPUComputeDevice::class(), Device::Gpu),
    ]
    .into_iter()
    .find(|(class, _)| object.isKindOfClass(class))
    .map(|(_, device)| device)
}
