use proptest::prelude::*;

use super::*;
use crate::error::Result;

/// An operation on the catalog that can occur at any time.
#[derive(Clone, Debug)]
enum Step {
    Scan { files: Vec<(u8, u8)>, within: bool, complete: bool },
    Look { file: u8, version: u8 },
    Remove { file: u8 },
    Rename { from: u8, to: u8 },
    Index { count: usize },
    Fail { reason: Reason },
    Try { times: u8 },
    Requeue { file: u8 },
    RequeueAll,
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0u8..12;
    prop_oneof![
        (prop::collection::vec((file.clone(), 0u8..4), 0..10), any::<bool>(), any::<bool>())
            .prop_map(|(files, within, complete)| Step::Scan { files, within, complete }),
        (file.clone(), 0u8..4).prop_map(|(file, version)| Step::Look { file, version }),
        file.clone().prop_map(|file| Step::Remove { file }),
        (file.clone(), file.clone()).prop_map(|(from, to)| Step::Rename { from, to }),
        (1usize..5).prop_map(|count| Step::Index { count }),
        prop::sample::select(Reason::ALL.to_vec()).prop_map(|reason| Step::Fail { reason }),
        (1u8..3).prop_map(|times| Step::Try { times }),
        file.prop_map(|file| Step::Requeue { file }),
        Just(Step::RequeueAll),
        Just(Step::Forget),
    ]
}

fn path(file: u8) -> PathBuf {
    if file < 6 { format!("d/{file}.txt").into() } else { format!("{file}.md").into() }
}

fn found(file: u8, version: u8) -> FoundFile {
    FoundFile {
        path: path(file),
        size: u64::from(version),
        modified_ns: i64::from(version),
        changed_ns: 1 + i64::from(version),
        created_ns: None,
        inode: u64::from(file) % 5,
        device: 1,
        mode: 0o100_644,
        uid: 0,
        skip: (version == 0).then_some(Reason::Empty),
    }
}

fn apply_step(catalog: &Catalog, at: &Root, step: Step) -> Result<()> {
    let root = at.id;
    match step {
        Step::Scan { files, within, complete } => {
            let within = within.then_some(Path::new("d"));
            let mut files: Vec<FoundFile> = files.into_iter().map(|(file, version)| found(file, version)).collect();
            files.retain(|it| within.is_none_or(|folder| it.path.starts_with(folder)));
            catalog.apply_scan(root, within, files, &[path(3)], complete, CAUTIOUS)?;
        }
        Step::Look { file, version } => {
            catalog.apply_scan(root, Some(&path(file)), vec![found(file, version)], &[], true, CAUTIOUS)?;
        }
        Step::Remove { file } => {
            catalog.apply_scan(root, Some(&path(file)), Vec::new(), &[], true, CAUTIOUS)?;
        }
        Step::Rename { from, to } => {
            catalog.rename_trees(root, &[(path(from), path(to))], &|_| None)?;
        }
        Step::Index { count } => {
            let pending = catalog.next_pending(0, count)?;
            catalog.mark_indexed(&pending.iter().map(mark).collect::<Vec<_>>())?;
        }
        Step::Fail { reason } => {
            let marks = catalog.next_pending(0, 1)?.into_iter().map(|it| ReasonMark {
                file: FileStamp::new(&it),
                reason,
                detail: String::new(),
                hash: None,
                kind: it.kind,
                media_type: String::new(),
                contents: Contents::default(),
            });
            catalog.mark_reason(&marks.collect::<Vec<_>>())?;
        }
        Step::Try { times } => {
            let ids: Vec<FileId> = catalog.next_pending(0, 2)?.iter().map(|it| it.id).collect();
            catalog.begin_untried(&ids)?;
            (1..times).try_for_each(|_| catalog.begin_try(&ids))?;
        }
        Step::Requeue { file } => {
            let id = catalog.record_by_path(&at.path.join(path(file)))?.map(|it| it.id);
            catalog.requeue(&RequeueScope::Ids(id.into_iter().collect()))?;
        }
        Step::RequeueAll => {
            catalog.requeue(&RequeueScope::All)?;
        }
        Step::Forget => catalog.forget(&catalog.tombstones(3)?)?,
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn coverage_states_sum_to_found(
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let root = catalog.add_root(dir.path()).unwrap();
        for step in steps {
            apply_step(&catalog, &root, step).unwrap();
            let coverage = catalog.coverage(Some(root.id)).unwrap();
            let sum = coverage.indexed + coverage.skipped + coverage.failed + coverage.pending;
            prop_assert_eq!(sum, coverage.found);
            prop_assert_eq!(coverage.reasons.values().sum::<u64>(), coverage.skipped + coverage.failed);
            let ids = catalog.select(&FileFilter::default()).unwrap();
            prop_assert_eq!(ids.len() as u64, coverage.found);
            prop_assert_eq!(catalog.pending_count(None).unwrap(), coverage.pending);
            for record in catalog.records(&ids).unwrap() {
                let needs_reason = matches!(record.state, FileState::Skipped | FileState::Failed);
                prop_assert_eq!(record.reason.is_some(), needs_reason);
                prop_assert!(record.reason.is_none_or(|it| it.state() == record.state));
            }
        }
    }
}

#[test]
fn duplicate_name_from_walk_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
    let root = catalog.add_root(dir.path()).unwrap();
    // Files 4 and 9 have the same inode. The second scan lists file 4 twice, the second time also with the size and times
    // of file 9 (version 3). If this entry were kept, file 9 would seem to have moved to the path of file 4.
    catalog.apply_scan(root.id, None, vec![found(9, 3), found(4, 0)], &[], true, CAUTIOUS).unwrap();
    catalog.apply_scan(root.id, None, vec![found(4, 0), found(4, 3)], &[], true, CAUTIOUS).unwrap();
    assert_eq!(catalog.coverage(None).unwrap().found, 1);
}
