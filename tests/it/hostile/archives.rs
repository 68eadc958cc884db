//! Archive bombs: false sizes, overlapping entries and nested archives. Limits must apply to the bytes that actually come
//! out of the whole tree of archives.

use std::io::{Cursor, Write};

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use vic::model::{ExtractLimits, Reason};
use zip::write::SimpleFileOptions;

use super::bombs::{Bomb, bomb, zip_with_large_part};
use super::{extract_with, one_worker_pool, worker_program};
use crate::support::long_tests::Rng;

const LIMIT: &[Reason] = &[Reason::DecompressionLimit];
const DAMAGED: &[Reason] = &[Reason::Damaged];
const EITHER: &[Reason] = &[Reason::DecompressionLimit, Reason::Damaged];

pub(super) fn archive_bombs() -> Vec<Bomb> {
    let zeros = deflated(&[0], 300 << 20);
    let noise = stored(&vec![0; 5 << 20]);
    let wide = |name: &str, inner: &[u8], count: usize| zipped(&vec![(name, inner); count]);
    let bottom = zip_with_large_part(&[], ("zeros.bin", "", "\0", 20));
    let deep =
        |depth: usize| (1..depth).fold(zipped(&[("a.txt", b"The heron.")]), |inner, _| zipped(&[("a.zip", &inner)]));
    vec![
        // vic must refuse these gzip files: a gzip stream may contain a whole archive, so vic inflates it in one piece, and
        // for a small file the memory limit is lower.
        bomb("zeros.gz", gzipped(&vec![b'0'; 1 << 20], 1_024), LIMIT),
        bomb("tenfold.gz", (0..10).fold(gzipped(b"The heron.", 1), |inner, _| gzipped(&inner, 1)), &[Reason::TooDeep]),
        // The sizes in a header are false; vic must neither trust them as a limit nor allocate memory by them.
        bomb("says-little.zip", ZipEntry { unpacked: 10, ..zeros.clone() }.single_zip(), EITHER),
        bomb("says-nothing.zip", ZipEntry { unpacked: 0, packed: 0, ..zeros.clone() }.single_zip(), EITHER),
        bomb("says-packed.zip", ZipEntry { packed: 0x7fff_ffff, ..zeros.clone() }.single_zip(), EITHER),
        bomb("says-much.zip", ZipEntry { unpacked: 0xffff_fff0, ..stored(b"The heron.") }.single_zip(), DAMAGED),
        bomb(
            "says-much-64.zip",
            ZipEntry { zip64_sizes: Some((1 << 62, 10)), ..stored(b"The heron.") }.single_zip(),
            DAMAGED,
        ),
        bomb(
            "says-little-64.zip",
            ZipEntry { zip64_sizes: Some((10, zeros.data.len() as u64)), ..zeros.clone() }.single_zip(),
            EITHER,
        ),
        bomb("elsewhere-64.zip", ZipEntry { zip64_sizes: Some((10, u64::MAX)), ..zeros }.single_zip(), EITHER),
        bomb("countless-64.zip", stored(b"The heron.").with_end_64(1 << 40, 0), EITHER),
        bomb("far-away-64.zip", stored(b"The heron.").with_end_64(1, 1 << 60), DAMAGED),
        bomb("long.tar", tar_with_claimed_size(1 << 60), DAMAGED),
        // Hundreds or thousands of entries share the same data.
        Bomb::truncated("overlap.zip", deflated(b"word ", 60 << 20).repeated_zip(500)),
        Bomb::truncated("overlap-noise.zip", noise.repeated_zip(500)),
        Bomb::truncated("countless.zip", stored(b"The heron.").repeated_zip(65_000)),
        // Archives are nested in archives.
        bomb("wide.zip", wide("a.zip", &wide("b.zip", &bottom, 20), 20), LIMIT),
        bomb("matryoshka.zip", nested_zips(), &[Reason::TooDeep, Reason::DecompressionLimit]),
        Bomb::containing("three.zip", deep(3), "The heron."),
        bomb("four.zip", deep(4), &[Reason::TooDeep]),
    ]
}

#[tokio::test]
async fn honest_archive_inflates_up_to_reader_memory() {
    // Writes words in random order: 150 MiB of such text compress to a fifth of their size, and unpacked they exceed the
    // memory limit for a small file.
    let mut dice = Rng::new(5);
    let mut text = Vec::with_capacity(150 << 20);
    while text.len() < 150 << 20 {
        let word = dice.below(1_000).to_string();
        text.extend_from_slice(format!("heron{word}{}", if dice.below(9) == 0 { "\n" } else { " " }).as_bytes());
    }
    let pool = one_worker_pool(worker_program(), ExtractLimits::default());
    let document = extract_with(&pool, "log.txt.gz", &gzipped(&text, 1)).await.unwrap();
    assert!(document.truncated && document.text().starts_with("heron"), "{} bytes", document.text().len());
}

/// Returns zips nested five levels deep and sixteen wide, with 512 MiB in each innermost zip.
fn nested_zips() -> Vec<u8> {
    let bottom = zip_with_large_part(&[], ("zeros.txt", "", "0", 512));
    (0..5).fold(bottom, |inner, _| zipped(&vec![("a.zip", inner.as_slice()); 16]))
}

