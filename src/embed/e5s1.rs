//! Reads a model in the format `E5S1`: an XLM-R tokenizer and a BERT encoder with 4-bit weights in one file.
//!
//! All numbers are little endian. A header with the sizes is followed by the pieces of the tokenizer with their scores, a
//! map of characters, and a directory of tensors. A tensor has 32-bit floating point numbers, or blocks of 32 weights: a
//! 16-bit floating point step and 16 bytes, whose low halves are the first 16 weights and whose high halves the others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::f16;

use crate::error::{Error, ErrorCode, Result};

/// First bytes of a file in this format.
const MAGIC: &[u8; 4] = b"E5S1";
/// The only version of the format that vic reads.
const VERSION: u32 = 1;
/// Weights of a block, which share one step.
const BLOCK: usize = 32;
/// Bytes of a block: the step, and two weights in each byte.
const BLOCK_BYTES: usize = 2 + BLOCK / 2;
/// The value of a stored weight that means 0.
const ZERO: f32 = 8.0;
/// Most pieces, characters or tensors that are read. A damaged file must not make vic allocate without bounds.
const MAX_ENTRIES: u64 = 1 << 21;
/// Most bytes of the texts of all pieces.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// The sizes of the encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) vocabulary: usize,
    pub(crate) positions: usize,
    pub(crate) segments: usize,
    pub(crate) epsilon: f32,
}

/// The tokenizer's data.
#[derive(Debug, PartialEq)]
pub(crate) struct Pieces {
    /// Text and score (log probability) of each piece; the index is the token id.
    pub(crate) scored: Vec<(String, f32)>,
    /// Token ids of the start and the end of a text, and of unknown text.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) unknown: u32,
    /// Text that replaces a character before a text is cut into pieces.
    pub(crate) characters: Vec<(char, String)>,
}

/// An open file.
pub(crate) struct E5Model {
    path: PathBuf,
    file: RefCell<File>,
    pub(crate) sizes: Sizes,
    pub(crate) pieces: Pieces,
    tensors: HashMap<String, TensorPlace>,
}

#[derive(Clone, Copy)]
struct TensorPlace {
    blocks: bool,
    count: usize,
    start: u64,
    bytes: u64,
}

impl E5Model {
    /// Opens a file and reads everything but the tensors.
    ///
    /// # Errors
    /// [`ErrorCode::DataLoss`] if the file is cut, damaged, or in another format.
    pub(crate) fn open(path: &Path) -> Result<E5Model> {
        let broken = |text: String| {
            Error::new(
                ErrorCode::DataLoss,
                format!("`{}` is damaged or not in the format E5S1: {text}", path.display()),
            )
            .hint("download it again with `vic models pull`")
        };
        let file = File::open(path).map_err(|error| broken(error.to_string()))?;
        let length = file.metadata().map_err(|error| broken(error.to_string()))?.len();
        let mut input = Input(BufReader::new(file));
        let parsed = read_head(&mut input).map_err(broken)?;
        for (name, place) in &parsed.2 {
            let sized = place.bytes == place.expected_bytes();
            if !sized || place.start.checked_add(place.bytes).is_none_or(|end| end > length) {
                return Err(broken(format!("the tensor `{name}` is cut")));
            }
        }
        let (sizes, pieces, tensors) = parsed;
        let file = RefCell::new(input.0.into_inner());
        Ok(E5Model { path: path.to_path_buf(), file, sizes, pieces, tensors })
    }

    /// Reads rows `rows` of a tensor with `width` numbers per row.
    ///
    /// # Errors
    /// [`ErrorCode::DataLoss`] if there is no such tensor, or it has another size.
    pub(crate) fn rows(&self, name: &str, rows: std::ops::Range<usize>, width: usize) -> Result<Vec<f32>> {
        let broken = |text: &str| {
            Error::new(ErrorCode::DataLoss, format!("`{}` is damaged: {text}", self.path.display()))
                .hint("download it again with `vic models pull`")
        };
        let place = self.tensors.get(name).ok_or_else(|| broken(&format!("it has no tensor `{name}`")))?;
        if rows.end * width > place.count || (place.blocks && !width.is_multiple_of(BLOCK)) {
            return Err(broken(&format!("the tensor `{name}` has {} numbers", place.count)));
        }
        let row_bytes = if place.blocks { width / BLOCK * BLOCK_BYTES } else { width * 4 };
        let mut bytes = vec![0; rows.len() * row_bytes];
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(place.start + (rows.start * row_bytes) as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| broken(&error.to_string()))?;
        Ok(if place.blocks { decode_blocks(&bytes) } else { decode_numbers(&bytes) })
    }
}

impl TensorPlace {
    fn expected_bytes(&self) -> u64 {
        let count = self.count as u64;
        if self.blocks { count / BLOCK as u64 * BLOCK_BYTES as u64 } else { count * 4 }
    }
}

