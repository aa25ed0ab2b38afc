//! A real program, recorded and packed: the image answers every call of the recording as the originals did.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../image/tests/support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::path::Path;

use quell_image::write::Audience;
use quell_image::{FileContent, Image, Lookup};
use quell_pack::{PackOptions, pack};
use quell_record::{EngineChoice, RecordRequest, RecordedScope, TracePurpose};
use quell_trace::{Call, Class, Errno, Event, Header, Trace};
use support::{fsck, opened, scratch};

/// Looks only below here, whatever file system it is on.
const ROOT: &str = "/usr";

#[test]
fn privileged_an_image_answers_as_the_originals_did() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        println!("skipped, because there is no {}", python.display());
        return;
    }
    let scratch = scratch();
    let (trace, target) = (scratch.path().join("t.qtrace"), scratch.path().join("i.qimg"));
    let command = ["/usr/bin/python3", "-B", "-c", "import json, email.message, xml.dom.minidom"];
    let command: Vec<OsString> = command.map(OsString::from).to_vec();
    let environment = std::env::vars_os().collect();
    let (header, directory, scope) = (header(&command), trace.clone(), RecordedScope::Run);
    let (engine, roots) = (EngineChoice::Ptrace, Vec::new());
    let recording = RecordRequest {
        header,
        command,
        environment,
        directory,
        scope,
        engine,
        roots,
        purpose: TracePurpose::Any,
        python: quell_record::PythonHook::None,
    };
    if let Err(error) = quell_record::record(&recording, &mut ()) {
        println!("skipped, because nothing can be recorded here: {error}");
        return;
    }
    let trace = Trace::open(&[trace]).unwrap();
    let options =
        PackOptions { roots: vec![ROOT.into()], audience: Audience::Owner, ..PackOptions::default() };
    let packed = pack(&trace, &target, &options, &mut |_| {}).unwrap();
    assert!(packed.absences > 0 && packed.totals.held_files > 0, "{packed:?}");
    fsck(&target);
    let image = opened(std::fs::read(&target).unwrap());
    let mut answered = 0;
    for recording in &trace.recordings {
        let below = |event: &Event| {
            let path = recording.paths.bytes(event.target?);
            path.starts_with(ROOT.as_bytes()).then(|| path.to_vec())
        };
        recording
            .for_each_event(|event| {
                if let Some(path) = below(event) {
                    replay(&image, event, &path);
                    answered += 1;
                }
            })
            .unwrap();
    }
    assert!(answered > 100, "{answered}");
}

/// The image finds what the call found, and nothing where the call found nothing.
fn replay(image: &Image<Vec<u8>>, event: &Event, path: &[u8]) {
    let shown = path.escape_ascii();
    let found = walk(image, path);
    match event.outcome.errno() {
        None => assert!(matches!(found, Lookup::Found(_)), "{shown}: {:?} {found:?}", event.call),
        Some(Errno::ENOENT) => assert_eq!(found, Lookup::Absent, "{shown}: {:?}", event.call),
        Some(_) => assert_ne!(found, Lookup::Unknown, "{shown}: {:?}", event.call),
    }
    let reads = event.bytes_moved().0 > 0 && event.call.class() == Class::Read || event.call == Call::Mmap;
    if let (true, None, Lookup::Found(nid)) = (reads, event.outcome.errno(), found) {
        let held = match image.content(nid).unwrap() {
            FileContent::Held(_) => true,
            // A read without an offset of its own starts at the beginning.
            FileContent::Part(part) => part.bytes(0..1).is_some(),
            FileContent::Original => false,
        };
        assert!(held, "{shown} was read and is not held");
    }
}

fn walk(image: &Image<Vec<u8>>, path: &[u8]) -> Lookup {
    let mut found = Lookup::Found(image.root());
    for name in quell_image::path::components(path) {
        let Lookup::Found(nid) = found else { break };
        found = image.lookup(nid, name).unwrap();
    }
    found
}

fn header(command: &[OsString]) -> Header {
    let command = command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Header::begun(quell_record::ENGINE, "0", command)
}
