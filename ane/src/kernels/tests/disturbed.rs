//! Work that is stopped, entries that are damaged, several that want the same.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use super::{Bench, OPTIONS, programs};
use crate::dflash::build::Options;
use crate::errors::Error;
use crate::kernels::lock::Lock;
use crate::kernels::{Check, Entry, Portable, Stage, compile, list, remove};

#[test]
fn work_that_is_stopped_anywhere_leaves_nothing() {
    let bench = Bench::new("stopped");
    for stop in 0.. {
        let mut told = 0;
        let made = compile(
            &bench.draft(),
            &bench.cache(),
            OPTIONS,
            &Portable,
            &mut |p| {
                told += 1;
                if told > stop && p.stage != Stage::Done {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
        match made {
            Err(Error::Cancelled) => assert!(bench.names().is_empty(), "{stop}"),
            Err(error) => panic!("{error}"),
            Ok(_) => {
                assert!(stop >= 14, "{stop}");
                break;
            }
        }
    }
}

/// Files of an entry, and one way to damage each.
type Damage = fn(&Path);
const DAMAGES: [(&str, Damage, bool); 9] = [
    ("manifest.json", |file| fs::remove_file(file).unwrap(), true),
    ("manifest.json", |file| fs::write(file, "{").unwrap(), true),
    (
        "manifest.json",
        |file| edit(file, "\"width\": 16", "\"width\": 64"),
        true,
    ),
    (
        "manifest.json",
        |file| edit(file, "\"format\": 2", "\"format\": 1"),
        true,
    ),
    (WEIGHTS, |file| fs::remove_file(file).unwrap(), true),
    (WEIGHTS, |file| cut(file), true),
    ("stray", |file| fs::write(file, "").unwrap(), true),
    (WEIGHTS, |file| flip(file), false),
    (MODEL, |file| flip(file), false),
];
const MODEL: &str = "ingest_r32.mlpackage/Data/com.apple.CoreML/model.mlmodel";
const WEIGHTS: &str = "layer1_w16_c512.mlpackage/Data/com.apple.CoreML/weights/weight.bin";

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from));
    fs::write(file, text.replace(from, to)).unwrap();
}

fn cut(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() - 1]).unwrap();
}

fn flip(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_entry_is_one_error_and_is_made_anew() {
    let bench = Bench::new("damaged");
    let sound = bench.entry();
    let before = programs(&sound.path).unwrap();
    for (i, (file, damage, by_size)) in DAMAGES.into_iter().enumerate() {
        damage(&sound.path.join(file));
        let listed = list(&bench.cache()).unwrap().remove(0);
        match &listed {
            Err(damaged) => assert!(by_size && damaged.problem.contains(file), "{damaged:?}"),
            Ok(_) => assert!(!by_size, "{i}"),
        }
        if by_size && i % 2 == 0 {
            // Found by whoever compiles.
            let made = bench.compile(OPTIONS).unwrap();
            assert!(!made.hit && made.replaced.unwrap().contains(file), "{i}");
        } else {
            // Found by whoever loads.
            match programs(&sound.path) {
                Err(Error::Damaged { path, .. }) => assert_eq!(path, sound.path.join(file)),
                other => panic!("{i}: {other:?}"),
            }
            assert!(bench.names().is_empty(), "{i}");
            let made = bench.compile(OPTIONS).unwrap();
            assert!(!made.hit && made.replaced.is_none());
        }
        assert_eq!(programs(&sound.path).unwrap(), before);
    }
}

#[test]
fn of_two_at_once_one_makes_the_entry() {
    let bench = Bench::new("two");
    let (barrier, hits) = (Barrier::new(3), 3);
    let made: Vec<_> = thread::scope(|scope| {
        let spawn = |_| {
            scope.spawn(|| {
                barrier.wait();
                bench.compile(OPTIONS).unwrap().hit
            })
        };
        let threads: Vec<_> = (0..hits).map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(made.iter().filter(|hit| !**hit).count(), 1, "{made:?}");
    assert_eq!(bench.names().len(), 1);
}

#[test]
fn a_wait_can_be_stopped() {
    let bench = Bench::new("wait");
    let key = bench.entry().key();
    remove(&bench.cache(), None).unwrap();
    let path = bench.cache().join(format!(".{key}.lock"));
    let lock = Lock::try_new(&path).unwrap().unwrap();
    assert!(Lock::try_new(&path).unwrap().is_none());
    let mut waited = 0;
    let made = compile(
        &bench.draft(),
        &bench.cache(),
        OPTIONS,
        &Portable,
        &mut |p| {
            waited += usize::from(p.stage == Stage::Wait);
            if waited == 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    assert!(matches!(made, Err(Error::Cancelled)));
    drop(lock);
    assert!(bench.names().is_empty());
}

#[test]
fn entries_are_removed_by_key_or_all() {
    let bench = Bench::new("removed");
    assert_eq!(list(&bench.cache()).unwrap(), []);
    assert_eq!(remove(&bench.cache(), None).unwrap(), 0);
    let (first, second) = (
        bench.entry(),
        bench
            .compile(Options {
                width: 32,
                ..OPTIONS
            })
            .unwrap(),
    );
    for unknown in ["0123456789abcdef", "..", "../draft", ""] {
        let keys = [first.key(), unknown.into()];
        assert!(matches!(
            remove(&bench.cache(), Some(&keys)),
            Err(Error::Request(_))
        ));
    }
    assert_eq!(list(&bench.cache()).unwrap().len(), 2);
    assert_eq!(
        remove(&bench.cache(), Some(&[first.key()])).unwrap(),
        first.bytes
    );
    let left = bench.cache().join(format!(".{}.1-0.part", first.key()));
    fs::create_dir(&left).unwrap();
    fs::write(left.join("file"), "text").unwrap();
    fs::write(bench.cache().join(".0123456789abcdef.lock"), "").unwrap();
    assert_eq!(
        remove(&bench.cache(), None).unwrap(),
        second.entry.bytes + 4
    );
    assert!(bench.names().is_empty());
}

#[test]
fn an_entry_under_another_name_is_no_entry() {
    let bench = Bench::new("renamed");
    let entry = bench.entry();
    let other = bench.cache().join("0123456789abcdef");
    fs::rename(&entry.path, &other).unwrap();
    let error = Entry::open(&other, Check::Sizes).unwrap_err().to_string();
    assert!(error.contains("it is of other kernels"), "{error}");
}
