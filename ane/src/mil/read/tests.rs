//! What was written is read as it was; what was not is refused.

use std::fs;
use std::path::{Path, PathBuf};

use half::f16;

use super::read_package;
use crate::buffer::{Elements, ElementsMut, View, ViewMut};
use crate::dflash::Draft;
use crate::dflash::build::{Options, Upcoming, each_program};
use crate::dflash::samples::{Numbers, SMALL, Shape, place, write_draft};
use crate::dflash::weights::Loader;
use crate::errors::Error;
use crate::mil::graph::Program;
use crate::mil::package::write_package;
use crate::quantize::Precision;
use crate::runtime::Runtime;
use crate::runtime::cpu::CpuRuntime;

const OPTIONS: Options = Options {
    precision: Precision::W8a16,
    width: 16,
    context: 512,
};

/// All programs of a draft.
fn programs(folder: &Path, options: Options) -> Vec<Program> {
    let draft = Draft::open(folder).unwrap();
    let mut loader = Loader::new(&draft, options.precision);
    let mut programs = vec![];
    each_program(&draft, &mut loader, options, &mut |upcoming, _| {
        if let Upcoming::Program(program) = upcoming {
            programs.push(program);
        }
        Ok(())
    })
    .unwrap();
    programs
}

/// The outputs' bits for inputs from a fixed sequence.
fn outputs(program: &Program) -> Vec<Vec<u16>> {
    let mut loaded = CpuRuntime::new(1).load(program).unwrap();
    let mut numbers = Numbers::new(7);
    let filled = |shape: &[usize], numbers: &mut Numbers| {
        let count = shape.iter().product();
        (0..count).map(|_| f16::from_f32(numbers.unit())).collect()
    };
    let strides = |shape: &[usize]| -> Vec<usize> {
        (0..shape.len())
            .map(|i| shape[i + 1..].iter().product())
            .collect()
    };
    let (inputs, results) = (loaded.inputs().to_vec(), loaded.outputs().to_vec());
    let data: Vec<Vec<f16>> = inputs
        .iter()
        .map(|port| filled(&port.shape, &mut numbers))
        .collect();
    let mut made: Vec<Vec<f16>> = results
        .iter()
        .map(|port| vec![f16::ZERO; port.shape.iter().product()])
        .collect();
    let input_strides: Vec<_> = inputs.iter().map(|port| strides(&port.shape)).collect();
    let output_strides: Vec<_> = results.iter().map(|port| strides(&port.shape)).collect();
    let views: Vec<_> = (0..inputs.len())
        .map(|i| {
            View::new(
                Elements::Fp16(&data[i]),
                &inputs[i].shape,
                &input_strides[i],
            )
            .unwrap()
        })
        .collect();
    let mut view_muts: Vec<_> = made
        .iter_mut()
        .enumerate()
        .map(|(i, made)| {
            ViewMut::new(
                ElementsMut::Fp16(made),
                &results[i].shape,
                &output_strides[i],
            )
            .unwrap()
        })
        .collect();
    loaded.run(&views, &mut view_muts).unwrap();
    made.iter()
        .map(|values| values.iter().map(|value| value.to_bits()).collect())
        .collect()
}

#[test]
fn every_program_of_random_drafts_is_read_as_it_was_written_and_gives_the_same_bits() {
    let folder = place("read-random");
    let mut numbers = Numbers::new(1);
    for seed in 0..4 {
        let kv_heads = 1 + numbers.below(3);
        let shape = Shape {
            hidden: 8 + numbers.below(60),
            layers: 1 + numbers.below(2),
            heads: kv_heads * (1 + numbers.below(3)),
            kv_heads,
            head_dim: 2 * (1 + numbers.below(12)),
            // Some above 16384, where sums are split.
            inner: [5, 64, 16_400, 120][seed as usize],
            sliding: numbers.below(2) == 1,
        };
        let draft = folder.join(format!("draft{seed}"));
        write_draft(&draft, &shape, seed);
        for (precision, width, context) in
            [(Precision::W8a16, 16, 2048), (Precision::Fp16, 32, 512)]
        {
            let options = Options {
                precision,
                width,
                context,
            };
            for program in programs(&draft, options) {
                let package = folder.join(format!("{}.mlpackage", program.name));
                write_package(&program, &package).unwrap();
                let read = read_package(&package).unwrap();
                assert_eq!(read, program);
                assert_eq!(outputs(&read), outputs(&program));
                fs::remove_dir_all(package).unwrap();
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A package of a small layer, and its files.
fn sample(name: &str) -> (PathBuf, Vec<PathBuf>) {
    let folder = place(name);
    write_draft(&folder.join("draft"), &SMALL, 3);
    let program = programs(&folder.join("draft"), OPTIONS).pop().unwrap();
    let package = folder.join("layer.mlpackage");
    write_package(&program, &package).unwrap();
    let files = [super::MANIFEST_FILE, super::MODEL_FILE, super::WEIGHTS_FILE];
    let files = files.map(|file| package.join(file)).to_vec();
    (package, files)
}

/// The refusal names the file, or the model whose weights are elsewhere.
fn refused(package: &Path, file: &Path) {
    match read_package(package) {
        Err(Error::Damaged { path, problem }) => {
            assert!(!problem.is_empty() && !problem.contains('\n'), "{problem}");
            let model = path.ends_with("model.mlmodel") && file.ends_with("weight.bin");
            assert!(
                path == file || model,
                "{} for {}",
                path.display(),
                file.display()
            );
        }
        other => panic!("{}: {other:?}", file.display()),
    }
}

#[test]
fn files_that_are_cut_off_or_longer_or_missing_are_refused() {
    let (package, files) = sample("read-cut");
    let mut numbers = Numbers::new(2);
    for file in &files {
        let whole = fs::read(file).unwrap();
        let cuts = (0..60).map(|_| numbers.below(whole.len()));
        for cut in cuts.chain([0, 1, 63, 64, whole.len() - 1]) {
            fs::write(file, &whole[..cut]).unwrap();
            refused(&package, file);
        }
        for tail in [&[0; 1][..], &[0; 64], b"\x0a\x00"] {
            fs::write(file, [&whole, tail].concat()).unwrap();
            refused(&package, file);
        }
        fs::remove_file(file).unwrap();
        refused(&package, file);
        fs::write(file, whole).unwrap();
    }
    read_package(&package).unwrap();
    fs::remove_dir_all(package.parent().unwrap()).unwrap();
}

/// In the model and around the weights, any bit; a weight may have any bits.
#[test]
fn flipped_bits_are_refused_or_make_another_weight() {
    let (package, files) = sample("read-flipped");
    let program = read_package(&package).unwrap();
    let mut numbers = Numbers::new(3);
    for (file, tries) in files.iter().zip([40, 1000, 200]) {
        let whole = fs::read(file).unwrap();
        for _ in 0..tries {
            let mut bytes = whole.clone();
            bytes[numbers.below(whole.len())] ^= 1 << numbers.below(8);
            fs::write(file, bytes).unwrap();
            match read_package(&package) {
                Ok(read) => {
                    assert!(!file.ends_with(super::MANIFEST_FILE));
                    assert_eq!(read.inputs, program.inputs);
                    assert_ne!(read, program);
                }
                Err(_) => refused(&package, file),
            }
        }
        fs::write(file, whole).unwrap();
    }
    fs::remove_dir_all(package.parent().unwrap()).unwrap();
}
