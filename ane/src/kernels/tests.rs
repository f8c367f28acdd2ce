//! The cache through its four functions.

mod disturbed;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::files::{hash, walk};
use super::load::each;
use super::{
    Compiled, Compiler, Entry, Portable, Progress, Stage, compile, list, load, package_name, place,
};
use crate::dflash::build::{BUILDER_VERSION, Options};
use crate::dflash::samples::{SMALL, place as scratch_place, write_draft};
use crate::errors::Error;
use crate::mil::graph::Program;
use crate::mil::read::read_package;
use crate::quantize::Precision;
use crate::runtime::Interface;
use crate::runtime::cpu::CpuRuntime;

const OPTIONS: Options = Options {
    precision: Precision::W8a16,
    width: 16,
    context: 512,
};

/// A folder with a small draft and a place for a cache.
struct Bench {
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Self {
        let folder = scratch_place(&format!("kernels-{name}"));
        write_draft(&folder.join("draft"), &SMALL, 5);
        Self { folder }
    }

    fn draft(&self) -> PathBuf {
        self.folder.join("draft")
    }

    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    fn compile(&self, options: Options) -> Result<Compiled, Error> {
        compile(&self.draft(), &self.cache(), options, &Portable, &mut go)
    }

    fn entry(&self) -> Entry {
        self.compile(OPTIONS).unwrap().entry
    }

    /// Everything in the cache, hidden or not, but what it knows of files.
    fn names(&self) -> Vec<String> {
        let items = fs::read_dir(self.cache()).unwrap();
        let names = items.map(|item| item.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "hashes.json").collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn go(_: &Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn programs(entry: &Path) -> Result<Vec<Program>, Error> {
    each(entry, |_, program| {
        read_package(&entry.join(package_name(&program.name)))
    })
}

#[test]
fn what_was_made_is_found_again() {
    let bench = Bench::new("found");
    let mut stages = vec![];
    let mut seen = vec![];
    let made = compile(
        &bench.draft(),
        &bench.cache(),
        OPTIONS,
        &Portable,
        &mut |p| {
            stages.push(format!("{} {}", p.stage.name(), p.program));
            seen.push((p.done, p.total));
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    assert!(!made.hit && made.replaced.is_none());
    let mut expected = vec!["hash ".to_string()];
    for program in ["ingest_r32", "ingest_r256", "layer0", "layer1"] {
        expected.extend(["quantise", "build", "write"].map(|stage| format!("{stage} {program}")));
    }
    expected.extend(["seal ".into(), "done ".into()]);
    stages.dedup();
    assert_eq!(stages, expected);
    assert!(
        seen.is_sorted() && seen[0] == (0, 13) && *seen.last().unwrap() == (13, 13),
        "{seen:?}"
    );

    let entry = made.entry;
    let found = bench.compile(OPTIONS).unwrap();
    assert!(found.hit && found.replaced.is_none());
    assert_eq!(found.entry.manifest, entry.manifest);
    assert!(found.entry.last_used_s >= entry.last_used_s);
    assert_eq!(entry.path, bench.cache().join(entry.key()));
    assert_eq!(bench.names(), [entry.key()]);
    assert_eq!(
        entry.bytes,
        walk(&entry.path).unwrap().values().sum::<u64>()
    );
    let interfaces = &entry.manifest.programs;
    let names: Vec<_> = interfaces.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "ingest_r32",
            "ingest_r256",
            "layer0_w16_c512",
            "layer1_w16_c512"
        ]
    );
    let read = programs(&entry.path).unwrap();
    let read: Vec<_> = read.iter().map(Interface::of).collect();
    assert_eq!(&read, interfaces);
    let loaded = load(&entry.path, &CpuRuntime::new(1)).unwrap();
    for (program, interface) in loaded.iter().zip(interfaces) {
        assert_eq!(program.name(), interface.name);
        assert_eq!(program.inputs(), interface.inputs);
        assert_eq!(program.outputs(), interface.outputs);
    }
    let listed = list(&bench.cache()).unwrap();
    assert_eq!(listed[0].as_ref().unwrap().manifest, entry.manifest);
}

#[test]
fn each_part_of_the_key_makes_another_entry() {
    struct Other(&'static str, &'static str);
    impl Compiler for Other {
        fn runtime(&self) -> &'static str {
            self.0
        }
        fn system(&self) -> Result<String, Error> {
            Ok(self.1.into())
        }
        fn compiles(&self) -> bool {
            false
        }
        fn compile(&self, _: &Path, _: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
            Ok(())
        }
    }
    let bench = Bench::new("parts");
    let mut keys = vec![];
    for options in [
        OPTIONS,
        Options {
            width: 32,
            ..OPTIONS
        },
        Options {
            context: 2048,
            ..OPTIONS
        },
        Options {
            precision: Precision::Fp16,
            ..OPTIONS
        },
    ] {
        keys.push(bench.compile(options).unwrap().entry.key());
    }
    for other in [Other("coreml", "25A1"), Other("coreml", "25A2")] {
        let made = compile(&bench.draft(), &bench.cache(), OPTIONS, &other, &mut go).unwrap();
        keys.push(made.entry.key());
    }
    let weights = bench.draft().join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    keys.push(bench.entry().key());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 7);
    assert_eq!(bench.names().len(), 7);
    // Neither place nor name of the draft matter.
    fs::rename(bench.draft(), bench.folder.join("moved")).unwrap();
    let moved = bench.folder.join("moved");
    assert!(
        compile(&moved, &bench.cache(), OPTIONS, &Portable, &mut go)
            .unwrap()
            .hit
    );
}

/// What a system's compiler makes is part of the entry; its errors are those of the work.
#[test]
fn what_the_systems_compiler_makes_is_kept() {
    struct System {
        fails: bool,
    }
    impl Compiler for System {
        fn runtime(&self) -> &'static str {
            "system"
        }
        fn system(&self) -> Result<String, Error> {
            Ok("build 7".into())
        }
        fn compiles(&self) -> bool {
            true
        }
        fn compile(
            &self,
            package: &Path,
            tick: &mut dyn FnMut() -> Result<(), Error>,
        ) -> Result<(), Error> {
            tick()?;
            if self.fails {
                return Err(Error::Request("It did not compile".into()));
            }
            fs::rename(package, package.with_extension("compiled")).unwrap();
            Ok(())
        }
    }
    let bench = Bench::new("system");
    let run = |fails| {
        let mut stages = vec![];
        let made = compile(
            &bench.draft(),
            &bench.cache(),
            OPTIONS,
            &System { fails },
            &mut |p| {
                stages.push(p.stage);
                ControlFlow::Continue(())
            },
        );
        (made, stages.contains(&Stage::Compile))
    };
    assert!(matches!(run(true), (Err(Error::Request(_)), true)));
    assert!(bench.names().is_empty());
    let (made, compiled) = run(false);
    let Entry { path, manifest, .. } = made.unwrap().entry;
    assert!(compiled && manifest.seconds.contains_key("compile"));
    assert_eq!(manifest.parts.system, "build 7");
    assert!(
        manifest
            .files
            .keys()
            .all(|file| file.contains(".compiled/"))
    );
    let of_another_runtime = "The kernels are for system, which this system does not have";
    let loaded = load(&path, &CpuRuntime::new(1)).map(|_| ());
    assert_eq!(loaded.unwrap_err().to_string(), of_another_runtime);
    assert_eq!(place(&path).unwrap_err().to_string(), of_another_runtime);
    assert!(path.exists(), "they are sound");
}