fn decode_blocks(bytes: &[u8]) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(bytes.len() / BLOCK_BYTES * BLOCK);
    for block in bytes.chunks_exact(BLOCK_BYTES) {
        let step = f16::from_le_bytes([block[0], block[1]]).to_f32();
        numbers.extend(block[2..].iter().map(|it| (f32::from(it & 15) - ZERO) * step));
        numbers.extend(block[2..].iter().map(|it| (f32::from(it >> 4) - ZERO) * step));
    }
    numbers
}

fn decode_numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

type Head = (Sizes, Pieces, HashMap<String, TensorPlace>);

fn read_head(input: &mut Input) -> Result<Head, String> {
    if &input.array::<4>()? != MAGIC {
        return Err("it does not start with `E5S1`".into());
    }
    let version = input.u32()?;
    if version != VERSION {
        return Err(format!("it has the version {version}, but vic reads {VERSION}"));
    }
    let [hidden, layers, heads, inner, vocabulary, positions, segments] = input.sizes::<7>()?;
    let epsilon = f32::from_bits(input.u32()?);
    let [block] = input.sizes::<1>()?;
    if block != BLOCK || hidden == 0 || !hidden.is_multiple_of(BLOCK) || !inner.is_multiple_of(BLOCK) {
        return Err(format!("its sizes {hidden} and {inner}, with blocks of {block}, are not supported"));
    }
    let sizes = Sizes { hidden, layers, heads, inner, vocabulary, positions, segments, epsilon };
    Ok((sizes, read_pieces(input)?, read_directory(input)?))
}

fn read_pieces(input: &mut Input) -> Result<Pieces, String> {
    let [count, start, end, _padding, unknown] = input.sizes::<5>()?;
    let length = bounded(input.u64()?, MAX_TEXT_BYTES)?;
    bounded(count as u64, MAX_ENTRIES)?;
    let offsets = (0..=count).map(|_| input.u32()).collect::<Result<Vec<u32>, String>>()?;
    let scores = (0..count).map(|_| Ok(f32::from_bits(input.u32()?))).collect::<Result<Vec<f32>, String>>()?;
    let text = input.bytes(length)?;
    let piece = |at: usize| {
        let bytes = text.get(offsets[at] as usize..offsets[at + 1] as usize);
        bytes.and_then(|it| std::str::from_utf8(it).ok()).ok_or_else(|| format!("piece {at} is not text"))
    };
    let scored = (0..count).map(|at| Ok((piece(at)?.to_string(), scores[at]))).collect::<Result<_, String>>()?;
    if [start, end, unknown].iter().any(|it| *it >= count) {
        return Err("a special token is not among the pieces".into());
    }
    let characters = read_characters(input)?;
    Ok(Pieces { scored, start: start as u32, end: end as u32, unknown: unknown as u32, characters })
}

fn read_characters(input: &mut Input) -> Result<Vec<(char, String)>, String> {
    let [count] = input.sizes::<1>()?;
    bounded(count as u64, MAX_ENTRIES)?;
    let _bytes = input.u32()?;
    let character = |code: u32| char::from_u32(code).ok_or_else(|| format!("{code:#x} is not a character"));
    let mut characters = Vec::with_capacity(count);
    for _ in 0..count {
        let from = character(input.u32()?)?;
        let [size] = input.array::<1>()?;
        let to = (0..size).map(|_| character(input.u32()?)).collect::<Result<String, String>>()?;
        characters.push((from, to));
    }
    Ok(characters)
}

fn read_directory(input: &mut Input) -> Result<HashMap<String, TensorPlace>, String> {
    let [count] = input.sizes::<1>()?;
    bounded(count as u64, MAX_ENTRIES)?;
    let mut tensors = HashMap::new();
    for _ in 0..count {
        let length = u16::from_le_bytes(input.array()?);
        let name = String::from_utf8(input.bytes(length.into())?).map_err(|error| error.to_string())?;
        let [kind] = input.array::<1>()?;
        let place =
            TensorPlace { blocks: kind == 1, count: input.u32()? as usize, start: input.u64()?, bytes: input.u64()? };
        if kind > 1 {
            return Err(format!("the tensor `{name}` has numbers of the unknown type {kind}"));
        }
        tensors.insert(name, place);
    }
    Ok(tensors)
}

fn bounded(count: u64, most: u64) -> Result<usize, String> {
    if count > most { Err(format!("it claims {count} entries")) } else { Ok(count as usize) }
}

/// Reads numbers from the start of the file.
struct Input(BufReader<File>);

impl Input {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads signed numbers that must not be negative.
    fn sizes<const N: usize>(&mut self) -> Result<[usize; N], String> {
        let mut sizes = [0; N];
        for size in &mut sizes {
            let number = i32::from_le_bytes(self.array()?);
            *size = usize::try_from(number).map_err(|_| format!("the size {number} is negative"))?;
        }
        Ok(sizes)
    }
}

#[cfg(test)]
pub(super) mod tests;
