//! Tests that there is a seed file of every supported format, and that each seed is extracted as its format without
//! problems.

use std::collections::BTreeSet;

use vic::model::ExtractLimits;

use crate::hostile::extract_with;
use crate::hostile::one_worker_pool;
use crate::hostile::worker_program;
use crate::support::seeds::formats;
use crate::support::seeds::seeds;

// Case C17
#[test]
fn every_supported_format_has_a_seed() {
    let seeds = seeds();
    let is_made = |extension: &&str| seeds.iter().any(|it| it.name.rsplit('.').next() == Some(*extension));
    let missing: Vec<&str> =
        formats().iter().filter(|it| !it.extensions.iter().any(&is_made)).map(|it| it.media_type).collect();
    assert!(missing.is_empty(), "no seed in `tests/it/support/seeds` for {missing:?}");
    let names: BTreeSet<&str> = seeds.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), seeds.len(), "every seed must have its own name");
}

// Case C17
#[tokio::test]
async fn seeds_are_read_as_their_named_format() {
    let pool = one_worker_pool(worker_program(), ExtractLimits::default());
    let formats = formats();
    let mut wrong = Vec::new();
    for seed in seeds() {
        let extension = seed.name.rsplit('.').next().unwrap();
        let format = formats.iter().find(|it| it.extensions.contains(&extension)).unwrap();
        match extract_with(&pool, seed.name, &seed.bytes).await {
            Ok(it)
                if it.media_type == format.media_type
                    && it.problems.is_empty()
                    && it.text().contains(seed.expected_text) => {}
            other => wrong.push(format!("{}: {other:?}", seed.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