#[test]
fn on_the_processor_everything_is_placed_there() {
    let bench = Bench::new("placed");
    let entry = bench.entry();
    let placements = place(&entry.path).unwrap();
    let loaded = load(&entry.path, &CpuRuntime::new(1)).unwrap();
    assert_eq!(placements.len(), 4);
    for ((name, placement), program) in placements.iter().zip(loaded) {
        assert_eq!(
            (name.as_str(), placement),
            (program.name(), &program.placement().unwrap())
        );
        let shares = placement.shares();
        assert!(shares.operations > 20, "{shares:?}");
        assert_eq!(
            (shares.neural_engine, shares.gpu, shares.cpu),
            (0.0, 0.0, 1.0)
        );
    }
}

/// Other bytes for the same draft are another builder: raise [`BUILDER_VERSION`] with the hash.
#[test]
fn this_builder_gives_these_bytes() {
    let bench = Bench::new("golden");
    let mut hashes = vec![];
    for precision in [Precision::W8a16, Precision::Fp16] {
        let entry = bench
            .compile(Options {
                precision,
                ..OPTIONS
            })
            .unwrap()
            .entry;
        for (name, record) in entry.manifest.files {
            hashes.push(format!("{name} {}", record.sha256));
        }
    }
    let golden = "71121d2ce1578f9897d300f11ecb52d581d070efa2aa2ac9137fc091232dbc85";
    assert_eq!(
        (BUILDER_VERSION, hash(hashes.join("\n").as_bytes()).as_str()),
        (1, golden)
    );
}
