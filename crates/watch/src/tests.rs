//! Tests that both backends report the same events for the same changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{Beat, Descriptor, Event, EventKind, OpenBackend, Refusal, WatchBackend, inotify, notify_backend};

/// An event must arrive within this time, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);

/// A backend with a temporary folder; a thread reads its events.
struct Scene<B> {
    dir: tempfile::TempDir,
    backend: B,
    beat: Beat,
    heartbeat: Descriptor,
    events: Receiver<Event>,
}

impl<B: WatchBackend> Scene<B> {
    fn new(open: OpenBackend<B>) -> Scene<B> {
        let OpenBackend { mut backend, reader, beat } = open;
        let (sender, events) = channel();
        std::thread::spawn(move || reader(&mut |event| sender.send(event).is_ok()));
        let heartbeat = backend.watch_heartbeat().unwrap();
        Scene { dir: tempfile::tempdir().unwrap(), backend, beat, heartbeat, events }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    fn watch(&mut self, relative: &str) -> Descriptor {
        self.backend.watch(&self.path(relative)).unwrap()
    }

    /// Sends a heartbeat, and returns the events that arrive before it.
    fn events(&self) -> Vec<Event> {
        (self.beat)();
        let next = || self.events.recv_timeout(DEADLINE).unwrap();
        std::iter::repeat_with(next).take_while(|it| it.watch != self.heartbeat).collect()
    }

    /// Returns the kinds of the events of an entry in a watched folder.
    fn kinds(&self, watch: Descriptor, name: &str) -> Vec<EventKind> {
        let is_meant = |it: &Event| it.watch == watch && it.name.as_deref() == Some(name.as_ref());
        self.events().into_iter().filter(is_meant).map(|it| it.kind).collect()
    }
}

macro_rules! on_each_backend {
    ($scene:ident, $body:block) => {{
        {
            let mut $scene = Scene::new(inotify::open().unwrap());
            $body
        }
        let mut $scene = Scene::new(notify_backend::open().unwrap());
        $body
    }};
}

#[test]
fn written_file_is_created_written_and_closed() {
    on_each_backend!(scene, {
        let root = scene.watch("");
        fs::write(scene.path("a.txt"), "x").unwrap();
        let kinds = scene.kinds(root, "a.txt");
        assert_eq!(kinds.first(), Some(&EventKind::Created), "{kinds:?}");
        assert!(kinds.contains(&EventKind::Written) && kinds.ends_with(&[EventKind::Closed]), "{kinds:?}");
        (0..100).for_each(|_| drop(fs::read(scene.path("a.txt")).unwrap()));
        assert_eq!(scene.kinds(root, "a.txt"), []);
        fs::remove_file(scene.path("a.txt")).unwrap();
        assert_eq!(scene.kinds(root, "a.txt"), [EventKind::Deleted]);
    });
}

#[test]
fn rename_has_two_halves_with_one_cookie() {
    on_each_backend!(scene, {
        let root = scene.watch("");
        fs::write(scene.path("a.txt"), "x").unwrap();
        scene.events();
        fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
        let events = scene.events();
        let halves: Vec<_> = events.iter().map(|it| (it.watch, it.kind, it.name.clone().unwrap())).collect();
        let expected = [(root, EventKind::MovedFrom, "a.txt".into()), (root, EventKind::MovedTo, "b.txt".into())];
        assert_eq!(halves, expected);
        assert!(events[0].cookie != 0 && events[0].cookie == events[1].cookie, "{events:?}");
    });
}

#[test]
fn new_folder_is_reported_as_folder_and_unwatched_is_silent() {
    on_each_backend!(scene, {
        let root = scene.watch("");
        fs::create_dir(scene.path("new")).unwrap();
        let events = scene.events();
        assert!(
            events.iter().any(|it| it.kind == EventKind::Created && it.is_folder && it.watch == root),
            "{events:?}"
        );
        let new = scene.watch("new");
        fs::write(scene.path("new/a.txt"), "x").unwrap();
        assert!(!scene.kinds(new, "a.txt").is_empty());
        scene.backend.unwatch(new);
        fs::write(scene.path("new/a.txt"), "y").unwrap();
        assert_eq!(scene.kinds(new, "a.txt"), []);
    });
}

#[test]
fn watched_folder_that_goes_is_reported_itself() {
    on_each_backend!(scene, {
        fs::create_dir(scene.path("f")).unwrap();
        let folder = scene.watch("f");
        fs::remove_dir(scene.path("f")).unwrap();
        let events = scene.events();
        assert!(
            events.iter().any(|it| it.watch == folder && it.kind == EventKind::FolderGone && it.name.is_none()),
            "{events:?}"
        );
    });
}

#[test]
fn file_or_missing_folder_cannot_be_watched() {
    on_each_backend!(scene, {
        fs::write(scene.path("a.txt"), "x").unwrap();
        assert_eq!(scene.backend.watch(&scene.path("a.txt")), Err(Refusal::Gone));
        assert_eq!(scene.backend.watch(Path::new("/no/such/folder")), Err(Refusal::Gone));
    });
}

#[test]
fn heartbeats_arrive_once_each_behind_earlier_events() {
    on_each_backend!(scene, {
        scene.watch("");
        for name in ["a", "b", "c"] {
            fs::write(scene.path(name), "x").unwrap();
            let events = scene.events();
            assert!(events.iter().all(|it| it.name.as_deref() == Some(name.as_ref())), "{events:?}");
            assert!(!events.is_empty());
        }
        assert!(scene.events.recv_timeout(Duration::from_millis(100)).is_err());
    });
}