fn zipped(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (number, (name, bytes)) in parts.iter().enumerate() {
        writer.start_file(format!("{number}/{name}"), SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn gzipped(block: &[u8], times: usize) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    (0..times).for_each(|_| writer.write_all(block).unwrap());
    writer.finish().unwrap()
}

/// Returns a tar archive with the header of one file that claims this size, and less data.
fn tar_with_claimed_size(size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_path("a.txt").unwrap();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    header.set_cksum();
    [header.as_bytes().as_slice(), &[b'x'; 1_024]].concat()
}

/// A zip entry with its data and the sizes that its headers claim.
#[derive(Clone)]
struct ZipEntry {
    data: Vec<u8>,
    method: u16,
    crc: u32,
    packed: u32,
    unpacked: u32,
    /// Unpacked and packed size for the ZIP64 field, which then replace `unpacked` and `packed`.
    zip64_sizes: Option<(u64, u64)>,
}

fn stored(bytes: &[u8]) -> ZipEntry {
    let mut crc = Crc::new();
    crc.update(bytes);
    let size = bytes.len() as u32;
    ZipEntry { data: bytes.to_vec(), method: 0, crc: crc.sum(), packed: size, unpacked: size, zip64_sizes: None }
}

/// Returns a deflated entry with `length` bytes of a repeated pattern.
fn deflated(pattern: &[u8], length: usize) -> ZipEntry {
    let block = pattern.repeat((1 << 20) / pattern.len());
    let (mut writer, mut crc) = (DeflateEncoder::new(Vec::new(), Compression::fast()), Crc::new());
    for _ in 0..length / block.len() {
        writer.write_all(&block).unwrap();
        crc.update(&block);
    }
    let data = writer.finish().unwrap();
    let packed = data.len() as u32;
    ZipEntry { data, method: 8, crc: crc.sum(), packed, unpacked: crc.amount(), zip64_sizes: None }
}

/// Returns the name of an entry. All names have the same length, so that header offsets do not change.
fn entry_name(number: u16) -> Vec<u8> {
    format!("{number:05}.txt").into_bytes()
}

impl ZipEntry {
    fn sizes(&self) -> (u32, u32, Vec<u8>) {
        match self.zip64_sizes {
            None => (self.packed, self.unpacked, Vec::new()),
            Some((unpacked, packed)) => {
                let extra =
                    [&1u16.to_le_bytes()[..], &16u16.to_le_bytes(), &unpacked.to_le_bytes(), &packed.to_le_bytes()];
                (u32::MAX, u32::MAX, extra.concat())
            }
        }
    }

    /// Returns the fields that local header and central directory record share, from the flags to the length of the extra
    /// field.
    fn header_fields(&self) -> Vec<u8> {
        let (packed, unpacked, extra) = self.sizes();
        let numbers = [self.crc, packed, unpacked].map(u32::to_le_bytes).concat();
        let lengths = [entry_name(0).len() as u16, extra.len() as u16].map(u16::to_le_bytes).concat();
        [&[0, 0][..], &self.method.to_le_bytes(), &[0, 0, 0x21, 0], &numbers, &lengths].concat()
    }

    fn local(&self) -> Vec<u8> {
        [b"PK\x03\x04\x2d\0", self.header_fields().as_slice(), &entry_name(0), &self.sizes().2, &self.data].concat()
    }

    fn record(&self, number: u16) -> Vec<u8> {
        [b"PK\x01\x02\x2d\0\x2d\0", self.header_fields().as_slice(), &[0; 14], &entry_name(number), &self.sizes().2]
            .concat()
    }

    fn single_zip(&self) -> Vec<u8> {
        self.repeated_zip(1)
    }

    /// Returns a zip with `count` entries that share the data of this entry.
    fn repeated_zip(&self, count: u16) -> Vec<u8> {
        let local = self.local();
        // Each entry gets its own name, because entries with equal names would count as one.
        let directory = (0..count).map(|number| self.record(number)).collect::<Vec<_>>().concat();
        let end = end_record(count, directory.len() as u32, local.len() as u32);
        [local, directory, end].concat()
    }

    /// Returns a zip with a ZIP64 end record that claims `entries` entries, and a locator that points `off` bytes beyond the
    /// record.
    fn with_end_64(&self, entries: u64, off: u64) -> Vec<u8> {
        let (local, record) = (self.local(), self.record(0));
        let at = (local.len() + record.len()) as u64;
        let numbers = [entries, entries, record.len() as u64, local.len() as u64].map(u64::to_le_bytes).concat();
        let wide = [b"PK\x06\x06", &44u64.to_le_bytes()[..], &[0x2d, 0, 0x2d, 0], &[0; 8], &numbers].concat();
        let locator = [b"PK\x06\x07\0\0\0\0", &at.saturating_add(off).to_le_bytes()[..], &1u32.to_le_bytes()].concat();
        [local, record, wide, locator, end_record(u16::MAX, u32::MAX, u32::MAX)].concat()
    }
}

fn end_record(count: u16, size: u32, place: u32) -> Vec<u8> {
    let counts = [0, 0, count, count].map(u16::to_le_bytes).concat();
    [b"PK\x05\x06", counts.as_slice(), &size.to_le_bytes(), &place.to_le_bytes(), &[0, 0]].concat()
}
